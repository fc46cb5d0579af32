"""Files that commands read and write; a file is written completely or not at all."""

from __future__ import annotations

import glob
import io
import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epiloss._progress import paused
from epiloss.errors import DataError, printable

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit
    from epiloss.repair.evaluate import RepairResult


_STANDARD_INPUT = "epiloss standard input"


def repair_scores(
    result: Audit, repair: Mapping[str, Any], scores: tuple[str, ...], source: Any
) -> RepairResult:
    """Fit and evaluate a repair, and write the files that the options name."""
    from epiloss.repair import RegionRecalibrator
    from epiloss.sources.whole_files import write_table

    loop = result.repair(RegionRecalibrator(repair["repair_method"], rule=result.rule))
    if repair["repair"]:
        order = loop.rows.argsort(kind="stable")
        better = {name: one[order] for name, one in _score_columns(scores, loop).items()}
        rows = loop.rows[order]
        kept = _columns_of_rows(source, rows, list(better), repair["repair"])
        columns = {"row": rows, **kept, **better}
        write(repair["repair"], lambda path: write_table(path, columns))
    if repair["save_repair"]:
        write(repair["save_repair"], loop.repair.save)
    return loop


def _columns_of_rows(source: Any, rows: Any, added: Sequence[str], path: str) -> dict[str, Any]:
    """Return the columns of the given rows of a source, in order; none if there is no source."""
    if source is None:
        return {}
    from epiloss.sources.arrow import arrow
    from epiloss.sources.kept_columns import kept_columns, plain_field
    from epiloss.sources.tables import open_source

    opened = open_source(source)
    note_lost_columns(opened.schema, path)
    names = kept_columns(opened.schema, added, path)
    batches, before = [], 0
    for part in opened.parts:
        for batch in part.batches(names):
            here = rows[(rows >= before) & (rows < before + batch.num_rows)] - before
            batches.append(batch.take(arrow().array(here)))
            before += batch.num_rows
    table = arrow().Table.from_batches(batches)
    types = {name: plain_field(opened.schema.field(name)).type for name in names}
    return {name: table.column(name).cast(kind) for name, kind in types.items()}


def note_lost_columns(schema: Any, path: str) -> None:
    """Print a note about columns that the output format cannot hold."""
    from epiloss.sources.kept_columns import lost_columns

    lost = printable(", ".join(map(repr, lost_columns(schema, path))))
    if lost:
        with paused():
            click.echo(
                f"note: CSV cannot hold lists, so the output lacks {lost}. Write Parquet to keep them.",
                err=True,
            )


def _score_columns(names: tuple[str, ...], loop: RepairResult) -> dict[str, Any]:
    """Return the repaired scores, named after the score columns."""
    scores, positive = loop.scores, loop.repair.positive_
    if len(names) == 1:
        columns = [scores]
    elif scores.ndim == 1:  # with two classes only the score of the positive class is repaired
        columns = [scores if k == positive else 1 - scores for k in range(2)]
    else:
        columns = list(scores.T)
    return {f"{name}_repaired": column for name, column in zip(names, columns, strict=True)}


def write(path: str, save: Callable[[str], object]) -> None:
    """Write a file, or raise an error that says why it cannot be written."""
    try:
        save(path)
    except BrokenPipeError as error:
        raise DataError(f"cannot write {path!r}: the process that reads it has exited.") from error
    except OSError as error:
        kept = "" if _is_special(path) else " The file was not changed."
        raise DataError(f"cannot write {path!r}: {_reason(error)}.{kept}") from error


def show(text: str) -> None:
    """Print to standard output, or raise an error that says why this failed."""
    stream = getattr(sys.stdout, "buffer", None)
    try:
        if isinstance(stream, io.RawIOBase):  # with PYTHONUNBUFFERED a partial write would be lost
            _write_all(stream, f"{text}\n".encode())
        else:
            click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"cannot write to standard output: {_reason(error)}.") from error


def _write_all(stream: io.RawIOBase, left: bytes) -> None:
    while left:
        left = left[stream.write(left) or 0 :]


def _reason(error: OSError) -> str:
    return error.strerror or str(error).rstrip(".")  # errors of pyarrow have no strerror


def check_output(options: Mapping[str, Any], inputs: Sequence[str] = ()) -> None:
    """Check the output paths before any work: no input, no existing file, no missing folder."""
    given = {name: options.get(name) for name in ("output", "report", "repair", "save_repair", "chart")}
    paths = {f"--{name.replace('_', '-')}": path for name, path in given.items() if path}
    for path in paths.values():
        if any(_holds(one, path) for one in inputs):
            raise click.UsageError(f"outputs must not be inputs, got {path!r}. Name another file.")
        special = _is_special(path)
        if _is_standard_output(path) and not special:
            raise click.UsageError(f"{path!r} is already standard output. Name another file.")
        if os.path.exists(path) and not special and not options["force"]:
            raise click.UsageError(f"{path!r} already exists. Use --force to overwrite it.")
        if not Path(os.path.realpath(path)).parent.is_dir():
            raise DataError(f"cannot write {path!r}: its folder does not exist. Create it first.")
    for (one, path), (other, also) in itertools.combinations(paths.items(), 2):
        if _is_same(path, also) and not _is_special(path):
            raise click.UsageError(f"{one} and {other} must differ, got {path!r} for both.")


def _is_special(path: str) -> bool:
    """Tell whether a path is a device or a pipe, or raise an error if it cannot be written."""
    from epiloss._saving import is_special

    try:
        return is_special(path)
    except OSError as error:  # for example, the name is too long
        raise DataError(f"cannot write {path!r}: {_reason(error)}.") from error


def _is_same(path: str, other: str) -> bool:
    """Tell whether two paths are the same file, which need not exist yet."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _is_standard_output(path: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def named_files(names: Sequence[str]) -> list[str]:
    """Return the local files and folders that match the given names and patterns."""
    from epiloss.sources.addresses import local_name

    here = [str(local_name(name)) for name in names]
    return [found for name in here for found in ([name] if os.path.exists(name) else glob.glob(name))]


def opened(files: Sequence[str], scores: Sequence[str], sql: str | None = None) -> tuple[Any, list[str]]:
    """Return the source and its score columns.

    The source is a table if the input can be read only once, the result of the query ``sql`` if there
    is one, and otherwise the names of the files.
    """
    from epiloss.sources.addresses import local_name
    from epiloss.sources.tables import named_columns, with_query
    from epiloss.sources.whole_files import read_whole

    names = [local_name(name) for name in files]
    table = None
    if len(names) == 1:
        table = _standard_input() if names[0] == "-" else read_whole(names[0])
    source = with_query(names if table is None else table, sql)
    return source, named_columns(source, scores, "score")


def _standard_input() -> Any:
    """Return standard input as a table; it can be read only once, so the command keeps the table."""
    from epiloss.sources.whole_files import read_whole

    kept = click.get_current_context().meta
    if _STANDARD_INPUT not in kept:
        kept[_STANDARD_INPUT] = read_whole("-")
    return kept[_STANDARD_INPUT]


def _holds(given: str, path: str) -> bool:
    """Tell whether ``path`` is the given file or lies in the given folder."""
    if not (os.path.exists(given) and os.path.exists(path)):
        return False
    return os.path.samefile(given, path) or Path(given).resolve() in Path(path).resolve().parents
