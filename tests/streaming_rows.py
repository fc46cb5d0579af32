"""Rows for tests of what is read in passes, and the audit of them in little memory."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import epiloss
from epiloss.simulate import Sigmoid
from epiloss.sources.files import FilePart
from epiloss.streaming.engines import local
from epiloss.streaming.engines.base import run_task

N = 30_000
SMALL = "18MB"  # memory for a sample of about 12,000 of these rows
BY_SUBGROUP: dict[str, Any] = {  # with memory for a sample of about 15,000 rows
    "features": ["a", "b"],
    "subgroups": ["city", "count"],
    "memory": "13MB",
}
ENDS = (0, 2_500, 10_000, 25_000, N)  # of the files in a folder of them


def table(n: int = N, seed: int = 0) -> Any:
    """Return rows with a category, a count with gaps, a moment and an irrelevant column."""
    g = np.random.default_rng(seed)
    sample = Sigmoid(perturbation="step").sample(n, random_state=seed)
    X = np.asarray(sample.X)
    count = g.integers(0, 9, n).astype(float)
    columns = {
        "a": X[:, 0],
        "b": X[:, 1].astype(np.float32),
        "city": g.choice(["Oslo", "Rom", "Wien"], n),
        "count": pa.array(count, mask=g.random(n) < 0.05),
        "when": np.datetime64("2026-01-01", "s") + 3600 * g.integers(0, 500, n),
        "weight": g.integers(1, 5, n) / 2,
        "score": sample.scores,
        "label": sample.y.astype(np.int64),
    }
    return pa.table(columns)


def shuffled(rows: Any) -> Any:
    """Return the same rows in another order."""
    return rows.take(np.random.default_rng(5).permutation(len(rows)))


def write_folder(rows: Any, folder: Path) -> Path:
    """Write rows as four Parquet files of unequal length."""
    for place, (start, end) in enumerate(itertools.pairwise(ENDS)):
        part = rows.slice(start, end - start)
        parquet.write_table(part, folder / f"part{place}.parquet", row_group_size=2_000)
    return folder


def audited(source: Any, **options: Any) -> dict[str, Any]:
    """Return all numbers of an audit in little memory, by regions unless another method is given."""
    named = {"exclude": ["weight"], "memory": SMALL, "method": "partition", **options}
    return epiloss.audit_table(source, label="label", score="score", **named).to_dict()


@contextmanager
def stopped_by(error: type[BaseException]) -> Iterator[None]:
    """Let an audit in this process stop, by an error, once two parts of its last pass are done."""
    n_done = 0

    def some(work: Any, part: Any, offset: int) -> Any:
        nonlocal n_done
        if work.name == "tally" and n_done == 2:
            raise error
        n_done += work.name == "tally"
        return run_task(work, part, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "run_task", some)
        with pytest.raises(error):
            yield


@dataclass(frozen=True)
class DeadlyPart(FilePart):
    """A part at which the process that first reads all of its columns kills itself."""

    mark: str = ""  # a file that is there once that has happened

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read the part, if another process has died of it."""
        if len(columns) > 1 and not os.path.exists(self.mark):  # the census reads the labels alone
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().batches(columns)
