"""The benchmark of speed: its ratios are what they say, and its verdicts can fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import speed
import workloads
from speed import judge_default, judge_partition, judge_threads
from speed_page import (
    BEGIN,
    END,
    README_COLUMNS,
    Cost,
    Findings,
    Row,
    Size,
    default_table,
    page,
    with_table,
)

README = Path(__file__).parents[2] / "README.md"
SIZE = Size(1_000, 20, 1, 5, over_lightgbm=4, over_partition=12, partition_over_glest={"compiled": 40})
FAST = Row(
    SIZE,
    glest=Cost(8.0, 8.0, 500.0, 100.0),
    glest_same_leaves=Cost(),
    default=Cost(1.0, 1.0, 200.0, 100.0),
    lightgbm=Cost(0.5, 0.5, 10.0, 100.0),
    partition={"compiled": Cost(0.1, 0.1, 1.0, 100.0)},
    floor=0.02,
)
THREADS = {"one": 2.0, "two": 1.0, "same": 1.0, "cores": 2.0}


def missed(row: Row) -> list[str]:
    """Return the targets that the row misses, without the size."""
    judged = [*judge_default(row), *judge_partition(row)]
    return [one.target.removeprefix(f"{SIZE}, ") for one in judged if not one.met]


def findings(*rows: Row, threads: Mapping[str, Mapping[str, float]] | None = None) -> Findings:
    return Findings(rows, {}, {}, threads or {}, str(SIZE), {"scoring": 0.75, "estimate": 0.25})


def test_a_fast_default_meets_all_targets() -> None:
    assert missed(FAST) == []
    assert len(judge_default(FAST)) == 4
    assert (FAST.ratio, FAST.over_lightgbm, FAST.over_partition) == (8, 2, 10)


@pytest.mark.parametrize(
    ("default", "target"),
    [
        (Cost(1.0, 1.0, 210.1, 100.0), "peak MB of the default above the data"),
        (Cost(1.7, 1.7, 200.0, 100.0), "CPU time of glest over the default"),
        (Cost(1.3, 1.3, 200.0, 100.0), "CPU time of the default over the partition"),
        (Cost(2.1, 2.1, 200.0, 100.0), "CPU time of the default over LightGBM"),
    ],
)
def test_each_target_of_the_default_can_be_missed(default: Cost, target: str) -> None:
    assert target in missed(replace(FAST, default=default))


def test_targets_of_the_partition_can_be_missed() -> None:
    slow = replace(FAST, partition={"compiled": Cost(0.25, 0.25, 1.0, 100.0)})
    assert missed(slow) == [
        "compiled, CPU time of glest over the partition",
        "compiled, CPU time of the partition over the floor",
    ]


def test_without_lightgbm_its_columns_and_its_target_are_left_out() -> None:
    without = replace(FAST, lightgbm=Cost())
    assert "LightGBM" in default_table([FAST])
    assert "LightGBM" not in default_table([without])
    assert len(judge_default(without)) == len(judge_default(FAST)) - 1


def test_two_threads_are_judged_by_time_and_bits() -> None:
    size = str(speed.THREADED[0])
    assert [one.met for one in judge_threads(size, THREADS)] == [True, True]
    other = THREADS | {"two": 1.3, "same": 0.0, "cores": 1.1}
    bits, time = judge_threads(size, other)
    assert not bits.met
    assert not time.met
    assert "busy" in time.target


def test_the_page_leads_with_the_default_call() -> None:
    found = findings(FAST, threads={str(SIZE): THREADS})
    verdicts = speed.judge(found)
    text = page(found, verdicts, ["A note."])
    tables = [line for line in text.splitlines() if line.startswith("| rows x columns")]
    assert len(tables) == 3
    assert "epiloss (default)" in tables[0]
    assert f"{len(verdicts)} of {len(verdicts)} targets met." in text
    assert "A note." in text


def test_a_table_is_renewed_between_its_marks() -> None:
    once = with_table(f"before\n{BEGIN}\n{END}\nafter", "| new |")
    assert once.startswith("before\n")
    assert once.endswith("\nafter")
    assert with_table(once, "| new |") == once
    with pytest.raises(ValueError, match="Add them"):
        with_table("no marks", "| new |")


def test_the_readme_has_a_place_for_the_table() -> None:
    shown = README.read_text(encoding="utf-8")
    table = shown.partition(BEGIN)[2].partition(END)[0].strip()
    assert with_table(shown, table) == shown
    columns = [cell.strip() for cell in table.splitlines()[0].strip("|").split("|")]
    assert columns == list(README_COLUMNS)


def test_the_score_is_one_more_feature_of_the_yardstick() -> None:
    data = workloads.draw(50, 3)
    wider = data.with_score()
    np.testing.assert_array_equal(wider.X, np.column_stack([data.X, data.scores]))
    assert data.megabytes == pytest.approx(50 * 8 * 5 / 1e6)


def test_two_threads_take_turns_and_agree() -> None:
    found = workloads.threads(400, 3)
    assert found["same"] == 1
    assert min(found["one"], found["two"], found["cores"]) > 0
