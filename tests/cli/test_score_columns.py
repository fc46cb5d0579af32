"""Columns of scores: one by one, by ``p0,p1``, by a pattern, or a column of lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet

import epiloss
from epiloss.cli.main import cli
from epiloss.errors import NoColumnError, OptionError
from epiloss.sources.tables import named_columns

N, CLASSES = 600, 12
_g = np.random.default_rng(0)
SCORES = _g.dirichlet(np.ones(CLASSES), N)
LABELS = np.array([_g.choice(CLASSES, p=row) for row in SCORES])
X = _g.normal(size=N)
ORDER = [f"p{k}" for k in range(CLASSES)]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write one column for each class, in another order than that of classes; and lists."""
    monkeypatch.chdir(tmp_path)
    columns = {name: SCORES[:, int(name[1:])] for name in sorted(ORDER)}  # p0, p1, p10, p11, p2
    csv.write_csv(pa.table({"y": LABELS, **columns, "x": X}), "wide.csv")
    lists = pa.FixedSizeListArray.from_arrays(SCORES.reshape(-1), CLASSES)
    parquet.write_table(pa.table({"y": LABELS, "prob": lists, "x": X}), "lists.parquet")
    rows = zip(LABELS.tolist(), SCORES.tolist(), X.tolist(), strict=True)
    lines = [json.dumps({"y": y, "prob": prob, "x": x}) for y, prob, x in rows]
    Path("lists.jsonl").write_text("\n".join(lines))


def audited(name: str, *options: str) -> Any:
    fast = ["--label", "y", "--method", "partition", "--json"]
    done = CliRunner().invoke(cli, ["audit", name, *options, *fast], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def expected() -> Any:
    given = [part for name in ORDER for part in ("--score", name)]
    return audited("wide.csv", *given)


@pytest.mark.parametrize(
    "given",
    [
        ["--score", "p*"],
        ["--score", "p[0-9]*"],
        ["--score", ",".join(ORDER)],
        ["--score", "p0, p1", "--score", ",".join(ORDER[2:])],
        ["--score", "p?", "--score", "p1?"],
    ],
    ids=lambda given: " ".join(given)[:30],
)
def test_columns_by_commas_and_patterns_are_those_named_one_by_one(
    given: list[str], expected: Any
) -> None:
    assert audited("wide.csv", *given) == expected


@pytest.mark.parametrize("name", ["lists.parquet", "lists.jsonl"])
def test_a_column_of_lists_holds_the_scores_of_all_classes(name: str, expected: Any) -> None:
    assert audited(name, "--score", "prob") == expected


def test_a_repair_is_applied_to_columns_by_a_pattern() -> None:
    def run(*arguments: str) -> None:
        done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.stderr

    fast = ("--method", "partition", "--repair-method", "regions", "--save-repair", "repair.json")
    run("audit", "wide.csv", "--label", "y", "--score", "p*", *fast, "--repair", "half.csv")
    run("apply", "repair.json", "wide.csv", "--score", "p*", "--output", "all.csv")
    names = [f"{name}_repaired" for name in ORDER]
    assert [name for name in csv.read_csv("half.csv").column_names if name in names] == names
    assert [name for name in csv.read_csv("all.csv").column_names if name in names] == names


TABLE = {"p,q": [0.5], "p*": [0.5], "p": [0.5], "q": [0.5], "p2": [0.5], "p10": [0.5]}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["p,q"], ["p,q"]),
        (["p*"], ["p*"]),
        (["q,p"], ["q", "p"]),
        (["p?*"], ["p2", "p10", "p*", "p,q"]),
        (["p[0-9]*"], ["p2", "p10"]),
        (["nowhere"], ["nowhere"]),
    ],
)
def test_a_name_that_a_column_has_is_that_column(given: list[str], found: list[str]) -> None:
    assert named_columns(TABLE, given, "score") == found


def test_a_pattern_that_finds_none_or_one_twice_is_refused() -> None:
    with pytest.raises(NoColumnError, match=r"score must match a column, got 'z\*'"):
        named_columns(TABLE, ["z*"], "score")
    with pytest.raises(OptionError, match="each column once, got 'p2' twice"):
        named_columns(TABLE, ["p2,p[0-9]"], "score")


def test_the_data_are_not_looked_at_where_names_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(epiloss.sources.tables, "open_source", never)
    assert named_columns("nowhere.csv", ["p0", "p1"], "score") == ["p0", "p1"]
