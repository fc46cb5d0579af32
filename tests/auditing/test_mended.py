"""Defects of what follows an audit that were found and mended, so that they stay so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import epiloss
from epiloss.simulate import Sigmoid

SAMPLE = Sigmoid(perturbation="step").sample(400)
STATES: dict[str, Callable[[], Any]] = {
    "a generator": lambda: np.random.default_rng(3),
    "a random state": lambda: np.random.RandomState(3),
    "none": lambda: None,
    "a number": lambda: 3,
}
each_state = pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())


@each_state
@pytest.mark.parametrize("method", ["crossfit", "partition"])
def test_models_are_compared_on_the_same_splits_whatever_the_source_of_randomness(
    state: Callable[[], Any], method: str
) -> None:
    """A source that moves on with each model once made equal models differ."""
    models = dict.fromkeys(("one", "same", "again"), SAMPLE.scores)
    learner = DecisionTreeRegressor(max_depth=3) if method == "crossfit" else None
    options: dict[str, Any] = {"method": method, "learner": learner, "n_bins": 3}
    result = epiloss.compare(SAMPLE.y, models, SAMPLE.X, random_state=state(), **options)
    audits = [one.to_dict() for one in result.audits.values()]
    assert audits[0] == audits[1] == audits[2]
    assert len(result.differences) == 6
    np.testing.assert_array_equal(result.differences["difference"], 0.0)
    # the splits do matter, so that equal ones are told from others
    other = epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, random_state=4, **options)
    assert other.grouping_loss.value != next(iter(result.audits.values())).grouping_loss.value


@each_state
def test_recalibrated_models_are_compared_on_the_same_splits_too(state: Callable[[], Any]) -> None:
    models = {"one": SAMPLE.scores, "same": SAMPLE.scores}
    options: dict[str, Any] = {"method": "partition", "recalibrate": "isotonic", "n_bins": 3}
    result = epiloss.compare(SAMPLE.y, models, SAMPLE.X, random_state=state(), **options)
    assert any(loss.endswith("_recalibrated") for loss in result.differences["loss"])
    np.testing.assert_array_equal(result.differences["difference"], 0.0)


def test_a_generator_still_moves_on_from_one_comparison_to_the_next() -> None:
    generator = np.random.default_rng(3)
    first, second = (
        epiloss.compare(
            SAMPLE.y,
            {"one": SAMPLE.scores},
            SAMPLE.X,
            random_state=generator,
            method="partition",
            n_bins=3,
        )
        for _ in range(2)
    )
    assert first.audits["one"].plugin != second.audits["one"].plugin


@pytest.mark.parametrize("present", [0, 1])
def test_a_column_without_values_among_the_rows_that_learn_is_repaired_without(present: int) -> None:
    """Boosted trees cannot bin such a column; what is told of it must not be their error."""
    hollow = np.full(400, np.nan)
    hollow[:present] = 1.0
    data = (SAMPLE.y, SAMPLE.scores, np.column_stack([SAMPLE.X, hollow]))
    repaired = epiloss.audit(*data, method="partition", n_bins=3).repair()
    assert np.isfinite(repaired.scores).all()
    model = epiloss.RegionRecalibrator().fit(*data)
    scores = model.predict(SAMPLE.scores, data[2])
    plain = epiloss.RegionRecalibrator().fit(SAMPLE.y, SAMPLE.scores, SAMPLE.X)
    assert np.corrcoef(scores, plain.predict(SAMPLE.scores, SAMPLE.X))[0, 1] > 0.9
