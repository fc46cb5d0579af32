"""
Choosing bins, partition and method
===================================

The defaults are what simulations with known answers recommend. This page runs a small one, so that
you can see what each choice does, and run it on problems more like your own.
"""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import epiloss
from epiloss.partition import Tree
from epiloss.simulate import Problem, Sigmoid

REPETITIONS = 4


def study(problem: Problem, n: int, options: Mapping[str, Any]) -> dict[str, float]:
    """Audit a few samples; return what was found and its spread, in ten-thousandths."""
    found, low = [], []
    for seed in range(REPETITIONS):
        sample = problem.sample(n, random_state=seed)
        loss = epiloss.audit(sample.y, sample.scores, sample.X, **options).grouping_loss
        found.append(loss.value)
        low.append(loss.low if loss.low is not None else np.nan)
    truth = problem.truth().grouping_loss
    return {
        "found": 1e4 * float(np.mean(found)),
        "spread": 1e4 * float(np.std(found)),
        "truth": 1e4 * truth,
        "lower limit above truth": int(np.sum(np.array(low) > truth)),
    }


# %%
# Which method
# ------------
# Two features matter and eight are noise. Each method looks at the same 4,000 rows; the numbers
# are losses x 10,000, over four samples. Twin learners give an estimate, which may lie on either
# side of the truth. All others are lower bounds: nearer to the truth is better, above it is an error.

problem = Sigmoid(n_noise=8)
choices: dict[str, dict[str, Any]] = {
    "twin (default)": {},
    "crossfit": {"method": "crossfit"},
    "tree": {"method": "partition"},
    "tree, 30 rows a region": {"method": "partition", "partition": Tree(region_ratio=30)},
    "stump: two regions": {"method": "partition", "partition": "stump"},
    "k-means": {"method": "partition", "partition": "kmeans"},
}
table = pd.DataFrame({name: study(problem, 4_000, options) for name, options in choices.items()}).T
table.round(1)

# %%
# - **twin** needs no bins, and every row both learns and tests. It is right up to what its learners
#   cannot express, and never too large on average. It leads the ledger wherever it can be computed.
# - **crossfit** needs no bins either. It is a lower bound, which pays for the noise of its learner.
# - **tree** gives regions that can be read as rules. The fewer learning rows a region has
#   (``region_ratio``), the finer the tree and the noisier its rates; the noise is taken off, but
#   not for free.
# - **stump** finds one split in each level set: coarse, and easy to draw.
# - **k-means** never sees the labels, so it finds clusters and not differences. It suits
#   embeddings.
#
# Your own partition is any object with ``fit(X, y)`` and ``apply`` or ``predict``; your own
# learner for the first two any regressor, as ``learner=``.
#
# How many bins
# -------------
# Few bins mix different scores, and the curve's slope inside a bin looks like grouping loss. It is
# computed and taken off (*induced*), so that the estimate of the partition moves little; with many
# bins there are few rows in each, and less is found.

counts = [3, 5, 10, 15, 25, 40]
lines: dict[str, list[float]] = {"plugin": [], "less bias": [], "less bias and induced": []}
smooth = Sigmoid(perturbation="step", grouping=0.5)
for bins in counts:
    audits = []
    for seed in range(REPETITIONS):
        sample = smooth.sample(6_000, random_state=seed)
        audits.append(epiloss.audit(sample.y, sample.scores, sample.X, n_bins=bins, method="partition"))
    lines["plugin"].append(float(np.mean([one.plugin for one in audits])))
    lines["less bias"].append(float(np.mean([one.explained for one in audits])))
    lines["less bias and induced"].append(float(np.mean([one.grouping_loss.value for one in audits])))

figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
truth = smooth.truth().grouping_loss
ax.axhline(truth, color="black", lw=1.2, ls="--", label="true grouping loss")
for (name, values), colour in zip(lines.items(), ("#D55E00", "#E69F00", "#0072B2"), strict=True):
    ax.plot(counts, values, "o-", color=colour, label=name)
ax.set(xlabel="bins", ylabel="grouping loss", ylim=(0, None), xscale="log")
ax.set_xticks(counts, [str(one) for one in counts])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, fontsize=9)
plt.show()

# %%
# ``strategy="quantile"`` puts equally many rows into each bin: better where nearly all scores lie
# at one end. ``n_bins`` also takes edges of your own.
#
# Is nothing found where nothing is?
# ----------------------------------
# The same score without any grouping loss. The values scatter around zero (an estimate may be
# negative: clipping it would be a bias), and no lower limit lies above the truth.

pd.DataFrame({"no grouping loss": study(Sigmoid(grouping=0.0, n_noise=8), 4_000, {})}).T.round(1)

# %%
# Four repetitions are an illustration. :doc:`/coverage` has three hundred for each of sixteen
# settings: how often intervals hold the truth, how often the test rejects, and the same for glest.
#
# Splits and halves
# -----------------
# ``split`` is the part of the rows that learns regions, after which both parts change places (not
# with ``method="paper"``), and ``repeats`` averages several splits: each costs time and takes out
# some of the chance of one split. ``clusters=`` keeps rows that depend on each other (of one
# patient, of one user) on the same side, and makes intervals honest about them.
