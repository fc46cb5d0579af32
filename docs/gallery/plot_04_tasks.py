"""
Tasks and scoring rules
=======================

Predictions for several classes can be audited in more than one way. The *task* says which claim of the
predictions is audited, and the *scoring rule* how errors are measured. The result names both.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import epiloss
from epiloss.simulate import MultiClass, Sigmoid

# %%
# Four tasks
# ----------
# +---------------+-----------------------------------------------+-------------------------------------+
# | ``task``      | claim                                         | use it for                          |
# +===============+===============================================+=====================================+
# | ``binary``    | the score is the probability of the positive  | two classes (the default)           |
# |               | class                                         |                                     |
# +---------------+-----------------------------------------------+-------------------------------------+
# | ``top-label`` | the highest score is the probability that the | "can I trust this answer?"; the     |
# |               | predicted class is correct                    | default for more than two classes   |
# +---------------+-----------------------------------------------+-------------------------------------+
# | ``classwise`` | each column is the probability of its class   | probabilities that are used one by  |
# |               |                                               | one, such as risks                  |
# +---------------+-----------------------------------------------+-------------------------------------+
# | ``joint``     | the whole vector is right, given the vector   | few classes and many rows           |
# +---------------+-----------------------------------------------+-------------------------------------+
#
# Labels may be numbers, booleans, strings or one-hot rows. If they are strings, the columns of
# ``y_prob`` belong to the sorted labels, unless ``classes=`` says otherwise.

problem = MultiClass(n_classes=3)
sample = problem.sample(8_000)
names = np.array(["cat", "dog", "hen"])

rows = []
for task in ("top-label", "classwise", "joint"):
    result = epiloss.audit(names[sample.y], sample.scores, sample.X, task=task)
    exact = problem.truth(task=task)
    rows.append(
        {
            "task": result.task,
            "score": f"{result.score:.4f}",
            "calibration loss": f"{result.calibration_loss:z.4f}",
            "grouping loss": f"{result.grouping_loss:.4f}",
            "true grouping loss": f"{exact.grouping_loss:.4f}",
        }
    )
pd.DataFrame(rows).set_index("task")

# %%
# Classwise and joint losses are sums over the classes, so they are on a different scale than those of
# the top label; do not compare losses between tasks. In the joint task, level sets are cells of the
# simplex, which contain few rows each.
#
# Results by class
# ----------------
# The tables of a classwise audit have a column ``class``.

result = epiloss.audit(names[sample.y], sample.scores, sample.X, task="classwise")
worst = result.worst_regions(3).to_pandas()
worst[["class", "rule", "n", "score_mean", "expected", "label_mean"]].round(3)

# %%
# Scoring rules
# -------------
# ``rule="brier"``, the default, is the mean of (p - y)². It is bounded, and the square root of a loss is
# an error of probabilities. ``rule="log"`` is the log-loss, which networks are trained on. It weighs
# errors near 0 and 1 heavily, and is infinite if a score of 0 or 1 is wrong. A binary Brier score is on
# the scale of scikit-learn; papers that sum over both classes report twice that.

binary = Sigmoid(perturbation="step", miscalibration=1.5)
data = binary.sample(6_000)
for rule in ("brier", "log"):
    one = epiloss.audit(data.y, data.scores, data.X, rule=rule)
    exact = binary.truth(rule)
    print(
        f"{rule:6} calibration loss {one.calibration_loss:z.4f}, true value {exact.calibration_loss:.4f}"
    )
    print(f"{rule:6} grouping loss {one.grouping_loss:.4f}, true value {exact.grouping_loss:.4f}")

# %%
# A proper scoring rule is defined by its entropy, any concave function on [0, 1]; the loss, the
# divergence and the corrections for noise follow from it. In this example, errors at low probabilities
# count more than errors at high probabilities.


def rare(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(p + 1e-3) - p)


own = epiloss.ScoringRule.from_entropy(rare, name="rare events")
result = epiloss.audit(data.y, data.scores, data.X, rule=own)
print(f"{result.rule}: grouping loss {result.grouping_loss:.4f} (a lower bound)")
print(f"true value {binary.truth(own).grouping_loss:.4f}")

# %%
# Several labels per row
# ----------------------
# If each row was rated by several people, or measured several times, the agreement between the ratings
# shows how noisy they are, and the grouping loss can be measured directly. Pass one column for each
# rater, with NaN for missing ratings.

ratings = np.random.default_rng(0).random((6_000, 3)) < data.q[:, None]
result = epiloss.audit(ratings.astype(float), data.scores)
truth = binary.truth()
print(f"grouping loss    {result.grouping_loss:.4f}, true value {truth.grouping_loss:.4f}")
print(f"irreducible loss {result.irreducible_loss:.4f}, true value {truth.irreducible_loss:.4f}")

# %%
# This needs no features, only scores and labels.
