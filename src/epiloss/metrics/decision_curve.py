"""Decision curves: the net benefit of acting on scores above a threshold, by threshold.

Vickers and Elkin, "Decision curve analysis: a novel method for evaluating prediction models", Medical
Decision Making 26, 2006.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from epiloss._typing import Floats
from epiloss.errors import OptionError
from epiloss.estimation.inference import normal_estimate
from epiloss.metrics.rows import ScoredRows
from epiloss.table import Table

THRESHOLDS = np.linspace(0.01, 0.99, 99)


def decision_curve(
    rows: ScoredRows,
    others: Mapping[str, Floats] | None = None,
    *,
    thresholds: Sequence[float] | Floats | None = None,
    level: float = 0.95,
) -> Table:
    """Return the net benefit of acting on all rows, on the score and on ``others``, with intervals.

    The net benefit at a threshold ``t`` is ``TP / n - FP / n * t / (1 - t)``: the threshold sets the
    cost of a false positive. The net benefit of acting on no row is 0.

    Examples
    --------
    >>> rows = ScoredRows(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]))
    >>> curve = decision_curve(rows, thresholds=[0.2, 0.5])
    >>> curve["treat_all"].round(3).tolist(), curve["score"].round(3).tolist()
    ([0.375, 0.0], [0.438, 0.5])
    """
    at = THRESHOLDS if thresholds is None else np.asarray(thresholds, float)
    wrong = ~((at > 0) & (at < 1))
    if wrong.any() or not len(at):
        got = at[wrong][0] if wrong.any() else "none"
        raise OptionError(f"thresholds must lie strictly between 0 and 1, got {got}.")
    columns: dict[str, Floats] = {"threshold": at}
    columns["treat_all"] = rows.rate - (1 - rows.rate) * at / (1 - at)
    for name, scores in {"score": rows.scores, **(others or {})}.items():
        ends = np.array([_net_benefit(rows, scores, one, level) for one in at.tolist()])
        columns |= dict(zip((name, f"{name}_low", f"{name}_high"), ends.T, strict=True))
    return Table(columns)


def _net_benefit(
    rows: ScoredRows, scores: Floats, threshold: float, level: float
) -> tuple[float, float, float]:
    benefit = np.where(rows.labels == 1, 1.0, -threshold / (1 - threshold)) * (scores >= threshold)
    found = normal_estimate(rows.mean(benefit), rows.stderr(rows.mean_influence(benefit)), level)
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    return found.value, low, high
