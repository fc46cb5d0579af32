"""
Fairness: groups that you know
==============================

A score can be right on average for everybody, and too low for all women. Groups that are known
need not be learned: pass them, and every row is evaluated.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import epiloss
from epiloss.presentation.plot import HeterogeneityDisplay

data = epiloss.datasets.load_census_income()
X = pd.DataFrame(data.X)
train = np.random.default_rng(0).random(len(X)) < 0.4

# %%
# A model that was not told
# -------------------------
# It is often thought that a model cannot treat groups differently if it does not know them. Two
# logistic models of income, one with the column *sex*, one without it and without what stands in
# for it (occupation, industry, household role, marital status):

left_out = ["sex", "occupation", "industry", "household_role", "marital_status"]


def scores(columns: pd.DataFrame) -> NDArray[np.float64]:
    """Fit a logistic model on the training rows, and score the others."""
    words = columns.select_dtypes(exclude="number").columns.tolist()
    numbers = columns.select_dtypes("number").columns.tolist()
    prepare = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=20), words), (StandardScaler(), numbers)
    )
    model = make_pipeline(prepare, LogisticRegression(max_iter=500))
    model.fit(columns[train], data.y[train])
    return np.asarray(model.predict_proba(columns[~train])[:, 1])


y, sex = data.y[~train], data.X["sex"][~train]
models = {"told": scores(X), "not told": scores(X.drop(columns=left_out))}

# %%
# Do men and women with the same score have the same rate?
# --------------------------------------------------------
# Not the difference of the groups' scores is asked for, nor that of their rates: whether *people
# of equal score* differ by group. That is calibration within groups; where it holds, the score is
# sufficient. Pass the groups, fairlearn's ``sensitive_features``, as ``subgroups=``.

audits = {name: epiloss.audit(y, p, subgroups=sex) for name, p in models.items()}
print(audits["not told"])

# %%
# The ledger by group is a lower bound by these groups alone. The calibration loss is small for
# both models, so no reliability diagram tells them apart:

for name, one in audits.items():
    gap = one.grouping_loss
    print(f"{name:9} calibration loss {one.calibration_loss:z.5f}, grouping loss by sex >= {gap:z.5f}")

# %%
# Which way, and how far: how much higher the rate of a group is than that of everybody with the
# same score. Above zero even scores that are right on average are too low for the group, below too high.

display = HeterogeneityDisplay.from_audits({"not told": audits["not told"]})
display.plot()

# %%
# The diagram has a point for each group in each level set.

audits["not told"].plot(partition=None)

# %%
# Many groups, several models
# ---------------------------
# Groups are any labels, also combinations of several attributes. Those too small to be evaluated
# in a level set are joined with others. Differences that may be noise are in brackets.

age = np.where(data.X["age"][~train] < 40, "under 40", "40 or over")
crossed = [f"{one}, {other}" for one, other in zip(sex, age, strict=True)]
by_both = {name: epiloss.audit(y, p, subgroups=crossed) for name, p in models.items()}
HeterogeneityDisplay.from_audits(by_both).plot()

# %%
# The table behind the picture:

table = HeterogeneityDisplay.from_audits(by_both).table.to_pandas()
table[["model", "subgroup", "n", "difference", "low", "high"]].round(4)

# %%
# Groups that nobody thought of
# -----------------------------
# Known groups answer known questions. With features the audit looks for groups by itself, and
# names them by rules: the worst regions on :doc:`the first page <plot_01_start>`. If a sensitive
# attribute is among the features, its intersections with others are found that way. :doc:`A repair
# <plot_11_repair>` by region then takes the difference out.
