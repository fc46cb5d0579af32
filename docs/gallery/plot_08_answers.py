"""
The answers of a language model
===============================

Ask a language model a question, and it gives an answer and, through the probabilities of its
words, a confidence. Is the confidence right, and for whom is it wrong?

The setting of an audit is then: **y** is whether the answer was correct, **p** the confidence, and
**X** the hidden state from which the model spoke. No large model can be downloaded while this page
is built, so a small one is trained on the spot, in some seconds: a GPT-2 of two layers, made from
a configuration, that learns to reckon with numbers of two digits. It is a real language model: it
reads the question token by token, and its answer and its errors are its own. What is small is the
model and its world. With a large model nothing changes but the first half of this page.
"""

import numpy as np
import torch
import transformers

import epiloss
from epiloss.presentation.plot import HeterogeneityDisplay

torch.manual_seed(0)
generator = np.random.default_rng(0)

# %%
# A model that learns to reckon
# -----------------------------
# A question is ``37+45=`` or ``71-34=``, the answer ``082`` or ``037``. Tokens are digits and signs. Of
# what the model learns from, one question in twenty is a subtraction; of what it is asked later, four
# in ten.

SIGNS = "0123456789+-="


def questions(n: int, minus: float) -> tuple[torch.Tensor, dict[str, np.ndarray]]:
    """Return tokens of questions with their answers, and what is known of each question."""
    b, a = np.sort(generator.integers(0, 100, (2, n)), axis=0)
    is_minus = generator.random(n) < minus
    swap = ~is_minus & (generator.random(n) < 0.5)
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    texts = [
        f"{i:02d}-{j:02d}={i - j:03d}" if m else f"{i:02d}+{j:02d}={i + j:03d}"
        for i, j, m in zip(a, b, is_minus, strict=True)
    ]
    tokens = torch.tensor([[SIGNS.index(sign) for sign in text] for text in texts])
    carries = np.where(is_minus, a % 10 < b % 10, a % 10 + b % 10 > 9)
    known = {"first": a, "second": b, "sign": np.where(is_minus, "minus", "plus")}
    return tokens, known | {"carries": np.where(carries, "yes", "no")}


config = transformers.GPT2Config(
    vocab_size=len(SIGNS), n_positions=9, n_embd=64, n_layer=2, n_head=4,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
)  # fmt: skip
model = transformers.GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(240):
    tokens, known = questions(256, minus=0.05)
    logits = model(tokens).logits[:, 5:8]  # what is said after "=", and after each digit
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, len(SIGNS)), tokens[:, 6:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 60 == 59:
        print(f"step {step + 1}: loss {loss.item():.3f}")

# %%
# Answers, confidence, hidden states
# ----------------------------------
# The model speaks digit by digit, each time the most likely one. Its confidence in the answer is the
# product of their probabilities. The hidden state is that of the last layer at the sign ``=``, before
# anything was said.

tokens, known = questions(6_000, minus=0.4)
said, confidence = tokens[:, :6], torch.ones(len(tokens))
model.eval()
with torch.inference_mode():
    hidden = model.transformer(said).last_hidden_state[:, -1].numpy()
    for _ in range(3):
        probability, digit = model(said).logits[:, -1].softmax(-1).max(-1)
        said, confidence = torch.cat([said, digit[:, None]], 1), confidence * probability
correct = (said[:, 6:] == tokens[:, 6:]).all(1).numpy()
p = confidence.numpy().astype(float)
print(f"{correct.mean():.0%} of the answers are correct, mean confidence {p.mean():.0%}")

# %%
# Is the confidence right?
# ------------------------

result = epiloss.audit(correct, p, hidden)
print(result)

# %%
result.plot()

# %%
# For whom is it wrong?
# ---------------------
# The hidden state tells the model's successes from its failures beyond what the confidence says: the
# model "knows" more than it admits. To put it into words, pass what is known of the questions.

groups = [
    f"{sign}, carries: {carries}" for sign, carries in zip(known["sign"], known["carries"], strict=True)
]
by_kind = epiloss.audit(correct, p, subgroups=groups)
print(f"explained by the kind of question: {by_kind.grouping_loss:z.4f}")
HeterogeneityDisplay.from_audits({"answers": by_kind}).plot()

# %%
# Regions in words:

described = epiloss.audit(correct, p, known, method="partition")
shown = ["rule", "n", "score_mean", "expected", "label_mean", "pvalue_adjusted"]
described.worst_regions(5).to_pandas()[shown].round(3)

# %%
# A better confidence
# -------------------
# A repair is learned on half of the questions from the hidden state, and measured on the other half.

print(result.repair())

# %%
# For abstaining ("answer only if sure") the price of a wrong answer and of a refusal say where to draw
# the line: :doc:`decisions and their cost <plot_11_repair>`.
