"""Excess risk of rows: its definition, its honesty, and an order that the score does not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import epiloss
from deferral import PROBLEMS, Drawn, on_real_data, simulated, top
from epiloss import OptionError
from epiloss.scoring import LogLoss
from epiloss.simulate import MultiClass, Sigmoid


def drawn(n: int = 1_500, seed: int = 0) -> Drawn:
    return PROBLEMS["one segment is wrong"](n, np.random.default_rng(seed))


def test_the_excess_is_the_divergence_of_the_prediction_and_the_risk_adds_its_entropy() -> None:
    X, y, scores, _ = drawn()
    for rule in ("brier", "log"):
        found = epiloss.audit(y, scores, X, rule=rule, method="partition").excess_risk()
        assert list(found) == ["row", "score", "prediction", "risk", "excess_risk"]
        s, p = found["score"], found["prediction"]
        np.testing.assert_array_equal(s, scores)
        loss = LogLoss().loss if rule == "log" else lambda q, label: (q - label) ** 2
        expected = p * loss(s, np.ones(len(s))) + (1 - p) * loss(s, np.zeros(len(s)))
        least = p * loss(p, np.ones(len(s))) + (1 - p) * loss(p, np.zeros(len(s)))
        np.testing.assert_allclose(found["risk"], expected, rtol=1e-9)
        np.testing.assert_allclose(found["excess_risk"], expected - least, atol=1e-12)
        assert (found["excess_risk"] >= 0).all()


def test_with_costs_it_is_what_the_decision_costs_more_than_that_of_the_prediction() -> None:
    X, y, scores, _ = drawn()
    found = epiloss.audit(y, scores, X, method="partition").excess_risk(cost_fp=2, cost_fn=6)
    s, p = found["score"], found["prediction"]
    acts, should = s >= 0.25, p >= 0.25
    np.testing.assert_allclose(found["risk"], np.where(acts, 2 * (1 - p), 6 * p), rtol=1e-12)
    wrong = np.abs(2 * (1 - p) - 6 * p)  # what the other decision costs more
    np.testing.assert_allclose(found["excess_risk"], np.where(acts == should, 0, wrong), atol=1e-12)
    assert (acts != should).any()


def test_labels_of_a_row_do_not_move_its_own_prediction() -> None:
    """Models and weights of a fold are learned on the others: what moves, moves all its rows alike."""
    X, y, scores, _ = drawn(600)
    before = epiloss.audit(y, scores, X, method="partition").excess_risk()["prediction"]
    for row in (5, 100, 311):
        other = y.copy()
        other[row] = 1 - y[row]
        after = epiloss.audit(other, scores, X, method="partition").excess_risk()["prediction"]
        assert after[row] == before[row]
        assert (after != before).any()  # those of other folds


def test_rows_are_counted_as_the_user_counts_them() -> None:
    X, y, scores, _ = drawn(400)
    given = scores.copy()
    given[[3, 10]] = np.nan
    found = epiloss.audit(y, given, X, drop_missing=True, method="partition").excess_risk()
    assert found["row"].tolist() == [row for row in range(400) if row not in (3, 10)]


@pytest.mark.parametrize("problem", ["one segment is wrong", "wrong far from 1/2"])
def test_it_orders_rows_better_than_the_score(problem: str) -> None:
    """Of the excess that 10% of the rows could have, over half; deferring by the score has under 25%."""
    found = simulated(problem, 4_000, repetitions=3, seed=1)
    assert found.by_excess > 0.55
    assert found.by_score < 0.25


def test_where_the_score_tells_all_little_is_lost() -> None:
    found = simulated("wrong near 1/2, a function of the score", 4_000, repetitions=3, seed=1)
    assert found.by_score == pytest.approx(1.0, abs=0.01)
    assert found.by_excess > 0.8


def test_deferring_rows_of_the_bundled_data_saves_more_than_by_the_score(tmp_path: Path) -> None:
    """10,000 rows: to a person who knows, where false negatives cost 5."""
    lines = on_real_data("Census-Income (bundled), incomes above 50,000", tmp_path, seed=3)
    (line,) = (one for one in lines if one.cost_fn == 5 and one.deferred_to == "a person who knows")
    assert line.difference > 0
    assert line.by_risk > line.by_score > 0.1 * line.cost


def test_several_scores_and_costs_that_are_none_are_refused() -> None:
    sample = MultiClass().sample(300)
    with pytest.raises(OptionError, match="excess_risk needs an audit of a single score"):
        epiloss.audit(sample.y, sample.scores, task="classwise", method="partition").excess_risk()
    one = Sigmoid().sample(300)
    result = epiloss.audit(one.y, one.scores)
    for cost in (0.0, -1.0, float("nan")):
        with pytest.raises(OptionError, match="cost_fn must be a positive finite number"):
            result.excess_risk(cost_fn=cost)


def test_whole_clusters_are_left_out_and_too_few_are_refused() -> None:
    X, y, scores, _ = drawn(600)
    before, after = (
        epiloss.audit(labels, scores, X, clusters=np.arange(600) // 3, method="partition").excess_risk()
        for labels in (y, np.where(np.arange(600) == 30, 1 - y, y))
    )
    np.testing.assert_array_equal(after["prediction"][30:33], before["prediction"][30:33])
    few = epiloss.audit(y, scores, X, clusters=np.arange(600) % 4, method="partition")
    with pytest.raises(OptionError, match="at least 5 clusters, got 4"):
        few.excess_risk()


def test_the_largest_are_on_top() -> None:
    assert top(np.array([3.0, 9.0, 1.0, 7.0]), 0.5).tolist() == [1, 3]
