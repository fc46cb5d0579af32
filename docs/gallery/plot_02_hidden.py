"""
What calibration hides
======================

A score is *calibrated* if of the rows scored 0.6, six in ten are positive. That is a statement about
averages. This page draws a score that is perfectly calibrated, has the best accuracy that any classifier
can have, and is wrong for nearly everyone.

The example is in the manner of Perez-Lebel, Le Morvan and Varoquaux (ICLR 2023), who gave the
missing part its name: the *grouping loss*.
"""

import matplotlib.pyplot as plt
import numpy as np

import epiloss
from epiloss.simulate import Link

# %%
# A score that is right on average
# --------------------------------
# A single feature x is uniform on (-1, 1), and the score is the distance from zero, S = abs(x).
# Two rows at x and ``-x`` therefore get the same score. Their true probabilities Q differ: on one side
# Q is above the score, on the other as much below it. On average over both sides the score is
# exactly right.

problem = Link("plateau")
sample = problem.sample(20_000)
order = np.argsort(sample.X[:, 0])
x, score, truth = sample.X[order, 0], sample.scores[order], sample.q[order]

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
left.plot(x, score, "k", label="score S")
left.plot(x, truth, color="#D55E00", lw=2, label="true probability Q")
left.fill_between(x, score, truth, color="#D55E00", alpha=0.12, lw=0)
left.axhline(0.5, color="0.6", lw=0.8, ls=":")
left.set(xlabel="feature x", ylabel="probability", title="For single rows the score is wrong")

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
right.set(xlabel="score", ylabel="rate of positives", title="On average it is right")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3, frameon=False, fontsize=9)
plt.show()

# %%
# Left: wherever the truth is above 1/2, so is the score, so that no classifier has a better
# accuracy; and yet it equals the truth almost nowhere. Right: its reliability curve (black) is
# perfect. Those of its two halves are not, and nobody who only looks at the score can see them.
#
# The sum of errors
# -----------------
# Any proper score of a probability is a sum of three parts:
#
# .. math::
#
#    E\,\ell(S, Y) = E\,d(S, C) + E\,d(C, Q) + E\,e(Q)
#
# the score is calibration loss plus grouping loss plus irreducible loss,
# with C the rate of all rows of that score, and for the Brier score :math:`d(p, q) = (p - q)^2`. In a
# simulation all three are known:

exact = problem.truth()
print(f"calibration loss {exact.calibration_loss:.4f}")
print(f"grouping loss    {exact.grouping_loss:.4f}")
print(f"irreducible      {exact.irreducible_loss:.4f}")

# %%
# What can be found from labels
# -----------------------------
# In real data Q is never seen; only the label is. The audit gets labels, scores and the feature,
# and nothing else. It looks, in one part of the rows, for a description of who is misjudged, and
# tests that on other rows. What it finds is therefore a lower bound.

result = epiloss.audit(sample.y, sample.scores, sample.X)
print(f"calibration loss {result.calibration_loss:.4f}")
print(f"grouping loss, at least {result.grouping_loss:.4f}, p = {result.grouping_loss.pvalue:.1g}")

# %%
# Recalibration does not help
# ---------------------------
# A calibrator is a function of the score. Rows at x and ``-x`` have the same score, so it gives them
# the same answer. It can only repair what the averages show, and here they show nothing.

print(epiloss.audit(sample.y, sample.scores, sample.X, recalibrate="isotonic"))

# %%
# Confident in a number, and so in a person
# -----------------------------------------
# If decisions are taken about groups, calibration is all that is needed. If they are taken about
# individuals (treat or not, lend or not, trust this answer or not), the grouping loss is what
# hurts. With an asymmetric cost the decision threshold is no longer 1/2, and the rows between the
# two coloured curves above are decided wrongly: :doc:`what that costs <plot_11_repair>`.
