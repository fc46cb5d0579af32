"""From the evaluation of each class to the audit: sums, intervals, bounds and remarks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from types import MappingProxyType

import numpy as np

from epiloss.auditing.detectable import smallest_detectable
from epiloss.auditing.fields import Bounds
from epiloss.auditing.judgement import LABELS_ENOUGH, LABELS_PER_REGION
from epiloss.auditing.result import Audit
from epiloss.auditing.row_details import RowDetails
from epiloss.auditing.tables import histogram_table, level_set_table, region_table
from epiloss.errors import Remark
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.bound import CrossfitBound, sum_of_bounds
from epiloss.estimation.crossfit.run import (
    LEAST_CLUSTERS,
    LEAST_EFFECTIVE,
    LEAST_LABELS,
    LEAST_ROWS,
    kish_rows,
)
from epiloss.estimation.inference import agreeing_with_test, normal_estimate, one_sided_pvalue
from epiloss.estimation.influence import Influence
from epiloss.estimation.options import Options
from epiloss.estimation.partition_bound import Evaluation
from epiloss.input.problem import Problem, RegionSource
from epiloss.input.row_display import Display
from epiloss.scoring import Brier, ClassLogLoss, LogLoss, ScoringRule
from epiloss.table import Columns, Later, Table

_INFLUENCES = ("score", "calibration_loss", "grouping_loss")
_RARE = 0.02  # below this share of labels, the Brier score hides errors in the ratio of probabilities


def summarise(
    problem: Problem,
    options: Options,
    evaluations: Sequence[Evaluation],
    crossfits: Sequence[CrossfitBound | None],
    recalibrated: Audit | None,
    display: Display | None = None,
    by_subgroup: Mapping[str, Audit] = MappingProxyType({}),
) -> Audit:
    """Return the audit of one problem, evaluated for each of its classes."""
    bounds = [bound for bound in crossfits if bound is not None]
    level, clusters = options.confidence_level, problem.clusters
    crossfit = sum_of_bounds(bounds, level, clusters) if bounds else None
    by_twins = options.method == "twin"
    by_regions = _by_regions(problem, evaluations, level)
    hidden = _bounds(evaluations, options.rule)
    ledger = _ledger(problem, evaluations, crossfit, by_regions, level, hidden.grouping_loss_high)
    without_bins = None if crossfit is None else ledger.grouping_loss
    predictions = tuple(one.prediction for one in bounds if one.prediction is not None)
    details = RowDetails(problem, options, tuple(evaluations), display, predictions)
    n_rows = evaluations[0].n_rows
    return Audit(
        task=problem.task,
        rule=options.rule.name,
        method="partition" if crossfit is None else options.method,
        recommendation=_recommendation(problem, crossfit is not None, options, n_rows),
        n_samples=n_rows,
        n_evaluated=max(one.n_evaluated for one in evaluations),
        uninformed=sum(_uninformed(one) for one in evaluations),
        score=ledger.score,
        calibration_loss=ledger.calibration_loss,
        grouping_loss=ledger.grouping_loss,
        remainder=ledger.remainder,
        plugin=_total(evaluations, "plugin"),
        bias=_total(evaluations, "bias"),
        explained=_total(evaluations, "explained"),
        induced=_induced(problem, evaluations),
        bounds=hidden,
        partition_bound=by_regions,
        crossfit_bound=None if by_twins else without_bins,
        twin_estimate=without_bins if by_twins else None,
        irreducible_loss=None,
        level_sets=level_set_table(evaluations),
        regions=_regions_in_words(details),
        histogram=histogram_table(evaluations),
        region_source=problem.region_source,
        options={**options.to_dict(), "classes": [str(name) for name in problem.classes]},
        remarks=(*problem.remarks, *_remarks(problem, evaluations, ledger.score.value)),
        recalibrated=recalibrated,
        subgroups=dict(by_subgroup),
        smallest_detectable=None
        if crossfit is None
        else smallest_detectable(problem, evaluations[0].problem, hidden.grouping_loss_high),
        effective_rows=_effective_rows(problem, n_rows),
        influence={
            name: part.of_clusters(clusters, problem.weights) for name, part in ledger.influence.items()
        },
        details=details,
    )


@dataclass(frozen=True)
class _Ledger:
    """The score and its parts, and the influence of each row on them."""

    score: Estimate
    calibration_loss: Estimate
    grouping_loss: Estimate
    remainder: Estimate
    influence: dict[str, Influence]


def _ledger(
    problem: Problem,
    evaluations: Sequence[Evaluation],
    crossfit: CrossfitBound | None,
    by_regions: Estimate,
    level: float,
    most: float,
) -> _Ledger:
    """Decompose the score; the grouping loss is the one estimated without bins, if there is one."""
    influence = {name: _summed(evaluations, name) for name in _INFLUENCES}
    grouping = by_regions
    if crossfit is not None:
        grouping = agreeing_with_test(_possible(crossfit.estimate, most), level)
        influence["grouping_loss"] = crossfit.influence
    score, calibration = _total(evaluations, "score"), _total(evaluations, "calibration_loss")
    remainder = score - calibration - grouping.value
    if not np.isfinite(score):
        # Score and calibration loss are infinite, but the entropy of the calibrated scores is not.
        left = _total(evaluations, "entropy") - _total(evaluations, "induced")
        remainder = left - grouping.value
    rest = influence["score"] - influence["calibration_loss"] - influence["grouping_loss"]

    def estimate(value: float, rows: Influence) -> Estimate:
        if problem.clusters is None:
            return normal_estimate(value, rows.stderr(), level)
        rows = rows.of_clusters(problem.clusters, problem.weights)
        return normal_estimate(value, rows.stderr(), level, rows.degrees_of_freedom)

    return _Ledger(
        estimate(score, influence["score"]),
        estimate(calibration, influence["calibration_loss"]),
        grouping,
        estimate(remainder, rest),
        influence,
    )


def _effective_rows(problem: Problem, n_rows: int) -> float | None:
    """Return the effective number of all rows; the problem may hold only a sample of them."""
    if problem.weights is None:
        return None
    return kish_rows(problem.weights) * n_rows / len(problem.labels)


def _possible(loss: Estimate, most: float) -> Estimate:
    """Return the estimate with its value and interval cut off at the largest possible loss."""
    if loss.low is None or loss.high is None or loss.high <= most:
        return loss
    return replace(loss, value=min(loss.value, most), low=min(loss.low, most), high=most)


def _by_regions(problem: Problem, evaluations: Sequence[Evaluation], level: float) -> Estimate:
    """Return the lower bound on the grouping loss by regions; 0 if there are none."""
    if problem.region_source is RegionSource.NONE:
        return Estimate(0.0)
    stderr = _summed(evaluations, "grouping_loss").stderr(problem.clusters)
    return _tested(_total(evaluations, "explained") - _total(evaluations, "induced"), stderr, level)


def _induced(problem: Problem, evaluations: Sequence[Evaluation]) -> float:
    """Return the loss that binning induces; 0 if there are no regions."""
    return 0.0 if problem.region_source is RegionSource.NONE else _total(evaluations, "induced")


def _total(evaluations: Sequence[Evaluation], name: str) -> float:
    return sum(one.levels.total(name) for one in evaluations)


def _recommendation(problem: Problem, is_crossfit: bool, options: Options, n_rows: int) -> str:
    """Say which estimate of the grouping loss the ledger shows, and why."""
    n_seen = len(problem.labels)
    on = "" if n_seen == n_rows else f"on a sample of {n_seen:,} rows"
    if is_crossfit and options.method == "twin":
        return twin_headline(on)
    if is_crossfit:
        return f"Headline: cross-fitted (no bins, {on or 'evaluated on every row'})"
    if problem.groups is not None:
        why = "the subgroups are given, so nothing is learned and every row is evaluated"
    elif problem.features is None:
        why = "without X there is nothing to learn from"
    elif problem.task == "joint":
        why = "the estimates without bins condition on one score, not on a vector of scores"
    elif not options.without_bins:
        why = "as requested; method='twin' needs no bins and evaluates every row"
    else:
        needed = f"{LEAST_ROWS} rows, {LEAST_CLUSTERS} clusters and {LEAST_LABELS} rows"
        why = f"the estimates without bins need at least {needed} with the rarer outcome"
    return f"Headline: by regions ({why})"


def twin_headline(on: str = "") -> str:
    """Return the headline of the twin estimate; ``on`` says which rows were used.

    Examples
    --------
    >>> print(twin_headline("on a sample of 100 rows"))
    Headline: twin learners (conservative: biased downwards by what they miss; on a sample of 100 rows)
    """
    why = "conservative: biased downwards by what they miss"
    return f"Headline: twin learners ({'; '.join(filter(None, (why, on)))})"


def _regions_in_words(details: RowDetails) -> Table:
    """Return the table of regions, with descriptions that are computed on first access."""
    options = details.options
    regions = region_table(
        details.evaluations,
        details.problem.groups,
        level=options.confidence_level,
        adjust=options.adjust,
    )
    rules = Later(details.rules, np.arange(len(regions)))
    return Table(Columns(regions.columns).also("rule", rules))


def _uninformed(evaluation: Evaluation) -> float:
    """Return the entropy of the base rate."""
    return float(evaluation.problem.rule.entropy(np.array([evaluation.base_rate]))[0])


def _summed(evaluations: Sequence[Evaluation], name: str) -> Influence:
    return reduce(add, (one.influence[name] for one in evaluations))


def _tested(value: float, stderr: float, level: float) -> Estimate:
    """Return the estimate with its interval and the p-value of no loss."""
    estimate = normal_estimate(value, stderr, level)
    return replace(estimate, pvalue=one_sided_pvalue(value, stderr))


def _bounds(evaluations: Sequence[Evaluation], rule: ScoringRule) -> Bounds:
    """Return the largest possible grouping loss, and how far binning could shift the losses."""
    high = sum(one.levels.total("entropy") - one.levels.total("induced") for one in evaluations)
    if not isinstance(rule, Brier):
        return Bounds(max(high, 0.0))
    low_hidden = high_hidden = epistemic = 0.0
    for one in evaluations:
        levels = one.levels
        spread = levels.score_variance
        reach = 2 * np.sqrt(spread * levels.label_mean * (1 - levels.label_mean))
        low_hidden -= float(levels.share @ (reach + spread))
        high_hidden += float(levels.share @ (reach - spread))
        epistemic += levels.total("calibration_loss_binned") + levels.total("explained")
    return Bounds(max(high, 0.0), low_hidden, high_hidden, epistemic - high_hidden)


def _remarks(problem: Problem, evaluations: Sequence[Evaluation], score: float) -> list[Remark]:
    found = [
        _nothing_to_split(problem, evaluations),
        _one_level_set(problem, evaluations[0]),
        _rare_outcome(problem, evaluations[0]),
        _few_labels(problem, evaluations[0]),
        _infinite_score(score),
        _few_effective(problem),
    ]
    return [remark for remark in found if remark is not None]


def _nothing_to_split(problem: Problem, evaluations: Sequence[Evaluation]) -> Remark | None:
    if problem.features is None and problem.groups is None:
        return Remark(
            "no-features",
            "without X or subgroups the grouping loss cannot be estimated: its lower bound is 0. Pass "
            "features, embeddings or subgroups.",
        )
    if any((one.levels.n_regions > len(one.regions)).any() for one in evaluations):
        return None
    remedy = (
        "use fewer bins (at most 5 for fewer than 3,000 rows) or a tree with a smaller region_ratio."
        if problem.groups is None
        else (
            "use fewer bins or larger subgroups; a subgroup with a single row in a level set is "
            "merged with another one."
        )
    )
    return Remark("no-split", f"no level set was split, so the lower bound is uninformative: {remedy}")


def _one_level_set(problem: Problem, evaluation: Evaluation) -> Remark | None:
    scores = evaluation.problem.scores
    if len(evaluation.levels.level_set) > 1 or problem.task == "joint" or scores.min() == scores.max():
        return None
    text = "all scores fall into one level set: strategy='quantile' divides them by rank."
    return Remark("one-level-set", text)


def _rarer(evaluation: Evaluation) -> float:
    return min(evaluation.base_rate, 1 - evaluation.base_rate)


def _rare_outcome(problem: Problem, evaluation: Evaluation) -> Remark | None:
    rarer, is_brier = _rarer(evaluation), isinstance(evaluation.problem.rule, Brier)
    if problem.task != "binary" or not is_brier or rarer >= _RARE:
        return None
    which = "positive" if evaluation.base_rate < 0.5 else "negative"
    return Remark(
        "rare-outcome",
        f"only {100 * rarer:.2g}% of the labels are {which}, and the Brier score hardly responds to "
        "errors in such small probabilities. Use rule='log', which compares probabilities by their "
        "ratio.",
    )


def _few_labels(problem: Problem, evaluation: Evaluation) -> Remark | None:
    rarer, n_regions = _rarer(evaluation), sum(len(one.level_set) for one in evaluation.regions)
    few = 0 < rarer * evaluation.n_evaluated < LABELS_PER_REGION * n_regions
    divided = problem.features is not None or problem.groups is not None
    if not divided or not few or not isinstance(evaluation.problem.rule, LogLoss | ClassLogLoss):
        return None
    ratio = math.ceil(LABELS_ENOUGH / rarer)
    instead = f"Rely on the estimate without bins, or use a tree with region_ratio={ratio}."
    if problem.groups is not None:
        instead = "Merge subgroups, use fewer bins, or use rule='brier'."
    return Remark(
        "few-labels",
        f"regions have fewer than {LABELS_PER_REGION} rows with the rarer label on average, so the part "
        f"of the log-loss that they explain is biased upwards. {instead}",
    )


def _few_effective(problem: Problem) -> Remark | None:
    if problem.weights is None:
        return None
    effective, heaviest = kish_rows(problem.weights), float(problem.weights.max())
    if effective >= LEAST_EFFECTIVE:
        return None
    share = 100 * heaviest / float(problem.weights.sum())
    return Remark(
        "few-effective-rows",
        f"the weights reduce {len(problem.weights):,} rows to {effective:.3g} effective rows (one row "
        f"has {share:.3g}% of the total weight), too few for standard errors: at least "
        f"{LEAST_EFFECTIVE} are needed. Cap the largest weights, or leave them out.",
    )


def _infinite_score(score: float) -> Remark | None:
    if np.isfinite(score):
        return None
    return Remark(
        "infinite-score",
        "the log-loss is infinite: an outcome occurred that had a probability of 0. Clip the scores, "
        "recalibrate them with 'sigmoid', or use rule='brier'.",
    )
