"""Calibration, grouping and induced loss from RegionStats: in total, per level set, per region.

The total is the weighted mean over level sets: ``total = sum(share * per level set)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from epiloss._typing import Codes, Floats
from epiloss.scoring import LogLoss, ScoringRule

if TYPE_CHECKING:
    from epiloss.estimation.region_stats import RegionStats


_MANY_LABELS = 30  # of the rarer outcome, with which the debiased entropy of a region is accurate


@dataclass(frozen=True)
class RegionLosses:
    """The contribution of each region to the explained grouping loss of its level set.

    ``plugin`` is ``h(m) - h(c) - h'(c)(m - c)``, the divergence of the region's rate from that of its
    level set. Its mean, weighted by the regions, is the plugin estimate of the level set.
    """

    level_set: Codes
    region: Codes
    n: Floats
    weight: Floats
    score_mean: Floats
    label_mean: Floats
    level_label_mean: Floats
    expected_mean: Floats  # the rate of the level set, adjusted for the scores of the region
    effective_n: Floats
    plugin: Floats
    bias: Floats  # bias of ``plugin`` due to the noise of the rate


@dataclass(frozen=True)
class LevelSetLosses:
    """The losses of each level set.

    ``explained = plugin - bias`` and ``grouping_loss = explained - induced``.

    Attributes
    ----------
    level_set, n, effective_n, weight, n_regions : array
        The level sets, with their numbers of rows, weights and numbers of regions.
    score_mean, label_mean, score_variance, entropy, label_noise : array
        Means and variances of scores and labels.
    score : array
        The mean score.
    calibration_loss, calibration_loss_binned, calibration_loss_plugin : array
        Estimated by the calibration curve, by the level sets, and by the level sets without correction
        for label noise.
    plugin, bias, induced : array
        The terms of the grouping loss.

    See Also
    --------
    epiloss.RegionStats.compute, epiloss.RegionPlan.losses : compute these losses.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> from epiloss.estimation.region_stats import RegionStats
    >>> from epiloss.scoring import Brier
    >>> rows = dict(labels=np.array([0.0, 0.0, 1.0, 1.0]), scores=np.full(4, 0.5), rule=Brier())
    >>> stats = RegionStats.from_rows(np.zeros(4, int), np.array([0, 0, 1, 1]), **rows)
    >>> losses = stats.compute(Brier())
    >>> losses.total("plugin"), losses.total("grouping_loss") == losses.grouping_loss[0]
    (0.25, np.True_)
    """

    AVERAGED: ClassVar = (
        "score_mean",
        "label_mean",
        "score",
        "calibration_loss",
        "calibration_loss_binned",
        "calibration_loss_plugin",
        "plugin",
        "bias",
        "induced",
        "entropy",
        "label_noise",
        "score_variance",
    )

    level_set: Codes
    n: Floats
    effective_n: Floats
    weight: Floats
    n_regions: Codes
    score_mean: Floats
    label_mean: Floats
    score: Floats
    calibration_loss: Floats
    calibration_loss_binned: Floats
    calibration_loss_plugin: Floats
    plugin: Floats
    bias: Floats
    induced: Floats
    entropy: Floats
    label_noise: Floats  # entropy of a label, at least that of the curve, as few labels may be equal
    score_variance: Floats

    @cached_property
    def share(self) -> Floats:
        """The fraction of the total weight in each level set."""
        share: Floats = self.weight / self.weight.sum()
        return share

    @property
    def explained(self) -> Floats:
        """The grouping loss that the regions explain, corrected for the bias of the plugin estimate."""
        return self.plugin - self.bias

    @property
    def grouping_loss(self) -> Floats:
        """The lower bound on the grouping loss of each level set."""
        return self.explained - self.induced

    def total(self, name: str) -> float:
        """Return the total of one loss over all level sets.

        Parameters
        ----------
        name : str
            The name of the loss.

        Returns
        -------
        float
            The mean over level sets, weighted by their shares.
        """
        return float(self.share @ getattr(self, name))


def region_losses(stats: RegionStats, rule: ScoringRule) -> RegionLosses:
    """Return the contribution of each region to the grouping loss."""
    levels = stats.by_level_set()
    position = np.searchsorted(levels.level_set, stats.level_set)
    level_mean = _probability(levels.mean("label"))[position]
    label_mean = _probability(stats.mean("label"))
    adjustment = _curve_mean(stats) - _curve_mean(levels)[position]
    margin = 0.5 / levels.effective_n[position]  # a finite sample cannot show that a rate is 0 or 1
    return RegionLosses(
        level_set=stats.level_set,
        region=stats.region,
        n=stats.n,
        weight=stats["weight"],
        score_mean=stats.mean("score"),
        label_mean=label_mean,
        level_label_mean=level_mean,
        expected_mean=np.clip(level_mean + adjustment, margin, 1 - margin),
        effective_n=stats.effective_n,
        plugin=rule.divergence(level_mean, label_mean),
        bias=np.where(_several(stats), _debiased_entropy(stats, rule) - rule.entropy(label_mean), 0.0),
    )


def level_set_losses(stats: RegionStats, rule: ScoringRule, *, exact: bool = False) -> LevelSetLosses:
    """Return the losses of each level set; a level set with a single row has a loss of 0.

    In ``exact`` level sets all rows have the same score, so that there is no loss within bins.
    """
    levels = stats.by_level_set()
    weight, n = levels["weight"], levels.effective_n
    score_mean, label_mean = _probability(levels.mean("score")), _probability(levels.mean("label"))
    if not rule.bounded:
        # The sums cannot represent smaller means, which are therefore not taken for 0.
        score_mean = np.clip(score_mean, 2.0**-41, 1 - 2.0**-41)
    position = np.searchsorted(levels.level_set, stats.level_set)
    entropy = rule.entropy(label_mean)
    plugin = entropy - _over_regions(stats, position, rule.entropy(_probability(stats.mean("label"))))
    debiased, n_regions = (
        _debiased_entropy(levels, rule),
        np.bincount(position, minlength=levels.n_cells),
    )
    explained = debiased - _over_regions(stats, position, _debiased_entropy(stats, rule))
    explained[n_regions == 1] = 0.0
    variance = np.maximum(levels.mean("score_sq") - score_mean**2, 0.0)
    covariance = levels.mean("score_label") - score_mean * label_mean
    several = _several(levels)
    size = np.where(several, n, 2.0)
    binned = rule.binned_divergence(score_mean, label_mean, size, variance, covariance)
    within = 0.0 if exact else _within_bins(levels, rule, score_mean, label_mean)
    infinite = levels["n_infinite"] > 0
    largest = 0.0 if several.all() else _largest_entropy(rule)
    by_curve = rule.entropy(_probability(_curve_mean(levels)))
    return LevelSetLosses(
        level_set=levels.level_set,
        n=levels.n,
        effective_n=n,
        weight=weight,
        n_regions=n_regions,
        score_mean=score_mean,
        label_mean=label_mean,
        score=np.where(infinite, np.inf, levels.mean("loss")),
        calibration_loss=np.where(infinite, np.inf, np.where(several, binned + within, 0.0)),
        calibration_loss_binned=np.where(several, binned, 0.0),
        calibration_loss_plugin=rule.divergence(score_mean, label_mean),
        plugin=np.where(several, plugin, 0.0),
        bias=np.where(several, plugin - explained, 0.0),
        induced=_induced(levels, rule),
        # A single label contains no information about the entropy, which is then set to its maximum.
        entropy=np.where(several, debiased, largest),
        label_noise=np.where(several, np.maximum(debiased, by_curve), by_curve),
        score_variance=variance,
    )


def conservative_explained_loss(stats: RegionStats) -> float:
    """Return the explained log-loss by digamma entropies, whose bias is never positive."""
    levels = stats.by_level_set()
    position = np.searchsorted(levels.level_set, stats.level_set)
    below = _over_regions(stats, position, _conservative_entropy(stats, upper=True))
    explained = np.where(_several(levels), _conservative_entropy(levels, upper=False) - below, 0.0)
    return float(levels["weight"] @ explained / levels["weight"].sum())


def entropy_bias(stats: RegionStats, rule: ScoringRule) -> float:
    """Return the loss that regions seem to explain if each has the rate of its level set.

    This is the bias of their debiased entropies, which are too small if a region has few labels of the
    rarer outcome. Regions that are expected to have many of both outcomes have no such bias.
    """
    levels = stats.by_level_set()
    rate = _probability(levels.mean("label"))[np.searchsorted(levels.level_set, stats.level_set)]
    rarer, n = np.minimum(rate, 1 - rate), np.rint(stats.effective_n)
    few = (n > 1) & (n * rarer < _MANY_LABELS) & (rarer > 0)
    if not few.any():
        return 0.0
    ones, size, p = np.arange(4.0 * _MANY_LABELS), n[few, None], rarer[few, None]
    ones = np.minimum(ones, size)
    logarithm = gammaln(size + 1) - gammaln(ones + 1) - gammaln(size - ones + 1)
    probability = np.exp(logarithm + ones * np.log(p) + (size - ones) * np.log1p(-p))
    probability[:, 1:][ones[:, 1:] == ones[:, :-1]] = 0.0  # more than the number of labels
    bias = rule.entropy(rarer[few]) - (probability * rule.debiased_entropy(ones, size)).sum(axis=1)
    return float(stats["weight"][few] @ bias / stats["weight"].sum())


def _curve_mean(cells: RegionStats) -> Floats:
    mean: Floats = (cells.mean("curve_a") + cells.mean("curve_b")) / 2
    return mean


def _several(cells: RegionStats) -> NDArray[np.bool_]:
    """Return which cells have more than one independent label."""
    return np.asarray((cells.effective_n > 1 + 1e-6) & (cells.n > 1))


def _debiased_entropy(cells: RegionStats, rule: ScoringRule) -> Floats:
    n = np.where(_several(cells), cells.effective_n, 2.0)  # callers handle single rows
    return rule.debiased_entropy(_probability(cells.mean("label")) * n, n)


def _largest_entropy(rule: ScoringRule) -> float:
    return float(rule.entropy(np.linspace(0, 1, 1001)).max())


def _conservative_entropy(cells: RegionStats, *, upper: bool) -> Floats:
    n = cells.effective_n
    ones = _probability(cells.mean("label")) * n
    return LogLoss().conservative_entropy(np.where(np.abs(ones - n) < 1e-9, n, ones), n, upper=upper)


def _over_regions(stats: RegionStats, position: Codes, values: Floats) -> Floats:
    """Return the weighted mean of ``values`` over the regions of each level set."""
    total = np.bincount(position, stats["weight"])
    return np.bincount(position, stats["weight"] * values) / total


def _induced(levels: RegionStats, rule: ScoringRule) -> Floats:
    """Return the h-variance of the calibration curve within each bin, without the curve's noise."""
    a, b = _probability(levels.mean("curve_a")), _probability(levels.mean("curve_b"))
    return rule.pair_entropy(a, b) - levels.mean("curve_entropy")


def _within_bins(
    levels: RegionStats, rule: ScoringRule, score_mean: Floats, label_mean: Floats
) -> Floats:
    """Return the calibration loss within bins, ``E d(S, C) - d(S_B, C_B)``.

    It equals ``E[s(S, C) - s(S_B, C_B)]`` plus the induced loss. For a bounded rule, C_B is the mean of
    the curve; otherwise it is the mean of the labels, on which the expected score is based as well.
    """
    if not rule.bounded:
        within = _debiased_entropy(levels, rule) - levels.mean("curve_entropy")
        return levels.mean("expected") - rule.expected(score_mean, label_mean) + within
    centre = _probability(_curve_mean(levels))
    return levels.mean("expected") - rule.expected(score_mean, centre) + _induced(levels, rule)


def _probability(mean: Floats) -> Floats:
    return np.minimum(np.maximum(mean, 0.0), 1.0)  # rounding in fixed point may leave [0, 1] by 2**-40
