"""
Which task, and which rule
==========================

A prediction of several classes can be held to more than one claim. The *task* says which; the
*rule* says how an error is counted. The result names both.
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
# | ``task``      | what is claimed                               | use it for                          |
# +===============+===============================================+=====================================+
# | ``binary``    | the score is the chance of the positive class | two classes; the default there      |
# +---------------+-----------------------------------------------+-------------------------------------+
# | ``top-label`` | the highest score is the chance that the      | "can I trust this answer?"; the     |
# |               | predicted class is right                      | default for more than two classes   |
# +---------------+-----------------------------------------------+-------------------------------------+
# | ``classwise`` | each column is the chance of its class        | probabilities that are used one by  |
# |               |                                               | one, as costs or priors             |
# +---------------+-----------------------------------------------+-------------------------------------+
# | ``joint``     | the whole row is right, given the whole row   | few classes and many rows           |
# +---------------+-----------------------------------------------+-------------------------------------+
#
# Labels may be numbers, booleans, strings or one-hot rows. For strings the columns of ``y_prob`` are the
# labels in order, unless ``classes=`` says otherwise.

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
            "grouping loss, at least": f"{result.grouping_loss:.4f}",
            "in truth": f"{exact.grouping_loss:.4f}",
        }
    )
pd.DataFrame(rows).set_index("task")

# %%
# Classwise and joint losses are sums over the classes, so they are on another scale than the top
# label's: compare a task with itself. Of the joint task, bins are cells of the simplex and soon
# hold few rows.
#
# By class
# --------
# The tables of a classwise audit have a column ``class``.

result = epiloss.audit(names[sample.y], sample.scores, sample.X, task="classwise")
worst = result.worst_regions(3).to_pandas()
worst[["class", "rule", "n", "score_mean", "expected", "label_mean"]].round(3)

# %%
# Two rules, and your own
# -----------------------
# ``rule="brier"`` counts (p - y)² and is the default: bounded, and its square root reads as points
# of probability. ``rule="log"`` counts the log-loss, which is what networks are trained on; it
# weighs errors near 0 and 1 heavily, and is infinite where a score of 0 or 1 is wrong. On this
# scale a binary Brier score is as in scikit-learn; sums over both classes, as some papers report,
# are twice that.

binary = Sigmoid(perturbation="step", miscalibration=1.5)
data = binary.sample(6_000)
for rule in ("brier", "log"):
    one = epiloss.audit(data.y, data.scores, data.X, rule=rule)
    exact = binary.truth(rule)
    print(
        f"{rule:6} calibration loss {one.calibration_loss:z.4f}, in truth {exact.calibration_loss:.4f}"
    )
    print(f"{rule:6} grouping loss >= {one.grouping_loss:.4f}, in truth {exact.grouping_loss:.4f}")

# %%
# A proper scoring rule is given by its entropy, any concave function on [0, 1]. Everything else
# (the loss, the divergence, what is taken off for noise) follows from it. Here an error at low
# probabilities counts more than one at high probabilities.


def rare(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(p + 1e-3) - p)


own = epiloss.ScoringRule.from_entropy(rare, name="rare events")
result = epiloss.audit(data.y, data.scores, data.X, rule=own)
print(f"{result.rule}: grouping loss >= {result.grouping_loss:.4f}")
print(f"in truth {binary.truth(own).grouping_loss:.4f}")

# %%
# Several labels a row
# --------------------
# Where each row was judged by several people, or measured again, the grouping loss is no longer
# bounded from one side: agreement between the judges shows the noise, so that what remains can be
# measured. Pass a column for each judge; NaN where one is missing.

judges = np.random.default_rng(0).random((6_000, 3)) < data.q[:, None]
result = epiloss.audit(judges.astype(float), data.scores)
print(f"grouping loss {result.grouping_loss:.4f}, in truth {binary.truth().grouping_loss:.4f}")
print(f"irreducible   {result.irreducible_loss:.4f}, in truth {binary.truth().irreducible_loss:.4f}")

# %%
# This one needs no features at all: it looks at nothing but scores and labels.
