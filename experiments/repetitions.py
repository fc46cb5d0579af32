"""Repetitions in several processes, and their results as CSV."""

from __future__ import annotations

import csv
import io
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")
Found = TypeVar("Found")


def repeated(run: Callable[[T], Found], todo: Sequence[T], *, jobs: int = 1) -> Iterator[Found]:
    """Yield the result of each run, in order; it does not depend on ``jobs``."""
    if jobs == 1:
        yield from map(run, todo)
        return
    # spawn instead of fork, because the progress bar of the parent is a thread
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run, todo, chunksize=4)


def as_csv(lines: Sequence[Any]) -> str:
    """Return dataclass instances as CSV with a header; NaN becomes an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(vars(lines[0]))
    for line in lines:
        writer.writerow(["" if value != value else value for value in vars(line).values()])
    return stream.getvalue()


def read_csv(path: Path, kind: type[T]) -> list[T]:
    """Read the lines that were saved at a path; return none if the file does not exist."""
    if not path.exists():
        return []
    types = get_type_hints(kind)

    def value(name: str, text: str) -> Any:
        return types[name]("nan" if text == "" and types[name] is float else text)

    with path.open(newline="", encoding="utf-8") as file:
        return [
            kind(**{name: value(name, text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]
