"""Models that are equally good differ significantly in at most 5% of samples, weighted or not.

Each check draws 100 samples of 1,000 rows on fixed seeds. Of tests that reject in 5%, more than 11 do
once in 200 times.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import epiloss

pytestmark = pytest.mark.slow
REPETITIONS, N, MOST_FOUND = 100, 1_000, 11


def grouping_loss_pvalue(seed: int, variation: float) -> float:
    """Compare two scores that add different noise, of equal size, to the log-odds of the truth."""
    generator = np.random.default_rng([N, seed, int(10 * variation)])
    u = generator.normal(size=N)
    models = {name: expit(u + 0.7 * generator.normal(size=N)) for name in ("one", "other")}
    X = np.column_stack([u, generator.normal(size=(N, 2))])
    y = (generator.random(N) < expit(u)).astype(float)
    spread = np.sqrt(np.log1p(variation**2))
    weights = np.exp(spread * generator.normal(size=N)) if variation else None
    options = {"sample_weight": weights, "n_bins": 5, "random_state": seed}
    table = epiloss.compare(y, models, X, baseline="one", **options).differences
    return float(table["pvalue"][table["loss"].tolist().index("grouping_loss")])


@pytest.mark.parametrize("variation", [0.0, 2.0])
def test_equal_models_have_equal_grouping_losses(variation: float) -> None:
    """The noise of models that a row trains does not cancel between two scores: it was left out."""
    pvalues = np.array([grouping_loss_pvalue(seed, variation) for seed in range(REPETITIONS)])
    assert np.count_nonzero(pvalues <= 0.05) <= MOST_FOUND
    assert np.count_nonzero(pvalues <= 0.8) > REPETITIONS / 3
