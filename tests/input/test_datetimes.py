"""A moment is the same number whatever it came in: a unit, a time zone, an object, a table, a file."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import epiloss
from epiloss import DataError
from epiloss.input.features import Features
from epiloss.partition.descriptions import Step, describe
from epiloss.partition.thresholds import format_number
from epiloss.repair.saved import as_plain
from epiloss.sources.arrow import FeatureColumns
from epiloss.sources.base import completed, plain_schema

UNITS: list[Any] = ["s", "ms", "us", "ns"]
NOON: Any = pd.Series(pd.to_datetime(["2024-01-31 12:00", "NaT", "1969-12-31 18:00"]))
DAYS = [date(2024, 1, 31), None, date(1969, 12, 31)]
ISO = [None if one is None else datetime(one.year, one.month, one.day) for one in DAYS]
SPANS = [timedelta(hours=36), None, timedelta(seconds=-1)]
TIMES = [time(1, 30), None, time(23, 59, 59, 5)]
PARIS = NOON.dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")
AWARE = [None if pd.isna(one) else one.to_pydatetime() for one in PARIS]

AT_NOON = [1_706_702_400_000_000, np.nan, -21_600_000_000]
AT_MIDNIGHT = [1_706_659_200_000_000, np.nan, -86_400_000_000]
LASTING = [129_600_000_000, np.nan, -1_000_000]
SINCE_MIDNIGHT = [5_400_000_000, np.nan, 86_399_000_005]

MAKES: dict[str, tuple[Any, list[float]]] = {
    **{f"numpy {unit}": (NOON.to_numpy(f"datetime64[{unit}]"), AT_NOON) for unit in UNITS},
    **{f"pandas {unit}": (NOON.astype(f"datetime64[{unit}]"), AT_NOON) for unit in UNITS},
    **{f"zone {unit}": (PARIS.dt.as_unit(unit), AT_NOON) for unit in UNITS},
    **{f"arrow {unit}": (pa.array(NOON, pa.timestamp(unit)), AT_NOON) for unit in UNITS},
    **{f"arrow zone {u}": (pa.array(NOON, pa.timestamp(u, "Asia/Tokyo")), AT_NOON) for u in UNITS},
    "pandas arrow zone": (
        pd.Series(AWARE, dtype=pd.ArrowDtype(pa.timestamp("ms", "Europe/Paris"))),
        AT_NOON,
    ),
    "polars": (pl.Series(NOON.to_numpy("datetime64[ns]")), AT_NOON),
    "polars zone": (pl.Series(NOON.to_numpy("datetime64[ms]")).dt.replace_time_zone("UTC"), AT_NOON),
    "aware objects": (np.array(AWARE, object), AT_NOON),
    "timestamps": (np.array(PARIS.to_list(), object), AT_NOON),
    "naive objects": (np.array(ISO, object), AT_MIDNIGHT),
    "numpy days": (np.array(DAYS, "datetime64[D]"), AT_MIDNIGHT),
    "dates": (np.array(DAYS, object), AT_MIDNIGHT),
    "polars dates": (pl.Series(DAYS), AT_MIDNIGHT),
    "arrow date32": (pa.array(DAYS, pa.date32()), AT_MIDNIGHT),
    "arrow date64": (pa.array(DAYS, pa.date64()), AT_MIDNIGHT),
    "periods": (pd.Series(pd.PeriodIndex(["2024-01-31", None, "1969-12-31"], freq="D")), AT_MIDNIGHT),
    **{
        f"numpy span {u}": (np.array(SPANS, "timedelta64[us]").astype(f"m8[{u}]"), LASTING)
        for u in UNITS
    },
    **{f"arrow span {unit}": (pa.array(SPANS, pa.duration(unit)), LASTING) for unit in UNITS},
    "pandas span": (pd.Series(SPANS, dtype="timedelta64[ns]"), LASTING),
    "polars span": (pl.Series(SPANS, dtype=pl.Duration("ms")), LASTING),
    "timedeltas": (np.array(SPANS, object), LASTING),
    "times": (np.array(TIMES, object), SINCE_MIDNIGHT),
    "polars times": (pl.Series(TIMES), SINCE_MIDNIGHT),
    "arrow times": (pa.array(TIMES, pa.time64("us")), SINCE_MIDNIGHT),
    "arrow times ns": (pa.array(TIMES, pa.time64("ns")), SINCE_MIDNIGHT),
}


@pytest.mark.parametrize(("column", "expected"), MAKES.values(), ids=MAKES.keys())
def test_every_make_of_moment_is_in_microseconds(column: Any, expected: list[float]) -> None:
    features = Features.read({"when": column})
    np.testing.assert_array_equal(features.matrix[:, 0], expected)
    assert not features.categories


@pytest.mark.parametrize("name", [name for name in MAKES if "arrow" in name and "pandas" not in name])
def test_a_streamed_column_is_the_one_in_memory(name: str) -> None:
    column, expected = MAKES[name]
    table = pa.table({"when": column})
    schema = plain_schema(table.schema)
    batch = completed(table.to_batches()[0], schema, ["when"], {})
    streamed = FeatureColumns.of(schema, ["when"], {}).read(batch)
    np.testing.assert_array_equal(streamed.column(0), expected)
    raw = FeatureColumns.of(table.schema, ["when"], {}).read(table)
    np.testing.assert_array_equal(raw.column(0), expected)
    if name != "arrow date64":  # which NumPy has no unit for
        assert streamed.dtypes == raw.dtypes == Features.read(table).dtypes


@pytest.mark.parametrize("zone", [UTC, None])
def test_moments_do_not_depend_on_where_the_machine_is(
    zone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from time import tzset

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    tzset()
    try:
        column = Features.read({"t": np.array([datetime(1970, 1, 2, tzinfo=zone)], object)}).column(0)
    finally:
        monkeypatch.undo()
        tzset()
    assert column.tolist() == [86_400e6]


def _problem(seed: int, n: int = 2_000) -> tuple[Any, Any, Any]:
    """Return dates, labels and scores, which are too low before a date and too high from there."""
    g = np.random.default_rng(seed)
    scores = g.uniform(0.2, 0.8, n)
    when = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(g.integers(0, 200, n), unit="D"))
    truth = scores + 0.2 * np.where(when < pd.Timestamp("2024-04-10"), 1, -1)
    return when, (g.random(n) < truth.clip(0, 1)).astype(int), scores


FORMS: dict[str, Any] = {
    **{unit: (lambda when, unit=unit: when.astype(f"datetime64[{unit}]")) for unit in UNITS},
    "zone": lambda when: when.dt.tz_localize("UTC").dt.tz_convert("Europe/Paris"),
    "dates": lambda when: when.dt.date,
    "days": lambda when: when.to_numpy("datetime64[D]"),
    "polars": lambda when: pl.Series(when.dt.date.to_list()),
    "periods": lambda when: when.dt.to_period("D"),
}


def test_a_repair_is_the_same_for_dates_of_any_make(tmp_path: Path) -> None:
    when, y, scores = _problem(0)
    repair = epiloss.RegionRecalibrator().fit(y, scores, {"when": when})
    later, _, fresh = _problem(1)
    expected = repair.predict(fresh, {"when": later})
    assert np.abs(expected - fresh).mean() > 0.1
    for form in FORMS.values():
        np.testing.assert_array_equal(repair.predict(fresh, {"when": form(later)}), expected)
    days = pa.array(later.dt.date.to_list())
    pq.write_table(pa.table({"when": days, "p": fresh}), tmp_path / "fresh.parquet")
    from epiloss.repair.apply_table import repair_table

    repair_table(repair, str(tmp_path / "fresh.parquet"), ["p"], tmp_path / "better.parquet")
    written = pq.read_table(tmp_path / "better.parquet").column("p_repaired").to_numpy()
    np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_repair_saved_in_another_unit_still_gives_the_same(unit: str, tmp_path: Path) -> None:
    when, y, scores = _problem(0)
    repair = epiloss.RegionRecalibrator().fit(y, scores, {"when": when})
    plain = as_plain(repair)
    factor = {"s": 1e-6, "ns": 1e3}[unit]
    plain["dtypes"] = {"0": f"datetime64[{unit}]"}
    for correction in (two for one in plain["repairs"] for two in one["corrections"]):
        edges = correction["encoding"]["edges"]
        edges[0] = [factor * edge for edge in edges[0]]
    (tmp_path / "old.json").write_text(json.dumps(plain))
    old = epiloss.load_repair(tmp_path / "old.json")
    later, _, fresh = _problem(1)
    expected = repair.predict(fresh, {"when": later})
    np.testing.assert_allclose(old.predict(fresh, {"when": later}), expected, atol=1e-3)
    plain["dtypes"] = {"0": "datetime64[fortnights]"}
    (tmp_path / "old.json").write_text(json.dumps(plain))
    with pytest.raises(DataError, match="not a repair"):
        epiloss.load_repair(tmp_path / "old.json")


@pytest.fixture(scope="module")
def drift_of_one_make() -> epiloss.Drift:
    (when, y, scores), (later, y_later, fresh) = _problem(0), _problem(1)
    return epiloss.drift((y, scores, {"when": when}), (y_later, fresh, {"when": later}))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_drift_sees_none_where_only_the_make_of_dates_changed(
    form: Any, drift_of_one_make: epiloss.Drift
) -> None:
    (when, y, scores), (later, y_later, fresh) = _problem(0), _problem(1)
    other = epiloss.drift((y, scores, {"when": when}), (y_later, fresh, {"when": form(later)}))
    assert other.to_dict() == drift_of_one_make.to_dict()


def test_moments_and_numbers_are_not_held_against_each_other() -> None:
    when, y, scores = _problem(0)
    repair = epiloss.RegionRecalibrator().fit(y, scores, {"when": when})
    with pytest.raises(DataError, match=r"'when'.*got numbers in one and datetimes in the other"):
        repair.predict(scores, {"when": np.arange(len(y))})
    nothing = np.full(len(y), np.nan)
    assert len(repair.predict(scores, {"when": nothing})) == len(y)


@pytest.mark.parametrize("name", [name for name, (_, expected) in MAKES.items() if expected == AT_NOON])
def test_moments_are_shown_as_such(name: str) -> None:
    steps = [Step(0, False, 1_706_702_400_000_000.0, left=False, missing_left=True)]
    rule = describe(steps, Features.read({"when": MAKES[name][0]}))
    assert str(rule) == "when > 2024-01-31T12:00:00"


@pytest.mark.parametrize("name", ["numpy days", "dates", "polars dates", "arrow date32", "periods"])
def test_dates_are_shown_as_days(name: str) -> None:
    steps = [Step(0, False, 1_706_702_400_000_000.0, left=False, missing_left=True)]
    assert str(describe(steps, Features.read({"when": MAKES[name][0]}))) == "when is after 2024-01-31"


def test_durations_are_shown_in_days_or_hours() -> None:
    features = Features.read({"stay": MAKES["numpy span ns"][0], "at": MAKES["times"][0]})
    steps = [
        Step(0, False, 507_600e6, left=True, missing_left=False),
        Step(0, False, 7_200e6, left=False, missing_left=False),
        Step(1, False, 5_400e6, left=True, missing_left=False),
    ]
    assert str(describe(steps, features)) == "2 hours < stay <= 5.875 days and at <= 01:30:00"
    shown = [format_number(1e6 * one, "timedelta64[us]") for one in (86_400, 90, 0, -3_600, 0.25)]
    assert shown == ["1 day", "1.5 minutes", "0 seconds", "-1 hours", "0.25 seconds"]
    assert format_number(2.0, "timedelta64[D]") == "2 days"


def test_days_of_some_files_and_moments_of_others_are_moments(tmp_path: Path) -> None:
    when, y, scores = _problem(0)
    for name, column in {"a": when.dt.date, "b": when + pd.Timedelta("6h")}.items():
        table = pa.table({"when": pa.array(column), "y": y, "p": scores})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    days = epiloss.audit_table(str(tmp_path / "a.parquet"), label="y", score="p")
    both = epiloss.audit_table(str(tmp_path), label="y", score="p")
    assert days.details is not None
    assert both.details is not None
    assert days.details.problem.features.dtypes == {0: "date"}  # type: ignore[union-attr]
    assert both.details.problem.features.dtypes == {0: "datetime64[us]"}  # type: ignore[union-attr]
