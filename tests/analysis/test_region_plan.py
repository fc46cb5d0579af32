"""A plan of regions: batches count as they count together, with their weights and clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import epiloss
from epiloss.calibration.curves import Curve, CurveFitter, Isotonic
from epiloss.calibration.smoothers import DistinctScores
from epiloss.partition import Tree
from epiloss.simulate import Sample, Sigmoid

STEP = Sigmoid(perturbation="step")
LOSSES = ("score", "calibration_loss", "grouping_loss")


def rows_of(sample: Sample) -> tuple[Any, Any, dict[str, Any]]:
    """Return labels, scores and features as a table with a category."""
    site = np.where(sample.X[:, 0] > 1, "far", np.where(sample.X[:, 0] < -1, "near", "middle"))
    return sample.y, sample.scores, {"a": sample.X[:, 0], "b": sample.X[:, 1], "site": site}


@pytest.fixture(scope="module")
def plan() -> epiloss.RegionPlan:
    """Return a plan whose regions are large, so that none is joined for having a single row."""
    learn = rows_of(STEP.sample(2_000, random_state=0))
    return epiloss.RegionPlan.learn(*learn, n_bins=5, partition=Tree(60))


@pytest.fixture(scope="module")
def batch() -> tuple[Any, Any, dict[str, Any]]:
    return rows_of(STEP.sample(2_000, random_state=1))


def repeated(rows: tuple[Any, Any, dict[str, Any]], times: Any) -> tuple[Any, Any, dict[str, Any]]:
    y, p, X = rows
    return (
        np.repeat(y, times),
        np.repeat(p, times),
        {name: np.repeat(one, times) for name, one in X.items()},
    )


def test_a_plan_counts_batches_as_it_counts_them_together() -> None:
    learn, *batches = (STEP.sample(2_000, random_state=i) for i in range(4))
    plan = epiloss.RegionPlan.learn(learn.y, learn.scores, learn.X)
    stats = epiloss.RegionStats.empty(plan.name)
    for batch in reversed(batches):
        stats = stats.merge(plan.stats(batch.y, batch.scores, batch.X))
    together = [np.concatenate([getattr(one, name) for one in batches]) for name in ("y", "scores", "X")]
    whole = plan.stats(*together)
    np.testing.assert_array_equal(stats.sums, whole.sums)
    losses = plan.losses(stats)
    exact = STEP.truth()
    assert 0.7 * exact.grouping_loss < losses.total("grouping_loss") < 1.1 * exact.grouping_loss


def test_a_plan_says_what_it_cannot_count() -> None:
    one = Sigmoid().sample(500)
    plan = epiloss.RegionPlan.learn(one.y, one.scores, one.X)
    with pytest.raises(epiloss.DataError, match="labels must be among the classes"):
        plan.stats(one.y + 5, one.scores, one.X)
    with pytest.raises(epiloss.DataError, match="same number of rows"):
        plan.stats(one.y[:10], one.scores, one.X)
    with pytest.raises(epiloss.DataError, match="X must be given to learn regions"):
        epiloss.RegionPlan.learn(one.y, one.scores, None)
    with pytest.raises(
        epiloss.OptionError, match=r"no option 'level'\. Did you mean 'confidence_level'"
    ):
        epiloss.RegionPlan.learn(one.y, one.scores, one.X, level=0.9)
    three = np.full((3, 3), 1 / 3)
    with pytest.raises(epiloss.OptionError, match="'binary' or 'top-label' for a plan"):
        epiloss.RegionPlan.learn([0, 1, 2], three, np.zeros((3, 1)), task="classwise")


# columns


def test_further_columns_are_ignored_in_any_order(
    plan: epiloss.RegionPlan, batch: tuple[Any, Any, dict[str, Any]]
) -> None:
    y, p, X = batch
    names = np.array([f"person {i}" for i in range(len(y))])
    more = {"name": names, **dict(reversed(X.items())), "noise": np.arange(len(y)) % 7}
    np.testing.assert_array_equal(plan.stats(y, p, more).sums, plan.stats(y, p, X).sums)


def test_names_of_rows_that_were_left_out_when_learning_are_left_out_again(
    batch: tuple[Any, Any, dict[str, Any]],
) -> None:
    y, p, X = batch
    named = {**X, "name": np.array([f"person {i}" for i in range(len(y))])}
    learned = epiloss.RegionPlan.learn(y, p, named)
    assert learned.known.features is not None
    assert learned.known.features.names == ("a", "b", "site")
    other = rows_of(STEP.sample(500, random_state=5))
    without = epiloss.RegionPlan.learn(*batch)
    np.testing.assert_array_equal(learned.stats(*other).sums, without.stats(*other).sums)


@pytest.mark.parametrize("missing", ["a", "site"])
def test_a_missing_column_is_named(
    missing: str, plan: epiloss.RegionPlan, batch: tuple[Any, Any, dict[str, Any]]
) -> None:
    y, p, X = batch
    fewer = {name: one for name, one in X.items() if name != missing}
    with pytest.raises(
        epiloss.DataError, match=f"columns that were used for learning, got no column '{missing}'"
    ):
        plan.stats(y, p, fewer)
    with pytest.raises(epiloss.DataError, match="columns that were used for learning, got none"):
        plan.stats(y, p, None)


# weights and clusters


def test_equal_weights_give_the_same_bits_as_none(batch: tuple[Any, Any, dict[str, Any]]) -> None:
    learn = rows_of(STEP.sample(2_000, random_state=0))
    equal = np.full(2_000, 3.0)
    plans = [epiloss.RegionPlan.learn(*learn, sample_weight=one) for one in (None, equal)]
    counted = [
        plan.stats(*batch, sample_weight=one) for plan, one in zip(plans, (None, equal), strict=True)
    ]
    np.testing.assert_array_equal(counted[0].sums, counted[1].sums)
    assert plans[0].losses(counted[0]).total("score") == plans[1].losses(counted[1]).total("score")


def test_whole_weights_count_as_repeated_rows_told_to_be_copies(
    plan: epiloss.RegionPlan, batch: tuple[Any, Any, dict[str, Any]]
) -> None:
    """Copies that are not told as such look like more rows, of less noise; the score is theirs too."""
    times = np.random.default_rng(2).integers(1, 4, len(batch[0]))
    same = np.repeat(np.arange(len(times)), times)
    weighted = plan.losses(plan.stats(*batch, sample_weight=times))
    copies = plan.losses(plan.stats(*repeated(batch, times), clusters=same))
    blind = plan.losses(plan.stats(*repeated(batch, times)))
    plain = plan.losses(plan.stats(*batch))
    for loss in LOSSES:
        assert weighted.total(loss) == pytest.approx(copies.total(loss), rel=1e-8), loss
        assert weighted.total(loss) != pytest.approx(plain.total(loss), rel=1e-4), loss
    for loss in ("score", "calibration_loss_plugin"):
        assert weighted.total(loss) == pytest.approx(blind.total(loss), rel=1e-8), loss


def test_rows_without_weight_do_not_count(
    plan: epiloss.RegionPlan, batch: tuple[Any, Any, dict[str, Any]]
) -> None:
    y, p, X = batch
    kept = np.arange(len(y)) % 3 > 0
    weighted = plan.stats(*batch, sample_weight=kept.astype(float))
    alone = plan.stats(y[kept], p[kept], {name: one[kept] for name, one in X.items()})
    np.testing.assert_array_equal(weighted.sums, alone.sums)


def test_what_is_learned_follows_the_weights(batch: tuple[Any, Any, dict[str, Any]]) -> None:
    """Where one half of the rows has hardly any weight, the regions are those of the other half."""
    learn = rows_of(STEP.sample(2_000, random_state=0))
    one_side = np.where(learn[2]["a"] > 0, 1.0, 1e-3)
    plans = [epiloss.RegionPlan.learn(*learn, sample_weight=one) for one in (None, one_side)]
    plain, weighted = (plan.stats(*batch) for plan in plans)
    assert plain.region.tolist() != weighted.region.tolist()


def test_rows_that_are_doubled_count_once_if_they_are_told_to_be_clusters(
    plan: epiloss.RegionPlan, batch: tuple[Any, Any, dict[str, Any]]
) -> None:
    """Otherwise the noise of the regions seems half as large, and the bound is higher."""
    twice = repeated(batch, 2)
    pairs = np.repeat(np.arange(len(batch[0])), 2)
    once = plan.losses(plan.stats(*batch))
    told = plan.losses(plan.stats(*twice, clusters=pairs))
    blind = plan.losses(plan.stats(*twice))
    for loss in LOSSES:
        assert told.total(loss) == pytest.approx(once.total(loss), rel=1e-8), loss
    np.testing.assert_allclose(told.effective_n, once.effective_n, rtol=1e-8)
    np.testing.assert_allclose(blind.effective_n, 2 * once.effective_n, rtol=1e-8)
    assert blind.total("bias") == pytest.approx(told.total("bias") / 2, rel=0.05)
    assert blind.total("grouping_loss") > told.total("grouping_loss")


class Noting(CurveFitter):
    """A curve that notes which scores it was fitted on."""

    def __init__(self) -> None:
        self.seen: list[set[float]] = []

    def fit_distinct(self, rows: DistinctScores) -> Curve:
        """Fit an isotonic curve."""
        self.seen.append(set(rows.scores.tolist()))
        return Isotonic().fit_distinct(rows)


def test_a_plan_never_divides_a_cluster_between_its_two_curves() -> None:
    """Curves that share rows would agree, and hide the noise that both have."""
    rows = repeated(rows_of(STEP.sample(600, random_state=0)), 2)
    pairs = np.repeat(np.arange(600), 2)
    shared = []
    for clusters in (None, pairs):
        curve = Noting()
        epiloss.RegionPlan.learn(*rows, clusters=clusters, curve=curve)
        one, other = curve.seen
        shared.append(len(one & other))
    assert shared[0] > 200
    assert shared[1] == 0
