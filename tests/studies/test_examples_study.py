"""The counter-examples have the losses they state, and the estimator finds them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import examples
from epiloss.simulate import Link, Problem, Sigmoid
from examples import BINS, CLOSED_FORMS, LINKS, SIGMOIDS, Binned, Example

N = 6_000


@cache
def found(name: str) -> Example:
    return examples.example(name, {**LINKS, **SIGMOIDS}[name], N, seed=4)


@cache
def bins() -> list[Binned]:
    sample = LINKS["square link"].sample(20_000, random_state=1)
    return [examples.binned(count, sample) for count in BINS]


@pytest.mark.parametrize("name", LINKS)
def test_the_closed_form_of_a_link_is_its_integral(name: str) -> None:
    problem = LINKS[name]
    assert isinstance(problem, Link)
    s = (np.arange(100_000) + 0.5) / 100_000
    plus, minus, chance = examples.sides(problem, s)
    assert np.allclose(chance * plus + (1 - chance) * minus, s)  # calibrated
    by_hand = np.mean(chance * (1 - chance) * (plus - minus) ** 2)
    assert by_hand == pytest.approx(CLOSED_FORMS[name][0], rel=1e-6)
    assert problem.truth().grouping_loss == pytest.approx(CLOSED_FORMS[name][0], rel=1e-6)
    one, parts = CLOSED_FORMS[name][1].split("/")
    assert int(one) / int(parts) == CLOSED_FORMS[name][0]


@pytest.mark.parametrize("name", LINKS)
def test_the_drawn_law_is_that_of_the_sample(name: str) -> None:
    problem = LINKS[name]
    assert isinstance(problem, Link)
    sample = problem.sample(500)
    plus, minus, _ = examples.sides(problem, sample.scores)
    assert np.allclose(np.where(sample.X[:, 0] > 0, plus, minus), sample.q)


@pytest.mark.parametrize("name", [*LINKS, *SIGMOIDS])
def test_the_estimator_finds_the_known_losses(name: str) -> None:
    """One sample of 6,000 rows; 4 standard errors around CL = 0 and above GL.

    By the cross-fitted bound at least 70% of GL, less 4 standard errors.
    """
    one = found(name)
    assert one.truth.calibration_loss == pytest.approx(0, abs=1e-12)
    assert abs(one.result.calibration_loss.value) < 4 * (one.result.calibration_loss.stderr or 0) + 1e-5
    truth, twins = one.truth.grouping_loss, one.result.twin_estimate
    assert twins is not None
    for bound in (twins, one.result.partition_bound):
        assert bound.value < truth + 4 * (bound.stderr or 0)
    assert twins.value > 0.7 * truth - 4 * (twins.stderr or 0)
    assert twins.pvalue is not None
    assert twins.pvalue < 0.01


def test_the_first_example_has_the_best_accuracy_and_is_wrong_everywhere() -> None:
    plateau = LINKS["plateau link"]
    ours, best = examples.best_accuracy(plateau)
    assert ours == pytest.approx(best, abs=1e-9)
    assert best == pytest.approx(0.75, abs=1e-6)
    assert isinstance(plateau, Link)
    s = np.linspace(0.01, 0.99, 99)
    plus, minus, _ = examples.sides(plateau, s)
    away = np.abs(s - 0.5) > 1e-9
    assert (np.abs(plus - s)[away] > 1e-3).all()
    assert (np.abs(minus - s)[away] > 1e-3).all()
    ours, best = examples.best_accuracy(LINKS["double link"])
    assert ours < best - 0.05


def test_binning_inflates_the_grouping_loss_by_the_induced_term() -> None:
    for one in bins():
        s = (np.arange(30_000) + 0.5) / 30_000
        q = np.concatenate([2 * s - s**2, s**2])
        level = np.tile((s * one.bins).astype(int), 2)
        spread = sum(np.var(q[level == k]) * np.mean(level == k) for k in range(one.bins))
        assert one.grouping_loss == pytest.approx(spread, rel=1e-4)
        assert one.grouping_loss == pytest.approx(1 / 30 + one.induced)
        assert one.lower_bound < 1 / 30
    assert (np.diff([one.grouping_loss for one in bins()]) < 0).all()
    assert bins()[-1].lower_bound > 0.99 / 30


def test_the_estimator_finds_each_term_of_the_binned_loss() -> None:
    """20,000 rows, 7 numbers of bins; 4 standard errors of the bound, 5% of what is induced."""
    for one in bins():
        bound = one.found.partition_bound
        assert abs(bound.value - one.lower_bound) < 4 * (bound.stderr or 0)
        assert one.found.explained == pytest.approx(one.explained, abs=0.003)
        assert one.found.induced == pytest.approx(one.induced, rel=0.05, abs=1e-4)


def test_the_step_has_a_closed_form_in_its_level_set() -> None:
    # 20,000 rows, of which some 900 lie in the level set; Q = c +- min(c, 1 - c)
    sample = Sigmoid(perturbation="step").sample(20_000)
    inside = (sample.scores >= 0.55) & (sample.scores < 0.65)
    across = sample.X[:, 0] > sample.X[:, 1]
    assert sample.q[inside & across] == pytest.approx(1.0)
    assert np.allclose(sample.q[inside & ~across], 2 * sample.c[inside & ~across] - 1)


def test_twins_are_compared_with_the_exact_loss_in_several_samples() -> None:
    """Two samples of 6,000 rows, the example's own and another; none lies above the truth."""
    one = found("double link")
    twice = examples.drawn([one], 2, seed=4)
    assert (twice.n, twice.inside, twice.above) == (2, 2, 0)
    assert twice.shares == pytest.approx([1], abs=0.06)  # 3 standard errors of two samples
    once = one.bounds[1][0].value / one.truth.grouping_loss
    assert examples.drawn([one], 1, seed=4) == examples.Draws(1, 1, 0, (once,))
    # were the loss smaller, both intervals would lie above it
    less = replace(one, truth=replace(one.truth, grouping_loss=0.01))
    twice = examples.drawn([less], 2, seed=4)
    assert (twice.n, twice.inside, twice.above) == (2, 0, 2)


def test_the_script_draws_and_states_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script itself, with the samples that the other tests have audited already."""
    asked = []
    for name in [*LINKS, *SIGMOIDS]:
        found(name)  # before the function that it calls is replaced

    def known(name: str, problem: Problem, n: int, seed: int) -> Example:
        asked.append((n, seed))
        assert problem == found(name).problem
        return found(name)

    monkeypatch.setattr(examples, "example", known)
    monkeypatch.chdir(tmp_path)
    assert examples.main(["--quick", "--output", "out", "--seed", "4"]) == 0
    assert asked == [(examples.QUICK_ROWS, 4)] * 8
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "0.02083 = 1/48" in printed.out
    assert "(0.7500 of 0.7500)" in printed.out
    assert len(list((tmp_path / "out" / "images").glob("examples-*.png"))) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # the documentation is left alone
    page = (tmp_path / "out" / "counter-examples-with-known-losses.md").read_text()
    assert page.count("](images/") == 5
