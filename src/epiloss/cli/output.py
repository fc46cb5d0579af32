"""What commands write: results, repairs and progress, each wholly or not at all."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epiloss.errors import DataError

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit
    from epiloss.repair.evaluate import RepairResult


def repaired(result: Audit, repair: Mapping[str, Any], scores: tuple[str, ...]) -> RepairResult:
    """Repair, measure, and write what was asked for."""
    from epiloss.repair import RegionRecalibrator
    from epiloss.sources.whole_files import write_table

    loop = result.repair(RegionRecalibrator(repair["repair_method"], rule=result.rule))
    if repair["repair"]:
        columns = {"row": loop.rows, **_score_columns(scores, loop)}
        write(repair["repair"], lambda path: write_table(path, columns))
    if repair["save_repair"]:
        write(repair["save_repair"], loop.repair.save)
    return loop


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
    except OSError as error:
        reason = error.strerror or str(error).rstrip(".")  # pyarrow gives no number
        raise DataError(f"cannot write {path!r}: {reason}. It is as it was before.") from error


def check_output(options: Mapping[str, Any], inputs: Sequence[str] = ()) -> None:
    """Refuse to overwrite what is read or what is there, and folders that are not, before any work."""
    for path in (options.get(name) for name in ("output", "report", "repair", "save_repair")):
        if path and any(Path(one).exists() and _holds(one, path) for one in inputs):
            raise click.UsageError(f"{path!r} is read, and may not be written too. Name another file.")
        if path and Path(path).exists() and not options["force"]:
            raise click.UsageError(f"{path!r} exists already. Use --force to overwrite it.")
        if path and not Path(path).parent.is_dir():
            raise DataError(f"cannot write {path!r}: its folder does not exist. Make it first.")


def named_files(names: Sequence[str]) -> list[str]:
    """Return files and folders that are named, also by patterns."""
    return [found for name in names for found in ([name] if Path(name).exists() else glob.glob(name))]


def _holds(given: str, path: str) -> bool:
    """Tell whether a file is the one that is given, or lies in the folder that is."""
    if not Path(path).exists():
        return False
    return os.path.samefile(given, path) or Path(given).resolve() in Path(path).resolve().parents
