"""Two data sets on the same regions: no drift where there is none, and drift where there is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss.analysis.drift_result import Drift
from epiloss.partition import Tree
from epiloss.simulate import MultiClass, Problem, Sigmoid

LOSSES = ["score", "calibration_loss", "grouping_loss"]
STEP = Sigmoid(perturbation="step")


def drawn(problem: Problem, n: int, seed: int) -> tuple[Any, Any, Any]:
    sample = problem.sample(n, random_state=seed)
    return sample.y, sample.scores, sample.X


def drifted(before: Problem, after: Problem, n: int = 3_000, **options: Any) -> Drift:
    return epiloss.drift(drawn(before, n, 0), drawn(after, n, 1), **{"n_bins": 5} | options)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [STEP, Sigmoid(grouping=0.0)], ids=["grouping", "null"])
def test_two_samples_of_one_problem_drift_no_more_often_than_promised(problem: Problem) -> None:
    """100 repetitions: of tests at 5%, no loss differs in more than 5% and 3 standard errors (11.5%)."""
    repetitions = 100
    pvalues = []
    for seed in range(repetitions):
        reference, current = drawn(problem, 1_000, 2 * seed), drawn(problem, 700, 2 * seed + 1)
        difference = epiloss.drift(reference, current, n_bins=5, random_state=seed).difference
        pvalues.append([difference[name].pvalue for name in LOSSES])
    rejected = (np.array(pvalues, float) < 0.05).mean(axis=0)
    assert (rejected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repetitions)).all(), rejected


def test_more_grouping_loss_is_found_and_told_from_calibration() -> None:
    result = drifted(Sigmoid(perturbation="step", grouping=0.3), STEP)
    pvalue = {name: part.pvalue or 0.0 for name, part in result.difference.items()}
    assert pvalue["grouping_loss"] < 1e-4
    assert result.difference["grouping_loss"].value > 0.01
    assert pvalue["calibration_loss"] > 0.05


def test_less_calibration_is_found_and_told_from_grouping() -> None:
    result = drifted(STEP, Sigmoid(perturbation="step", miscalibration=4.0))
    pvalue = {name: part.pvalue or 0.0 for name, part in result.difference.items()}
    assert pvalue["calibration_loss"] < 1e-4
    assert pvalue["grouping_loss"] > 0.01


@pytest.mark.parametrize("rule", ["brier", "log"])
def test_the_differences_are_those_of_independent_samples(rule: str) -> None:
    result = drifted(STEP, STEP, 1_000, rule=rule)
    for name in LOSSES:
        before, after = getattr(result.reference, name), getattr(result.current, name)
        difference = result.difference[name]
        assert difference.value == after.value - before.value
        assert difference.stderr == pytest.approx(math.hypot(before.stderr, after.stderr))
        assert difference.low is not None
        assert difference.high is not None
        assert difference.low < difference.value < difference.high
    assert result.reference.n_evaluated == pytest.approx(500, abs=5)
    assert result.current.n_evaluated == 1_000


def test_the_bound_does_not_exceed_the_grouping_loss() -> None:
    result = drifted(STEP, STEP, 6_000, n_bins=15)
    for part in (result.reference, result.current):
        assert part.grouping_loss.stderr is not None
        excess = part.grouping_loss.value - STEP.truth().grouping_loss
        assert -0.012 < excess < 3 * part.grouping_loss.stderr


def test_the_current_rows_have_no_part_in_the_regions() -> None:
    reference, (y, scores, X) = drawn(STEP, 1_500, 0), drawn(STEP, 1_500, 1)
    one = epiloss.drift(reference, (y, scores, X), n_bins=5)
    other = epiloss.drift(reference, (1 - y, scores, X), n_bins=5)
    assert one.reference == other.reference
    assert one.n_regions == other.n_regions


def test_regions_that_the_current_data_lack_are_joined_for_both() -> None:
    reference, (y, scores, X) = drawn(STEP, 3_000, 0), drawn(STEP, 3_000, 1)
    one_side = X[:, 0] > X[:, 1]
    by_regions = {"n_bins": 5, "method": "partition"}
    result = epiloss.drift(reference, (y[one_side], scores[one_side], X[one_side]), **by_regions)
    whole = epiloss.drift(reference, (y, scores, X), **by_regions)
    assert result.n_regions < whole.n_regions
    assert result.reference.grouping_loss.value < whole.reference.grouping_loss.value


@pytest.mark.parametrize("partition", ["stump", "kmeans"])
def test_other_partitions_serve(partition: str) -> None:
    result = drifted(STEP, STEP, 1_000, partition=partition)
    assert all((part.pvalue or 0) > 1e-3 for part in result.difference.values())


def test_level_sets_that_only_one_data_set_has_are_no_obstacle() -> None:
    reference, (y, scores, X) = drawn(STEP, 1_500, 0), drawn(STEP, 1_500, 1)
    low = scores < 0.35
    result = epiloss.drift(reference, (y[low], scores[low], X[low]))
    assert np.isfinite([float(part) for part in result.difference.values()]).all()


def test_top_labels_are_one_binary_problem() -> None:
    before, after = MultiClass(grouping=0.0), MultiClass(grouping=1.0)
    result = epiloss.drift(drawn(before, 3_000, 0), drawn(after, 3_000, 1), n_bins=5)
    assert result.task == "top-label"
    assert (result.difference["grouping_loss"].pvalue or 0.0) < 1e-4


def test_categories_keep_their_meaning_when_the_data_sets_have_others() -> None:
    generator = np.random.default_rng(0)

    def rows(sites: list[str], n: int = 2_000) -> tuple[Any, Any, Any]:
        site = generator.choice(sites, n)
        y = (generator.random(n) < np.where(site == "north", 0.8, 0.2)).astype(int)
        return y, np.full(n, 0.5), {"site": site}

    # 'north' has code 0 in one data set and 1 in the other; two regions, so one is 'north' alone
    sites = ["north", "north", "south", "west"], ["east", "north", "north", "south"]
    result = epiloss.drift(*map(rows, sites), n_bins=1, partition=Tree(400), curve=lambda s: s)
    assert result.n_regions == 2
    assert result.reference.grouping_loss.value == pytest.approx(0.09, abs=0.02)
    assert result.current.grouping_loss.value == pytest.approx(0.09, abs=0.02)


# weights, clusters and columns


def named(rows: tuple[Any, Any, Any], **more: Any) -> dict[str, Any]:
    """Return a data set as a mapping."""
    return {**dict(zip(("y_true", "y_prob", "X"), rows, strict=True)), **more}


def repeated(rows: tuple[Any, Any, Any], times: Any) -> tuple[Any, Any, Any]:
    y, scores, X = rows
    return np.repeat(y, times), np.repeat(scores, times), np.repeat(X, times, axis=0)


def test_a_mapping_says_the_same_as_a_tuple() -> None:
    rows = drawn(STEP, 1_000, 0), drawn(STEP, 800, 1)
    assert epiloss.drift(*map(named, rows), n_bins=5) == epiloss.drift(*rows, n_bins=5)


def test_equal_weights_give_the_same_bits_as_none() -> None:
    before, after = drawn(STEP, 1_000, 0), drawn(STEP, 800, 1)
    weighted = (
        named(before, sample_weight=np.full(1_000, 3.0)),
        named(after, sample_weight=np.full(800, 0.2)),
    )
    assert epiloss.drift(*weighted, n_bins=5) == epiloss.drift(before, after, n_bins=5)


class BySide:
    """A partition that learns nothing: what is left is the evaluation."""

    def fit(self, X: Any, y: Any) -> None:
        """Learn nothing."""

    def predict(self, X: Any) -> Any:
        """Return the side."""
        return X[:, 0] > X[:, 1]


def test_whole_weights_are_repeated_rows_told_to_be_copies() -> None:
    """Score, calibration and grouping loss and their standard errors, within rounding.

    With an isotonic curve: leaving out one of several copies is no matter of weights.
    """
    g = np.random.default_rng(4)
    rows = drawn(STEP, 1_200, 0), drawn(STEP, 900, 1)
    times = [g.integers(1, 4, len(one[0])) for one in rows]
    units = [np.arange(len(one)) for one in times]
    options: dict[str, Any] = {"n_bins": 4, "curve": "isotonic", "partition": BySide()}
    options["method"] = "partition"
    weighted = epiloss.drift(
        *(named(r, sample_weight=t, clusters=u) for r, t, u in zip(rows, times, units, strict=True)),
        **options,
    )
    copies = epiloss.drift(
        *(
            named(repeated(r, t), clusters=np.repeat(u, t))
            for r, t, u in zip(rows, times, units, strict=True)
        ),
        **options,
    )
    plain = epiloss.drift(*rows, **options)
    for loss in LOSSES:
        for sample in ("reference", "current"):
            one, other, none = (
                getattr(getattr(result, sample), loss) for result in (weighted, copies, plain)
            )
            assert one.value == pytest.approx(other.value, abs=1e-9), (sample, loss)
            assert one.stderr == pytest.approx(other.stderr, rel=1e-6), (sample, loss)
            assert one.value != pytest.approx(none.value, abs=1e-7), (sample, loss)


def test_the_score_of_whole_weights_is_that_of_repeated_rows() -> None:
    """The current rows are all evaluated, so their score depends on no split."""
    before, after = drawn(STEP, 1_000, 0), drawn(STEP, 800, 1)
    times = np.random.default_rng(4).integers(1, 4, 800)
    weighted = epiloss.drift(before, named(after, sample_weight=times), n_bins=5)
    copied = epiloss.drift(before, repeated(after, times), n_bins=5)
    assert weighted.current.score.value == pytest.approx(copied.current.score.value, abs=1e-9)
    assert weighted.reference.n_evaluated == copied.reference.n_evaluated


def test_clusters_widen_the_standard_errors_of_rows_that_are_all_doubled() -> None:
    """By the square root of two; that of a calibration loss near zero by more, as it falls with n."""
    rows = drawn(STEP, 1_500, 0), drawn(STEP, 1_500, 1)
    pairs = np.repeat(np.arange(1_500), 2)
    twice = [repeated(one, 2) for one in rows]
    blind = epiloss.drift(*twice, n_bins=5)
    told = epiloss.drift(*(named(one, clusters=pairs) for one in twice), n_bins=5)
    wide, narrow = (
        np.array([getattr(one.current, loss).stderr for loss in LOSSES]) for one in (told, blind)
    )
    score, calibration, grouping = wide / narrow
    assert score == pytest.approx(np.sqrt(2), rel=1e-3)
    assert calibration > 1.3
    assert grouping == pytest.approx(np.sqrt(2), rel=0.1)
    for loss in LOSSES:
        wider, narrower = (one.difference[loss].stderr or 0.0 for one in (told, blind))
        assert wider > 1.3 * narrower > 0, loss


def test_a_cluster_is_never_divided_between_the_rows_that_learn_and_those_that_evaluate() -> None:
    """In clusters of ten copies, rows that have learned would know the labels of those left out."""
    y, scores, X = drawn(Sigmoid(grouping=0.0), 300, 0)
    ten = repeated((y, scores, X), 10)
    units = np.repeat(np.arange(300), 10)
    current = drawn(Sigmoid(grouping=0.0), 1_000, 1)
    options = {"n_bins": 3, "method": "partition"}
    blind = epiloss.drift(ten, current, **options).reference.grouping_loss
    told = epiloss.drift(named(ten, clusters=units), current, **options).reference.grouping_loss
    assert blind.value > 0.02  # which is not there
    twins = epiloss.drift(ten, current).reference.grouping_loss  # which know copies when they see them
    for loss in (told, twins):
        assert loss.stderr is not None
        assert loss.value < 3 * loss.stderr


def test_further_columns_are_ignored_and_come_in_any_order() -> None:
    before, (y, scores, X) = drawn(STEP, 1_000, 0), drawn(STEP, 800, 1)
    old = (*before[:2], {"a": before[2][:, 0], "b": before[2][:, 1]})
    columns = {"a": X[:, 0], "b": X[:, 1]}
    names = np.array([f"person {i}" for i in range(800)])
    more = {"name": names, "b": X[:, 1], "noise": np.arange(800) % 7, "a": X[:, 0]}
    assert epiloss.drift(old, (y, scores, more)) == epiloss.drift(old, (y, scores, columns))
    # what the reference leaves out, the current data need not have
    named_old = (*old[:2], {**old[2], "name": np.array([f"person {i}" for i in range(1_000)])})
    result = epiloss.drift(named_old, (y, scores, columns))
    assert result.difference == epiloss.drift(old, (y, scores, columns)).difference
    assert [remark.code for remark in result.remarks].count("names-left-out") == 1


@pytest.mark.parametrize("missing", ["a", "b"])
def test_a_missing_column_is_named(missing: str) -> None:
    before, (y, scores, X) = drawn(STEP, 300, 0), drawn(STEP, 300, 1)
    old = (*before[:2], {"a": before[2][:, 0], "b": before[2][:, 1]})
    fewer = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 0]}
    del fewer[missing]
    with pytest.raises(epiloss.DataError, match=f"current data: .* got no column '{missing}'"):
        epiloss.drift(old, (y, scores, fewer))


def test_the_seed_decides_and_json_gives_back_the_dict(tmp_path: Path) -> None:
    result, again = (drifted(STEP, STEP, 1_000, random_state=7) for _ in range(2))
    assert result == again
    text = result.to_json(tmp_path / "drift.json")
    assert json.loads(text) == result.to_dict() == json.loads((tmp_path / "drift.json").read_text())
    assert result.to_dict()["difference"]["score"]["value"] == result.difference["score"].value


def test_the_text_has_a_line_for_each_loss() -> None:
    lines = str(drifted(STEP, STEP, 1_000)).splitlines()
    assert lines[3].startswith("score ")
    assert lines[4].startswith("calibration loss ")
    assert lines[5].startswith("grouping loss ")
    by_regions = str(drifted(STEP, STEP, 1_000, method="partition")).splitlines()
    assert by_regions[5].startswith("grouping loss, at least ")


GOOD = ([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.8], [[0.0], [1.0], [2.0], [3.0]])


@pytest.mark.parametrize(
    ("current", "options", "error", "words"),
    [
        (
            GOOD,
            {"task": "classwise"},
            epiloss.OptionError,
            r"'top-label' for drift, got 'classwise'\. For one class",
        ),
        (
            GOOD,
            {"confidence_level": 2},
            epiloss.OptionError,
            r"confidence_level must lie in \(0, 1\), got 2\. Use",
        ),
        (
            GOOD,
            {"level": 0.9},
            epiloss.OptionError,
            r"drift has no option 'level'\. Did you mean 'confidence_level'\?",
        ),
        (
            GOOD[:2],
            {},
            epiloss.DataError,
            r"current data must be a tuple or a mapping, got 2 entries\. Pass",
        ),
        (3, {}, epiloss.DataError, r"current data must be a tuple or a mapping, got int\. Pass"),
        (
            {"y_true": GOOD[0], "y_prob": GOOD[1]},
            {},
            epiloss.DataError,
            r"current data must be a mapping with y_true, y_prob, X .* got no 'X'",
        ),
        (
            {"y_true": GOOD[0], "y_prob": GOOD[1], "X": GOOD[2], "weights": [1] * 4},
            {},
            epiloss.DataError,
            r"optionally sample_weight, clusters, got 'weights'",
        ),
        (
            {"y_true": GOOD[0], "y_prob": GOOD[1], "X": GOOD[2], "sample_weight": [1, 2]},
            {},
            epiloss.DataError,
            r"current data: y_prob and sample_weight must have the same number of rows",
        ),
        ((*GOOD[:2], None), {}, epiloss.DataError, r"current data must have features, got none\. Pass"),
        (
            (*GOOD[:2], {"z": [1] * 4}),
            {},
            epiloss.DataError,
            r"current data: X must have the columns .* got no column 'x0'\. Pass the same columns",
        ),
        (
            (*GOOD[:2], {"x0": list("abcd")}),
            {},
            epiloss.DataError,
            r"column 'x0' of X must have the same type in both data sets, got .* Convert",
        ),
        ((GOOD[0], [0.1, 2, 0, 1], GOOD[2]), {}, epiloss.DataError, r"current data: scores must lie in"),
    ],
)
def test_errors_say_the_rule_the_value_and_the_remedy(
    current: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        epiloss.drift(GOOD, current, **options)


@pytest.mark.slow
def test_by_twins_data_sets_of_other_sizes_have_no_drift() -> None:
    """15 pairs of 6,000 and 1,500 rows: the mean z-score lies within 3.5 standard errors of 0.

    Learners of more rows would find more: they learn from as many in both.
    """
    scores = []
    for seed in range(15):
        pair = drawn(Sigmoid(n_noise=8), 6_000, 2 * seed), drawn(Sigmoid(n_noise=8), 1_500, 2 * seed + 1)
        change = epiloss.drift(*pair).difference["grouping_loss"]
        assert change.stderr is not None
        scores.append(change.value / change.stderr)
    assert abs(np.mean(scores)) < 3.5 * np.std(scores, ddof=1) / np.sqrt(15)


@pytest.mark.parametrize("call", ["drift", "track"])
def test_given_classes_are_those_of_both_data_sets_whatever_the_names_of_columns(call: str) -> None:
    """The columns have the order of ``classes``, as in an audit."""
    generator = np.random.default_rng(0)
    classes = ["Good", "Very Good", "Fair"]
    samples = []
    for _ in range(2):
        scores = generator.dirichlet(np.ones(3), 800)
        drawn = (generator.random((800, 1)) > scores.cumsum(axis=1)).sum(axis=1)
        X = generator.normal(size=(800, 2))
        samples.append((np.array(classes)[np.minimum(drawn, 2)], scores, X))
    named = ["p_Good", "p_VeryGood", "p_Fair"]
    frames = [(y, pd.DataFrame(scores, columns=named), X) for y, scores, X in samples]
    day = np.arange(800) // 40
    expected, found = (
        epiloss.track(both[0], both[1], day, classes=classes)
        if call == "track"
        else epiloss.drift(*both, classes=classes, method="partition")
        for both in (samples, frames)
    )
    assert found.to_dict() == expected.to_dict()
    with pytest.raises(epiloss.DataError, match="named after the classes"):
        epiloss.drift(*frames)
