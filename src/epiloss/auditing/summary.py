"""From evaluations to the result: sums over classes, intervals, bounds and remarks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from epiloss._typing import Codes
from epiloss.auditing.result import Audit, Bounds
from epiloss.auditing.row_details import Evidence
from epiloss.auditing.tables import histogram_table, level_set_table, region_table
from epiloss.auditing.verdict import LABELS_ENOUGH, LABELS_PER_REGION
from epiloss.errors import OptionError
from epiloss.estimate import Estimate
from epiloss.estimation.crossfit.bound import CrossfitBound, sum_of_bounds
from epiloss.estimation.crossfit.run import LEAST_CLUSTERS, LEAST_ROWS
from epiloss.estimation.inference import normal_estimate, one_sided_pvalue
from epiloss.estimation.influence import Influence
from epiloss.estimation.partition_bound import Evaluation
from epiloss.estimation.planning import Plan
from epiloss.input.problem import Problem
from epiloss.scoring import Brier, ClassLog, Log, ScoringRule
from epiloss.table import Columns, Later, Table

_RARE = 0.02  # share of the labels, below which the Brier score is the wrong rule to see ratios by


def summarise(
    problem: Problem,
    rule: ScoringRule,
    evaluations: Sequence[Evaluation],
    crossfits: Sequence[CrossfitBound | None],
    options: Mapping[str, Any],
    recalibrated: Audit | None,
    plan: Plan,
    display: Any = None,
) -> Audit:
    """Return the audit of one problem, evaluated for each of its classes."""

    def total(name: str) -> float:
        return sum(one.levels.total(name) for one in evaluations)

    blind = problem.features is None and problem.groups is None
    induced = 0.0 if blind else total("induced")
    clusters = problem.clusters
    crossfit = _crossfit(crossfits, options, clusters)
    influence = {
        name: _summed(evaluations, name) for name in ("score", "calibration_loss", "grouping_loss")
    }
    level = options["level"]
    by_regions = Estimate(0.0)
    if not blind:
        stderr = influence["grouping_loss"].stderr(clusters)
        by_regions = _tested(total("explained") - induced, stderr, level)
    grouping = by_regions if crossfit is None else crossfit.estimate
    if crossfit is not None:
        influence["grouping_loss"] = crossfit.influence
    score, calibration = total("score"), total("calibration_loss")
    remainder = score - calibration - grouping.value
    if not np.isfinite(score):
        # both sides are infinite; what is left of the calibrated scores' entropy is not
        remainder = total("entropy") - total("induced") - grouping.value
    evidence = Evidence(problem, plan, tuple(evaluations), display, options["random_state"], level, rule)
    left = influence["score"] - influence["calibration_loss"] - influence["grouping_loss"]
    return Audit(
        task=problem.task,
        rule=rule.name,
        method="partition" if crossfit is None else "crossfit",
        recommendation=_recommendation(
            problem, crossfit is not None, options["method"], evaluations[0].n_rows
        ),
        n_samples=evaluations[0].n_rows,
        n_evaluated=max(one.n_evaluated for one in evaluations),
        uninformed=sum(_uninformed(one) for one in evaluations),
        score=normal_estimate(score, influence["score"].stderr(clusters), level),
        calibration_loss=normal_estimate(
            calibration, influence["calibration_loss"].stderr(clusters), level
        ),
        grouping_loss=grouping,
        remainder=normal_estimate(remainder, left.stderr(clusters), level),
        plugin=total("plugin"),
        bias=total("bias"),
        explained=total("explained"),
        induced=induced,
        bounds=_bounds(evaluations, rule),
        partition_bound=by_regions,
        crossfit_bound=None if crossfit is None else crossfit.estimate,
        irreducible_loss=None,
        level_sets=level_set_table(evaluations),
        regions=_regions_in_words(evidence, options["adjust"]),
        histogram=histogram_table(evaluations),
        options=dict(options),
        warnings=(*problem.warnings, *_remarks(problem, evaluations, score)),
        recalibrated=recalibrated,
        influence={name: part.by_cluster(clusters) for name, part in influence.items()},
        evidence=evidence,
    )


def _crossfit(
    crossfits: Sequence[CrossfitBound | None], options: Mapping[str, Any], clusters: Codes | None
) -> CrossfitBound | None:
    found = [bound for bound in crossfits if bound is not None]
    if options["method"] == "crossfit" and not found:
        raise OptionError(
            f"method 'crossfit' needs X, a task that conditions on one score, and at least {LEAST_ROWS} "
            f"evaluated rows in {LEAST_CLUSTERS} clusters. Use method='partition' with groups=, for "
            "task 'joint', and for fewer rows."
        )
    return sum_of_bounds(found, options["level"], clusters) if found else None


def _recommendation(problem: Problem, is_crossfit: bool, method: str, n_rows: int) -> str:
    """Say which lower bound leads the ledger, and why."""
    if is_crossfit:
        return "the cross-fitted bound leads: it needs no bins and every row tests it"
    if problem.groups is not None:
        why = "the groups are given, so that nothing is learned and every row tests them"
    elif problem.features is None:
        why = "without X there is nothing to learn from"
    elif problem.task == "joint":
        why = "the cross-fitted one conditions on one score, not on a whole vector"
    elif method == "auto" and n_rows > len(problem.labels):
        why = "every row counts, where the cross-fitted one (method='crossfit') has a sample only"
    elif method == "partition":
        why = "as asked; method='auto' would be led by the cross-fitted one, which needs no bins"
    else:
        why = f"the cross-fitted one needs {LEAST_ROWS} evaluated rows in {LEAST_CLUSTERS} clusters"
    return f"the bound by regions leads: {why}"


def _regions_in_words(evidence: Evidence, adjust: str) -> Table:
    """Return the table of regions, with a column of rules that is worked out when it is asked for."""
    regions = region_table(
        evidence.evaluations, evidence.problem.groups, level=evidence.level, adjust=adjust
    )
    rules = Later(evidence.rules, np.arange(len(regions)))
    return Table(Columns(regions.columns).also("rule", rules))


def _uninformed(evaluation: Evaluation) -> float:
    """Return the entropy of the base rate."""
    return float(evaluation.problem.rule.entropy(np.array([evaluation.base_rate]))[0])


def _summed(evaluations: Sequence[Evaluation], name: str) -> Influence:
    return reduce(add, (one.influence[name] for one in evaluations))


def _tested(value: float, stderr: float, level: float) -> Estimate:
    """Return the estimate with its interval and the p-value of zero."""
    estimate = normal_estimate(value, stderr, level)
    return replace(estimate, pvalue=one_sided_pvalue(value, stderr))


def _bounds(evaluations: Sequence[Evaluation], rule: ScoringRule) -> Bounds:
    """Return what binning can hide, and the most that the grouping loss can be."""
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


def _remarks(problem: Problem, evaluations: Sequence[Evaluation], score: float) -> list[str]:
    remarks = []
    levels = evaluations[0].levels
    if problem.features is None and problem.groups is None:
        remarks.append(
            "without X or groups the grouping loss cannot be seen: its lower bound is 0. "
            "Pass features, embeddings or groups."
        )
    elif all((one.levels.n_regions <= len(one.regions)).all() for one in evaluations):
        remedy = (
            "use fewer bins or a smaller region_ratio (below 3,000 rows, 5 bins or fewer)."
            if problem.groups is None
            else "use fewer bins or larger groups; one of a single row in a level set joins another."
        )
        remarks.append(f"no level set was split, so the lower bound says nothing: {remedy}")
    scores = evaluations[0].problem.scores
    if len(levels.level_set) == 1 and problem.task != "joint" and scores.min() < scores.max():
        remarks.append(
            "all scores fall into one level set: binning='quantile' parts them by their order."
        )
    rate = evaluations[0].base_rate
    rarer = min(rate, 1 - rate)
    if problem.task == "binary" and isinstance(evaluations[0].problem.rule, Brier) and rarer < _RARE:
        which = "positive" if rate < 0.5 else "negative"
        remarks.append(
            f"only {100 * rarer:.2g}% of the labels are {which}, and the Brier score hardly sees errors "
            "of so small probabilities: rule='log' weighs them by their ratio."
        )
    n_regions = sum(len(one.level_set) for one in evaluations[0].regions)
    few = rarer * evaluations[0].n_evaluated < LABELS_PER_REGION * n_regions
    divided = problem.features is not None or problem.groups is not None
    if divided and few and rarer > 0 and isinstance(evaluations[0].problem.rule, Log | ClassLog):
        wanted = math.ceil(LABELS_ENOUGH / rarer)
        instead = f"rely on the cross-fitted bound, or use region_ratio={wanted}."
        if problem.groups is not None:
            instead = "join groups, use fewer bins, or rule='brier'."
        remarks.append(
            f"regions hold fewer than {LABELS_PER_REGION} of the rarer labels on average, and by the "
            f"log-loss what they explain is then told too large: {instead}"
        )
    if not np.isfinite(score):
        remarks.append(
            "the log-loss is infinite: some outcome occurred that was given probability 0. "
            "Clip the scores, recalibrate by 'sigmoid', or use rule='brier'."
        )
    return remarks
