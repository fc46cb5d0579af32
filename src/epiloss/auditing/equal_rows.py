"""Rows with equal features and score act as repeated labels: a check that needs no learner.

The labels of rows with equal features and score are independent draws with one probability ``Q``. If
``t`` of ``m`` labels are 1, ``q2 = t (t-1) / (m (m-1))`` is unbiased for its square. With calibration
curves ``C_a`` and ``C_b`` from disjoint halves of other rows,

    GL = mean[ q2 - y (C_a + C_b) + C_a C_b ]

is an unbiased estimate of their grouping loss, to compare with what the learners estimate for the same
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._random import stream
from epiloss._threads import dot
from epiloss._typing import Codes, Floats
from epiloss.estimate import Estimate, percent
from epiloss.estimation.inference import normal_estimate
from epiloss.estimation.influence import Influence
from epiloss.estimation.options import Options
from epiloss.estimation.repeated_labels import out_of_fold_curves
from epiloss.estimation.twins.design import content_keys, order_and_units
from epiloss.input.problem import Problem
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.scoring import Brier

_ODD = np.uint64(0x9E3779B97F4A7C15)  # gives rows with different claimed classes different keys
_LEAST_SHARE, _LEAST_KINDS = 0.1, 50  # share of rows with equals, and number of distinct combinations


@dataclass(frozen=True)
class EqualRows:
    """The grouping loss of rows that share features and score with others, without a learner.

    Attributes
    ----------
    n_rows, n_kinds : int
        Number of such rows, and number of distinct combinations of features and score.
    share : float
        Their share of all rows.
    grouping_loss : Estimate
        Their grouping loss, measured from pairs of labels; it does not depend on a learner.
    learned : float or None
        The learners' estimate for the same rows; None if the grouping loss has no influence values.

    See Also
    --------
    epiloss.Audit.equal_rows : the result for an audit.

    Examples
    --------
    >>> import textwrap
    >>> found = EqualRows(600, 80, 0.6, Estimate(0.010, 0.002, 0.006, 0.014), 0.009)
    >>> found.agrees
    True
    >>> print(textwrap.fill(str(found), 98))
    60% of the rows share features and score with other rows (80 combinations). Their labels alone
    show a grouping loss of 0.0100 [0.0060, 0.0140]; the learners estimate 0.0090 for the same rows.
    """

    n_rows: int
    n_kinds: int
    share: float
    grouping_loss: Estimate
    learned: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether the interval contains the learners' estimate; None if there is none."""
        low, high = self.grouping_loss.low, self.grouping_loss.high
        if self.learned is None or low is None or high is None:
            return None
        return low <= self.learned <= high

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name.

        Returns
        -------
        dict
            The attributes by name, and ``agrees``.
        """
        loss = self.grouping_loss.to_dict()
        return {**vars(self), "grouping_loss": loss, "agrees": self.agrees}

    def __str__(self) -> str:
        text = (
            f"{percent(round(self.share, 2))} of the rows share features and score with other rows "
            f"({self.n_kinds:,} combinations). Their labels alone show a grouping loss of "
            f"{self.grouping_loss:.4f}"
        )
        if self.learned is None:
            return f"{text}."
        text += f"; the learners estimate {self.learned:.4f} for the same rows"
        return f"{text}." if self.agrees else f"{text}, outside this interval."


def equal_rows(
    problem: Problem, options: Options, loss: Estimate, influence: Influence | None
) -> EqualRows | None:
    """Measure the grouping loss of rows with equals for the Brier score; None if they are too few.

    ``loss`` is the learners' estimate for all rows, and ``influence`` the rows' influence on it. Copies
    of one row, and rows of a cluster, are not independent draws and are not used.
    """
    one_score = problem.task in ("binary", "top-label") and isinstance(options.rule, Brier)
    if problem.features is None or problem.clusters is not None or not one_score:
        return None
    binary = binary_problems(problem, options.rule)[0]
    kind, count = _kinds(binary)
    several = count[kind] > 1
    n_kinds = int((count > 1).sum())
    if several.mean() < _LEAST_SHARE or n_kinds < _LEAST_KINDS or order_and_units(binary)[1] is not None:
        return None
    weights = np.ones(len(kind)) if problem.weights is None else problem.weights
    estimate = _measured(binary, weights, kind, count, options)
    learned = None
    if influence is not None and len(influence.contribution) == len(kind):
        share = weights / weights.sum()
        learned = loss.value + float(influence.contribution[several].sum() / share[several].sum())
    return EqualRows(
        n_rows=int(several.sum()),
        n_kinds=n_kinds,
        share=float(several.mean()),
        grouping_loss=estimate,
        learned=learned,
    )


def _measured(
    problem: BinaryProblem, weights: Floats, kind: Codes, count: Codes, options: Options
) -> Estimate:
    """Return the grouping loss of the rows that share a kind with others."""
    ones, n = np.bincount(kind, problem.labels), count.astype(float)
    square = (ones * (ones - 1) / np.maximum(n * (n - 1), 1.0))[kind]
    generator = stream(options.seed, "ratings")
    a, b = out_of_fold_curves(problem.scores, problem.labels, problem.weights, generator)
    values = square - problem.labels * (a + b) + a * b
    share = np.where(n[kind] > 1, weights, 0.0)
    share = share / share.sum()
    value = dot(share, values)
    # Rows of one kind share the estimate of the square, so the independent units are the kinds.
    influence = Influence(np.bincount(kind, share * (values - value)).astype(float))
    return normal_estimate(value, influence.stderr(), options.confidence_level)


def _kinds(problem: BinaryProblem) -> tuple[Codes, Codes]:
    """Return the kind of each row, and the number of rows of each kind."""
    keys = content_keys(problem)
    if problem.claimed is not None:
        keys = keys ^ (problem.claimed.astype(np.uint64) * _ODD)
    _, kind, count = np.unique(keys, return_inverse=True, return_counts=True)
    return kind, count
