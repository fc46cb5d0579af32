"""
Choosing bins, partition and method
===================================

The defaults were chosen by simulations with known truth. This page runs a small simulation that shows
the effect of each option; you can repeat it on problems similar to your own.
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
    """Audit a few samples; return the mean and spread of the grouping loss, x 10,000."""
    found, low = [], []
    for seed in range(REPETITIONS):
        sample = problem.sample(n, random_state=seed)
        loss = epiloss.audit(sample.y, sample.scores, sample.X, **options).grouping_loss
        found.append(loss.value)
        low.append(loss.low if loss.low is not None else np.nan)
    truth = problem.truth().grouping_loss
    return {
        "estimate": 1e4 * float(np.mean(found)),
        "spread": 1e4 * float(np.std(found)),
        "truth": 1e4 * truth,
        "lower limit above truth": int(np.sum(np.array(low) > truth)),
    }


# %%
# Methods
# -------
# Two features matter and eight are noise. Each method is applied to the same four samples of 4,000 rows;
# losses are multiplied by 10,000. Twin learners give an estimate, which may be on either side of the
# truth. All others are lower bounds: the closer to the truth the better, but not above it.

problem = Sigmoid(n_noise=8)
choices: dict[str, dict[str, Any]] = {
    "twin (default)": {},
    "crossfit": {"method": "crossfit"},
    "tree": {"method": "partition"},
    "tree, 30 rows per region": {"method": "partition", "partition": Tree(region_ratio=30)},
    "stump (two regions)": {"method": "partition", "partition": "stump"},
    "k-means": {"method": "partition", "partition": "kmeans"},
}
table = pd.DataFrame({name: study(problem, 4_000, options) for name, options in choices.items()}).T
table.round(1)

# %%
# - **twin** uses no bins, and every row is used both for learning and for evaluation. It misses what its
#   learners cannot express, and is not too large on average. It is the headline whenever it can be
#   computed.
# - **crossfit** uses no bins either. It is a lower bound, and the noise of its learner lowers it.
# - **tree** gives regions with readable descriptions. With fewer learning rows per region
#   (``region_ratio``), the regions are smaller and their rates noisier; the bias of this noise is
#   removed, but the variance remains.
# - **stump** makes one split in each level set, which is coarse and easy to draw.
# - **k-means** does not use the labels, so it finds clusters but not differences. It suits embeddings.
#
# A partition of your own is any object with ``fit(X, y)`` and ``apply`` or ``predict``. For the first
# two methods, ``learner=`` takes any regressor.
#
# Number of bins
# --------------
# Wide bins mix different scores, and the slope of the calibration curve within a bin looks like grouping
# loss. This *induced* loss is estimated and subtracted, so that the estimate of the partition changes
# little. With many bins, there are few rows in each, and less is found.

counts = [3, 5, 10, 15, 25, 40]
lines: dict[str, list[float]] = {"plug-in": [], "minus bias": [], "minus bias and induced": []}
smooth = Sigmoid(perturbation="step", grouping=0.5)
for bins in counts:
    audits = []
    for seed in range(REPETITIONS):
        sample = smooth.sample(6_000, random_state=seed)
        audits.append(epiloss.audit(sample.y, sample.scores, sample.X, n_bins=bins, method="partition"))
    lines["plug-in"].append(float(np.mean([one.plugin for one in audits])))
    lines["minus bias"].append(float(np.mean([one.explained for one in audits])))
    lines["minus bias and induced"].append(float(np.mean([one.grouping_loss.value for one in audits])))

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
# ``strategy="quantile"`` puts equally many rows into each bin, which is better if nearly all scores lie
# at one end. ``n_bins`` also takes the edges of the bins.
#
# No grouping loss
# ----------------
# The same score without a grouping loss. The estimates scatter around zero. They may be negative,
# because clipping them would introduce a bias.

pd.DataFrame({"no grouping loss": study(Sigmoid(grouping=0.0, n_noise=8), 4_000, {})}).T.round(1)

# %%
# Four repetitions are only an illustration. :doc:`/coverage` has 200 repetitions of many settings: how
# often the intervals cover the truth, how often the test rejects, and a comparison with glest.
#
# Splits and clusters
# -------------------
# ``split`` is the share of the rows on which regions are learned; both parts then swap roles (except
# with ``method="paper"``). ``repeats`` averages over several splits, which takes more time and reduces
# the influence of a single split. ``clusters=`` keeps dependent rows, such as those of one patient, on
# the same side of each split, and accounts for them in the intervals.
