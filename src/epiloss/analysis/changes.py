"""Tests for what changed between two data sets: the population, the labels at equal features, or both.

All rows are pooled, and ``D`` indicates the data set of a row. Three tests are made:

- Did the distribution of the scores change? The means of polynomials of the score's rank are compared.
- Did the features change at equal scores? Twin learners predict ``D`` beyond the score.
- Did the labels change at equal scores *and* features? With cross-fitted predictions of
  ``m = E[Y | S, X]`` and ``pi = E[D | S, X]``, the product ``(Y - m)(D - pi)`` has the mean
  ``pi (1 - pi) (Q_current - Q_reference)`` given ``S`` and ``X``. It is 0 everywhere unless the labels
  change, for all populations. The errors of the two predictions enter only as a product (generalised
  covariance measure: Shah and Peters, 2020). The test combines its mean, its dependence on the score,
  and what twin learners predict of it beyond the score.

Reference rows weighted by ``pi`` and current rows weighted by ``1 - pi`` have the same population, the
one that both data sets have in common (overlap weights: Li, Morgan and Zaslavsky, 2018). A difference of
the losses between them is not due to the population.
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
_DEGREE = 4  # of the polynomials by which distributions of scores are compared
_LEAST_PROBABILITY = 0.01  # of a row to belong to either data set
_SMALLEST_PVALUE = 1e-16  # smaller p-values are printed as "< 1e-16"
_LITTLE_OVERLAP = 0.2  # below this, a change of the labels is hard to detect


@dataclass(frozen=True)
class Changes:
    """What changed between two data sets.

    Attributes
    ----------
    pvalue_scores : float
        P-value of the hypothesis that the scores have the same distribution.
    pvalue_features : float
        P-value of the hypothesis that the features have the same distribution at equal scores.
    pvalue_labels : float
        P-value of the hypothesis that the labels have the same rates at equal scores and features.
    overlap : float
        How much the populations overlap: 1 if they are equal, near 0 if hardly any row of one data set
        could belong to the other.
    differences : mapping of str to Estimate
        The current losses minus those of the reference, both on the common population.

    See Also
    --------
    epiloss.Drift : contains it as ``changes``.

    Examples
    --------
    >>> Changes(0.001, 0.4, 0.7, 0.9).to_dict()["kind"]
    'population'
    >>> print(Changes(0.6, 0.4, 0.3, 1.0))
    No change was found in the population or in the losses.
    """

    pvalue_scores: float
    pvalue_features: float
    pvalue_labels: float
    overlap: float
    differences: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def pvalue_population(self) -> float:
        """P-value of the hypothesis of equal populations, adjusted for two tests."""
        return min(1.0, 2 * min(self.pvalue_scores, self.pvalue_features))

    @property
    def kind(self) -> str:
        """What changed at the 5% level: "nothing", "population", "losses" or "both"."""
        population, losses = self.pvalue_population <= LEVEL, self.pvalue_labels <= LEVEL
        return {(False, False): "nothing", (True, False): "population", (False, True): "losses"}.get(
            (population, losses), "both"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, with the kind and the summary.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        differences = {name: one.to_dict() for name, one in self.differences.items()}
        summary = {"kind": self.kind, "sentence": str(self)}
        return {**vars(self), "pvalue_population": self.pvalue_population, **summary} | {
            "differences": differences
        }

    def __str__(self) -> str:
        population = f"{self._population()} (p {_shown(self.pvalue_population)})"
        at_equal = "at equal scores and features, the rates of the labels"
        pvalue = f"(p {_shown(self.pvalue_labels)})"
        sentences = {
            "nothing": "No change was found in the population or in the losses.",
            "population": f"The population changed: {population}. No change of the losses was found: "
            f"{at_equal} do not differ significantly {pvalue}.",
            "losses": f"The losses changed: {at_equal} differ {pvalue}. No change of the population was "
            "found.",
            "both": f"The population and the losses changed: {population}, and {at_equal} differ "
            f"{pvalue}.",
        }
        return sentences[self.kind] + self._changed_losses() + self._little_overlap()

    def _population(self) -> str:
        """Say which distributions differ."""
        scores, features = (2 * one <= LEVEL for one in (self.pvalue_scores, self.pvalue_features))
        what = "scores have" if scores else "at equal scores, features have"
        if scores and features:
            what = "scores, and features at equal scores, have"
        return f"{what} different distributions"

    def _changed_losses(self) -> str:
        """Name the losses that changed on the common population, significantly for their number.

        If the labels did not change significantly, this is said to be unconfirmed.
        """
        pvalues = [1.0 if one.pvalue is None else one.pvalue for one in self.differences.values()]
        confirmed = self.pvalue_labels <= LEVEL
        if not pvalues or (not confirmed and min(pvalues) * len(pvalues) > LEVEL):
            return ""
        spec = loss_spec(*(one.value for one in self.differences.values()), least=4)
        found = [
            f"the {name.replace('_', ' ')} changed by {one:+{spec}}"
            for (name, one), pvalue in zip(self.differences.items(), pvalues, strict=True)
            if pvalue <= LEVEL
        ]
        yet = "" if confirmed else ", which the test of the rates does not confirm"
        return f" On the common population, {' and '.join(found)}{yet}." if found else ""

    def _little_overlap(self) -> str:
        if self.overlap >= _LITTLE_OVERLAP:
            return ""
        overlap = percent(round(self.overlap, 2))
        return (
            f" The populations have little in common (overlap {overlap}), so a change of the losses is "
            "hard to detect."
        )


def _shown(pvalue: float) -> str:
    return f"= {pvalue:.2g}" if pvalue >= _SMALLEST_PVALUE else f"< {_SMALLEST_PVALUE:g}"


@dataclass(frozen=True)
class CommonPopulation:
    """The tests, and the weights that turn each data set into the common population.

    ``score`` is the difference of the scores on that population, or None if it is infinite.
    """

    changes: Changes
    weights: tuple[Floats, Floats]
    score: Estimate | None


def common_population(old: BinaryProblem, new: BinaryProblem, options: Options) -> CommonPopulation:
    """Test the populations and the labels of two data sets for changes."""
    rows = pooled(old, new)
    n_old = len(old.labels)
    is_new = np.zeros(len(rows.labels))
    is_new[n_old:] = 1.0
    weight = np.ones(len(is_new)) if rows.weights is None else rows.weights
    generator = stream(options.seed, "twin")

    def learned(labels: Floats) -> CrossfitBound:
        problem = replace(rows, labels=labels, rule=Brier())
        return twin(problem, options.confidence_level, generator, n_splits=1, n_jobs=options.n_jobs)

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
    """Return the difference of the mean losses at equal scores and features.

    The expected loss of each row is subtracted, so that the errors of the two predictions enter only as
    a product.
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
    """Return cross-fitted predictions: the mean given the score, plus what the learners add to it."""
    assert found.prediction is not None  # twin learners always predict
    order = np.argsort(rows.scores, kind="stable")
    weights = None if rows.weights is None else rows.weights[order]
    mean = np.empty(len(order))
    mean[order] = ScoreBasis.of(rows.scores[order], weights).mean(labels[order][None])[0]
    return np.clip(mean + found.prediction, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)


def _polynomials(scores: Floats, weight: Floats) -> Floats:
    """Return orthogonal polynomials (rows, degree + 1) of the ranks; the first is constant."""
    value, code = np.unique(scores, return_inverse=True)
    mass = np.bincount(code, weight, len(value))
    rank = (np.cumsum(mass) - mass / 2) / mass.sum()
    degree = min(_DEGREE, len(value) - 1)
    return np.asarray(legendre.legvander(2 * rank - 1, degree)[code], float)


def _contrast(is_new: Floats, weight: Floats) -> Floats:
    """Return factors by which a weighted mean becomes the difference of the data sets' means."""
    total = float(weight.sum())
    sums = [float(weight[is_new == k].sum()) for k in (0, 1)]
    return np.where(is_new > 0, total / sums[1], -total / sums[0])


def _wald(values: Floats, weight: Floats, clusters: Codes | None) -> float:
    """Return the p-value of the hypothesis that the means of all columns are 0, given the clusters."""
    if not values.shape[1]:
        return 1.0  # all scores are equal, so there is nothing to compare
    terms = (weight / weight.sum())[:, None] * values
    mean = terms.sum(axis=0)
    spread = terms - (weight / weight.sum())[:, None] * mean
    if clusters is not None:
        spread = np.column_stack([np.bincount(clusters, one) for one in spread.T])
    covariance = spread.T @ spread
    statistic = mean @ np.linalg.lstsq(covariance, mean, rcond=1e-10)[0]
    return float(chdtrc(len(mean), max(statistic, 0.0)))


def _overlap(membership: Floats, weight: Floats) -> float:
    """Return ``E[pi (1 - pi)]`` divided by its value for equal populations."""
    share = weight / weight.sum()
    mean = float(share @ membership)
    return float(share @ (membership * (1 - membership))) / (mean * (1 - mean))
