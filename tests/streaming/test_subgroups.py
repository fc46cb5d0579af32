"""Audits by columns of subgroups: in memory and beyond it, beside features and in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import epiloss
from epiloss.input.problem import RegionSource
from epiloss.simulate import Sigmoid
from streaming_rows import N, shuffled

COLUMNS = ("site", "ward")
LITTLE = "13MB"  # for a sample of about 15,000 rows with two features, and of 19,500 without


@pytest.fixture(scope="module")
def rows() -> Any:
    """Return rows whose rates differ by site, a little by ward, and by the features."""
    g = np.random.default_rng(3)
    sample = Sigmoid(perturbation="step").sample(N, random_state=3)
    site = g.choice(["north", "south", "west"], N, p=[0.5, 0.3, 0.2])
    ward = g.integers(1, 4, N)
    shift = np.where(site == "north", 0.08, -0.08) + np.where(ward == 2, 0.05, -0.025)
    label = (g.random(N) < np.clip(sample.q + shift, 0, 1)).astype(int)
    columns = {"a": sample.X[:, 0], "b": sample.X[:, 1], "site": site}
    columns |= {"ward": pa.array(ward, mask=g.random(N) < 0.05), "score": sample.scores}
    return pa.table({**columns, "label": label})


def audit_of(rows: Any, memory: str, **options: Any) -> epiloss.Audit:
    named = {"label": "label", "score": "score", "method": "partition", "subgroups": COLUMNS, **options}
    return epiloss.audit_table(rows, memory=memory, **named)


def names_of(rows: Any, column: str) -> list[str]:
    """Return the names of a column's subgroups, as the audit calls them."""
    return ["(missing)" if one is None else str(one) for one in rows[column].to_pylist()]


@pytest.fixture(scope="module")
def enough(rows: Any) -> epiloss.Audit:
    return audit_of(rows, "2GB")


@pytest.fixture(scope="module")
def little(rows: Any) -> epiloss.Audit:
    return audit_of(rows, LITTLE)


def check_alike(one: epiloss.Audit, other: epiloss.Audit) -> None:
    """Hold an audit by subgroups beyond memory against that of the same rows in memory.

    Both count every row in the same regions, so that they differ by the calibration curve alone,
    which is fitted on cells of the score there: by less than a quarter of a standard error.
    """
    assert one.region_source is other.region_source is RegionSource.SUBGROUPS
    assert one.n_samples == one.n_evaluated == other.n_evaluated == N
    for loss in ("score", "calibration_loss", "grouping_loss"):
        here, there = getattr(one, loss), getattr(other, loss)
        assert abs(here.value - there.value) < 0.25 * there.stderr, loss
        assert here.stderr == pytest.approx(there.stderr, rel=0.15), loss
    for column in ("level_set", "subgroup", "n"):
        assert one.regions[column].tolist() == other.regions[column].tolist()


def test_beside_features_each_column_is_audited_by_itself(
    little: epiloss.Audit, enough: epiloss.Audit, rows: Any
) -> None:
    assert "sampled" in [remark.code for remark in little.remarks]
    assert "sampled" not in [remark.code for remark in enough.remarks]
    for result in (little, enough):
        assert result.region_source is RegionSource.LEARNED
        assert tuple(result.subgroups) == COLUMNS
        for column in COLUMNS:
            table = result.subgroups[column].regions
            names = names_of(rows, column)
            for name in sorted(set(names)):
                inside = table["subgroup"] == name
                assert int(table["n"][inside].sum()) == names.count(name)
            assert set(table["subgroup"]) == set(names)
        by_site, by_ward = (result.subgroups[column].grouping_loss for column in COLUMNS)
        assert by_site.low is not None
        assert by_site.low > 0.002
        assert result.grouping_loss.value > by_site.value > by_ward.value


def test_beyond_memory_the_audits_by_subgroup_are_those_of_all_rows_in_memory(
    little: epiloss.Audit, enough: epiloss.Audit
) -> None:
    for column in COLUMNS:
        check_alike(little.subgroups[column], enough.subgroups[column])


def test_from_a_table_in_memory_they_are_those_of_the_arrays(enough: epiloss.Audit, rows: Any) -> None:
    given = {column: names_of(rows, column) for column in COLUMNS}
    X = {name: rows[name].to_numpy() for name in ("a", "b")}
    y, p = rows["label"].to_numpy(), rows["score"].to_numpy()
    arrays = epiloss.audit(y, p, X, subgroups=given, method="partition")
    assert arrays.region_source is RegionSource.LEARNED
    assert tuple(arrays.subgroups) == COLUMNS
    for column in COLUMNS:
        check_alike(arrays.subgroups[column], enough.subgroups[column])


@pytest.mark.parametrize("memory", ["2GB", LITTLE])
def test_without_features_the_combinations_are_the_regions(
    memory: str, rows: Any, enough: epiloss.Audit
) -> None:
    result = audit_of(rows, memory, features=[])
    assert result.region_source is RegionSource.SUBGROUPS
    pairs = zip(names_of(rows, "site"), names_of(rows, "ward"), strict=True)
    combined = [f"site={site}, ward={ward}" for site, ward in pairs]
    assert set(result.regions["subgroup"]) == set(combined)
    assert len(set(combined)) == 12
    assert tuple(result.subgroups) == COLUMNS
    for column in COLUMNS:
        check_alike(result.subgroups[column], enough.subgroups[column])
    arrays = epiloss.audit(
        rows["label"].to_numpy(), rows["score"].to_numpy(), subgroups=combined, method="partition"
    )
    check_alike(result, arrays)


@pytest.mark.parametrize("memory", ["2GB", "20MB"])
def test_where_all_features_are_names_the_combinations_are_the_regions_too(
    memory: str, rows: Any
) -> None:
    named = rows.append_column("who", pa.array([f"person {i}" for i in range(N)]))
    result = audit_of(named, memory, exclude=["a", "b"])
    assert "names-left-out" in [remark.code for remark in result.remarks]
    assert result.region_source is RegionSource.SUBGROUPS
    check_alike(result, audit_of(rows, "2GB", features=[]))


@pytest.mark.parametrize(
    "options",
    [
        {"score": ["no", "score"], "task": "classwise"},
        {"rule": "log", "sample_weight": "weight"},
        {"drop_missing": True},
    ],
    ids=["classwise", "weights", "missing"],
)
def test_other_tasks_weights_and_missing_scores_are_counted_alike_beyond_memory(
    options: dict[str, Any], rows: Any
) -> None:
    g = np.random.default_rng(8)
    score = np.where(g.random(N) < 0.01, np.nan, rows["score"].to_numpy())
    given = rows.append_column("no", pa.array(1 - rows["score"].to_numpy()))
    given = given.append_column("weight", pa.array(g.integers(1, 4, N) / 2))
    if "drop_missing" in options:
        given = given.set_column(rows.column_names.index("score"), "score", pa.array(score))
    few, many = (
        audit_of(given, memory, **{"features": ["a", "b"], **options}) for memory in (LITTLE, "2GB")
    )
    for column in COLUMNS:
        one, other = few.subgroups[column], many.subgroups[column]
        assert one.n_evaluated == other.n_evaluated
        for loss in ("score", "calibration_loss", "grouping_loss"):
            here, there = getattr(one, loss), getattr(other, loss)
            # cells of scores beyond memory do not know how uneven the weights are, and curves differ
            most = 0.35 if "sample_weight" in options else 0.25
            assert abs(here.value - there.value) < most * there.stderr, loss
        assert one.regions["n"].tolist() == other.regions["n"].tolist()


def test_the_order_of_the_rows_does_not_matter(rows: Any, little: epiloss.Audit) -> None:
    assert audit_of(shuffled(rows), LITTLE).to_dict() == little.to_dict()


def test_too_many_subgroups_are_an_identifier_named_by_mistake(rows: Any) -> None:
    named = rows.append_column("who", pa.array([f"person {i}" for i in range(N)]))
    with pytest.raises(
        epiloss.DataError, match=r"at most 10,000 distinct values, got more in column 'who'"
    ):
        audit_of(named, LITTLE, subgroups=["site", "who"])
    wide = rows.append_column("hundred", pa.array(np.arange(N) % 100))
    wide = wide.append_column("many", pa.array(np.arange(N) % 101))
    with pytest.raises(epiloss.DataError, match=r"at most 10,000 combinations .* got 10,100"):
        audit_of(wide, LITTLE, subgroups=["hundred", "many"], features=[])
