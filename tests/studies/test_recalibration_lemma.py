"""Recalibration leaves the grouping loss: the paper's lemma where the truth is known.

Let S' = g(S) and C = E[Y|S]. Then GL(S') = GL(S) + E[h-variance of C given S'], with the h-variance
e(E[C|S']) - E[e(C)|S'] of the scoring rule's entropy e. So an invertible and a perfect recalibration
leave the grouping loss as it is, and one that joins scores of different C adds to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

import epiloss
from epiloss.scoring import ScoringRule, resolve_rule
from epiloss.simulate import Problem, Sample, Sigmoid

Floats = NDArray[np.float64]
Recalibration = Callable[[Floats], Floats]
RULES = ("brier", "log")
N, REPETITIONS = 4_000, 40
PROBLEMS = {
    "smooth": Sigmoid(miscalibration=2.0),
    "step": Sigmoid(miscalibration=2.0, perturbation="step"),
}


def given(score: Floats, value: Floats, weight: Floats) -> Floats:
    """Return the mean of a value among the rows of each score, for each row."""
    _, level = np.unique(score, return_inverse=True)
    mean: Floats = np.bincount(level, weight * value) / np.bincount(level, weight)
    return mean[level]


def grouping_loss(rule: ScoringRule, score: Floats, q: Floats, weight: Floats) -> float:
    """Return E d(C, Q), C = E[Q|score]."""
    return float(weight @ rule.divergence(given(score, q, weight), q))


def joined(rule: ScoringRule, score: Floats, c: Floats, weight: Floats) -> float:
    """Return what a recalibrated score adds by giving one value to scores of different C."""
    return float(weight @ (rule.entropy(given(score, c, weight)) - rule.entropy(c)))


# --- exactly: twelve scores with five groups each ---


@pytest.fixture(params=range(5))
def law(request: pytest.FixtureRequest) -> tuple[Floats, Floats, Floats]:
    """Return score, truth and weight of 60 cells; the last two scores have the same C."""
    generator = np.random.default_rng(request.param)
    score = np.repeat(np.linspace(0.04, 0.96, 12), 5)
    q = generator.uniform(0.05, 0.95, 60)
    weight = generator.dirichlet(np.full(60, 2.0))
    q[-5:], weight[-5:] = q[-10:-5], 0.5 * weight[-10:-5]
    return score, q, weight / weight.sum()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("shape", ["temperature", "power", "reversed"])
def test_an_invertible_recalibration_leaves_the_grouping_loss(
    law: tuple[Floats, Floats, Floats], name: str, shape: str
) -> None:
    score, q, weight = law
    maps: dict[str, Recalibration] = {
        "temperature": lambda s: expit(logit(s) / 3),
        "power": lambda s: s**2.5,
        "reversed": lambda s: 1 - s,
    }
    rule = resolve_rule(name)
    before = grouping_loss(rule, score, q, weight)
    assert before > 0.01
    assert grouping_loss(rule, maps[shape](score), q, weight) == pytest.approx(before, abs=1e-14)


@pytest.mark.parametrize("name", RULES)
def test_a_perfect_recalibration_leaves_it_even_where_it_joins_scores(
    law: tuple[Floats, Floats, Floats], name: str
) -> None:
    score, q, weight = law
    rule, c = resolve_rule(name), np.round(given(score, q, weight), 12)
    assert len(np.unique(c)) == 11  # of twelve scores
    before, after = (grouping_loss(rule, one, q, weight) for one in (score, c))
    assert after == pytest.approx(before, abs=1e-10)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("width", [2, 3, 6])
def test_joining_scores_adds_the_variance_of_their_calibrated_scores(
    law: tuple[Floats, Floats, Floats], name: str, width: int
) -> None:
    score, q, weight = law
    rule, c = resolve_rule(name), given(score, q, weight)
    flat = np.repeat(np.arange(12) // width / 12, 5)
    more = joined(rule, flat, c, weight)
    assert more > 1e-4
    before, after = (grouping_loss(rule, one, q, weight) for one in (score, flat))
    assert after == pytest.approx(before + more, abs=1e-14)


# --- estimated: twin learners on the same rows, before and after ---


def isotonic(sample: Sample) -> Recalibration:
    """Return the isotonic recalibration that a sample teaches."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(sample.scores, sample.y)
    return lambda s: np.asarray(fitted.predict(s), float)


def thirds(sample: Sample) -> Recalibration:
    """Return a recalibration that knows three scores only: it joins far too many."""
    edges = np.quantile(sample.scores, [1 / 3, 2 / 3])
    levels = np.searchsorted(edges, sample.scores)
    rates = np.array([sample.y[levels == level].mean() for level in range(3)])
    return lambda s: rates[np.searchsorted(edges, s)]


def estimated(sample: Sample, scores: Floats, seed: int) -> float:
    """Return the grouping loss by twin learners."""
    return epiloss.audit(sample.y, scores, sample.X, random_state=seed).grouping_loss.value


class Repeated(NamedTuple):
    """Grouping losses in each repetition: two estimates, and the truth after recalibration."""

    before: Floats
    after: Floats
    truth: Floats


def repeated(problem: Problem, fit: Callable[[Sample], Recalibration]) -> Repeated:
    """Estimate the grouping loss of the same rows before and after a recalibration, many times."""
    brier, loss = resolve_rule("brier"), problem.truth().grouping_loss
    crowd = problem.sample(200_000, random_state=12345)
    weight = np.full(len(crowd.y), 1 / len(crowd.y))
    found = np.empty((3, REPETITIONS))
    for seed in range(REPETITIONS):
        recalibration = fit(problem.sample(N, random_state=10_000 + seed))  # rows that are not audited
        sample = problem.sample(N, random_state=seed)
        found[:, seed] = (
            estimated(sample, sample.scores, seed),
            estimated(sample, recalibration(sample.scores), seed),
            loss + joined(brier, recalibration(crowd.scores), crowd.c, weight),
        )
    return Repeated(*found)


def three_errors(values: Floats) -> float:
    """Return three standard errors of a mean over the repetitions."""
    return 3 * float(values.std(ddof=1)) / float(np.sqrt(REPETITIONS))


@pytest.mark.parametrize("name", PROBLEMS)
def test_twins_do_not_see_an_invertible_recalibration(name: str) -> None:
    # no chance is left: same rows, same order of scores, so the same estimate up to rounding
    sample = PROBLEMS[name].sample(N, random_state=0)
    before = estimated(sample, sample.scores, 0)
    assert before > 0.003
    for temperature in (2.0, 0.8):
        scores = expit(logit(sample.scores) / temperature)
        assert estimated(sample, scores, 0) == pytest.approx(before, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_isotonic_recalibration_leaves_what_twins_find(name: str) -> None:
    # 40 repetitions of 4,000 rows: beyond what joining scores adds, the mean changes by less than a
    # tenth of the loss, three standard errors included; what the learners miss may change a little
    found = repeated(PROBLEMS[name], isotonic)
    loss = PROBLEMS[name].truth().grouping_loss
    assert (found.truth - loss).max() < 0.1 * loss  # it joins scores, but hardly different ones
    change = (found.after - found.before) - (found.truth - loss)
    assert abs(change.mean()) + three_errors(change) < 0.1 * loss
    assert found.after.mean() < found.truth.mean() + three_errors(found.after - found.truth)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_twins_find_what_a_recalibration_to_three_scores_adds(name: str) -> None:
    # 40 repetitions of 4,000 rows: at least nine tenths of a loss that has grown by 0.019
    found = repeated(PROBLEMS[name], thirds)
    loss = PROBLEMS[name].truth().grouping_loss
    assert (found.truth - loss).min() > 0.015
    assert 0.9 * found.truth.mean() < found.after.mean()
    assert found.after.mean() < found.truth.mean() + three_errors(found.after - found.truth)
