"""The ledger: a result as a few lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from epiloss.auditing.detectable import POWER
from epiloss.auditing.judgement import FINE, LEVEL, RECALIBRATE, UNCLEAR, is_there
from epiloss.errors import printable
from epiloss.estimate import Estimate, percent
from epiloss.input.problem import RegionSource
from epiloss.number_format import digits_of, loss_spec, points_digits, rate_spec
from epiloss.segments.inside import LOSSES as INNER_LOSSES
from epiloss.table import Table, aligned

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

RULES = {"brier": "Brier score", "log": "log-loss"}
_LINES = (
    ("score", "score"),
    ("calibration_loss", "= calibration loss"),
    ("grouping_loss", "+ grouping loss"),
    ("remainder", "+ remainder"),
)
_TITLE, _VALUE, _INTERVAL = 32, 12, 21
_WIDE = 100  # characters per line
_SPREAD = "The grouping loss is spread over rows that a few conditions do not describe."
_MOST_SEGMENTS, _MOST_GROUPS = 3, 8
EMPTY = "''"  # a column or a value without a name
DETECTABLE_TITLE = f"smallest detectable, {percent(POWER)} power"


def ledger(audit: Audit) -> str:
    """Return the ledger, the terms of the grouping loss, subgroups, segments, the verdict and notes."""
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
    rule = RULES.get(audit.rule, f"rule {audit.rule}")
    parts = [f"{audit.n_evaluated:,} evaluated", _counted(len(audit.level_sets), "level set")]
    if audit.region_source is not RegionSource.NONE:
        parts.append(f"{_counted(len(audit.regions), 'region')} by {regions_by(audit)}")
    rows = f"{audit.n_samples:,} rows ({', '.join(parts)})"
    return f"{audit.task} task, {rule}, {rows}{_weighted(audit)}"


def _weighted(audit: Audit) -> str:
    if audit.effective_rows is None:
        return ""
    return f", weighted: {_counted(round(audit.effective_rows), 'effective row')}"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _widths(spec: str) -> tuple[int, int]:
    """Return the widths of a value and of its interval."""
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
    lines = ["Bounds on the grouping loss" if audit.is_bound else "Grouping loss"]
    if audit.twin_estimate is not None and audit.at_least is not None:
        limit = Estimate(audit.at_least, pvalue=audit.grouping_loss.pvalue)
        lines.append(_bound(lower_limit_title(audit), limit, spec))
    if audit.crossfit_bound is not None:
        lines.append(_bound("cross-fitted, without bins", audit.crossfit_bound, spec))
    wide, _ = _widths(spec)

    def plain(title: str, value: float) -> str:
        return f"  {title:{_TITLE - 2}}{format(value, spec):>{wide}}"

    lines.append(plain("upper limit", audit.bounds.grouping_loss_high))
    if audit.smallest_detectable is not None:
        lines.append(plain(DETECTABLE_TITLE, audit.smallest_detectable))
    lines.append(_bound("explained by the regions", audit.partition_bound, spec))
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
    of = "" if name == "subgroup" else f" of {_short(name) or EMPTY}"
    title = f"Grouping loss between subgroups{of}{', at least' if one.is_bound else ''}"
    lines = [title, _bound("", one.grouping_loss, spec)]
    if gaps is None:
        return lines
    most_significant = np.argsort(gaps["pvalue"], kind="stable")
    rows = list(gaps.take(most_significant[:_MOST_GROUPS]).rows())
    inside = [loss for loss in INNER_LOSSES if any(row[loss] == row[loss] for row in rows)]
    cells = [
        [
            *_gap_cells(row),
            f"{row['pvalue_adjusted']:.2g}",
            *("" if row[loss] != row[loss] else format(row[loss], spec) for loss in inside),
            _short(row["subgroup"]) or EMPTY,
        ]
        for row in rows
    ]
    if is_there(one.grouping_loss) and not any(row["pvalue_adjusted"] <= LEVEL for row in rows):
        lines.append(
            "  A gap is an average over scores: differences at low and at high scores can cancel in it."
        )
    titles = [f"{loss.partition('_')[0]} within" for loss in inside]
    header = ["p", *titles, "subgroup"]
    return lines + _gap_table(header, cells, len(most_significant), "result.subgroup_gaps")


def _segments(audit: Audit) -> list[str]:
    """Return the costliest segments, or say that there are none."""
    if audit.region_source is not RegionSource.LEARNED or not audit.segments.were_searched:
        return []
    if not len(audit.segments):
        spread = _SPREAD if is_there(audit.grouping_loss) else ""
        return ["", f"Segments: none found. {audit.segments.note or spread}".rstrip()]
    cells = [[*_gap_cells(vars(one)), printable(one.description)] for one in audit.segments]
    title = "Segments (expected: the rate of all rows with equal scores)"
    shown = cells[:_MOST_SEGMENTS]
    return ["", title, *_gap_table(["segment"], shown, len(cells), "result.segments")]


def _gap_cells(row: Mapping[str, Any]) -> list[str]:
    """Return a gap in percentage points with its interval, the number of rows and both rates."""
    gap, low, high = (100 * row[name] for name in ("gap", "low", "high"))
    spec = rate_spec(row["rate"], row["expected"])
    points = f"+z.{points_digits(row['gap'], row['low'], row['high'])}f"
    return [
        f"  {gap:{points}} [{low:{points}}, {high:{points}}]",
        f"{row['n']:,}",
        f"{row['rate']:{spec}}",
        f"{row['expected']:{spec}}",
    ]


def _gap_table(last: list[str], cells: list[list[str]], n: int, where: str) -> list[str]:
    """Return a table of gaps, with a line that says how many of ``n`` it leaves out."""
    header = ["  gap in points", "rows", "rate", "expected", *last]
    more = n - len(cells)
    return [*aligned([header, *cells]), *([f"  and {more:,} more: {where}"] if more > 0 else [])]


def _bound(title: str, estimate: Estimate, spec: str) -> str:
    line = f"  {title:{_TITLE - 2}}{_with_interval(estimate, spec)}"
    return line.rstrip() if estimate.pvalue is None else f"{line} p = {estimate.pvalue:.2g}"


def regions_by(audit: Audit) -> str:
    """Return how the regions were formed: by subgroups, or by a partition."""
    by_subgroup = audit.region_source is RegionSource.SUBGROUPS
    return "subgroup" if by_subgroup else str(audit.options["partition"])


def _short(name: str) -> str:
    """Return a column's name on one line, shortened to fit."""
    text, most = printable(" ".join(name.split())), _TITLE - 4
    return text if len(text) <= most else f"{text[: most - 1]}…"


def lower_limit_title(audit: Audit) -> str:
    """Return the title of the lower confidence limit of the grouping loss."""
    return f"lower limit, one-sided {percent(audit.confidence_level)}"
