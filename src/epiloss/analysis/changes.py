"""What changed between two data sets: the population, the labels at equal features, or both.

All rows are pooled; ``D`` says which data set a row is of. Three questions are answered apart:

- Did the scores change? Means of polynomials of the score's rank are compared.
- Did the features change at equal scores? Twin learners predict ``D`` beyond the score.
- Did the labels change at equal scores *and* features? With ``m = E[Y | S, X]`` and
  ``pi = E[D | S, X]``, both predicted for rows not learned from, the product ``(Y - m)(D - pi)`` has
  mean ``pi (1 - pi) (Q_current - Q_reference)`` given ``S`` and ``X``: 0 everywhere unless the labels
  change, whatever the populations are. Errors of the two predictions enter only as a product
  (generalised covariance: Shah and Peters, 2020). Its mean, its course over the score, and what twin
  learners predict of it beyond the score are tested.

Reference rows weighted by ``pi`` and current rows by ``1 - pi`` have one and the same population, that
which both data sets have in common (overlap weights: Li, Morgan and Zaslavsky, 2018). Losses that differ
between them have changed themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from scipy.special import chdtrc

from epiloss._random import stream
from epiloss._typing import Codes, Floats
from epiloss.analysis.two_samples import pooled
from epiloss.estimate import Estimate, percent
from epiloss.estimation.crossfit.bound import CrossfitBound
from epiloss.estimation.inference import difference_estimate
from epiloss.estimation.influence import Influence
from epiloss.estimation.options import Options
from epiloss.estimation.twins.centring import ScoreBasis
from epiloss.estimation.twins.estimate import twin
from epiloss.input.tasks import BinaryProblem
from epiloss.number_format import loss_spec
from epiloss.scoring import Brier

LEVEL = 0.05
_DEGREE = 4  # of the polynomials that distributions of scores are compared by
_LEAST = 0.01  # probability of either data set that a row has
_SMALLEST = 1e-16  # p-value that is told
_FEW_ALIKE = 0.2  # overlap, below which a change of the labels is hard to see


@dataclass(frozen=True)
class Changes:
    """What changed between two data sets.

    Attributes
    ----------
    pvalue_scores : float
        P-value of equal distributions of the scores.
    pvalue_features : float
        P-value of equal distributions of the features among rows of equal scores.
    pvalue_labels : float
        P-value of equal rates of the labels among rows of equal scores and features.
    overlap : float
        The share of the rows that the common population is worth: 1 for equal populations, near 0 where
        hardly any row of one data set could be of the other.
    differences : mapping of str to Estimate
        The current losses less those of the reference, both on their common population.

    See Also
    --------
    epiloss.Drift : has it as ``drift.changes``.

    Examples
    --------
    >>> Changes(0.001, 0.4, 0.7, 0.9).to_dict()["kind"]
    'population'
    >>> print(Changes(0.6, 0.4, 0.3, 1.0))
    No change was found, neither in the population nor in the losses.
    """

    pvalue_scores: float
    pvalue_features: float
    pvalue_labels: float
    overlap: float
    differences: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def pvalue_population(self) -> float:
        """P-value of equal populations, for two tests at once."""
        return min(1.0, 2 * min(self.pvalue_scores, self.pvalue_features))

    @property
    def kind(self) -> str:
        """What changed, at 5%: "nothing", "population", "losses" or "both"."""
        population, losses = self.pvalue_population <= LEVEL, self.pvalue_labels <= LEVEL
        return {(False, False): "nothing", (True, False): "population", (False, True): "losses"}.get(
            (population, losses), "both"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, with the kind and the sentence.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        differences = {name: one.to_dict() for name, one in self.differences.items()}
        told = {"kind": self.kind, "sentence": str(self)}
        return {**vars(self), "pvalue_population": self.pvalue_population, **told} | {
            "differences": differences
        }

    def __str__(self) -> str:
        at_equal = f"at equal scores and features (p {_said(self.pvalue_labels)})"
        labels, same = f"labels have other rates {at_equal}", f"labels have equal rates {at_equal}"
        moved = f"{self._moved()} (p {_said(self.pvalue_population)})"
        told = {
            "nothing": "No change was found, neither in the population nor in the losses.",
            "population": f"The population changed: {moved}. The losses did not, it seems: {same}.",
            "losses": f"The losses changed: {labels}. No change of the population was found.",
            "both": f"The population and the losses changed: {moved}, and {labels}.",
        }
        return told[self.kind] + self._changed_losses() + self._apart()

    def _moved(self) -> str:
        """Say what of the population changed."""
        scores, features = (2 * one <= LEVEL for one in (self.pvalue_scores, self.pvalue_features))
        what = "scores are" if scores else "at equal scores, features are"
        if scores and features:
            what = "scores, and features at equal scores, are"
        return f"{what} distributed differently"

    def _changed_losses(self) -> str:
        """Name the losses that changed on the common population, where the labels did."""
        if self.pvalue_labels > LEVEL:
            return ""
        spec = loss_spec(*(one.value for one in self.differences.values()), least=4)
        found = [
            f"the {name.replace('_', ' ')} by {one:+{spec}}"
            for name, one in self.differences.items()
            if one.pvalue is not None and one.pvalue <= LEVEL
        ]
        return f" On a common population this changed {' and '.join(found)}." if found else ""

    def _apart(self) -> str:
        if self.overlap >= _FEW_ALIKE:
            return ""
        overlap = percent(round(self.overlap, 2))
        return (
            f" The data sets have little in common (overlap {overlap}): a change of the losses is hard "
            "to see."
        )


def _said(pvalue: float) -> str:
    return f"= {pvalue:.2g}" if pvalue >= _SMALLEST else f"< {_SMALLEST:g}"


@dataclass(frozen=True)
class CommonPopulation:
    """The tests, and the weights by which either data set is the population that both have in common.

    ``score`` is the difference of the scores there, or None where it is infinite.
    """

    changes: Changes
    weights: tuple[Floats, Floats]
    score: Estimate | None


def common_population(old: BinaryProblem, new: BinaryProblem, options: Options) -> CommonPopulation:
    """Compare the populations and the labels of two data sets with features."""
    rows = pooled(old, new)
    n_old = len(old.labels)
    is_new = np.zeros(len(rows.labels))
    is_new[n_old:] = 1.0
    weight = np.ones(len(is_new)) if rows.weights is None else rows.weights
    generator = stream(options.seed, "twin")

    def learned(labels: Floats) -> CrossfitBound:
        problem = replace(rows, labels=labels, rule=Brier())
        return twin(problem, options.confidence_level, generator, n_deals=1, n_jobs=options.n_jobs)

    domain, outcome = learned(is_new), learned(rows.labels)
    membership = _predicted(rows, is_new, domain)
    rate = _predicted(rows, rows.labels, outcome)
    product = (rows.labels - rate) * (is_new - membership)
    basis = _polynomials(rows.scores, weight)
    by_score = _wald(product[:, None] * basis, weight, rows.clusters)
    beyond = learned((1 + product) / 2).estimate.pvalue
    share = np.where(is_new > 0, 1 - membership, membership)
    difference = _contrast(is_new, weight)
    return CommonPopulation(
        Changes(
            pvalue_scores=_wald(difference[:, None] * basis[:, 1:], weight, rows.clusters),
            pvalue_features=_number(domain.estimate.pvalue),
            pvalue_labels=min(1.0, 2 * min(by_score, _number(beyond))),
            overlap=_overlap(membership, weight),
        ),
        (share[:n_old], share[n_old:]),
        _score_difference(rows, rate, is_new - membership, weight, options.confidence_level),
    )


def _score_difference(
    rows: BinaryProblem, rate: Floats, surprise: Floats, weight: Floats, level: float
) -> Estimate | None:
    """Return how much larger current scores are at equal scores and features.

    What rows of a score and features lose in the mean of both data sets is taken off, so that an error
    of either prediction counts only times that of the other.
    """
    beyond = rows.rule.loss(rows.scores, rows.labels) - rows.rule.expected(rows.scores, rate)
    if not np.isfinite(beyond).all():
        return None
    value = float(weight @ (beyond * surprise)) / float(weight @ surprise**2)
    influence = weight * surprise * (beyond - value * surprise) / float(weight @ surprise**2)
    return difference_estimate(value, Influence(influence).stderr(rows.clusters), level)


def _number(pvalue: float | None) -> float:
    return 1.0 if pvalue is None else pvalue


def _predicted(rows: BinaryProblem, labels: Floats, found: CrossfitBound) -> Floats:
    """Return the predictions for rows that models have not seen: their mean given the score and more."""
    assert found.prediction is not None  # twins predict
    order = np.argsort(rows.scores, kind="stable")
    weights = None if rows.weights is None else rows.weights[order]
    mean = np.empty(len(order))
    mean[order] = ScoreBasis.of(rows.scores[order], weights).mean(labels[order][None])[0]
    return np.clip(mean + found.prediction, _LEAST, 1 - _LEAST)


def _polynomials(scores: Floats, weight: Floats) -> Floats:
    """Return orthogonal polynomials of the scores' ranks (rows, degree + 1), the first one constant."""
    value, code = np.unique(scores, return_inverse=True)
    mass = np.bincount(code, weight, len(value))
    rank = (np.cumsum(mass) - mass / 2) / mass.sum()
    degree = min(_DEGREE, len(value) - 1)
    return np.asarray(legendre.legvander(2 * rank - 1, degree)[code], float)


def _contrast(is_new: Floats, weight: Floats) -> Floats:
    """Return what makes weighted sums of rows the difference of the means of both data sets."""
    total = float(weight.sum())
    sums = [float(weight[is_new == k].sum()) for k in (0, 1)]
    return np.where(is_new > 0, total / sums[1], -total / sums[0])


def _wald(values: Floats, weight: Floats, clusters: Codes | None) -> float:
    """Return the p-value of means (of columns) that are all 0; rows of one cluster count together."""
    if not values.shape[1]:
        return 1.0  # all scores are equal
    terms = (weight / weight.sum())[:, None] * values
    mean = terms.sum(axis=0)
    spread = terms - (weight / weight.sum())[:, None] * mean
    if clusters is not None:
        spread = np.column_stack([np.bincount(clusters, one) for one in spread.T])
    covariance = spread.T @ spread
    statistic = mean @ np.linalg.lstsq(covariance, mean, rcond=1e-10)[0]
    return float(chdtrc(len(mean), max(statistic, 0.0)))


def _overlap(membership: Floats, weight: Floats) -> float:
    """Return ``E[pi (1 - pi)]`` over what it is where populations are equal."""
    share = weight / weight.sum()
    mean = float(share @ membership)
    return float(share @ (membership * (1 - membership))) / (mean * (1 - mean))
