"""Logs of language models on the command line, and files whose columns have usual names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epiloss.cli.command import added, option
from epiloss.cli.output import opened
from epiloss.errors import OptionError

LOGS = "Logs of language models"


def log_options(command: Any) -> Any:
    """Add the options that say how a log is read."""
    options = [
        option(LOGS, "--filter", help="Filter of lm-evaluation-harness.  [default: the first]"),
        option(
            LOGS,
            "--length-normalized",
            is_flag=True,
            help="Divide log-likelihoods by the choices' lengths, as acc_norm does.",
        ),
        option(LOGS, "--scorer", help="Scorer of Inspect.  [default: the first]"),
    ]
    return added(options, command)


def opened_or_log(
    files: Sequence[str], scores: Sequence[str], options: dict[str, Any]
) -> tuple[Any, list[str]]:
    """Return the log that files are, or the files, and the columns of scores, named or found."""
    from epiloss.sources.logs.find import is_log, read_log, usual_columns
    from epiloss.sources.logs.inspect_logs import is_inspect_archive
    from epiloss.sources.tables import named_columns, open_source

    reading = {name: options.pop(name) for name in ("filter", "length_normalized", "scorer")}
    sql, label = options.pop("sql"), options["label"]
    named = label is not None or bool(scores)
    asked = any(reading.values())
    if sql is None and (is_inspect_archive(files[0]) if named else asked or is_log(list(files))):
        log = read_log(list(files), **reading)
        return log, named_columns(log.table, scores, "score") if scores else list(log.score)
    if asked:
        option_name = next(name for name, value in reading.items() if value)
        raise OptionError(f"{option_name} is for logs of language models, whose columns are not named.")
    source, names = opened(files, scores, sql)
    if label is None or not names:
        _, found = usual_columns(open_source(source).schema.names, label, names)
        names = [found] if isinstance(found, str) else list(found)
    return source, names
