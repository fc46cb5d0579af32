"""What commands write: results, repairs and progress, each wholly or not at all."""

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


def repaired(
    result: Audit, repair: Mapping[str, Any], scores: tuple[str, ...], source: Any
) -> RepairResult:
    """Repair, measure, and write what was asked for, with the columns of the source."""
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
    """Return the columns of some rows, in order, of a source; none of the bundled data."""
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
    """Say which columns are not written again."""
    from epiloss.sources.kept_columns import lost_columns

    lost = printable(", ".join(map(repr, lost_columns(schema, path))))
    if lost:
        with paused():
            click.echo(
                f"note: CSV cannot hold lists, so {lost} is left out. Write Parquet to keep it.",
                err=True,
            )


def _score_columns(names: tuple[str, ...], loop: RepairResult) -> dict[str, Any]:
    """Return repaired scores under the names of the given ones."""
    scores, positive = loop.scores, loop.repair.positive_
    if len(names) == 1:
        columns = [scores]
    elif scores.ndim == 1:  # of two classes the positive one's is audited
        columns = [scores if k == positive else 1 - scores for k in range(2)]
    else:
        columns = list(scores.T)
    return {f"{name}_repaired": column for name, column in zip(names, columns, strict=True)}


def write(path: str, save: Callable[[str], object]) -> None:
    """Write a file, or say why it cannot be written."""
    try:
        save(path)
    except BrokenPipeError as error:
        raise DataError(f"cannot write {path!r}: its reader has gone.") from error
    except OSError as error:
        kept = "" if _is_special(path) else " It is as it was before."
        raise DataError(f"cannot write {path!r}: {_reason(error)}.{kept}") from error


def show(text: str) -> None:
    """Print on the standard output, or say why it cannot be."""
    stream = getattr(sys.stdout, "buffer", None)
    try:
        if isinstance(stream, io.RawIOBase):  # PYTHONUNBUFFERED: print would lose what does not fit
            _write_all(stream, f"{text}\n".encode())
        else:
            click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"cannot write to the standard output: {_reason(error)}.") from error


def _write_all(stream: io.RawIOBase, left: bytes) -> None:
    while left:
        left = left[stream.write(left) or 0 :]


def _reason(error: OSError) -> str:
    return error.strerror or str(error).rstrip(".")  # pyarrow gives no number


def check_output(options: Mapping[str, Any], inputs: Sequence[str] = ()) -> None:
    """Refuse to overwrite what is read or what is there, and folders that are not, before any work."""
    given = {name: options.get(name) for name in ("output", "report", "repair", "save_repair", "chart")}
    paths = {f"--{name.replace('_', '-')}": path for name, path in given.items() if path}
    for path in paths.values():
        if any(_holds(one, path) for one in inputs):
            raise click.UsageError(f"{path!r} is read, and may not be written too. Name another file.")
        special = _is_special(path)
        if _is_standard_output(path) and not special:
            raise click.UsageError(f"{path!r} is the standard output already. Name another file.")
        if os.path.exists(path) and not special and not options["force"]:
            raise click.UsageError(f"{path!r} exists already. Use --force to overwrite it.")
        if not Path(os.path.realpath(path)).parent.is_dir():
            raise DataError(f"cannot write {path!r}: its folder does not exist. Make it first.")
    for (one, path), (other, also) in itertools.combinations(paths.items(), 2):
        if _is_same(path, also) and not _is_special(path):
            raise click.UsageError(f"{one} and {other} must differ, got {path!r} for both.")


def _is_special(path: str) -> bool:
    """Tell whether a path leads to what is no regular file, or say why it cannot be written."""
    from epiloss._saving import is_special

    try:
        return is_special(path)
    except OSError as error:  # such as a name that is too long
        raise DataError(f"cannot write {path!r}: {_reason(error)}.") from error


def _is_same(path: str, other: str) -> bool:
    """Tell whether two paths lead to one file, which need not exist yet."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _is_standard_output(path: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def named_files(names: Sequence[str]) -> list[str]:
    """Return files and folders that are named, also by patterns."""
    from epiloss.sources.addresses import local_name

    here = [str(local_name(name)) for name in names]
    return [found for name in here for found in ([name] if os.path.exists(name) else glob.glob(name))]


def opened(files: Sequence[str], scores: Sequence[str], sql: str | None = None) -> tuple[Any, list[str]]:
    """Return the files, or the table of what can be read only once, and its columns of scores.

    With ``sql`` it is the query of a database file.
    """
    from epiloss.sources.addresses import local_name
    from epiloss.sources.tables import named_columns, with_query
    from epiloss.sources.whole_files import read_whole

    names = [local_name(name) for name in files]
    alone = read_whole(names[0]) if len(names) == 1 else None
    source = with_query(names if alone is None else alone, sql)
    return source, named_columns(source, scores, "score")


def _holds(given: str, path: str) -> bool:
    """Tell whether a file is the one that is given, or lies in the folder that is."""
    if not (os.path.exists(given) and os.path.exists(path)):
        return False
    return os.path.samefile(given, path) or Path(given).resolve() in Path(path).resolve().parents
