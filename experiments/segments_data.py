"""Real data that segments are told of, scored, and what is known of their fields."""

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
    """Rows of a field, how to load them, and what is known of the field."""

    name: str
    load: Callable[[Path], tuple[Any, NDArray[np.int64], Floats]]
    known: str


def bundled(folder: Path) -> tuple[Any, NDArray[np.int64], Floats]:
    """Return the bundled data, which have the scores of a logistic regression."""
    demo = load_census_income()
    return demo.X, demo.y, demo.scores


def scored(name: str, folder: Path) -> tuple[Any, NDArray[np.int64], Floats]:
    """Return two thirds of a table, with the scores of a logistic regression of the first third."""
    repair_data = benchmark("repair_data")  # which the other one imports
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
        "To the model each dollar of dividends counts the same. That there are any at all says more: "
        "they come with wealth. Large capital gains nearly decide the outcome, and the youngest earn "
        "less than a model expects that is linear in age.",
    ),
    Real(
        "Adult, incomes above 50,000",
        partial(scored, "adult"),
        "Incomes rise with age and fall after retirement, which a model that is linear in age misses "
        "on both ends. Gains above 7,000 are known to be almost a rule for this outcome. Hours beyond"
        " a full week pay less and less.",
    ),
    Real(
        "COMPAS, new offences within two years",
        partial(scored, "compas"),
        "The age-crime curve is steep in youth: young men offend again more often than a model says "
        "that is linear in age and in the number of priors, and adults with at most one prior less "
        "often.",
    ),
    Real(
        "Deaths in crashes",
        partial(scored, "crashes"),
        "A missing seat belt matters most where a belt would have saved the occupant, at low speeds. "
        "Impacts from the side and from behind have other risks than frontal ones, which airbags are "
        "made for.",
    ),
    Real(
        "Votes of 2016",
        partial(scored, "votes"),
        "Party identification has seven points, 1 to 7. Those at 3 and 5 say that they are "
        "independent and lean to a party. Political science has long known that leaners vote like "
        "partisans: less than a line through the seven points says at 3, and more at 5.",
    ),
    Real(
        "Searches by the police of Minneapolis",
        partial(scored, "stops"),
        "The hour of the day goes round: 23 is next to 0, which a line through the hours cannot know."
        " Traffic stops by day rarely end in a search.",
    ),
    Real(
        "Health insurance of married women",
        partial(scored, "insurance"),
        "Employers insure full-time employees, so that the rate jumps at 40 hours. Those who work "
        "longest are often self-employed, and need no insurance of their own where the husband has "
        "one.",
    ),
)
