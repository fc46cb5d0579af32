"""
Repair and the cost of decisions
================================

Recalibration maps scores to better scores, but cannot distinguish people with the same score. A repair
also uses the features. This page repairs a model, evaluates the repair on held-out rows, and estimates
what that is worth for decisions.
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
# differences are paired, so most of the noise cancels.

loop = result.repair()
print(loop)

# %%
# Saving a repair
# ---------------
# ``RegionRecalibrator`` is a scikit-learn estimator that takes scores in addition to features. It is
# saved as plain JSON, which contains numbers and no code.

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
# Each point of the next plot is a person. A recalibration would be a curve; the repair gives people with
# equal scores different new scores.

figure, ax = plt.subplots(figsize=(5.4, 5), layout="constrained")
shown = np.random.default_rng(1).permutation(len(y))[:4_000]
ax.plot([0, 1], [0, 1], color="0.5", lw=0.8, ls=":")
ax.scatter(given[shown], better[shown], s=5, alpha=0.35, lw=0, color="#0072B2")
ax.set(xlabel="score as given", ylabel="repaired score", aspect="equal")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# ``method="regions"`` corrects by regions with readable descriptions, for when each correction must be
# explained; the default is usually more accurate. ``RegionRecalibratedClassifier`` wraps a scikit-learn
# classifier and does all of this in one ``fit``. On the command line:
#
# .. code-block:: none
#
#     epiloss audit today.csv --label y --score p --repair better.csv --save-repair repair.json
#     epiloss apply repair.json tomorrow.csv --score p --output tomorrow_better.csv
#
# The cost of decisions
# ---------------------
# Suppose that somebody acts on a score, for example calls a patient or refuses a loan. If a false
# negative costs five times as much as a false positive, the best threshold is 1/6:

cost = epiloss.regret(result, cost_fp=1, cost_fn=5)
print(cost)

# %%
# The savings by recalibration are what miscalibration costs in these decisions, per row and in the units
# of the costs; the further savings by a repair are at least what the grouping loss costs. Both are
# estimated on held-out rows; a value below zero means that nothing would be saved. At other thresholds,
# the savings are different:

curve = cost.curve.to_pandas()
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for part, colour in (("calibration", "#E69F00"), ("grouping", "#0072B2")):
    ax.plot(curve["threshold"], curve[part], color=colour, label=f"regret of {part}")
    ax.fill_between(
        curve["threshold"], curve[f"{part}_low"], curve[f"{part}_high"], color=colour, alpha=0.15, lw=0
    )
ax.axhline(0, color="0.5", lw=0.8)
ax.set(xlabel="threshold", ylabel="savings per row (costs sum to 1)")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
plt.show()

# %%
# The report of an audit has a short table of such costs, for a few usual costs or for your own:
# ``result.to_html("report.html", costs=[(1, 5)])``, or ``--cost-fp 1 --cost-fn 5`` on the command line.
#
# The decomposition of regret follows Perez-Lebel, Le Morvan and Varoquaux (AISTATS 2025).
#
# Comparing models
# ----------------
# ``compare`` tests the differences between models on the same rows. :doc:`drift </drift>` compares one
# model on two data sets, and :doc:`track </tracking>` follows it over time.

compared = epiloss.compare(y, {"old": given, "repaired": better}, apply, method="partition")
print(compared)

# %%
# :doc:`/repair` compares repairs with MCGrad and plain recalibration on 23 data sets.
