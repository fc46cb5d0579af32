"""
The answers of a language model
===============================

A language model gives an answer and, through the probabilities of its tokens, a confidence. Is the
confidence right, and for which questions is it wrong?

In an audit, **y** is whether the answer is correct, **p** the confidence, and **X** the hidden state
from which the answer was generated. This page trains a small model when it is built, in a few seconds: a
GPT-2 with two layers that learns arithmetic with two-digit numbers. With a large model, only the first
half of this page changes.
"""

import numpy as np
import torch
import transformers

import epiloss
from epiloss.presentation.plot import HeterogeneityDisplay

torch.manual_seed(0)
generator = np.random.default_rng(0)

# %%
# A model that learns arithmetic
# ------------------------------
# A question is ``37+45=`` or ``71-34=``, and its answer ``082`` or ``037``. Tokens are digits and
# signs. One in twenty of the training questions is a subtraction, and four in ten of the questions
# asked later.

SIGNS = "0123456789+-="


def questions(n: int, minus: float) -> tuple[torch.Tensor, dict[str, np.ndarray]]:
    """Return the tokens of questions and answers, and properties of each question."""
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
    logits = model(tokens).logits[:, 5:8]  # the predictions after "=" and after each digit
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, len(SIGNS)), tokens[:, 6:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 60 == 59:
        print(f"step {step + 1}: loss {loss.item():.3f}")

# %%
# Answers, confidence, hidden states
# ----------------------------------
# The model generates the most likely digit, three times. Its confidence in the answer is the product of
# their probabilities. The hidden state is that of the last layer at the sign ``=``, before the answer.

tokens, known = questions(6_000, minus=0.4)
generated, confidence = tokens[:, :6], torch.ones(len(tokens))
model.eval()
with torch.inference_mode():
    hidden = model.transformer(generated).last_hidden_state[:, -1].numpy()
    for _ in range(3):
        probability, digit = model(generated).logits[:, -1].softmax(-1).max(-1)
        generated, confidence = torch.cat([generated, digit[:, None]], 1), confidence * probability
correct = (generated[:, 6:] == tokens[:, 6:]).all(1).numpy()
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
# For which questions is it wrong?
# --------------------------------
# The hidden state predicts which answers are correct better than the confidence does: the model "knows"
# more than its confidence says. To describe the questions for which it is wrong, pass their properties.

groups = [
    f"{sign}, carries: {carries}" for sign, carries in zip(known["sign"], known["carries"], strict=True)
]
by_kind = epiloss.audit(correct, p, subgroups=groups)
print(f"grouping loss by kind of question: {by_kind.grouping_loss:z.4f}")
HeterogeneityDisplay.from_audits({"answers": by_kind}).plot()

# %%
# Regions with their descriptions:

described = epiloss.audit(correct, p, known, method="partition")
shown = ["rule", "n", "score_mean", "expected", "label_mean", "pvalue_adjusted"]
described.worst_regions(5).to_pandas()[shown].round(3)

# %%
# A better confidence
# -------------------
# A repair is learned from the hidden state on half of the questions, and evaluated on the other half.

print(result.repair())

# %%
# If the model may abstain, the costs of a wrong answer and of a refusal determine the threshold:
# :doc:`decisions and their cost <plot_11_repair>`.
