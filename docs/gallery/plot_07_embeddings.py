"""
Embeddings from torch and Hugging Face
======================================

The input of a network's last layer, its embedding of a row, is a good place to search for rows that the
network gets wrong. ``epiloss.extract`` runs a network once and writes scores, embeddings, labels and ids
to a file, which audits then read.

Both networks on this page are small and are trained when it is built; nothing is downloaded.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

import epiloss

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())

# %%
# A network for digits
# --------------------
# The network is trained on half of scikit-learn's 1,797 small images. Each of the others is used eight
# times, with noise that the network was not trained on.

images, digits = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32)
generator = np.random.default_rng(0)
train = generator.random(len(digits)) < 0.5

network = torch.nn.Sequential(
    torch.nn.Linear(64, 64),
    torch.nn.ReLU(),
    torch.nn.Linear(64, 32),
    torch.nn.ReLU(),
    torch.nn.Linear(32, 10),
)
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
x, y = torch.from_numpy(images[train]), torch.from_numpy(digits[train])
for _ in range(150):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(x), y).backward()
    optimizer.step()

which = np.repeat(np.flatnonzero(~train), 8)
noisy = images[which] + 0.35 * generator.standard_normal((len(which), 64)).astype(np.float32)
right = network(torch.from_numpy(noisy)).argmax(1).numpy() == digits[which]
print(f"{len(which):,} noisy images, {right.mean():.0%} of them recognised")

# %%
# Extract once
# ------------
# ``extract`` finds the last linear layer by itself; ``layer=`` chooses another one. Memory does not grow
# with the number of rows, and a run that was killed resumes where it stopped.

loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.from_numpy(noisy), torch.from_numpy(digits[which])),
    batch_size=512,
)
file = epiloss.extract(network, loader, folder / "digits.parquet", ids=which.tolist())
print(f"{file.name}, {file.stat().st_size / 1e6:.1f} MB")

# %%
# Audit often
# -----------
# The eight versions of an image depend on each other, so they form a cluster: it is never split between
# learning and evaluation, and the intervals account for it. With ten classes, the task is the top label:
# *is the predicted digit correct?*

result = epiloss.audit_table(
    file,
    label="y",
    score="scores",
    features=["features"],
    clusters="id",
    classes=range(10),
)
print(result)

# %%
result.plot()

# %%
# The errors of this network depend on many of its 32 features, each of which contributes little. The
# halves of each level set come from models of all features together.
#
# On the command line, the same audit is ``epiloss audit digits.parquet --label y --score scores``.
#
# A transformer and a Hugging Face data set
# -----------------------------------------
# A BERT with two layers and random initial weights learns from short comments whether customers come
# back. Some comments begin with *hardly*, which reverses the meaning of the rest: 6% of the comments
# that the network is trained on, and a third of those it is later applied to.

import datasets
import transformers

datasets.disable_progress_bars()

WORDS = (
    "awful dreadful dirty rude broken bland slow noisy cold dull poor stale dim plain small loud "
    "okay usual decent warm neat fair quick clean kind tasty calm bright fresh friendly cosy fine "
    "good nice lovely great superb perfect wonderful splendid"
).split()
STRENGTH = dict(zip(WORDS, np.linspace(-2, 2, len(WORDS)), strict=True))
CODE = {word: number for number, word in enumerate(["[PAD]", "[CLS]", "hardly", *WORDS])}


def comments(n: int, turned: float) -> datasets.Dataset:
    """Return comments of two to five words, and whether the customer came back."""
    texts, returned = [], []
    for _ in range(n):
        words = generator.choice(WORDS, generator.integers(2, 6)).tolist()
        strength = sum(STRENGTH[word] for word in words)
        if generator.random() < turned:
            words, strength = ["hardly", *words], -strength
        texts.append(" ".join(words))
        returned.append(int(generator.random() < 1 / (1 + np.exp(-strength))))
    return datasets.Dataset.from_dict({"text": texts, "labels": returned})


def batches(table: datasets.Dataset) -> list[dict[str, torch.Tensor]]:
    """Return the comments as token batches for Hugging Face models."""
    made = []
    for part in table.iter(128):
        codes = [[1, *(CODE[word] for word in text.split())] for text in part["text"]]
        ids = torch.tensor([row + [0] * (7 - len(row)) for row in codes])
        labels = torch.tensor(part["labels"])
        made.append({"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels})
    return made


config = transformers.BertConfig(
    vocab_size=len(CODE),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
)
bert = transformers.BertForSequenceClassification(config)
optimizer = torch.optim.Adam(bert.parameters(), lr=2e-3)
bert.train()
for batch in batches(comments(16_000, turned=0.06)):
    optimizer.zero_grad()
    bert(**batch).loss.backward()
    optimizer.step()

met = comments(8_000, turned=0.33)
file = epiloss.extract(bert, batches(met), folder / "bert.parquet", scores=lambda z: z.softmax(-1)[:, 1])

# %%
# A Hugging Face data set is a table like any other, and is not loaded into memory. The text is shown in
# the report but is not a feature.

table = datasets.Dataset.from_parquet(str(file), cache_dir=str(folder / "cache"))
table = table.add_column("text", met["text"])
result = epiloss.audit_table(
    table,
    label="y",
    score="scores",
    features=["features"],
    display="text",
    exclude=["id"],
)
print(result)

# %%
# Which texts does the network get wrong? A subgroup answers that: among texts with equal scores, those
# that begin with *hardly*.

hardly = np.array([text.startswith("hardly") for text in met["text"]])
labels, scores = np.asarray(table["y"]), np.asarray(table["scores"])
by_word = epiloss.audit(labels, scores, subgroups=np.where(hardly, "hardly ...", "others"))
print(f"grouping loss {result.grouping_loss:.4f}, of which by this word {by_word.grouping_loss:.4f}")

# %%
by_word.plot(partition=None)

# %%
# In a training loop
# ------------------
# ``GroupingLossMetric`` is a torchmetrics metric on regions that were learned once. Its state is a
# tensor of integers, so sums over batches and ranks are exact.

from epiloss.integrations.torchmetrics import GroupingLossMetric

embedded = np.asarray(table["features"], np.float32)
first, later = slice(0, 4_000), slice(4_000, None)
plan = epiloss.RegionPlan.learn(labels[first], scores[first], embedded[first])
metric = GroupingLossMetric(plan)
for part in np.array_split(np.arange(len(labels))[later], 6):
    metric.update(*(torch.from_numpy(values[part]) for values in (scores, labels, embedded)))
for name, value in metric.compute().items():
    print(f"{name:17} {value:.4f}")
