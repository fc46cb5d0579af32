"""Monitoring a model over time: alarms when outcomes or the population have changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._progress import stage, working
from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.analysis.cells import MOST_COLUMNS, Divisions
from epiloss.analysis.drift import Sample
from epiloss.analysis.evidence import (
    Change,
    Evidence,
    evidence_of,
    half_width,
    start_weight,
    starts_of,
)
from epiloss.analysis.periods import read_noise_periods, read_periods
from epiloss.analysis.reference_model import LEAST_UNITS, LEDGER, Predicted, ReferenceModel
from epiloss.analysis.tracking_result import LOSSES, NUMBERS, POPULATION, Alarm, Tracking
from epiloss.analysis.two_samples import by_name
from epiloss.errors import DataError, OptionError, Remark
from epiloss.estimate import Estimate
from epiloss.estimation.options import DEFAULTS, Options, read_options
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem
from epiloss.table import Table

# how the probability of a false alarm is divided among the divisions of the rows
_WEIGHTS = {
    LOSSES: {"all": 0.25, "score": 0.25, "column": 0.5},
    POPULATION: {"all": 0.0, "score": 0.35, "column": 0.65},
}
_OPTIONS = (
    "task", "rule", "confidence_level", "pos_label", "classes", "drop_missing", "logits", "random_state",
    "n_jobs", "verbose",
)  # fmt: skip
_FURTHER = ("sample_weight", "clusters", "subgroups")


@limited_threads()
def track(
    reference: Sample,
    current: Sample,
    when: Any,
    *,
    reference_when: Any = None,
    by: str | None = None,
    **options: Any,
) -> Tracking:
    """Monitor a model over time, and raise an alarm when outcomes or the population have changed.

    The reference serves to learn predictions of the outcome by score and features, and to define groups
    of rows: by score, by each column and by subgroup. In each group, the rate is compared with the
    prediction (a change of the losses), and the share of the rows with that in the reference (a change
    of the population). You may look at the result after every batch: if nothing changes, there is never
    an alarm, with a probability of at least ``confidence_level``.

    Parameters
    ----------
    reference, current : tuples (y_true, y_prob, X), or mappings with these names
        Labels, probabilities and features. A mapping may also have ``sample_weight``, ``clusters`` and
        ``subgroups``.
    when : array-like of shape (n,)
        The date, or the batch, of each current row.
    reference_when : array-like, optional
        The same for the reference, from which the random variation between days is estimated. Without
        it, rows are treated as independent, and a single bad day may raise an alarm.
    by : {"day", "week", "month", "value"}, optional
        The length of a batch. By default dates (also as text such as 2024-06-30) are grouped by day,
        and each other value is a batch.
    **options
        Options of :func:`epiloss.audit`: ``task`` ("binary" or "top-label"), ``rule``,
        ``confidence_level``, ``pos_label``, ``classes``, ``drop_missing``, ``logits``, ``random_state``,
        ``n_jobs`` and ``verbose``.

    Returns
    -------
    Tracking
        The losses of each batch, the alarms, and the groups of rows that changed.

    See Also
    --------
    drift : compares two data sets once.
    RegionPlan : losses of batch after batch, in regions learned once.

    References
    ----------
    Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical
    Statistics 41, 1970: the normal mixture.

    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and asymptotic
    confidence sequences", Annals of Statistics 52, 2024.

    Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection",
    New England Journal of Statistics in Data Science 2, 2024.

    Examples
    --------
    >>> import epiloss, numpy as np
    >>> from epiloss.simulate import Sigmoid
    >>> before, after = (Sigmoid().sample(8_000, random_state=i) for i in range(2))
    >>> day = np.arange(8_000) // 200
    >>> y = np.where((day >= 20) & (after.X[:, 0] > 0), 1, after.y)  # a change on day 20
    >>> result = epiloss.track((before.y, before.scores, before.X), (y, after.scores, after.X), day)
    >>> result.losses_changed, result.population_changed, int(result.alarms[0].period) < 25
    (True, False, True)
    """
    _check_options(options)
    chosen = read_options(options, "track", ("reference_when", "by"))
    with working("tracking", chosen.verbose):
        first = _read("reference", reference, chosen, None)
        days = None
        if reference_when is not None:
            rows = _rows_of(reference_when, first)
            days = read_noise_periods(rows, by, len(first.labels), LEAST_UNITS)
        stage("learning on the reference")
        model = ReferenceModel.learn(first, chosen, days)
        stage("predicting the current rows")
        second = _read("current", current, chosen, first)
        batch, names = read_periods(_rows_of(when, second), by, len(second.labels), "when")
        rows, _ = model.predict(second)
        stage("adding up the evidence")
        return _tracked(model, rows, batch, names, (first, second))


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse options of an audit that have no effect here."""
    for name in options:
        if name in DEFAULTS and name not in _OPTIONS:
            raise OptionError(
                f"options of track must be among {', '.join(_OPTIONS)}, got {name!r}. Leave it out."
            )


def _read(name: str, data: Any, options: Options, like: Problem | None) -> Problem:
    given = by_name(name, data, _FURTHER)
    try:
        found = read_problem(**given, reading=options.reading, like=like)
    except DataError as error:
        raise DataError(f"{name} data: {error}") from None
    if like is not None and set(found.subgroups) != set(like.subgroups):
        raise DataError(
            "the current data must have the subgroups of the reference, "
            f"{', '.join(like.subgroups) or 'none'}, got {', '.join(found.subgroups) or 'none'}. Pass "
            "the same subgroups for both."
        )
    return found


def _rows_of(when: Any, problem: Problem) -> Any:
    """Return the dates of the rows that were not dropped."""
    from epiloss.input.arrays import as_array

    values = as_array(when, "when")
    if problem.rows is None:
        return values
    return values[problem.rows] if values.ndim == 1 and len(values) > problem.rows.max() else values


def _tracked(
    model: ReferenceModel,
    rows: Predicted,
    batch: Codes,
    names: list[str],
    problems: tuple[Problem, Problem],
) -> Tracking:
    options, n_batches = model.options, len(names)
    alpha = 1 - options.confidence_level
    sums = {
        LOSSES: model.outcome_sums(rows, batch, n_batches),
        POPULATION: model.share_sums(rows, batch, n_batches),
    }
    evidence = {
        kind: _combined_evidence(kind, one, model.divisions, alpha) for kind, one in sums.items()
    }
    current = _CurrentRows(model, rows, batch, names)
    changes = [row for kind, combined in evidence.items() for row in current.changes(kind, combined)]
    ledger = _ledger(model, rows, batch, n_batches)
    periods = Table(
        {
            "period": np.array(names, object),
            "n": np.bincount(batch, minlength=n_batches),
            **ledger,
            **{
                f"evidence_{kind}": combined.log_total / math.log(10)
                for kind, combined in evidence.items()
            },
        }
    )
    alarms = [
        current.alarm(
            kind,
            _combined_evidence(kind, sums[kind].until(combined.first_alarm), model.divisions, alpha),
        )
        for kind, combined in evidence.items()
        if combined.first_alarm is not None
    ]
    before, after = problems
    return Tracking(
        task=before.task,
        rule=options.rule.name,
        confidence_level=options.confidence_level,
        n_reference=len(before.labels),
        n_current=len(after.labels),
        limit=math.log10(2 / alpha),
        reference=_reference_losses(model),
        score_change=_score_change(model, rows),
        periods=periods,
        changes=Table({name: _column([row[name] for row in changes]) for name in changes[0]}),
        alarms=tuple(sorted(alarms, key=lambda one: names.index(one.period))),
        remarks=tuple(dict.fromkeys([*before.remarks, *after.remarks, *_remarks(model)])),
    )


@dataclass(frozen=True)
class _CombinedEvidence:
    """The evidence of one kind of change, for each cell and in total."""

    cells: Evidence
    cell_weights: Floats
    log_total: Floats  # (T,)
    log_limit: float
    first_alarm: int | None  # the batch


def _combined_evidence(kind: str, sums: Any, divisions: Divisions, alpha: float) -> _CombinedEvidence:
    weights = _cell_weights(kind, divisions)
    evidence = evidence_of(sums)
    used = np.flatnonzero(weights > 0)
    with np.errstate(divide="ignore"):
        parts = evidence.log_values[:, used] + np.log(weights[used])
    total = np.logaddexp.reduce(parts, axis=1)
    limit = math.log(2 / alpha)  # each of the two kinds of change uses half of alpha
    over = np.flatnonzero(total >= limit)
    return _CombinedEvidence(evidence, weights, total, limit, int(over[0]) if len(over) else None)


def _cell_weights(kind: str, divisions: Divisions) -> Floats:
    """Return the weights of the cells: equal within a division and among divisions of a kind."""
    kinds = [division.kind for division in divisions.divisions]
    each = [
        _WEIGHTS[kind][division.kind] / kinds.count(division.kind) / division.n_cells
        for division in divisions.divisions
        for _ in range(division.n_cells)
    ]
    weights = np.array(each)
    return weights / weights.sum() if weights.sum() > 0 else weights


@dataclass(frozen=True)
class _CurrentRows:
    """The current rows, from which alarms and the table of changes are made."""

    model: ReferenceModel
    rows: Predicted
    batch: Codes
    names: list[str]

    def alarm(self, kind: str, combined: _CombinedEvidence) -> Alarm:
        """Return the alarm at the last batch, described by the group with the most evidence."""
        last = len(combined.log_total) - 1
        most = self.changes(kind, combined)[0]
        fields = {name: most[name] for name in ("name", "since", *NUMBERS)}
        return Alarm(kind=kind, period=self.names[last], **fields)

    def changes(self, kind: str, combined: _CombinedEvidence) -> list[dict[str, Any]]:
        """Return a row for each cell, sorted by evidence."""
        since, start = combined.cells.since, combined.cells.start
        number = {first: k for k, first in enumerate(starts_of(len(combined.log_total)))}
        log_start = np.log([start_weight(number[int(first)]) for first in start])
        with np.errstate(divide="ignore"):
            log_cell = np.log(combined.cell_weights)
            width = half_width(since, combined.log_limit - log_cell - log_start)
        evidence = combined.cells.log_values + log_cell
        n, current = self._since_start(kind, combined)
        found = []
        for k in np.flatnonzero(combined.cell_weights > 0):
            over = np.flatnonzero(evidence[:, k] >= combined.log_limit)
            change = since.value[k]
            numbers = (current[k] - change, current[k], change, change - width[k], change + width[k])
            known = [float(one) if n[k] else math.nan for one in numbers]
            found.append(
                {
                    "kind": kind,
                    "name": self.model.divisions.names[k],
                    "since": self.names[int(start[k])],
                    "n": float(n[k]),
                    **dict(zip(NUMBERS, known, strict=True)),
                    "evidence": float(evidence[-1, k]) / math.log(10),
                    "alarm": self.names[int(over[0])] if len(over) else "",
                }
            )
        return sorted(found, key=lambda row: -float(row["evidence"]))

    def _since_start(self, kind: str, combined: _CombinedEvidence) -> tuple[Floats, Floats]:
        """Return the weight of each cell's rows since its start, and their rate or share."""
        rows, last = self.rows, len(combined.log_total) - 1
        weights, found, place = [], [], 0
        known = rows.weights * (self.batch <= last)
        for division, cells in zip(self.model.divisions.divisions, rows.cells, strict=True):
            start = combined.cells.start[place : place + division.n_cells]
            place += division.n_cells
            counts = known * (self.batch >= start[cells])
            weights.append(np.bincount(cells, counts, division.n_cells))
            if kind == LOSSES:
                hits, of = np.bincount(cells, counts * rows.labels, division.n_cells), weights[-1]
            else:
                hits, of = weights[-1], np.array([known @ (self.batch >= one) for one in start])
            found.append(hits / np.maximum(of, 1e-300))
        return np.concatenate(weights), np.concatenate(found)


def _ledger(model: ReferenceModel, rows: Predicted, batch: Codes, n_batches: int) -> dict[str, Floats]:
    losses, weight = rows.losses(model.options.rule), np.bincount(batch, rows.weights, n_batches)
    return {
        name: np.bincount(batch, rows.weights * one, n_batches) / weight
        for name, one in zip(LEDGER, losses, strict=True)
    }


def _reference_losses(model: ReferenceModel) -> dict[str, float]:
    rows = model.reference
    losses = rows.losses(model.options.rule)
    return {
        name: float(np.average(one, weights=rows.weights))
        for name, one in zip(LEDGER, losses, strict=True)
    }


def _score_change(model: ReferenceModel, rows: Predicted) -> Mapping[str, Estimate]:
    """Return the change of the score since the reference, and the part due to each kind of change."""
    level = model.options.confidence_level
    values = [_score_parts(one, model) for one in (model.reference, rows)]
    found = {}
    for name in ("score", POPULATION, LOSSES):
        (old, w), (new, v) = ((part[name], part["weights"]) for part in values)
        mean, now = np.average(old, weights=w), np.average(new, weights=v)
        noise = 1.0 if not model.dispersion else float(model.dispersion["outcomes"][0])
        spread = float((w**2) @ (old - mean) ** 2), float((v**2) @ (new - now) ** 2)
        if not all(map(math.isfinite, (mean, now, *spread))):
            found[name] = Estimate(float(now - mean))
            continue
        variance = noise * (spread[0] / w.sum() ** 2 + spread[1] / v.sum() ** 2)
        seen = (float(now - mean), variance, float(v.sum()), spread[0] / float(w @ w))
        parts = Change(*(np.array([one]) for one in seen))
        width = float(half_width(parts, np.array([math.log(1 / (1 - level))]))[0])
        change = float(now - mean)
        found[name] = Estimate(change, low=change - width, high=change + width)
    return found


def _score_parts(rows: Predicted, model: ReferenceModel) -> dict[str, Floats]:
    losses = dict(zip(LEDGER, rows.losses(model.options.rule), strict=True))
    expected = losses["expected_score"]
    parts = {"score": losses["score"], POPULATION: expected, LOSSES: losses["score"] - expected}
    return {**parts, "weights": rows.weights}


def _remarks(model: ReferenceModel) -> list[Remark]:
    found = []
    features = model.known.features
    if features is not None and features.n_columns > MOST_COLUMNS:
        text = (
            f"{features.n_columns:,} columns are too many to monitor one by one (the limit is "
            f"{MOST_COLUMNS}), so groups are by score only. Pass subgroups to monitor others."
        )
        found.append(Remark("columns-not-watched", text))
    if not model.n_units:
        lacks, remedy = (
            ("fewer than ten days", "Use a longer reference.")
            if model.has_days
            else ("no dates", "Pass them: reference_when=, or a column of the reference file.")
        )
        text = (
            f"the reference has {lacks}, so rows are treated as independent, and a single bad day may "
            f"raise an alarm. {remedy}"
        )
        found.append(Remark("days-independent", text))
    return found


def _column(values: list[Any]) -> Any:
    return np.array(values, object if isinstance(values[0], str) else float)
