"""The difference of a loss between two audits of the same rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from epiloss.estimate import Estimate
from epiloss.estimation.inference import difference_estimate
from epiloss.estimation.influence import Influence
from epiloss.input.problem import RegionSource

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit


LOSSES = ("score", "calibration_loss", "grouping_loss")
PARTS = (*LOSSES, "remainder")  # the score is the sum of the others


def loss_title(loss: str, audit: Audit) -> str:
    """Return the title of a loss in tables; a grouping loss that is a lower bound says so."""
    title = loss.replace("_", " ")
    return f"{title}, at least" if loss == "grouping_loss" and audit.is_bound else title


def paired_difference(one: Audit, other: Audit, loss: str) -> Estimate:
    """Return how much larger a loss is in one audit than in another of the same rows.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(1_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> difference = paired_difference(result, result, "score")
    >>> difference.value, difference.pvalue
    (0.0, 1.0)
    """
    value = float(getattr(one, loss)) - float(getattr(other, loss))
    parts = _influence(one, loss), _influence(other, loss)
    if value == 0 and np.array_equal(parts[0].contribution, parts[1].contribution):
        return difference_estimate(0.0, 0.0, one.confidence_level)  # the same scores
    difference = parts[0] - parts[1]
    stderr = math.hypot(difference.stderr(), math.sqrt(min(difference.model_noise, difference.variance)))
    if (
        loss == "grouping_loss"
        and one.method == "partition"
        and one.region_source is RegionSource.LEARNED
    ):
        # Each model learns its own regions, and this noise does not cancel between the two. In
        # simulations the variance was 1.2 to 1.7 times that of the influences, and less than that of
        # independent samples.
        apart = math.hypot(one.influence[loss].stderr(), other.influence[loss].stderr())
        stderr = min(math.sqrt(2) * stderr, max(stderr, apart))
    return difference_estimate(value, stderr, one.confidence_level)


def _influence(audit: Audit, loss: str) -> Influence:
    """Return the influence of each row on a loss, also through the models that it trains."""
    influence = audit.influence
    if audit.method == "twin" and audit.without_bins is not None:
        influence = {**influence, "grouping_loss": _with_training(influence["grouping_loss"])}
    if loss != "remainder":
        return influence[loss]
    score, *others = (influence[name] for name in LOSSES)
    return score - others[0] - others[1]


def _with_training(influence: Influence) -> Influence:
    """Return the influence of rows as they are evaluated and as they train the models.

    A single audit adds the variance of the second to that of the first. In a difference of two audits,
    these additions would cancel, although the models of two scores learn different things from a row.
    To first order, a row's influence through training is proportional to its contribution.
    """
    share = influence.beyond / influence.variance if influence.variance > 0 else 0.0
    return Influence((1 + share) * influence.contribution, model_noise=influence.model_noise)
