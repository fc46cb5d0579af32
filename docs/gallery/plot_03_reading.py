"""
How to read a grouping diagram
==============================

A reliability diagram has one point for each level set of the score. A grouping diagram opens each
point and shows the regions inside it.
"""

import matplotlib.pyplot as plt

import epiloss
from epiloss.presentation.plot import CurveDisplay, LedgerDisplay
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
# - Each **point** is a region of rows of about equal score: its height is the rate there. Its
#   colour is the number of rows, and the **bar** is the 95% interval of the rate.
# - **Grey** regions are those that cannot be told from their level set: their interval holds its
#   rate. They are no evidence of anything.
# - The **strip** above the diagram shows how many rows have each score. A large spread where there
#   are no rows costs nothing.
#
# In each level set the rows were split in two by the feature that separates rates best. It was chosen on
# half of the rows, and what is drawn is the other half: had the same rows been used for both, the left
# picture too would show a spread, made of noise alone.
#
# More regions
# ------------
# Two regions read best. ``partition=None`` draws those of the audit itself, which are a tree's:
# finer, and each with fewer rows.

result.plot(partition=None)

# %%
# The other pictures
# ------------------
# The ledger as a bar: how the score divides. Parts that are small beside the score are drawn enlarged.

LedgerDisplay(result).plot()

# %%
# And the calibration curve without bins, with its band.

CurveDisplay.from_audit(result).plot()
