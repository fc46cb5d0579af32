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
from epiloss.presentation.plot import GapsDisplay, HeterogeneityDisplay

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
# The question is not whether the groups' scores differ, nor their rates, but whether *people of
# equal score* differ by group. Pass the groups, fairlearn's ``sensitive_features``, as ``subgroups=``.
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
# The last two need a decision, which fairlearn's ``MetricFrame`` compares. Where base rates differ,
# no useful model satisfies all of them [1]_.

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
# ``result.subgroup_gaps`` has a row for each value of each column: its rate, the rate of all rows with
# equal scores (*expected*), and the gap between the two. With features, it also has the calibration and
# grouping loss *inside* each value: what an audit of these rows alone finds. Gaps are averages over
# scores, in which too high and too low can cancel; losses do not cancel.

features = X.loc[~train]
by_value = epiloss.audit(y, models["not told"], features, subgroups=features[["sex", "race"]])
shown = ["subgroup", "n", "rate", "expected", "gap", "pvalue_adjusted"]
losses = ["calibration_loss", "grouping_loss"]
by_value.subgroup_gaps["sex"].to_pandas()[[*shown, *losses]].round(4)

# %%
# Pairs of columns on request, as the intersections of fairlearn's ``MetricFrame``:

by_value.subgroup_intersections("sex", "race").to_pandas()[shown].round(4)

# %%
# The same as bars; grey is what may be noise.

GapsDisplay.from_audit(by_value, subgroups=["sex", "race"]).plot()

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
# names them in words: the segments on :doc:`the first page <plot_01_start>`. If a sensitive attribute
# is among the features, its intersections with others are found that way. :doc:`A repair
# <plot_11_repair>` then takes the difference out.
#
# .. [1] Kleinberg, Mullainathan and Raghavan, "Inherent trade-offs in the fair determination of risk
#    scores", ITCS 2017; Chouldechova, "Fair prediction with disparate impact", Big Data 5, 2017.
