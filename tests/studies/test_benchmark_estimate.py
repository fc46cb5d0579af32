"""The benchmarks of the estimate: their numbers are what they say, and their verdicts can fail."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

import consistency
import epiloss
import provers
import registry_data
import repair_data
import tightness
from epiloss.simulate import Sigmoid
from repair_data import Part, Table

NOWHERE = Path("no-such-folder")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_data, "HELD_OUT", 500)
    monkeypatch.setattr(provers, "MOST_TREES", 30)


def run(script: Any, output: Path, *options: str) -> dict[str, Any]:
    script.main(["--quick", "--output", str(output), *options])
    saved: dict[str, Any] = json.loads(output.read_text())
    return saved


def drawn(problem: Sigmoid, n: int, seed: int = 0) -> Part:
    one = problem.sample(n, random_state=seed)
    return Part(pd.DataFrame(one.X, columns=["a", "b"]), one.y, one.scores, one.q)


tight_line = tightness.Line(
    data="made up",
    rows=20_000,
    columns=5,
    positives=0.5,
    estimate=0.02,
    stderr=0.001,
    pvalue=0.0,
    bound=0.01,
    proven=0.02,
    proven_stderr=0.001,
    prover="boosted",
    spread=0.1,
    cpu=1.0,
    bound_cpu=2.0,
    score_tells_all=False,
)
consistent_line = consistency.Line("made up", 1_000, 5, 0.01, 0.02, 0.003, 0.02, 0.03, 0.004)


def test_nothing_is_proven_where_the_score_tells_all_features() -> None:
    scores = np.repeat([0.2, 0.4, 0.7], 50)
    known = Part(pd.DataFrame({"x": np.repeat([1, 2, 3], 50)}), (scores > 0.3).astype(int), scores)
    assert tightness.score_tells_all(known)
    assert not tightness.score_tells_all(replace(known, X=pd.DataFrame({"x": np.arange(150) % 4})))
    assert tight_line.ratio is not None
    assert replace(tight_line, score_tells_all=True).ratio is None


def test_tightness_runs_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    saved = run(tightness, tmp_path / "made" / "x.json", "--splits", "2", "--markdown", str(page))
    printed = capsys.readouterr().out
    assert printed.strip() in page.read_text()
    assert [line["data"] for line in saved["lines"]] == ["quick, 600 rows"]
    assert len(saved["verdicts"]) == 2
    assert sum(line.startswith(("met ", "MISSED ")) for line in printed.splitlines()) == 2


def test_the_estimate_is_that_of_the_audit() -> None:
    split = repair_data.simulation("tiny", Sigmoid(), 300).split(0, NOWHERE)
    line = tightness.measure("tiny", split, 3)
    rows = split.held_out
    first = epiloss.audit(rows.y, rows.scores, rows.X, method="twin", random_state=7).grouping_loss
    assert (line.estimate, line.stderr, line.rows, line.columns) == (first.value, first.stderr, 500, 2)
    others = tightness.estimates_of_other_splits(rows, 3)
    assert len({*others, first.value}) == 4  # no deal is another's
    assert line.spread == pytest.approx(np.std(others, ddof=1) / line.stderr)


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, 0),
        ({"estimate": 0.0189}, 1),
        ({"estimate": 0.0189, "rows": 9_000}, 0),  # few rows
        ({"estimate": 0.0, "proven": 0.001}, 0),  # nothing is proven beyond noise
        ({"spread": 0.4}, 1),
    ],
)
def test_the_verdicts_on_tightness_can_fail(changes: dict[str, Any], missed: int) -> None:
    verdicts = tightness.judge([replace(tight_line, **changes), tight_line])
    assert sum(not one.met for one in verdicts) == missed
    assert any("1 of 2 fail (made up" in one.found for one in verdicts) == bool(missed)


def test_a_boosted_model_proves_what_is_there_and_never_much_more() -> None:
    # one sample of 4,000 held-out rows: within three standard errors
    problem = Sigmoid(perturbation="step")
    truth = problem.truth().grouping_loss
    proof = provers.proven(drawn(problem, 4_000), drawn(problem, 4_000, seed=1), 0)
    assert 0.5 * truth < proof.value < truth + 3 * proof.stderr


def test_recalibration_alone_proves_nothing() -> None:
    # the score is far from calibrated, but features add nothing: within three standard errors
    problem = Sigmoid(grouping=0.0, miscalibration=2.0)
    proof = provers.proven(drawn(problem, 4_000), drawn(problem, 4_000, seed=1), 0)
    assert proof.value < 3 * proof.stderr


def test_both_curves_find_the_calibrated_score() -> None:
    problem = Sigmoid(grouping=0.0, miscalibration=2.0)
    learn, fresh = drawn(problem, 4_000), drawn(problem, 4_000, seed=1)
    assert fresh.q is not None  # it is a simulation
    given = np.mean((fresh.scores - fresh.q) ** 2)
    for curve in (provers.isotonic_curve, provers.spline_curve, provers.audited_curve):
        assert np.mean((curve(learn)(fresh) - fresh.q) ** 2) < 0.3 * given


def test_categories_few_and_many_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provers, "MOST_CATEGORIES", 10)
    generator = np.random.default_rng(0)
    few, many = generator.integers(0, 2, 2_000), generator.integers(0, 50, 2_000)
    frame = {"few": few.astype(str), "many": many.astype(str), "number": generator.random(2_000)}
    q = 0.5 + 0.2 * (2 * few - 1) + 0.2 * (2 * (many % 2) - 1)
    y = (generator.random(2_000) < q).astype(np.int64)
    part = Part(pd.DataFrame(frame), y, np.full(2_000, 0.5))
    for curve in (None, provers.isotonic_curve(part)):
        model = provers.fit_boosted(part, curve, 15, 0, trees=30)
        assert np.mean((model(part) - q) ** 2) < 0.02  # of 0.08


def test_consistency_runs_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    saved = run(consistency, tmp_path / "made" / "x.json", "--markdown", str(page))
    printed = capsys.readouterr().out
    assert printed.strip() in page.read_text()
    (line,) = saved["lines"]
    assert line["consistent"]
    assert "the audit finds what the repair gains" in printed


@pytest.mark.parametrize(("gain", "consistent"), [(0.03, True), (0.0399, True), (0.0401, False)])
def test_the_verdict_on_consistency_can_fail(gain: float, consistent: bool) -> None:
    line = replace(consistent_line, gain=gain)
    assert line.z == pytest.approx((0.03 - gain) / 0.005)
    verdict = consistency.judge([consistent_line, line])
    assert verdict.met == consistent
    assert ("1 of 2 fail (made up -2.0)" in verdict.found) == (not consistent)


def test_the_gain_is_the_fall_of_the_brier_score() -> None:
    fresh = Part(None, np.array([1, 0]), np.array([0.5, 0.5]))
    assert consistency.row_gains(fresh, np.array([0.6, 0.9])) == pytest.approx([0.09, -0.56])


@pytest.mark.slow
def test_digits_are_judged_by_their_top_label() -> None:
    plain, wide = (
        consistency.data_sets()[f"digits, {name}"](0, NOWHERE)
        for name in ("64 pixels", "512 random features")
    )
    assert plain.repair.X.shape == (599, 64)
    assert wide.repair.X.shape == (599, 512)
    assert np.array_equal(plain.repair.y, wide.repair.y)  # the model is the same
    assert set(plain.repair.y) == {0, 1}
    assert plain.repair.scores.min() > 0.1  # the largest of ten


def test_tables_have_numbers_texts_and_codes_of_outcomes() -> None:
    frame = pd.DataFrame({"n": [1, 2, 3], "t": ["a", None, "b"]})
    made = registry_data.table(frame, pd.Series(["x", "y", "x"]))
    assert made.categorical == ("t",)
    assert made.X["t"].tolist() == ["a", "missing", "b"]
    assert made.X["n"].dtype == float
    assert made.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("script", [tightness, consistency])
def test_what_cannot_be_downloaded_is_left_out(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    folders = ["--output", str(tmp_path / "x.json"), "--cache", str(tmp_path / "cache")]
    script.main(["--sets", "votes, logistic", *folders])
    assert "votes, logistic is left out: pip cannot download" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "options"),
    [
        (tightness, ["--splits", "1"]),
        (tightness, ["--quick", "--sets", "votes, logistic"]),
        (consistency, ["--seed", "-1"]),
        (consistency, ["--sets", "x"]),
    ],
)
def test_wrong_options_are_told(
    script: Any, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.main(options)
    assert "error:" in capsys.readouterr().err


def test_the_score_of_a_top_label_is_the_largest_probability() -> None:
    table = Table(pd.DataFrame({"a": np.arange(90.0)}), np.arange(90) % 3, ())
    split = consistency.top_label(lambda folder: table, repair_data.logistic)(0, NOWHERE)
    assert len(split.repair.y) == len(split.held_out.y) == 30
    assert split.repair.scores.min() >= 1 / 3
