"""Options that cannot be right are refused before the data are looked at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import epiloss
from epiloss.sources.files import FilePart

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no bins": ({"n_bins": 0}, "n_bins must be an integer of at least 1"),
    "a part of a bin": ({"n_bins": 2.5}, "n_bins must be an integer of at least 1"),
    "a text of bins": ({"n_bins": "15"}, "n_bins must be an integer of at least 1"),
    "edges in no order": ({"n_bins": [0, 0.5, 0.2]}, "bin edges must be at least two increasing"),
    "edges that are texts": ({"n_bins": ["low", "high"]}, "bin edges must be numbers"),
    "strategy": ({"strategy": "equal"}, "strategy must be 'uniform' or 'quantile', got 'equal'"),
    "task": ({"task": "regression"}, "task must be 'binary', 'top-label', 'classwise' or 'joint', got"),
    "edges of vectors": (
        {"task": "joint", "n_bins": [0, 1]},
        "n_bins must be a number, and recalibrate is not",
    ),
    "a recalibrated vector": (
        {"task": "joint", "recalibrate": "isotonic"},
        "n_bins must be a number, and recalibrate is not",
    ),
    "method": ({"method": "magic"}, "method must be"),
    "rule": ({"rule": "hinge"}, "rule must be"),
    "partition": ({"partition": "grid"}, "partition must be"),
    "curve": ({"curve": "spline"}, "curve must be"),
    "learner": ({"learner": 3}, "learner must"),
    "recalibrate": ({"recalibrate": "platt"}, "recalibrate must be"),
    "split": ({"split": 1.0}, "split must lie in"),
    "repeats": ({"repeats": 0}, "repeats must be"),
    "adjust": ({"adjust": "bonferroni"}, "adjust must be"),
    "confidence_level": ({"confidence_level": 95}, "confidence_level must lie in"),
    "tolerance": ({"tolerance": 0}, "tolerance must lie in"),
    "random_state": ({"random_state": "seed"}, "random_state must be"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs"),
}


class Untouched:
    """Data that must not be looked at."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the data were read")


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_refused_before_rows_in_memory_are_read(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(epiloss.OptionError, match=re.escape(words)):
        epiloss.audit(Untouched(), Untouched(), Untouched(), **options)


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_refused_before_a_file_is_looked_for(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(epiloss.OptionError, match=re.escape(words)):
        epiloss.audit_table("nowhere.parquet", label="y", score="p", **options)


def rows(n: int) -> dict[str, Any]:
    g = np.random.default_rng(0)
    p = g.uniform(0.1, 0.9, n)
    return {"y": (g.random(n) < p).astype(int), "p": p, "x": g.normal(size=n)}


MORE = r"^n_bins must be at most the number of rows in memory, 500, got 501\. Use fewer: 15 is"
BINS = {"a number": 501, "edges": np.linspace(0, 1, 502)}


@pytest.mark.parametrize("n_bins", BINS.values(), ids=BINS)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_more_bins_than_rows_are_refused_in_memory(n_bins: Any, strategy: str) -> None:
    given = rows(500)
    with pytest.raises(epiloss.OptionError, match=MORE):
        epiloss.audit(given["y"], given["p"], given["x"], n_bins=n_bins, strategy=strategy)
    with pytest.raises(epiloss.OptionError, match=r"rows in memory, 500, got 10,000,000\."):
        epiloss.audit(given["y"], given["p"], given["x"], n_bins=10**7, strategy=strategy)


@pytest.mark.parametrize("n_bins", BINS.values(), ids=BINS)
def test_more_bins_than_rows_are_refused_before_a_file_is_read_that_tells_how_many_it_has(
    n_bins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet.write_table(pa.table(rows(500)), tmp_path / "rows.parquet")
    monkeypatch.setattr(FilePart, "batches", None)
    with pytest.raises(epiloss.OptionError, match=MORE):
        epiloss.audit_table(tmp_path, label="y", score="p", n_bins=n_bins)


def test_more_bins_than_rows_are_refused_once_the_rows_of_a_text_are_counted(tmp_path: Path) -> None:
    csv.write_csv(pa.table(rows(500)), tmp_path / "rows.csv")
    with pytest.raises(epiloss.OptionError, match=MORE):
        epiloss.audit_table(tmp_path, label="y", score="p", n_bins=501)


def test_more_bins_than_a_sample_has_rows_are_refused_before_a_text_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv.write_csv(pa.table(rows(500)), tmp_path / "rows.csv")
    monkeypatch.setattr(FilePart, "batches", None)
    with pytest.raises(epiloss.OptionError, match=r"rows in memory, 250,000, got 10,000,000\."):
        epiloss.audit_table(tmp_path, label="y", score="p", n_bins=10**7)


def test_few_rows_need_no_other_number_of_bins_than_the_default() -> None:
    given = rows(12)
    assert epiloss.audit(given["y"], given["p"]).n_samples == 12


def test_as_many_bins_as_rows_are_taken() -> None:
    given = rows(500)
    found = epiloss.audit(given["y"], given["p"], given["x"], n_bins=500, method="partition")
    assert found.options["n_bins"] == 500


WRONG_COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    "a feature of no known type": ({}, "column 'tags' must hold numbers, strings, dates or lists"),
    "too little memory": (
        {"features": ["x"], "memory": "1MB"},
        "memory must be at least .* sample of 10,000",
    ),
    "an engine": ({"features": ["x"], "engine": "abacus"}, "engine must be"),
}


@pytest.mark.parametrize(("options", "words"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS)
def test_columns_memory_and_engine_are_checked_before_the_rows_are_read(
    options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = pa.array([{"a": 1}] * 500)
    parquet.write_table(pa.table({**rows(500), "tags": tags}), tmp_path / "rows.parquet")
    monkeypatch.setattr(FilePart, "batches", None)
    with pytest.raises(ValueError, match=words):
        epiloss.audit_table(tmp_path, label="y", score="p", **options)
