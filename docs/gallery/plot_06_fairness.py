"""
Fairness: groups that you know
==============================

A score can be calibrated for everybody and not for women, or not for a hospital. Groups that are known need not
be learned: pass them, and every row is evaluated.
"""

import epiloss
from epiloss.plot import HeterogeneityDisplay

data = epiloss.data.load_census_income()

# %%
# Do men and women with the same score have the same rate?
# --------------------------------------------------------
# Not the difference of the groups' scores is asked for, nor that of their rates: whether *people of equal
# score* differ by group. This is calibration within groups; a loss of zero is also called sufficiency.
# ``sensitive_features=``, fairlearn's word, is accepted for ``groups=``.

result = epiloss.audit(data.y, data.scores, groups=data.X["sex"])
print(result)

# %%
# The losses are lower bounds by these groups alone, so they are small beside what all columns show: two groups
# cannot explain what many columns can. They are answers to another question. Which way, and how far:

display = HeterogeneityDisplay.from_audits({"by sex": result})
_ = display.plot()

# %%
# The picture shows how much higher the rate of a group is than that of everybody with the same score, in
# points of probability, with 95% intervals. Above zero the scores are too low for the group.
#
# The diagram has one point for each group and level set.

_ = result.plot(partition=None)

# %%
# Several attributes, or their combinations
# -----------------------------------------
# Groups are any labels. Those too small to be evaluated in a level set are joined with others, and the
# table says so.

education = data.X["education"]
by_education = epiloss.audit(data.y, data.scores, groups=education)
display = HeterogeneityDisplay.from_audits({"by education": by_education})
_ = display.plot(smallest=300)

# %%
both = [f"{sex}, {'under' if age < 40 else 'over'} 40" for sex, age in zip(data.X["sex"], data.X["age"], strict=True)]
crossed = epiloss.audit(data.y, data.scores, groups=both)
table = HeterogeneityDisplay.from_audits({"crossed": crossed}).table.to_pandas()
table[["group", "n", "difference", "low", "high"]].round(4)

# %%
# Groups that nobody thought of
# -----------------------------
# Known groups answer known questions. With features the audit looks for groups by itself, and names them by
# rules: see the table of worst regions on :doc:`the first page <plot_01_start>`. Intersections of a sensitive
# attribute with others are found that way, if the attribute is among the features.
#
# Two models
# ----------
# A repair, learned on one half of the people and shown on the other, changes
# what groups see. Both models are shown together.

import numpy as np

half = np.arange(len(data.y)) % 2 == 0
columns = {name: values[half] for name, values in data.X.items()}
others = {name: values[~half] for name, values in data.X.items()}
repair = epiloss.RegionRecalibrator().fit(columns, data.y[half], data.scores[half])
repaired = repair.predict(others, data.scores[~half])

audits = {
    "as given": epiloss.audit(data.y[~half], data.scores[~half], groups=education[~half]),
    "repaired": epiloss.audit(data.y[~half], repaired, groups=education[~half]),
}
_ = HeterogeneityDisplay.from_audits(audits).plot(smallest=300)
for name, one in audits.items():
    print(f"{name}: grouping loss by education, at least {one.grouping_loss:.5f}")
