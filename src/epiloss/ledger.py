"""The ledger: a result as a few lines of text."""

from __future__ import annotations

from epiloss.results import Audit, Estimate

_RULES = {"brier": "Brier score", "log": "log-loss"}
_LINES = (
    ("score", "score"),
    ("calibration_loss", "= calibration loss"),
    ("grouping_loss", "+ grouping loss, at least"),
    ("remainder", "+ remainder"),
)


def ledger(audit: Audit) -> str:
    """Return the ledger, then the terms of the grouping loss, then what to be aware of."""
    after = audit.recalibrated
    lines = [_headline(audit), ""]
    if after is not None:
        lines.append(f"{'':32}{'as given':>12}{'recalibrated':>15}")
    for name, title in _LINES:
        line = f"{title:32}{_number(getattr(audit, name)):>12}"
        if after is not None:
            line += f"{_number(getattr(after, name)):>15}"
        lines.append(line)
    lines += ["", *_terms(audit)]
    if audit.warnings:
        lines += ["", *(f"note: {warning}" for warning in audit.warnings)]
    return "\n".join(lines)


def _headline(audit: Audit) -> str:
    rule = _RULES.get(audit.rule, f"rule {audit.rule}")
    return (
        f"{audit.task} task, {rule}, {audit.n_samples:,} rows "
        f"({audit.n_evaluated:,} evaluated, {len(audit.level_sets)} level sets, "
        f"{len(audit.regions):,} regions by {audit.options['partition']})"
    )


def _terms(audit: Audit) -> list[str]:
    lines = [
        "the grouping loss, term by term",
        f"  plugin, as seen by the regions{_number(audit.plugin):>12}",
        f"  - bias of small regions       {_number(audit.bias):>12}",
        f"  - induced by binning          {_number(audit.induced):>12}",
        f"it is at most                   {_number(audit.bounds.grouping_loss_high):>12}",
    ]
    low, high = audit.bounds.binning_low, audit.bounds.binning_high
    if low is not None and high is not None:
        lines.append(
            f"were the curve inside bins unknown, they could hide {low:.3f} to {high:.3f} of both"
        )
    return lines


def _number(value: Estimate | float) -> str:
    return format(value, "z.5f")
