"""Engine for Spark, classic or Connect: runs over parts of files, or over a Spark data frame."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

from epiloss.errors import DataError, MissingExtraError, OptionError, RowsError
from epiloss.sources.tables import SparkPart
from epiloss.streaming.engines.base import Done, Engine, Task
from epiloss.streaming.passes import Pass, PassResult

_SCHEMA = "data binary, error string"
_ROWS = "\0rows "  # prefix of errors of rows, which are merged with others
_AT_ONCE, _FEW = 256, 8  # tasks per job, and results per job that are sent to the driver
Batches = Iterator[Any]


class SparkEngine(Engine):
    """Runs parts in the Python workers of Spark; Spark repeats the tasks of a worker that died."""

    def __init__(self, session: Any = None) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise MissingExtraError(
                "engine 'spark' needs pyspark, which is not installed. Run: pip install 'epiloss[spark]'"
            ) from None
        if session is None or isinstance(session, str):
            builder = SparkSession.builder
            if session is not None and session.startswith("sc://"):
                builder = builder.remote(session)
            else:
                # workers need the packages of this Python; Spark reads it only from the environment
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                builder = builder if session is None else builder.master(session)
            session = builder.getOrCreate()
        self._session = session

    def run(self, work: Pass[Any], tasks: Sequence[Task]) -> Iterator[Done]:
        """Run ``mapInArrow`` over the numbers of the tasks, or over the data frame itself."""
        for start in range(0, len(tasks), _AT_ONCE):
            some = tasks[start : start + _AT_ONCE]
            frame = some[0][0].frame if isinstance(some[0][0], SparkPart) else None
            few = _FEW
            if frame is None:
                few = min(few, len(some))
                numbers = self._session.range(0, len(some), 1, len(some))
                rows = numbers.mapInArrow(_over_tasks(work, some), _SCHEMA)
            else:
                rows = frame.select(*work.columns).mapInArrow(_over_rows(work), _SCHEMA)
            found = rows.repartition(few).mapInArrow(_merged(work), _SCHEMA).collect()
            identities = [part.identity for part, _ in some]
            errors = [row["error"] for row in found if row["error"] is not None]
            if errors:
                yield identities, _merged_error(errors)
                continue
            results = [work.result.from_bytes(bytes(row["data"])) for row in found]
            yield identities, reduce(lambda one, other: one.merge(other), results)


def _merged_error(errors: Sequence[str]) -> RowsError:
    """Return the merged error of rows; raise other errors."""
    others = [text for text in errors if not text.startswith(_ROWS)]
    if others:
        raise DataError(min(others))
    return RowsError.merged(RowsError.from_json(text.removeprefix(_ROWS)) for text in errors)


def _over_tasks(work: Pass[Any], tasks: Sequence[Task]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                part, offset = tasks[task]
                yield _row(partial(work, part, offset))

    return run


def _over_rows(work: Pass[Any]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        yield _row(lambda: work.over(batches, "a partition of the Spark data frame", 0, 0))

    return run


def _merged(work: Pass[Any]) -> Callable[[Batches], Batches]:
    """Return a function that merges results on the workers, so that few are sent to the driver."""

    def run(batches: Batches) -> Batches:
        merged: PassResult | None = None
        failed = False
        for batch in batches:
            for data, error in zip(*(batch.column(k).to_pylist() for k in (0, 1)), strict=True):
                if error is not None:
                    failed = True
                    yield _record(None, error)
                elif not failed:
                    found = work.result.from_bytes(data)
                    merged = found if merged is None else merged.merge(found)
        if merged is not None and not failed:
            yield _row(lambda: merged)

    return run


def _row(do: Callable[[], PassResult]) -> Any:
    """Return the result as a row; errors in the data are returned too, because Spark would retry."""
    try:
        return _record(do().to_bytes(), None)
    except RowsError as error:
        return _record(None, _ROWS + error.to_json())
    except (DataError, OptionError) as error:
        return _record(None, str(error))


def _record(data: bytes | None, error: str | None) -> Any:
    import pyarrow as pa

    columns = {"data": pa.array([data], pa.binary()), "error": pa.array([error], pa.string())}
    return pa.RecordBatch.from_pydict(columns)
