"""Audits of language-model logs, whose columns are used if the user passes none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit_rows
from epiloss.errors import OptionError, printable
from epiloss.estimation.options import Options
from epiloss.sources.base import Source
from epiloss.sources.logs.base import Log
from epiloss.sources.logs.find import is_log, read_log, usual_columns
from epiloss.streaming.build_reader import source_remarks
from epiloss.streaming.roles import Roles


def log_of(source: Any, label: Any, score: Any) -> Log | None:
    """Return the log of a source; None for tables, and for files whose columns the user passes."""
    if isinstance(source, Log):
        return source
    named = label is not None or score is not None
    return None if named or not is_log(source) else read_log(source)


def columns_of_log(log: Log, given: dict[str, Any], options: dict[str, Any]) -> None:
    """Fill in the columns and the task of the log where the user passes none."""
    own = given["label"] is None and given["score"] is None
    given["label"] = given["label"] or log.label
    given["score"] = given["score"] or list(log.score)
    if given["display"]:
        given["exclude"] = [*_listed(given["exclude"]), *log.display]
    else:
        given["display"] = list(log.display)
    given["clusters"] = given["clusters"] or log.clusters
    if own and log.classes is not None:
        options.setdefault("classes", log.classes)
    if own and options.get("task") is None:
        options["task"] = log.task


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, str) else list(given)


def with_usual_columns(source: Source, given: dict[str, Any]) -> Source:
    """Fill in missing columns of labels and scores by their usual names, with a remark."""
    label, score = usual_columns(source.schema.names, given["label"], given["score"])
    found = {"label": label, "score": score}
    inferred = [f"{what} {name!r}" for what, name in found.items() if given[what] is None]
    given.update(found)
    text = f"{' and '.join(inferred)} found by the usual name{'s' if len(inferred) > 1 else ''}."
    return replace(source, remarks=(*source.remarks, printable(text)))


def audit_repeated(log: Log, roles: Roles, options: Options) -> Audit:
    """Audit rows with several labels each, in memory."""
    if len(roles.scores) > 1 or options.reading.task not in (None, "binary"):
        raise OptionError(
            f"repeated labels need one score column and task 'binary', got {len(roles.scores)} score "
            f"columns and task {options.reading.task!r}. Leave out score= and task=."
        )
    table = log.table
    labels = np.array(table.column(roles.label).to_pylist(), float)

    def columns(names: tuple[str, ...]) -> dict[str, Any] | None:
        return {name: _values(table.column(name)) for name in names} or None

    result = audit_rows(
        labels,
        table.column(roles.scores[0]).to_numpy(),
        columns(roles.features),
        options,
        display=columns(roles.display),
        subgroups=columns(roles.subgroups),
        sample_weight=None if roles.weight is None else table.column(roles.weight).to_numpy(),
        clusters=None if roles.clusters is None else _values(table.column(roles.clusters)),
    )
    return replace(result, remarks=(*source_remarks(log.remarks), *result.remarks))


def _values(column: Any) -> Any:
    """Return a column as numbers, or as objects if it has strings or missing values."""
    if column.null_count or str(column.type) == "string":
        return np.array(column.to_pylist(), object)
    return np.array(column.to_pylist())
