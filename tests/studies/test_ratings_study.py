"""Texts with many ratings: the files are joined rightly, and bounds stay below what is measured."""

from __future__ import annotations

import doctest
import sys
from argparse import Namespace
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ratings
import ratings_census
import ratings_data
from epiloss import Estimate
from epiloss.datasets import load_census_income
from protocol import Line
from ratings import Found, Scored
from ratings_census import Rows
from ratings_data import Domain
from study_verdicts import HOLDS, IN_PART, NOT


def simulated(n: int, seed: int) -> Scored:
    """Texts whose truth is known: the score sees one feature, Q depends on two."""
    generator = np.random.default_rng(seed)
    X = generator.random((n, 2))
    q = 0.2 + 0.3 * X[:, 0] + 0.3 * X[:, 1]
    labels = (generator.random((n, 15)) < q[:, None]).astype(float)
    y, others = ratings_data.drawn(labels, generator)
    scores = 0.2 + 0.3 * X[:, 0]
    domain = Domain("made", ("a text",) * n, labels, np.arange(n), 0)
    features = {"both features": X, ratings.BEST: others[:, None], "noise": generator.random((n, 1))}
    return Scored(domain, scores, scores + 0.15, y, features)


@cache
def found() -> Found:
    return ratings.measured(simulated(3_000, seed=2), seed=0)


TRUTH = 2 * 0.3**2 / 12  # of both classes: the variance of 0.3 times a uniform


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(ratings_data).failed == 0


def test_a_known_loss_is_measured_from_the_repeated_labels() -> None:
    """3,000 texts with 15 labels each; 4 standard errors."""
    for loss in found().direct:
        assert abs(loss.value - TRUTH) < 4 * (loss.stderr or 0)
    given, after = found().cl
    assert abs(given.value - 2 * 0.15**2) < 4 * (given.stderr or 0)
    assert abs(after.value) < 4 * (after.stderr or 0) + 1e-4


def test_bounds_stay_below_it_and_good_features_see_most() -> None:
    """At most 4 standard errors above; twins see half of it in both features."""
    for bounds in (found().partition, found().twins):
        for pair in bounds.values():
            for bound in pair:
                assert bound.value < TRUTH + 4 * (bound.stderr or 0)
    assert found().twins["both features"][0].value > TRUTH / 2
    assert found().twins["noise"][0].value < TRUTH / 4


def test_the_ceiling_is_the_loss_for_features_that_tell_all_and_nothing_for_noise() -> None:
    """3,000 texts with ten labels each; 4 standard errors."""
    told, noise = (found().ceiling[name] for name in ("both features", "noise"))
    assert abs(told.value - TRUTH) < 4 * (told.stderr or 0)
    assert (told.stderr or 0) < (found().twins["both features"][0].stderr or 0)
    assert abs(noise.value) < 4 * (noise.stderr or 0) + 0.02 * TRUTH


def test_the_tables_and_the_text_hold_the_numbers(tmp_path: Path) -> None:
    one = found()
    text, tables = ratings.paragraph([one, one], 199), ratings.tables([one, one])
    assert "of 24 estimates lie below the measured grouping loss, and no interval lies above it" in text
    assert "in 2 of 2 domains when it is measured" in text
    assert f"{one.direct[0]:z.4f}" in tables
    assert f"{one.twins['noise'][1]:z.4f}" in tables
    assert ratings.picture([one, one], tmp_path / "x" / "bounds.png").stat().st_size > 10_000


def test_a_bound_above_the_measured_loss_would_be_told() -> None:
    one = found()
    high = one.twins["noise"][0].__class__(1.0, 0.01, 0.98, 1.02)
    wrong = Found(**{**vars(one), "twins": {**one.twins, "noise": (high, high)}})
    assert "and the intervals of 2 lie above it: made (noise)" in ratings.paragraph([wrong], 0)


def test_texts_and_ratings_are_joined_where_their_means_agree() -> None:
    texts = "1_1\t0.5\tA text, with\ttabs\n1_2\t-1.0\tanother\n2_1\t0.9\tof another mean\n"
    rated = "1_1\t0.5\t0\t[1, 0]\n2_1\t0.1\t0\t[1, 0]\n1_2\t-1\t0\t[-1, -1, -1]\n"
    domain = ratings_data.parsed("x", texts, rated)
    assert domain.texts == ("A text, with\ttabs", "another")
    assert np.array_equal(domain.labels, np.array([[1, 0, np.nan], [0, 0, 0]]), equal_nan=True)
    assert domain.n_dropped == 1
    assert domain.clusters is not None
    assert domain.clusters.tolist() == ["1", "1"]
    assert domain.take(np.array([1])).texts == ("another",)


def test_the_drawn_label_is_not_among_the_others() -> None:
    # with one positive label of five, the mean of the others is 0 where it was drawn, else 1/4
    labels = np.zeros((400, 5))
    labels[:, 2] = 1
    y, others = ratings_data.drawn(labels, np.random.default_rng(0))
    assert np.array_equal(others, np.where(y == 1, 0.0, 0.25))
    assert 0.1 < y.mean() < 0.3  # 400 draws of 1/5: 5 standard errors


def test_counts_of_a_text() -> None:
    counts = ratings_data.surface(("Go! Now!", "a, b"))
    assert counts[:, :3].tolist() == [[8, 2, 2], [4, 2, 0]]
    assert counts[0, 4 + ratings_data.PUNCTUATION.index("!")] == 2


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(100), 10)])
def test_each_half_is_recalibrated_by_the_other(clusters: NDArray[np.int64] | None) -> None:
    generator = np.random.default_rng(0)
    scores = generator.random(1_000)
    y = (generator.random(1_000) < scores / 2).astype(np.int64)
    better = ratings.isotonic(scores, y, clusters, seed=0)
    assert abs(better.mean() - y.mean()) < 0.06  # 1,000 rows: 3 standard errors of each half
    if clusters is not None:  # one map for all rows of a cluster: it rises inside it
        for rows in np.split(np.arange(1_000), 100):
            assert (np.diff(better[rows][np.argsort(scores[rows])]) >= 0).all()


def test_the_difference_of_two_models_is_paired() -> None:
    y = np.array([1, 0, 1, 1])
    rows = Rows(None, y, np.full(4, 0.5), np.array([0.9, 0.1, 0.9, 0.9]))
    gain = ratings_census.difference(rows)
    assert gain.value == pytest.approx(2 * (0.25 - 0.01))
    assert gain.stderr == pytest.approx(0)


def test_the_section_of_the_census_tells_both_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = load_census_income()
    few = {name: column[:2_000] for name, column in demo.X.items()}
    part = replace(demo, X=few, y=demo.y[:2_000], scores=demo.scores[:2_000])
    monkeypatch.setattr("epiloss.datasets.load_census_income", lambda: part)
    section = ratings_census.census_section(Namespace(quick=True, seed=0, cache=tmp_path))
    assert [line.name for line in section.lines] == ["logistic", "boosting"]
    assert {line.n for line in section.lines} == {2_000}
    assert f"{section.lines[0].cl.value:z.4f} (logistic)" in section.text


@pytest.mark.slow
def test_the_bundled_census_shows_grouping_loss(tmp_path: Path) -> None:
    """20,000 rows with fixed seeds; boosting is better by 5 standard errors."""
    section = ratings_census.census_section(Namespace(quick=True, seed=0, cache=tmp_path))
    assert [line.name for line in section.lines] == ["logistic", "boosting"]
    assert {line.n for line in section.lines} == {20_000}
    assert "The Brier score of boosting is lower by" in section.text
    assert "of the proven loss" in section.text


def test_the_benchmark_that_reads_the_whole_census_is_found_beside_the_experiments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its file, as it is not on the path of a script among the experiments."""
    pytest.importorskip("pandas", reason="the benchmark reads with pandas")
    monkeypatch.delitem(sys.modules, "repair_data", raising=False)
    module = ratings_census.benchmark("repair_data")
    assert module is ratings_census.benchmark("repair_data")
    assert Path(str(module.__file__)) == ratings_census.BENCHMARKS / "repair_data.py"
    assert callable(module.kdd_census)


def test_nothing_is_called_proven_where_boosting_is_not_better() -> None:
    loss = Estimate(0.001, 0.0001, 0.0008, 0.0012)
    lines = [Line(name, 9, 0.9, loss, loss, loss, loss, loss, loss, 0.1) for name in "ab"]
    text = ratings_census.paragraph(lines, Estimate(0.001, 0.002, -0.003, 0.005), quick=True)
    assert "these rows prove no grouping loss" in text
    assert "at least" not in text
    claims = ratings_census.claims(lines, Estimate(0.001, 0.002, -0.003, 0.005))
    assert [claim.text for claim in claims if "proven" in claim.text] == []


@pytest.mark.parametrize(("twins", "verdict"), [(0.0095, HOLDS), (0.006, IN_PART), (0.001, NOT)])
def test_what_is_proven_is_the_gain_without_the_difference_in_calibration(
    twins: float, verdict: str
) -> None:
    def line(name: str, cl: float, twin: float) -> Line:
        loss, found = (
            Estimate(cl, 0.0001, cl - 0.0002, cl + 0.0002),
            Estimate(twin, 0.0005, twin - 0.001, twin + 0.001),
        )
        return Line(name, 9, 0.9, loss, loss, found, found, found, found, 0.1)

    lines = [line("logistic", 0.003, twins), line("boosting", 0.001, 0.0)]
    gain = Estimate(0.012, 0.001, 0.010, 0.014)
    assert ratings_census.proven(lines, gain).value == pytest.approx(0.010)
    first = ratings_census.claims(lines, gain)[0]
    assert "0.0100 [0.0080, 0.0120] or more" in first.count
    assert first.verdict == verdict


def test_the_script_runs_where_the_archive_can_be_had(tmp_path: Path) -> None:
    cache = Path("~/.cache/epiloss-studies").expanduser()
    if not (cache / "packages" / ratings_data.SOURCE[1]).exists():
        pytest.skip("the archive of vaderSentiment is not in the cache: run experiments/ratings.py once")
    domains = ratings_data.load(cache)
    assert {name: one.n_dropped for name, one in domains.items()} == {
        "movies": 0,
        "tweets": 199,
        "Amazon": 0,
        "New York Times": 0,
    }
    assert sum(len(one.texts) for one in domains.values()) == 23_703 - 199
    assert all((~np.isnan(one.labels)).sum(axis=1).min() >= 15 for one in domains.values())
