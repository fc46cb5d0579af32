"""
How to read a grouping diagram
==============================

A reliability diagram has one point for each level set of the score. A grouping diagram opens each
point and shows what is inside it.
"""

import matplotlib.pyplot as plt

import epiloss
from epiloss.presentation.plot import CurveDisplay, GapsDisplay, LedgerDisplay
from epiloss.simulate import Sigmoid

# %%
# Nothing to see, and something
# -----------------------------
# Two simulated problems with the same score. On the left the score is the true probability. On the
# right, half of the rows of each score have a higher rate and half a lower one.

figure, axes = plt.subplots(1, 2, figsize=(11, 5.4), layout="constrained")
for ax, strength, title in zip(axes, (0.0, 0.6), ("no grouping loss", "grouping loss"), strict=True):
    sample = Sigmoid(perturbation="step", grouping=strength).sample(12_000)
    result = epiloss.audit(sample.y, sample.scores, sample.X)
    result.plot(ax)
    ax.set_title(title)
plt.show()

# %%
# - The **black curve** is the calibration curve: the rate of positives at each score. On the
#   diagonal the score is right on average.
# - Each level set is parted in two **points**: the rows that are predicted higher than their score
#   says, and those that are predicted lower. Their heights are the rates of the two halves, and the
#   **bars** are the 95% intervals.
# - **Blue** halves are under-predicted: their rate is higher than that of the level set. **Red** ones
#   are over-predicted. **Grey** ones may be noise, by p-values that are adjusted for their number.
# - The **strip** above the diagram shows how many rows have each score. A large spread where there
#   are no rows costs nothing.
#
# The predictions come from models that had not seen the row: no row chose its side. Had the same rows
# been used for both, the left picture too would show a spread, made of noise alone.
#
# Other regions
# -------------
# ``partition="stump"`` parts each level set by the one feature that separates rates best, learned on
# half of the rows and drawn on the others. ``partition=None`` draws the regions of the audit itself,
# which are a tree's: finer, and each with fewer rows.

result.plot(partition=None)

# %%
# The other pictures
# ------------------
# Segments, or the values of a column of subgroups, as bars of their gaps.

GapsDisplay.from_audit(result).plot()

# %%
# The ledger as a bar: how the score divides. Parts that are small beside the score are drawn enlarged.

LedgerDisplay(result).plot()

# %%
# And the calibration curve without bins, with its band.

CurveDisplay.from_audit(result).plot()
