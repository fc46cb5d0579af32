"""
Fairness: known groups
======================

A score can be right on average over everybody, and too low for all women. Known groups do not have to be
learned: pass them as ``subgroups=``, and all rows are used for evaluation.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import epiloss
from epiloss.presentation.plot import GapsDisplay, HeterogeneityDisplay

data = epiloss.datasets.load_census_income()
X = pd.DataFrame(data.X)
train = np.random.default_rng(0).random(len(X)) < 0.4

# %%
# Fairness through unawareness
# ----------------------------
# It is often assumed that a model cannot treat groups differently if it does not use the group. Here are
# two logistic models of income: one uses the column *sex*, the other does not, nor its proxies
# (occupation, industry, household role, marital status).

left_out = ["sex", "occupation", "industry", "household_role", "marital_status"]


def scores(columns: pd.DataFrame) -> NDArray[np.float64]:
    """Fit a logistic model on the training rows, and return the scores of the others."""
    words = columns.select_dtypes(exclude="number").columns.tolist()
    numbers = columns.select_dtypes("number").columns.tolist()
    prepare = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=20), words), (StandardScaler(), numbers)
    )
    model = make_pipeline(prepare, LogisticRegression(max_iter=500))
    model.fit(columns[train], data.y[train])
    return np.asarray(model.predict_proba(columns[~train])[:, 1])


y, sex = data.y[~train], data.X["sex"][~train]
models = {"with sex": scores(X), "without": scores(X.drop(columns=left_out))}

# %%
# Do men and women with the same score have the same rate?
# --------------------------------------------------------
# The question is not whether scores or rates differ between groups, but whether the rates of *people
# with equal scores* do. Pass the groups (``sensitive_features`` in fairlearn) as ``subgroups=``.
#
# ============================  =======================================================  ==============
# criterion                     asks for                                                 measured here
# ============================  =======================================================  ==============
# sufficiency, calibration      the same rate at each score, in every group              yes
# within groups
# multicalibration              the same over many groups that overlap                   by segments
#                                                                                        and pairs
# demographic parity            equal shares of positive decisions                       no
# equalized odds                equal error rates                                        no
# ============================  =======================================================  ==============
#
# The last two concern decisions, which fairlearn's ``MetricFrame`` compares. If base rates differ, no
# useful model satisfies all of these criteria [1]_.

audits = {name: epiloss.audit(y, p, subgroups=sex) for name, p in models.items()}
print(audits["without"])

# %%
# This grouping loss is the part that these groups alone explain. The calibration loss is small for both
# models, so their reliability diagrams look alike:

for name, one in audits.items():
    gap = one.grouping_loss
    print(f"{name:9} calibration loss {one.calibration_loss:z.5f}, grouping loss by sex {gap:z.5f}")

# %%
# The direction and size of the differences: how much higher the rate of a group is than that of
# everybody with the same score. Above zero, scores that are right on average are too low for the
# group; below zero, they are too high.

display = HeterogeneityDisplay.from_audits({"without": audits["without"]})
display.plot()

# %%
# ``result.subgroup_gaps`` has a row for each value of each column: its rate, the rate of all rows with
# equal scores (*expected*), and the gap between the two. If there are features, it also has the
# calibration and grouping loss *within* each value, which an audit of these rows alone finds. Gaps are
# averages over scores, in which errors of opposite sign can cancel; losses do not cancel.

features = X.loc[~train]
by_value = epiloss.audit(y, models["without"], features, subgroups=features[["sex", "race"]])
shown = ["subgroup", "n", "rate", "expected", "gap", "pvalue_adjusted"]
losses = ["calibration_loss", "grouping_loss"]
by_value.subgroup_gaps["sex"].to_pandas()[[*shown, *losses]].round(4)

# %%
# The intersections of two columns, as in fairlearn's ``MetricFrame``:

by_value.subgroup_intersections("sex", "race").to_pandas()[shown].round(4)

# %%
# The same as bars; grey bars may be noise.

GapsDisplay.from_audit(by_value, subgroups=["sex", "race"]).plot()

# %%
# The grouping diagram has one point for each group in each level set.

audits["without"].plot(partition=None)

# %%
# Many groups, several models
# ---------------------------
# Groups may be any labels, such as combinations of several attributes. Groups that are too small to be
# evaluated in a level set are merged with others. Differences that may be noise are in brackets.

age = np.where(data.X["age"][~train] < 40, "under 40", "40 or over")
crossed = [f"{one}, {other}" for one, other in zip(sex, age, strict=True)]
by_both = {name: epiloss.audit(y, p, subgroups=crossed) for name, p in models.items()}
HeterogeneityDisplay.from_audits(by_both).plot()

# %%
# The table behind the plot:

table = HeterogeneityDisplay.from_audits(by_both).table.to_pandas()
table[["model", "subgroup", "n", "difference", "low", "high"]].round(4)

# %%
# Unknown groups
# --------------
# With features, the audit searches for groups by itself: the segments on :doc:`the first page
# <plot_01_start>`. If a sensitive attribute is among the features, segments may combine it with other
# conditions. :doc:`A repair <plot_11_repair>` corrects the differences.
#
# .. [1] Kleinberg, Mullainathan and Raghavan, "Inherent trade-offs in the fair determination of risk
#    scores", ITCS 2017; Chouldechova, "Fair prediction with disparate impact", Big Data 5, 2017.
