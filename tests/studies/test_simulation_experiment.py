"""The simulation experiment keeps its structure, its determinism and the relations it shows."""

from __future__ import annotations

import csv
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import simulation
from simulation import SWEEPS, Summaries, Summary, setting

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
N, TRIALS = 4_000, 10


@cache
def summaries() -> Summaries:
    return simulation.summarise(simulation.run_trials(TRIALS, N, seed=3))


def means(sweep: str, quantity: str, swap: bool) -> list[float]:
    return [summaries()[setting(sweep, value, swap)][quantity].mean for value in SWEEPS[sweep]]


def test_every_setting_has_every_quantity() -> None:
    assert len(summaries()) == 2 * (len(SWEEPS["region_ratio"]) + len(SWEEPS["n_bins"]) - 1)
    for quantities in summaries().values():
        assert tuple(quantities) == simulation.QUANTITIES
        assert all(np.isfinite([one.mean, one.sd]).all() for one in quantities.values())
        assert all(one.trials == TRIALS for one in quantities.values())


def test_the_terms_of_the_lower_bound_add_up() -> None:
    for one in summaries().values():
        assert one["explained"].mean == pytest.approx(one["plugin"].mean - one["bias"].mean, abs=1e-12)
        bound = one["explained"].mean - one["induced"].mean
        assert one["lower_bound"].mean == pytest.approx(bound, abs=1e-12)


def test_trials_are_paired() -> None:
    trials = list(simulation.run_trials(2, 300))
    for trial in trials:
        assert len({one["true"] for one in trial.values()}) == 1
    first, second = ({one["true"] for one in trial.values()} for trial in trials)
    assert first != second


@pytest.mark.parametrize("swap", [False, True])
def test_larger_regions_have_a_smaller_plugin_and_bias(swap: bool) -> None:
    assert (np.diff(means("region_ratio", "plugin", swap)) < 0).all()
    assert (np.diff(means("region_ratio", "bias", swap)) < 0).all()


@pytest.mark.parametrize("swap", [False, True])
def test_more_bins_induce_less(swap: bool) -> None:
    assert (np.diff(means("n_bins", "induced", swap)) < 0).all()


def test_the_lower_bound_stays_below_the_truth() -> None:
    """10 trials of 4,000 rows; 3 standard errors in each of the 20 settings."""
    truth = simulation.PROBLEM.truth().grouping_loss
    for one, quantities in summaries().items():
        bound = quantities["lower_bound"]
        assert bound.mean < truth + 3 * bound.stderr, one


def test_the_plugin_alone_overstates() -> None:
    plugin = summaries()[setting("region_ratio", 5, True)]["plugin"]
    assert plugin.mean > simulation.PROBLEM.truth().grouping_loss + 3 * plugin.stderr


def test_summary_of_known_values() -> None:
    one = setting("n_bins", 2, True)
    trials = [{one: dict.fromkeys(simulation.QUANTITIES, value)} for value in (1.0, 2.0, 3.0)]
    summary = simulation.summarise(trials)[one]["plugin"]
    assert summary == Summary(2.0, 1.0, 3)
    assert summary.stderr == pytest.approx(1 / np.sqrt(3))


@pytest.fixture(scope="module")
def printed_and_saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return what the script printed, run by two processes, and what it saved into a new folder."""
    output = tmp_path_factory.mktemp("run") / "new" / "simulation.csv"
    command = [sys.executable, str(EXPERIMENTS / "simulation.py"), "--output", str(output)]
    command += ["--quick", "--trials", "2", "--n", "300", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""  # no progress bar where nobody looks
    return done.stdout, output


def test_the_same_seed_gives_the_same_file_for_any_number_of_jobs(
    printed_and_saved: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, saved = printed_and_saved
    small = ["--quick", "--trials", "2", "--n", "300", "--jobs", "1"]
    simulation.main([*small, "--output", str(tmp_path / "one")])
    assert capsys.readouterr().out == printed
    assert (tmp_path / "one").read_bytes() == saved.read_bytes()
    simulation.main([*small, "--output", str(tmp_path / "other"), "--seed", "1"])
    assert (tmp_path / "other").read_bytes() != saved.read_bytes()


def test_the_file_holds_what_the_table_shows(printed_and_saved: tuple[str, Path]) -> None:
    printed, saved = printed_and_saved
    with saved.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [path.name for path in saved.parent.iterdir()] == ["simulation.csv"]
    assert len(rows) == 2 * sum(len(values) for values in SWEEPS.values())
    assert {row["sweep"] for row in rows} == set(SWEEPS)
    assert {row["trials"] for row in rows} == {"2"}
    assert "reference" not in printed  # its numbers are for 10,000 rows
    for row in rows:
        assert f"{float(row['lower_bound_mean']) * 1e4:.1f} ±" in printed


def test_the_reference_is_shown_beside_its_own_number_of_rows() -> None:
    table = simulation.as_table(summaries(), simulation.REFERENCE_ROWS)
    assert table.count("reference") == len(simulation.REFERENCES)
    assert "148.0" in table
    assert "46.3 ± 10" in table


@pytest.mark.parametrize("wrong", [("--trials", "1"), ("--n", "5"), ("--jobs", "0"), ("--seed", "-1")])
def test_wrong_options_are_told_at_once(
    wrong: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        simulation.main(["--output", str(tmp_path / "made" / "x.csv"), *wrong])
    assert "at least" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()
