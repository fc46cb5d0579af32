"""Subgroups of an audit: gaps at equal scores, and losses within, for columns and combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from epiloss.errors import OptionError
from epiloss.input.problem import Groups
from epiloss.input.subgroups import combined
from epiloss.segments.inside import InnerLosses
from epiloss.segments.subgroups import subgroup_gaps
from epiloss.table import Columns, Table

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit
    from epiloss.auditing.row_details import RowDetails

_KEPT = "subgroup gaps"


def gaps_by_column(audit: Audit) -> dict[str, Table]:
    """Return a table for each column of subgroups; none if rows have several scores or were not kept."""
    details = audit.details
    if details is None or not _has_one_score(audit):
        return {}
    return {name: _table(details, (name,)) for name in details.problem.subgroups}


def gaps_of_intersections(audit: Audit, columns: Sequence[str]) -> Table:
    """Return a table of the combinations of several columns of subgroups."""
    details = audit.details
    if details is None:
        raise OptionError(
            "intersections need the rows of the audit, which were not kept. Run the audit again."
        )
    if not _has_one_score(audit):
        raise OptionError(
            f"subgroup gaps need one score per row, got task {audit.task!r}. Audit with "
            "task='top-label', or one class as a binary task."
        )
    known = details.problem.subgroups
    chosen = tuple(columns) or tuple(known)
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        got = repr(unknown[0]) if unknown else "no column"
        names = ", ".join(map(repr, known))
        remedy = f"Choose from {names}." if known else "Audit with subgroups= first."
        raise OptionError(f"columns must be among the columns of subgroups=, got {got}. {remedy}")
    return _table(details, tuple(dict.fromkeys(chosen)))


def _has_one_score(audit: Audit) -> bool:
    assert audit.details is not None  # checked by the callers
    return len(audit.details.evaluations) == 1 and audit.task != "joint"


def _table(details: RowDetails, columns: tuple[str, ...]) -> Table:
    """Return the gaps of groups, and the losses within them, which are estimated on first access."""
    tables: dict[tuple[str, ...], Table] = details.kept(_KEPT, dict)
    if columns not in tables:
        groups = _groups(details.problem.subgroups, columns)
        problem, options = details.evaluations[0].problem, details.options
        gaps = subgroup_gaps(problem, groups, level=options.confidence_level)
        inside = InnerLosses(problem, groups, options).columns()
        tables[columns] = Table(Columns({**gaps.columns, **inside}))
    return tables[columns]


def _groups(subgroups: Mapping[str, Groups], columns: Sequence[str]) -> Groups:
    return combined({name: subgroups[name] for name in columns})
