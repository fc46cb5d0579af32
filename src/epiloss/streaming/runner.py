"""Running passes over all parts of the data, resuming from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._progress import counted
from epiloss.errors import DataError, RowsError
from epiloss.sources.base import Source
from epiloss.streaming.census import Census
from epiloss.streaming.checkpoint import Checkpoint
from epiloss.streaming.engines import Engine
from epiloss.streaming.engines.base import Task
from epiloss.streaming.passes import Pass, PassResult


def no_rows() -> DataError:
    """Return the error for data without rows."""
    return DataError("the data must have at least one row, got none. Check how the rows were selected.")


@dataclass
class Runner:
    """Runs passes over a source, resuming from a checkpoint if there is one."""

    source: Source
    engine: Engine
    checkpoint: Checkpoint | None
    verbose: bool | None = None
    offsets: Mapping[str, int] | None = None  # the number of each part's first row

    def run(self, work: Pass[Any], inputs: str = "", n_rows: int | None = None) -> Any:
        """Return the merged result of a pass over all parts."""
        parts = {part.identity: part for part in self.source.parts}
        done: set[str] = set()
        result: PassResult | None = None
        wrong: list[RowsError] = []
        if self.checkpoint is not None:
            done, result = self.checkpoint.load(work, inputs, parts)
        offsets = self.offsets or {}
        tasks: list[Task] = [
            (part, offsets.get(identity, 0)) for identity, part in parts.items() if identity not in done
        ]
        with counted(work.title, n_rows or self.source.n_rows, self.verbose) as advance:
            if result is not None:
                advance(result.n_rows)
            try:
                for identities, found in self.engine.run(work, tasks) if tasks else ():
                    if isinstance(found, RowsError):
                        wrong.append(found)
                        continue
                    result = found if result is None else result.merge(found)
                    done.update(identities)
                    advance(found.n_rows)
                    if self.checkpoint is not None:
                        self.checkpoint.save(work, inputs, done, result)
            finally:
                if self.checkpoint is not None and result is not None:
                    self.checkpoint.save(work, inputs, done, result, now=True)
        if wrong:
            raise RowsError.merged(wrong)
        if result is None:
            raise no_rows()
        return result

    def number_rows(self, census: Census) -> None:
        """Set the number of each part's first row in the whole data."""
        counts = [census.parts.get(part.identity, 0) for part in self.source.parts]
        starts = np.cumsum([0, *counts]).tolist()
        self.offsets = {
            part.identity: start for part, start in zip(self.source.parts, starts[:-1], strict=True)
        }
