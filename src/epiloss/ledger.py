"""The ledger: a result as a few lines of text."""

from __future__ import annotations

import textwrap

from epiloss.results import Audit, Estimate, percent

_RULES = {"brier": "Brier score", "log": "log-loss"}
_LINES = (
    ("score", "score"),
    ("calibration_loss", "= calibration loss"),
    ("grouping_loss", "+ grouping loss"),
    ("remainder", "+ remainder"),
)
_TITLE, _VALUE, _INTERVAL = 32, 12, 22


def ledger(audit: Audit) -> str:
    """Return the ledger, then the terms of the grouping loss, then what to be aware of."""
    columns = [audit] if audit.recalibrated is None else [audit, audit.recalibrated]
    lines = [_headline(audit), "", _titles(audit, len(columns))]
    for name, title in _LINES:
        cells = [_with_interval(getattr(column, name)) for column in columns]
        if name == "grouping_loss" and audit.irreducible_loss is None:
            title += ", at least"
        lines.append(f"{title:{_TITLE}}{''.join(cells)}".rstrip())
    if audit.irreducible_loss is not None:
        lines.append(
            f"{'  (irreducible loss)':{_TITLE}}{_with_interval(audit.irreducible_loss)}".rstrip()
        )
    lines += ["", *_terms(audit)]
    lines += ["", textwrap.fill(str(audit.verdict), 100)]
    notes = [f"note: {warning}" for warning in audit.warnings]
    if audit.recalibrated is not None:
        new = [warning for warning in audit.recalibrated.warnings if warning not in audit.warnings]
        notes += [f"note, recalibrated: {warning}" for warning in new]
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)


def _headline(audit: Audit) -> str:
    rule = _RULES.get(audit.rule, f"rule {audit.rule}")
    return (
        f"{audit.task} task, {rule}, {audit.n_samples:,} rows "
        f"({audit.n_evaluated:,} evaluated, {_counted(len(audit.level_sets), 'level set')}, "
        f"{_counted(len(audit.regions), 'region')} by {audit.options['partition']})"
    )


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _titles(audit: Audit, n_columns: int) -> str:
    interval = f"[{percent(audit.options['level'])} interval]"
    titles = ["as given", "recalibrated"][:n_columns] if n_columns > 1 else ["value"]
    cells = "".join(f"{title:>{_VALUE}} {interval:{_INTERVAL - 1}}" for title in titles)
    return f"{'':{_TITLE}}{cells}".rstrip()


def _with_interval(estimate: Estimate) -> str:
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"[{_number(estimate.low)}, {_number(estimate.high)}]"
    return f"{_number(estimate.value):>{_VALUE}} {interval:{_INTERVAL - 1}}"


def _terms(audit: Audit) -> list[str]:
    lines = ["lower bounds on the grouping loss"]
    if audit.crossfit_bound is not None:
        lines.append(_bound("cross-fitted, without bins", audit.crossfit_bound))
    lines.append(_bound("explained by the regions", audit.partition_bound))
    terms = [
        ("  = plugin", audit.plugin),
        ("  - bias of small regions", audit.bias),
        ("  - induced by binning", audit.induced),
        ("at most it is", audit.bounds.grouping_loss_high),
    ]
    lines += [f"  {title:{_TITLE - 2}}{_number(value):>{_VALUE}}" for title, value in terms]
    if audit.irreducible_loss is None:
        lines.append(audit.recommendation)
    low, high = audit.bounds.binning_low, audit.bounds.binning_high
    if low is not None and high is not None:
        lines.append(
            f"were the curve inside bins unknown, they could hide {low:.3f} to {high:.3f} of both"
        )
    return lines


def _bound(title: str, estimate: Estimate) -> str:
    line = f"  {title:{_TITLE - 2}}{_with_interval(estimate)}"
    return line.rstrip() if estimate.pvalue is None else f"{line} p = {estimate.pvalue:.2g}"


def _number(value: float) -> str:
    return format(value, "z.5f")
