"""
Repair, and what decisions cost
===============================

Recalibration maps scores to better scores, and cannot tell two people of the same score apart. A
repair also looks at who they are. This page repairs a model, checks the repair on rows that it has
not seen, and counts what that is worth.
"""

import matplotlib.pyplot as plt
import numpy as np

import epiloss

data = epiloss.datasets.load_census_income()
result = epiloss.audit(data.y, data.scores, data.X)

# %%
# Would a repair help?
# --------------------
# One call learns a repair on half of the rows and audits the other half before and after. The
# differences are paired: the same people, so that their noise cancels.

loop = result.repair()
print(loop)

# %%
# A repair to keep
# ----------------
# ``RegionRecalibrator`` is a scikit-learn estimator, with scores beside the features. It is saved
# as plain JSON, which holds numbers and no code.

import tempfile
from pathlib import Path

half = np.random.default_rng(0).random(len(data.y)) < 0.5
learn = {name: column[half] for name, column in data.X.items()}
apply = {name: column[~half] for name, column in data.X.items()}
repair = epiloss.RegionRecalibrator().fit(data.y[half], data.scores[half], learn)

file = Path(tempfile.mkdtemp()) / "repair.json"
repair.save(file)
again = epiloss.load_repair(file)
better = again.predict(data.scores[~half], apply)
y, given = data.y[~half], data.scores[~half]
print(f"Brier score {np.mean((given - y) ** 2):.4f} -> {np.mean((better - y) ** 2):.4f}")
print("the saved repair is the same:", np.array_equal(better, repair.predict(given, apply)))

# %%
# What changed: each point is a person. A recalibration would be a curve; people of equal score now get
# different ones.

figure, ax = plt.subplots(figsize=(5.4, 5), layout="constrained")
shown = np.random.default_rng(1).permutation(len(y))[:4_000]
ax.plot([0, 1], [0, 1], color="0.5", lw=0.8, ls=":")
ax.scatter(given[shown], better[shown], s=5, alpha=0.35, lw=0, color="#0072B2")
ax.set(xlabel="score as given", ylabel="repaired score", aspect="equal")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# ``method="regions"`` corrects by regions that can be read as rules, for those who must explain each
# correction; the default is mostly nearer to the truth. Around a classifier of scikit-learn,
# ``RegionRecalibratedClassifier`` does all of it in one ``fit``. On the command line:
#
# .. code-block:: none
#
#     epiloss audit today.csv --label y --score p --repair better.csv --save-repair repair.json
#     epiloss apply repair.json tomorrow.csv --score p --output tomorrow_better.csv
#
# What decisions cost
# -------------------
# Who acts on a score (calls a patient, refuses a loan) pays for acting in vain and for not acting
# where it was due. If the second costs five times the first, one should act from 1/6 on. Then:

cost = epiloss.regret(result, cost_fp=1, cost_fn=5)
print(cost)

# %%
# *Saved by recalibration* is what miscalibration costs, *saved by repair beyond it* what the
# grouping loss costs, at least, in these decisions, in the user's units per row. Both are counted
# on rows that had no part in learning; below zero means that nothing would be saved. Who acts at
# another threshold has other savings:

curve = cost.curve.to_pandas()
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for part, colour in (("calibration", "#E69F00"), ("grouping", "#0072B2")):
    ax.plot(curve["threshold"], curve[part], color=colour, label=f"regret of {part}")
    ax.fill_between(
        curve["threshold"], curve[f"{part}_low"], curve[f"{part}_high"], color=colour, alpha=0.15, lw=0
    )
ax.axhline(0, color="0.5", lw=0.8)
ax.set(xlabel="threshold", ylabel="saved per row, the costs summing to 1")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
plt.show()

# %%
# The decomposition of regret follows Perez-Lebel, Le Morvan and Varoquaux (AISTATS 2025).
#
# Compare, and follow over time
# -----------------------------
# ``compare`` tests the difference of two models on the same rows, ``drift`` that of one model on
# two samples.

compared = epiloss.compare(y, {"old": given, "repaired": better}, apply, method="partition")
print(compared)

# %%
# :doc:`/repair` measures repairs on 23 data sets, beside MCGrad and plain recalibration.
