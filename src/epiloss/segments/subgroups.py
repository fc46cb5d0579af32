"""Gaps of given groups, with intervals and adjusted p-values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from epiloss._typing import Codes
from epiloss.estimation.inference import adjusted_pvalues
from epiloss.input.problem import Groups
from epiloss.input.tasks import BinaryProblem
from epiloss.segments.gaps import CentredRows, Gap
from epiloss.table import Table

GAP_COLUMNS = (
    "subgroup", "n", "share", "score_mean", "rate", "expected", "gap", "low", "high", "pvalue",
    "pvalue_adjusted",
)  # fmt: skip
_TOGETHER = 2**20  # rows times groups that are measured at once


def measured_groups(problem: BinaryProblem, codes: Codes, n_groups: int) -> list[Gap]:
    """Return the gap of each group, given the group's code for each row."""
    order = np.lexsort((problem.labels, problem.scores))
    centred, codes = CentredRows.of(problem, order), codes[order]
    together = max(_TOGETHER // len(codes), 1)
    gaps = []
    for start in range(0, n_groups, together):
        some = np.arange(start, min(start + together, n_groups))
        gaps += centred.gaps(codes == some[:, None])
    return gaps


def gap_pvalues(gaps: Sequence[Gap]) -> list[float]:
    """Return the two-sided p-values of no gap; 1 if a group is too small."""
    return [float(2 * ndtr(-abs(gap.z))) for gap in gaps]


def subgroup_gaps(problem: BinaryProblem, groups: Groups, *, level: float = 0.95) -> Table:
    """Return one row for each group: its rate and that of all rows with the same scores.

    The columns are ``GAP_COLUMNS``; ``low`` and ``high`` are the interval of the gap, and
    ``pvalue_adjusted`` controls the family-wise error rate over groups (step-down). If all gaps are 0,
    the scores satisfy sufficiency on average over scores; equal rates or equal error rates are not
    required.

    Examples
    --------
    >>> from epiloss.input.tasks import BinaryProblem
    >>> from epiloss.scoring import Brier
    >>> rng = np.random.default_rng(0)
    >>> scores, codes = rng.random(4_000), rng.integers(0, 2, 4_000)
    >>> labels = (rng.random(4_000) < 0.8 * scores + 0.2 * codes).astype(float)
    >>> problem = BinaryProblem(None, scores, labels, Brier(), None, None, None, None)
    >>> table = subgroup_gaps(problem, Groups(codes, ("a", "b")))
    >>> [(str(name), round(float(gap), 1)) for name, gap in zip(table["subgroup"], table["gap"])]
    [('a', -0.1), ('b', 0.1)]
    """
    gaps = measured_groups(problem, groups.codes, len(groups.names))
    pvalues = np.array(gap_pvalues(gaps), float)
    value, stderr = (np.array([getattr(gap, name) for gap in gaps]) for name in ("value", "stderr"))
    reach = float(ndtri((1 + level) / 2)) * stderr
    return Table(
        {
            "subgroup": np.array(groups.names, object),
            **{
                name: np.array([getattr(gap, name) for gap in gaps])
                for name in ("n", "share", "score_mean", "rate", "expected")
            },
            "gap": value,
            "low": value - reach,
            "high": value + reach,
            "pvalue": pvalues,
            "pvalue_adjusted": adjusted_pvalues(pvalues, "max"),
        }
    )
