"""
How to read a grouping diagram
==============================

A reliability diagram has one point for each level set of the score. A grouping diagram shows what each
of these points averages over.
"""

import matplotlib.pyplot as plt

import epiloss
from epiloss.presentation.plot import CurveDisplay, GapsDisplay, LedgerDisplay
from epiloss.simulate import Sigmoid

# %%
# Without and with a grouping loss
# --------------------------------
# Two simulated problems with the same score. On the left the score is the true probability. On the
# right, half of the rows with each score have a higher rate and half a lower one.

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
# - Each level set is split into two **points**: the rows for which the models predict a higher rate
#   than the score, and those for which they predict a lower one. The height of a point is the rate of
#   its half, and the **bars** are 95% intervals.
# - **Blue** halves are under-predicted: their rate is higher than that of the level set. **Red** halves
#   are over-predicted. The colours mark level sets whose two halves differ significantly, with p-values
#   adjusted for the number of level sets. **Grey** halves may be noise.
# - The **strip** above the diagram shows how many rows have each score. A large spread where there
#   are few rows contributes little to the loss.
#
# The predictions are cross-fitted: they come from models that were not trained on the row. If the same
# rows were used to train and to draw, the left diagram would show a spread as well, made of noise.
#
# Other regions
# -------------
# ``partition="stump"`` splits each level set by the single feature that separates rates best, learned on
# half of the rows and drawn on the other half. ``partition=None`` draws the regions of the audit itself,
# which come from a tree; they are smaller, and each has fewer rows.

result.plot(partition=None)

# %%
# Other plots
# -----------
# The gaps of segments, or of the values of a subgroup column:

GapsDisplay.from_audit(result).plot()

# %%
# The decomposition of the score as a bar; parts that are small compared with the score are enlarged:

LedgerDisplay(result).plot()

# %%
# The calibration curve without bins, with its confidence band:

CurveDisplay.from_audit(result).plot()
