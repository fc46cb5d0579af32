"""The ledger: a result as a few lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from epiloss.auditing.judgement import FINE, RECALIBRATE, UNCLEAR
from epiloss.errors import printable
from epiloss.estimate import Estimate, percent
from epiloss.input.problem import RegionSource
from epiloss.number_format import digits_of, loss_spec, rate_spec
from epiloss.segments.inside import LOSSES as INNER_LOSSES
from epiloss.table import Table, aligned

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

_RULES = {"brier": "Brier score", "log": "log-loss"}
_LINES = (
    ("score", "score"),
    ("calibration_loss", "= calibration loss"),
    ("grouping_loss", "+ grouping loss"),
    ("remainder", "+ remainder"),
)
_TITLE, _VALUE, _INTERVAL = 32, 12, 21
_WIDE = 100  # characters of a line
_MOST_SEGMENTS, _MOST_GROUPS = 3, 8  # that are printed


def ledger(audit: Audit) -> str:
    """Return the ledger, then the terms of the grouping loss, then what to be aware of."""
    columns = [audit] if audit.recalibrated is None else [audit, audit.recalibrated]
    spec = loss_spec(*(column.score.value for column in columns))
    lines = [_headline(audit), "", _titles(audit, len(columns), spec)]
    for name, title in _LINES:
        cells = [_with_interval(getattr(column, name), spec) for column in columns]
        if name == "grouping_loss" and audit.is_bound:
            title += ", at least"
        lines.append(f"{title:{_TITLE}}{''.join(cells)}".rstrip())
    if audit.irreducible_loss is not None:
        measured = _with_interval(audit.irreducible_loss, spec)
        lines.append(f"{'  (irreducible loss)':{_TITLE}}{measured}".rstrip())
    lines += ["", *_terms(audit, spec)]
    for name, one in audit.subgroups.items():
        lines += ["", *_subgroup(name, one, audit.subgroup_gaps.get(name), spec)]
    verdict = audit.verdict
    if verdict.kind not in (FINE, UNCLEAR, RECALIBRATE):
        lines += _segments(audit)
    lines += ["", textwrap.fill(str(verdict), _WIDE, break_on_hyphens=False)]
    notes = [f"note: {remark}" for remark in audit.remarks]
    if audit.equal_rows is not None:
        notes.append(f"note: {audit.equal_rows}")
    if audit.recalibrated is not None:
        new = [remark for remark in audit.recalibrated.remarks if remark not in audit.remarks]
        notes += [f"note, recalibrated: {remark}" for remark in new]
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)


def _headline(audit: Audit) -> str:
    rule = _RULES.get(audit.rule, f"rule {audit.rule}")
    return (
        f"{audit.task} task, {rule}, {audit.n_samples:,} rows "
        f"({audit.n_evaluated:,} evaluated, {_counted(len(audit.level_sets), 'level set')}, "
        f"{_counted(len(audit.regions), 'region')} by {regions_by(audit)}){_weighted(audit)}"
    )


def _weighted(audit: Audit) -> str:
    if audit.effective_rows is None:
        return ""
    return f", weighted: {audit.effective_rows:,.0f} effective rows"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _widths(spec: str) -> tuple[int, int]:
    """Return how wide values and their intervals are."""
    more = digits_of(spec) - 5
    return _VALUE + more, _INTERVAL + 2 * more


def _titles(audit: Audit, n_columns: int, spec: str) -> str:
    interval = f"[{percent(audit.confidence_level)} interval]"
    titles = ["as given", "recalibrated"][:n_columns] if n_columns > 1 else ["value"]
    wide, wider = _widths(spec)
    cells = "".join(f"{title:>{wide}} {interval:{wider}}" for title in titles)
    return f"{'':{_TITLE}}{cells}".rstrip()


def _with_interval(estimate: Estimate, spec: str) -> str:
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"[{estimate.low:{spec}}, {estimate.high:{spec}}]"
    wide, wider = _widths(spec)
    return f"{format(estimate.value, spec):>{wide}} {interval:{wider}}"


def _terms(audit: Audit, spec: str) -> list[str]:
    lines = ["lower bounds on the grouping loss" if audit.is_bound else "the grouping loss"]
    twin = audit.twin_estimate
    if twin is not None and audit.at_least is not None:
        sure = f"at least, {percent(audit.confidence_level)} sure"
        lines.append(_bound(sure, Estimate(audit.at_least, pvalue=twin.pvalue), spec))
    if audit.crossfit_bound is not None:
        lines.append(_bound("cross-fitted, without bins", audit.crossfit_bound, spec))
    wide, _ = _widths(spec)

    def plain(title: str, value: float) -> str:
        return f"  {title:{_TITLE - 2}}{format(value, spec):>{wide}}"

    lines += [
        plain("at most", audit.bounds.grouping_loss_high),
        *(
            [plain("smallest detectable, 80% power", audit.smallest_detectable)]
            if audit.smallest_detectable is not None
            else []
        ),
        _bound(_explained_title(audit), audit.partition_bound, spec),
    ]
    if not audit.is_bound:
        return lines if audit.irreducible_loss is not None else [*lines, audit.recommendation]
    lines += [
        plain("  = plugin", audit.plugin),
        plain("  - bias of small regions", audit.bias),
        plain("  - induced by binning", audit.induced),
        audit.recommendation,
    ]
    low, high = audit.bounds.binning_low, audit.bounds.binning_high
    if low is not None and high is not None:
        few = f"+z.{digits_of(spec) - 2}f"
        shift = f"{low:{few}} to {high:{few}}"
        lines.append(
            f"Without a calibration curve, binning could shift the sum of both losses by {shift}"
        )
    return lines


def _subgroup(name: str, one: Audit, gaps: Table | None, spec: str) -> list[str]:
    """Return the grouping loss between the subgroups of a column, and the gap of each."""
    of = "" if name == "subgroup" else f" of {_short(name)}"
    title = f"grouping loss between subgroups{of}{', at least' if one.is_bound else ''}"
    lines = [title, _bound("", one.grouping_loss, spec)]
    if gaps is None:
        return lines
    surest = np.argsort(gaps["pvalue"], kind="stable")
    rows = list(gaps.take(surest[:_MOST_GROUPS]).rows())
    inside = [loss for loss in INNER_LOSSES if any(row[loss] == row[loss] for row in rows)]
    cells = [
        [
            *_gap_cells(row),
            f"{row['pvalue_adjusted']:.2g}",
            *("" if row[loss] != row[loss] else format(row[loss], spec) for loss in inside),
            _short(row["subgroup"]),
        ]
        for row in rows
    ]
    titles = [f"{loss.partition('_')[0]} inside" for loss in inside]
    return lines + _gap_table(["p", *titles, "subgroup"], cells, len(surest), "result.subgroup_gaps")


def _segments(audit: Audit) -> list[str]:
    """Return the first segments, which are told apart from noise."""
    if audit.region_source is not RegionSource.LEARNED or not len(audit.segments):
        return []
    cells = [[*_gap_cells(vars(one)), printable(one.description)] for one in audit.segments]
    title = "segments whose rates differ from those of rows with equal scores"
    shown = cells[:_MOST_SEGMENTS]
    return ["", title, *_gap_table(["segment"], shown, len(cells), "result.segments")]


def _gap_cells(row: Mapping[str, Any]) -> list[str]:
    """Return a gap in points with its interval, and the rows and rates behind it."""
    gap, low, high = (100 * row[name] for name in ("gap", "low", "high"))
    spec = rate_spec(row["rate"], row["expected"])
    return [
        f"  {gap:+.1f} [{low:+.1f}, {high:+.1f}]",
        f"{row['n']:,}",
        f"{row['rate']:{spec}}",
        f"{row['expected']:{spec}}",
    ]


def _gap_table(last: list[str], cells: list[list[str]], n: int, where: str) -> list[str]:
    """Return lines of gaps, and how many of ``n`` are left out."""
    header = ["  gap in points", "rows", "rate", "expected", *last]
    more = n - len(cells)
    return [*aligned([header, *cells]), *([f"  and {more:,} more: {where}"] if more > 0 else [])]


def _bound(title: str, estimate: Estimate, spec: str) -> str:
    line = f"  {title:{_TITLE - 2}}{_with_interval(estimate, spec)}"
    return line.rstrip() if estimate.pvalue is None else f"{line} p = {estimate.pvalue:.2g}"


def regions_by(audit: Audit) -> str:
    """Say what the regions are: those of a partition, the user's subgroups, or whole level sets."""
    names = {RegionSource.SUBGROUPS: "subgroup", RegionSource.NONE: "level set"}
    return names.get(audit.region_source, str(audit.options["partition"]))


def _short(name: str) -> str:
    """Return a column's name on one line, cut where it would not fit its place."""
    text, most = printable(" ".join(name.split())), _TITLE - 4
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _explained_title(audit: Audit) -> str:
    return "explained by the regions" if audit.is_bound else "of it, by the regions"
