"""Real data sets for the page on segments, with scores, and comments on their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epiloss._typing import Floats
from epiloss.datasets import load_census_income
from ratings_census import benchmark

ADULT_NAMES = (
    "age", "workclass", "weight", "education", "education years", "marital status", "occupation",
    "relationship", "race", "sex", "capital gain", "capital loss", "hours per week", "country",
)  # fmt: skip


@dataclass(frozen=True)
class Real:
    """A data set, the function that loads it, and a comment on its field."""

    name: str
    load: Callable[[Path], tuple[Any, NDArray[np.int64], Floats]]
    known: str


def bundled(folder: Path) -> tuple[Any, NDArray[np.int64], Floats]:
    """Return the bundled data, which come with the scores of a logistic regression."""
    demo = load_census_income()
    return demo.X, demo.y, demo.scores


def scored(name: str, folder: Path) -> tuple[Any, NDArray[np.int64], Floats]:
    """Return two thirds of a table, scored by a logistic regression of the first third."""
    repair_data = benchmark("repair_data")  # first, because registry_data imports it
    registry_data = benchmark("registry_data")
    load: Callable[[Path], Any] = getattr(repair_data, name, None) or getattr(registry_data, name)

    def named(where: Path) -> Any:
        table = load(where)
        if name != "adult":
            return table
        new = {f"column {j}": label for j, label in enumerate(ADULT_NAMES)}
        return replace(
            table,
            X=table.X.rename(columns=new),
            categorical=tuple(new[one] for one in table.categorical),
        )

    split = repair_data.with_base_model(named, repair_data.logistic)(0, folder)
    both = (split.repair, split.held_out)
    X = pd.concat([one.X for one in both], ignore_index=True)
    y, scores = (np.concatenate([getattr(one, at) for one in both]) for at in ("y", "scores"))
    return X, y, scores


REAL = (
    Real(
        "Census-Income (bundled), incomes above 50,000",
        bundled,
        "The model treats each dollar of dividends alike, but having any dividends at all says more, "
        "because they come with wealth. Large capital gains nearly determine the outcome, and the "
        "youngest earn less than a model that is linear in age expects.",
    ),
    Real(
        "Adult, incomes above 50,000",
        partial(scored, "adult"),
        "Incomes rise with age and fall after retirement, which a model that is linear in age misses "
        "at both ends. Capital gains above 7,000 are known to predict this outcome almost perfectly, "
        "and a model that is linear in them expects too much of smaller ones. Hours beyond a full week "
        "pay less and less.",
    ),
    Real(
        "COMPAS, new offences within two years",
        partial(scored, "compas"),
        "The age-crime curve is steep in youth. Compared with a model that is linear in age and in "
        "the number of priors, young men offend again more often, and adults with at most one prior "
        "less often.",
    ),
    Real(
        "Deaths in crashes",
        partial(scored, "crashes"),
        "A missing seat belt matters most at low speeds, at which a belt would have saved the "
        "occupant. Impacts from the side and from behind have other risks than frontal ones, for "
        "which airbags are made.",
    ),
    Real(
        "Votes of 2016",
        partial(scored, "votes"),
        "Party identification is a scale from 1 to 7. People at 3 and 5 call themselves independent "
        "but lean to a party. Political science has long known that leaners vote like partisans: the "
        "rate is lower at 3, and higher at 5, than a line through the seven points predicts.",
    ),
    Real(
        "Searches by the police of Minneapolis",
        partial(scored, "stops"),
        "The hour of the day is cyclic: 23 is next to 0, which a model that is linear in the hour "
        "cannot represent. Traffic stops by day rarely end in a search.",
    ),
    Real(
        "Health insurance of married women",
        partial(scored, "insurance"),
        "Employers insure full-time employees, so the rate jumps at 40 hours. Those who work longest "
        "are often self-employed, and need no insurance of their own if the husband has one.",
    ),
)
