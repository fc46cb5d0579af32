"""Logs of language models, and files whose label and score columns are found by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epiloss.cli.command import add_options, option
from epiloss.cli.output import opened
from epiloss.errors import OptionError

LOGS = "Logs of language models"


def log_options(command: Any) -> Any:
    """Add the options for reading logs."""
    options = [
        option(LOGS, "--filter", help="Name of the lm-evaluation-harness filter.  [default: the first]"),
        option(
            LOGS,
            "--length-normalized",
            is_flag=True,
            help="Divide log-likelihoods by the length of each choice, as acc_norm does.",
        ),
        option(LOGS, "--scorer", help="Name of the Inspect scorer.  [default: the first]"),
    ]
    return add_options(options, command)


def opened_or_log(
    files: Sequence[str], scores: Sequence[str], options: dict[str, Any]
) -> tuple[Any, list[str]]:
    """Return the source (a log or files) and its score columns, given or found by name."""
    from epiloss.sources.logs.find import is_log, read_log, usual_columns
    from epiloss.sources.logs.inspect_logs import is_inspect_archive
    from epiloss.sources.tables import named_columns, open_source

    reading = {name: options.pop(name) for name in ("filter", "length_normalized", "scorer")}
    sql, label = options.pop("sql"), options["label"]
    named = label is not None or bool(scores)
    has_log_option = any(reading.values())
    if sql is None and (
        is_inspect_archive(files[0]) if named else has_log_option or is_log(list(files))
    ):
        log = read_log(list(files), **reading)
        return log, named_columns(log.table, scores, "score") if scores else list(log.score)
    if has_log_option:
        switch = next(name for name, value in reading.items() if value).replace("_", "-")
        raise OptionError(
            f"--{switch} applies to logs of language models only, got a table with named columns. "
            "Leave it out, or leave out the names of the columns."
        )
    source, names = opened(files, scores, sql)
    if label is None or not names:
        _, found = usual_columns(open_source(source).schema.names, label, names)
        names = [found] if isinstance(found, str) else list(found)
    return source, names
