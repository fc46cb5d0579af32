"""Further rows: only the columns are read that were learned from, and near misses are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss import DataError
from epiloss.input.features import Features
from epiloss.input.tables import nearest_name, no_column

G = np.random.default_rng(0)
N = 600
P = G.random(N)
Y = (G.random(N) < P).astype(int)
FRAME = pd.DataFrame({"age": G.normal(size=N), "city": np.array(["a", "b", "c"])[np.arange(N) % 3]})


class Unreadable:
    """An object that neither compares nor prints."""

    def __ne__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __str__(self) -> str:
        raise RuntimeError("not printable")


FURTHER: dict[str, Any] = {
    "complex": P + 1j,
    "infinite": np.full(N, np.inf),
    "objects": [Unreadable() for _ in range(N)],
    "ragged": [[1.0] * (1 + row % 2) for row in range(N)],
    "nested": [np.zeros((2, 2)) for _ in range(N)],
    "mappings": [{"a": 1} for _ in range(N)],
}


@pytest.mark.parametrize("column", FURTHER.values(), ids=FURTHER.keys())
def test_columns_that_were_not_learned_from_are_not_read(column: Any) -> None:
    later = FRAME.assign(further=column)
    repair = epiloss.RegionRecalibrator().fit(Y, P, FRAME)
    np.testing.assert_array_equal(repair.predict(P, later), repair.predict(P, FRAME))
    plan = epiloss.RegionPlan.learn(Y, P, FRAME)
    assert plan.stats(Y, P, later).n.sum() == N
    expected = str(epiloss.drift((Y, P, FRAME), (Y, P, FRAME)))
    assert str(epiloss.drift((Y, P, FRAME), (Y, P, later))) == expected


def test_features_are_read_in_the_order_and_with_the_codes_of_others() -> None:
    reference = Features.read(FRAME)
    later = FRAME.assign(city="c")[["city", "age"]]
    found = Features.read(later, reference)
    assert found.names == ("age", "city")
    np.testing.assert_array_equal(found.matrix[:, 1], 2.0)


def misnamed(frame: pd.DataFrame) -> list[Callable[[], Any]]:
    """Return calls that all lack the column 'age'."""
    repair = epiloss.RegionRecalibrator().fit(Y, P, FRAME)
    plan = epiloss.RegionPlan.learn(Y, P, FRAME)
    return [
        lambda: repair.predict(P, frame),
        lambda: plan.stats(Y, P, frame),
        lambda: epiloss.drift((Y, P, FRAME), (Y, P, frame)),
    ]


def test_the_nearest_name_is_told_where_a_column_is_missing() -> None:
    many = {f"c{j}": P for j in range(40)}
    for call in misnamed(FRAME.rename(columns={"age": "Age"}).assign(**many)):
        with pytest.raises(DataError, match=r"got no column 'age'\. Did you mean 'Age'\?"):
            call()
    for call in misnamed(FRAME.rename(columns={"age": "z"})):
        with pytest.raises(DataError, match=r"got no column 'age'\. Pass the same columns"):
            call()


@pytest.mark.parametrize(
    ("name", "near"),
    [("label", "Label"), ("Outcome", "outcome_30d"), ("agee", "age"), ("p", None), ("zzz", None)],
)
def test_a_name_is_found_whatever_its_case_and_what_is_around_it(name: str, near: str | None) -> None:
    assert nearest_name(name, ["age", "Label", "outcome_30d"]) == near


def test_the_right_name_is_told_even_if_it_is_not_among_the_first() -> None:
    names = [*(f"feature_{j}" for j in range(40)), "DIED_IN_HOSPITAL"]
    assert no_column("died_in_hospital", names) == "did you mean 'DIED_IN_HOSPITAL'?"
    assert no_column("zzz", names).endswith("feature_11 and 29 more.")
    table = pd.DataFrame({**dict.fromkeys(names[:-1], P), "DIED_IN_HOSPITAL": Y})
    with pytest.raises(DataError, match="did you mean 'DIED_IN_HOSPITAL'"):
        epiloss.audit_table(table, label="died", score="feature_0")
