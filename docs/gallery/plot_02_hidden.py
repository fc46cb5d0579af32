"""
What calibration hides
======================

A score is *calibrated* if six in ten of the rows scored 0.6 are positive, and likewise for every other
score. That is a statement about averages. This page shows a score that is perfectly calibrated and as
accurate as any classifier can be, and still wrong for nearly every row.

The example follows Perez-Lebel, Le Morvan and Varoquaux (ICLR 2023), who showed how to estimate the
missing part, the *grouping loss*.
"""

import matplotlib.pyplot as plt
import numpy as np

import epiloss
from epiloss.simulate import Link

# %%
# A score that is right on average
# --------------------------------
# There is a single feature x, uniform on (-1, 1), and the score is S = abs(x). Rows at x and ``-x``
# therefore get the same score. Their true probabilities Q differ: on one side Q is above the score, on
# the other side it is below by the same amount. Averaged over both sides, the score is exactly right.

problem = Link("plateau")
sample = problem.sample(20_000)
order = np.argsort(sample.X[:, 0])
x, score, truth = sample.X[order, 0], sample.scores[order], sample.q[order]

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
left.plot(x, score, "k", label="score S")
left.plot(x, truth, color="#D55E00", lw=2, label="true probability Q")
left.fill_between(x, score, truth, color="#D55E00", alpha=0.12, lw=0)
left.axhline(0.5, color="0.6", lw=0.8, ls=":")
left.set(xlabel="feature x", ylabel="probability", title="The score is wrong for single rows")

edges = np.linspace(0, 1, 16)
bins = np.digitize(sample.scores, edges[1:-1])
positive = sample.X[:, 0] > 0
right.plot([0, 1], [0, 1], color="0.6", lw=0.8, ls=":")
for rows, colour, label in (
    (positive, "#0072B2", "rows with x > 0"),
    (~positive, "#E69F00", "rows with x < 0"),
    (positive | ~positive, "black", "all rows"),
):
    n = np.bincount(bins[rows], minlength=15)
    rate = np.bincount(bins[rows], sample.y[rows], 15) / n
    right.plot((edges[1:] + edges[:-1]) / 2, rate, "o-", ms=4, lw=1.2, color=colour, label=label)
right.set(xlabel="score", ylabel="rate of positives", title="The score is right on average")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3, frameon=False, fontsize=9)
plt.show()

# %%
# Left: the score is above 1/2 wherever the true probability is, so no classifier is more accurate; and
# yet it equals the true probability almost nowhere. Right: the reliability curve of all rows (black) is
# perfect. The curves of the two halves are not, but they cannot be seen by looking at the score alone.
#
# The decomposition
# -----------------
# The expected value of any proper scoring rule is the sum of three parts:
#
# .. math::
#
#    E\,\ell(S, Y) = E\,d(S, C) + E\,d(C, Q) + E\,e(Q)
#
# These are the calibration loss, the grouping loss and the irreducible loss. C is the rate of all rows
# with the same score, and for the Brier score :math:`d(p, q) = (p - q)^2`. In a simulation all three are
# known:

exact = problem.truth()
print(f"calibration loss {exact.calibration_loss:.4f}")
print(f"grouping loss    {exact.grouping_loss:.4f}")
print(f"irreducible      {exact.irreducible_loss:.4f}")

# %%
# Estimation from labels
# ----------------------
# In real data Q is never observed, only the label. The audit gets labels, scores and the feature. It
# learns on some rows for whom the score is wrong, and evaluates that on other rows. The estimate misses
# what its learners cannot express, and is not too large on average.

result = epiloss.audit(sample.y, sample.scores, sample.X)
print(f"calibration loss {result.calibration_loss:.4f}")
print(f"grouping loss    {result.grouping_loss:.4f}, p = {result.grouping_loss.pvalue:.1g}")

# %%
# Recalibration does not help
# ---------------------------
# A recalibrator is a function of the score. Rows at x and ``-x`` have the same score, so it maps them to
# the same probability. It can only correct averages, and here the averages are already right.

print(epiloss.audit(sample.y, sample.scores, sample.X, recalibrate="isotonic"))

# %%
# Why it matters
# --------------
# For decisions about groups, calibration is all that is needed. For decisions about individuals
# (whether to treat, to lend, to trust an answer), the grouping loss is an error. With asymmetric costs
# the decision threshold is not 1/2, and some of the rows between the two coloured curves are decided
# wrongly. :doc:`Another page <plot_11_repair>` estimates what that costs.
