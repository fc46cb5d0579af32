"""The coverage experiment: its targets are right, and on few repetitions the promises hold."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import epiloss
from coverage_recorders import RecordingPartitioner, crossfit_target, partition_target
from coverage_settings import SETTINGS
from coverage_tables import as_table
from coverage_targets import BOUNDS, Line, judge
from epiloss._typing import Floats
from epiloss.estimate import Estimate
from epiloss.input.features import Features
from epiloss.partition.tree import Tree
from epiloss.simulate import Sample

SCRIPT = Path(__file__).parents[2] / "experiments" / "coverage.py"

if TYPE_CHECKING:
    import coverage as experiment
    from coverage import QUANTITIES, Cell, Outcome, Repetition, Task
else:
    # under a name of its own: "coverage" may be the tool that measures the tests
    spec = importlib.util.spec_from_file_location("coverage_experiment", SCRIPT)
    experiment = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(experiment)
    QUANTITIES, Cell, Task = experiment.QUANTITIES, experiment.Cell, experiment.Task
    Outcome, Repetition = experiment.Outcome, experiment.Repetition

N, REPETITIONS = 1_000, 40


@pytest.fixture(autouse=True)
def few_reference_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integrate the targets over fewer rows: still five times as many as in a sample."""
    monkeypatch.setattr(experiment, "REFERENCE_ROWS", 5_000)


def repeated(setting: str) -> dict[str, Line]:
    todo = experiment.tasks([Cell(setting, N)], REPETITIONS, seed=5, peer_repetitions=0)
    return {line.quantity: line for line in experiment.summarise(map(experiment.run_task, todo))}


def stderr_of_frequency(p: float) -> float:
    return float(np.sqrt(p * (1 - p) / REPETITIONS))


def outcome(
    value: float, low: float, high: float, target: float, pvalue: float | None = None
) -> Outcome:
    return Outcome(Estimate(value, 1.0, low, high, pvalue), target)


def assert_lower_bounds_are_valid(lines: dict[str, Line]) -> None:
    for name in BOUNDS:
        assert lines[name].validity >= 0.975 - 3 * stderr_of_frequency(0.975), name
        assert lines[name].mean <= lines[name].truth + 3 * lines[name].stderr, name


def assert_intervals_cover_what_they_name(lines: dict[str, Line]) -> None:
    for name in QUANTITIES:
        assert lines[name].coverage >= 0.95 - 3 * stderr_of_frequency(0.95), name
    assert lines["crossfit"].coverage_on_rows >= 0.95 - 3 * stderr_of_frequency(0.95)


# 40 repetitions of 1,000 rows in each of the next tests; all tolerances are 3 standard errors


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["null", "overconfident null"])
def test_where_there_is_no_grouping_loss_the_tests_keep_their_level(setting: str) -> None:
    lines = repeated(setting)
    for name in BOUNDS:
        assert lines[name].rejected <= 0.05 + 3 * stderr_of_frequency(0.05), name
    assert_lower_bounds_are_valid(lines)
    assert_intervals_cover_what_they_name(lines)


@pytest.mark.slow
def test_among_noise_features_the_crossfit_bound_is_tighter_than_the_partition_and_still_valid() -> None:
    lines = repeated("noise features")
    partition, crossfit = (lines[name] for name in BOUNDS)
    assert crossfit.tightness > partition.tightness + 0.2
    assert crossfit.rmse < partition.rmse
    assert_lower_bounds_are_valid(lines)
    assert_intervals_cover_what_they_name(lines)


@pytest.mark.parametrize("setting", ["noise features", "three classes"])
def test_the_estimates_are_those_of_the_audit(setting: str) -> None:
    cell = Cell(setting, 400)
    found = experiment.run_task(Task(cell, 3, 7, with_peer=False)).outcomes
    # the same draws as in the task: a sample, then the audit's seed
    key = (list(SETTINGS).index(setting), cell.n, 3)
    generator = np.random.default_rng(np.random.SeedSequence(7, spawn_key=key))
    sample = SETTINGS[setting].sample(cell.n, random_state=generator)
    seed = int(generator.integers(2**31))
    audit = epiloss.audit(
        sample.y, sample.scores, sample.X, method="crossfit", n_bins=cell.bins, random_state=seed
    )
    assert found["partition"].estimate == audit.partition_bound
    assert found["crossfit"].estimate == audit.crossfit_bound
    twin = epiloss.audit(sample.y, sample.scores, sample.X, method="twin", random_state=seed)
    assert found["twin"].estimate == twin.grouping_loss
    assert found["calibration_loss"].estimate == audit.calibration_loss
    assert found["score"].estimate == audit.score


class Sign:
    """Predicts the sign of the first feature, and something of the score that must not count."""

    def predict(self, features: Features, scores: Floats) -> Floats:
        return np.asarray(np.sign(features.matrix[:, 0]) + 3 * scores, float)


def two_sides(n: int = 4_000) -> Sample:
    """Return rows in order of score, ``Q = C ± 0.1`` by the sign of a feature."""
    c = np.linspace(0.2, 0.8, n)
    sign = np.tile([1.0, 1.0, -1.0, -1.0], n // 4)  # half of the neighbours differ, as if at random
    return Sample(sign[:, None], np.zeros(n, np.int64), c, c + 0.1 * sign, c)


def test_the_target_of_perfect_directions_is_the_grouping_loss() -> None:
    assert crossfit_target([Sign(), Sign()], two_sides()) == pytest.approx(0.01, rel=1e-2)


def test_the_target_of_perfect_regions_is_the_grouping_loss_less_what_binning_takes() -> None:
    # six full bins of width 0.1, in which the score is uniform: the regions explain 0.1^2 but for the
    # score's own variance 0.1^2 / 12
    sample = two_sides()
    partitioner = RecordingPartitioner()
    y = (np.random.default_rng(1).random(len(sample.y)) < sample.q).astype(np.int64)
    epiloss.audit(y, sample.scores, sample.X, partition=partitioner, n_bins=10, method="partition")
    assert len(partitioner.partitions) == 2  # the halves change places
    target = partition_target(partitioner.partitions, 10, sample)
    assert target == pytest.approx(0.01 - 0.01 / 12, abs=5e-5)


def test_joined_regions_are_those_that_are_evaluated() -> None:
    sample = SETTINGS["smooth"].sample(300)
    tree = Tree(region_ratio=2)  # small regions, so that some are joined
    partitioner = RecordingPartitioner(tree)
    audit = epiloss.audit(
        sample.y, sample.scores, sample.X, partition=partitioner, n_bins=5, method="partition"
    )
    joins = [one.joined for one in partitioner.partitions]
    assert any(old != new for one in joins for (_, old), new in one.items())
    kept = sum(len({(level, new) for (level, _), new in one.items()}) for one in joins)
    assert kept == len(audit.regions)


def test_summary_of_known_outcomes() -> None:
    cell = Cell("smooth", 1_000)
    truth = SETTINGS["smooth"].truth().grouping_loss
    bound = [
        outcome(truth - 1, truth - 2, truth, truth - 1, 0.01),
        outcome(truth + 1, truth + 0.5, truth + 2, truth - 1, 0.2),
    ]
    found = [Repetition(cell, dict.fromkeys(QUANTITIES, one), truth + 2) for one in bound]
    line = {one.quantity: one for one in experiment.summarise(found)}["partition"]
    assert (line.coverage, line.validity, line.rejected, line.repetitions) == (0.5, 0.5, 0.5, 2)
    assert line.bias == pytest.approx(0, abs=1e-12)
    assert [line.rmse, line.tightness] == pytest.approx([1, 1])
    assert [line.peer_repetitions, line.peer_rmse_ratio] == pytest.approx([2, 2])


def test_the_twin_estimate_is_judged_by_its_own_mean_and_by_a_one_sided_limit() -> None:
    truth = SETTINGS["smooth"].truth().grouping_loss
    values = truth + np.array([-4.0, 0.0, 1.0, 1.7])  # each with a standard error of 1
    found = [outcome(value, value - 1.96, value + 1.96, float("nan")) for value in values]
    repetitions = [
        Repetition(Cell("smooth", 1_000), dict.fromkeys(QUANTITIES, one), float("nan")) for one in found
    ]
    line = {one.quantity: one for one in experiment.summarise(repetitions)}["twin"]
    assert line.coverage == 0.5  # of 0.9, -0.43, -1 and -1.77 more than the truth
    assert line.validity == 0.75  # 1.7 > 1.645


TRUTHS = {"dense 400": 4_000, "sparse 768": 4_000, "interaction": 50_000, "ten scores": 50_000}


@pytest.mark.parametrize("setting", TRUTHS)
def test_the_truth_of_a_setting_of_our_own_is_that_of_many_rows(setting: str) -> None:
    # one sample each: within four standard errors
    rows = SETTINGS[setting].sample(TRUTHS[setting])
    truth = SETTINGS[setting].truth()
    for found, known in (
        ((rows.q - rows.c) ** 2, truth.grouping_loss),
        ((rows.scores - rows.y) ** 2, truth.score),
    ):
        assert abs(found.mean() - known) < 4 * found.std(ddof=1) / np.sqrt(len(found))
    assert truth.calibration_loss == pytest.approx(0, abs=1e-12)


def test_the_settings_of_our_own_have_the_columns_and_scores_that_they_are_named_after() -> None:
    assert [experiment.n_columns(name) for name in TRUTHS] == [400, 768, 10, 5]
    assert len(np.unique(SETTINGS["ten scores"].sample(2_000).scores)) == 10
    assert SETTINGS["ten scores null"].truth().grouping_loss == 0


def test_a_wide_setting_has_estimates_but_no_targets_of_the_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(experiment, "MOST_COLUMNS", 4)
    experiment.reference_sample.cache_clear()
    todo = experiment.tasks([Cell("ten scores", 200)], 2, seed=5, peer_repetitions=0)
    found = experiment.summarise(map(experiment.run_task, todo))
    experiment.reference_sample.cache_clear()
    lines = {line.quantity: line for line in found}
    assert all(np.isnan(lines[name].coverage) for name in BOUNDS)
    assert not np.isnan(lines["twin"].coverage)
    assert "nan" not in as_table(found, peer=None)


def made_up(quantity: str = "twin", **changes: Any) -> Line:
    values: dict[str, Any] = {
        "setting": "smooth",
        "n": 10_000,
        "quantity": quantity,
        "repetitions": 200,
        "truth": 0.01,
        "mean": 0.0095,
        "sd": 0.001,
        "bias": -0.0005,
        "rmse": 0.001 if quantity == "twin" else 0.002,
        "tightness": 0.95,
        "coverage": 0.95,
        "coverage_on_rows": float("nan"),
        "validity": 0.97,
        "rejected": 1.0,
        "peer_repetitions": 20,
        "peer_rmse_ratio": 2.0,
    }
    return Line(**values | changes)


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, None),
        ({"tightness": 0.84}, "tightness at least 0.85"),
        ({"tightness": 0.7, "n": 1_000}, None),
        ({"tightness": 0.64, "n": 1_000}, "tightness at least 0.65"),
        ({"tightness": 0.64, "n": 1_000, "setting": "dense 400"}, None),  # too many columns
        ({"bias": 0.0002}, "mean at most 2 standard errors above"),
        ({"rmse": 0.0021}, "RMSE below the cross-fitted bound's"),
        ({"peer_rmse_ratio": 0.9}, "RMSE below glest's"),
        ({"coverage": 0.91}, "interval covers"),
        ({"coverage": 0.99}, "interval covers"),
        ({"validity": 0.93}, "one-sided limit"),
        ({"truth": 0.0, "tightness": float("nan"), "rejected": 0.05}, None),
        ({"truth": 0.0, "tightness": float("nan"), "rejected": 0.07}, "level"),
    ],
)
def test_the_targets_of_the_twin_estimate_can_be_missed(
    changes: dict[str, Any], missed: str | None
) -> None:
    mine = made_up(**changes)
    rival = made_up("crossfit", setting=mine.setting, n=mine.n)
    verdicts = judge([rival, mine], {"smooth": 2, "dense 400": 400})
    failed = [one for one in verdicts if one.missed]
    assert [one.target.startswith(missed or "") for one in failed] == [True] * (missed is not None)
    assert all(str(one).startswith("MISSED" if one.missed else "met ") for one in verdicts)


@pytest.mark.slow
def test_the_script_saves_the_same_file_for_any_number_of_jobs(tmp_path: Path) -> None:
    texts = set()
    for jobs in ("1", "2"):
        output = tmp_path / jobs / "coverage.csv"
        few = ["--quick", "--repetitions", "2", "--settings", "smooth", "three classes"]
        command = [sys.executable, str(SCRIPT), *few, "--jobs", jobs, "--output", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""  # no progress bar where nobody looks
        assert "glest" in done.stdout
        assert [path.name for path in output.parent.iterdir()] == ["coverage.csv"]
        texts.add(output.read_text())
    assert len(texts) == 1
    rows = list(csv.DictReader(texts.pop().splitlines()))
    expected = [(name, quantity) for name in ("smooth", "three classes") for quantity in QUANTITIES]
    assert [(row["setting"], row["quantity"]) for row in rows] == expected
    assert all(f"{float(row['bias']) * 1e4:+.1f} ±" in done.stdout for row in rows)


def test_repetitions_and_seeds_differ() -> None:
    cell = Cell("smooth", 200)
    todo = (Task(cell, 0, 0, False), Task(cell, 1, 0, False), Task(cell, 0, 1, False))
    assert len({experiment.run_task(one).outcomes["score"].estimate.value for one in todo}) == 3


def test_a_missing_peer_is_told_in_a_line() -> None:
    found = experiment.summarise(
        Repetition(Cell("smooth", N), dict.fromkeys(QUANTITIES, outcome(0, 0, 1, 0)), float("nan"))
        for _ in range(2)
    )
    table = as_table(found, peer=False)
    assert table.splitlines()[-1].startswith("glest is not installed")
    assert "nan" not in table


def test_sizes_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "has_peer", lambda: False)
    run = ["--settings", "ten scores", "--sizes", "1000", "--repetitions", "2", "--jobs", "1"]
    experiment.main([*run, "--output", str(tmp_path / "x.csv")])
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert {row["n"] for row in rows} == {"1000"}
    assert "Targets of the twin estimate." in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [("--repetitions", "1"), ("--jobs", "0"), ("--seed", "-1")])
def test_wrong_options_are_told_at_once(
    wrong: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        experiment.main(["--output", str(tmp_path / "made" / "x.csv"), *wrong])
    assert "at least" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()
