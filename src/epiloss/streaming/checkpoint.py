"""Checkpoints: partial results on disk, from which an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from epiloss._saving import replacing
from epiloss.errors import DataError, OptionError, printable
from epiloss.estimation.region_rows import FIELDS
from epiloss.estimation.twins.moments import TwinSums
from epiloss.sources.arrow import arrow
from epiloss.streaming.census import Census
from epiloss.streaming.passes import Pass, PassResult
from epiloss.streaming.score_cells import cell_shape
from epiloss.streaming.score_pass import ScoreSum
from epiloss.streaming.survey import KEY, ROW, Survey
from epiloss.streaming.tally import TakeTally, Tally

_PAUSE = 20  # at least this many times the duration of a write passes before the next write
_MAX_REGIONS = 2**24
_MALFORMED = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError)
_HEADER = b"epiloss checkpoint 1\n"


class Checkpoint:
    """Merged results of the finished parts, in one file per pass, which is written atomically.

    ``run`` holds the options and columns, on which the results depend.
    """

    def __init__(self, folder: str | os.PathLike[str], run: Mapping[str, Any]) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(
                f"checkpoint must be a writable folder, got {str(folder)!r}: "
                f"{error.strerror or error}. Pass another folder."
            ) from error
        self._run = digest(run)
        self._next = time.monotonic()
        self.used = False

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Attribute unexpected errors to the checkpoint, if it was used."""
        try:
            yield
        except (DataError, OptionError):
            raise
        except _MALFORMED as error:
            if not self.used:
                raise
            raise DataError(
                printable(
                    f"checkpoint {str(self._folder)!r} does not match the data "
                    f"({type(error).__name__}). Delete it to start again."
                )
            ) from error

    def load(self, work: Pass[Any], inputs: str, parts: Iterable[str]) -> tuple[set[str], Any]:
        """Return the finished parts of a pass and their merged result; empty if there is no file.

        ``inputs`` is what the pass depends on besides options and parts. If that or a part has changed,
        the pass starts again.
        """
        path = self._path(work)
        if not path.exists():
            return set(), None
        try:
            facts, data = unsealed(path.read_bytes())
            known = json.loads(facts)
            if known["run"] != self._run:
                raise OptionError(
                    printable(
                        f"checkpoint {str(self._folder)!r} belongs to a run with other options or "
                        "columns. Use another folder, or delete it."
                    )
                )
            if known["inputs"] != inputs or not set(known["done"]) <= set(parts):
                return set(), None
            result = work.result.from_bytes(data)
            check_plausible(work, result)
            self.used = True
            return set(known["done"]), result
        except (arrow().ArrowException, OSError, *_MALFORMED) as error:
            if isinstance(error, OptionError):
                raise
            reason = str(error).rstrip(".")[:200]
            raise DataError(
                printable(
                    f"checkpoint {str(path)!r} cannot be read: {reason}. Delete it to start again."
                )
            ) from error

    def save(
        self, work: Pass[Any], inputs: str, done: Iterable[str], result: PassResult, *, now: bool = False
    ) -> None:
        """Write the state of a pass, unless it was written recently."""
        start = time.monotonic()
        if not now and start < self._next:
            return
        facts = json.dumps({"run": self._run, "inputs": inputs, "done": sorted(done)}).encode()
        try:
            with replacing(self._path(work)) as temporary:
                temporary.write_bytes(sealed(facts, result.to_bytes()))
        except OSError as error:
            raise DataError(
                printable(
                    f"cannot write the checkpoint {str(self._folder)!r}: {error.strerror}. The previous "
                    "checkpoint is kept: free some space, and run again to resume."
                )
            ) from error
        end = time.monotonic()
        self._next = end + _PAUSE * (end - start)

    def _path(self, work: Pass[Any]) -> Path:
        return self._folder / f"{work.name}.checkpoint"


def check_plausible(work: Pass[Any], result: PassResult) -> None:
    """Raise an error for numbers that no run writes, because they would determine memory use."""
    counts = [result.n_rows]
    if isinstance(result, Census):
        counts += [result.n_weightless, result.n_unlabelled]
        counts += [*result.labels.values(), *result.parts.values()]
        labelled = sum(result.labels.values()) + result.n_unlabelled
        consistent = sum(result.parts.values()) == labelled == result.n_rows
    elif isinstance(result, Survey):
        counts += [result.n_clipped, result.n_missing]
        consistent = all(one.sums.shape == cell_shape(one.bits) for one in result.cells)
        if result.sample is not None:
            consistent &= result.sample.column_names == [*work.columns, KEY, ROW]
            consistent &= result.sample.num_rows <= result.n_rows
            result.sample.validate(full=True)
    elif isinstance(result, ScoreSum):
        consistent = result.losses >= 0 and result.weights >= 0
    else:
        assert isinstance(result, Tally)
        assert isinstance(work, TakeTally)
        consistent = _is_consistent_tally(work, result)
    if not consistent or not all(type(n) is int and 0 <= n < 2**53 for n in counts):
        raise ValueError("its numbers do not belong to any run")


def _is_consistent_tally(work: TakeTally, result: Tally) -> bool:
    n_columns = len(work.reader.subgroups)
    consistent = len(result.stats) == len(work.learned)
    consistent &= len(result.by_subgroup) == n_columns * len(work.learned)
    without = [replace(one, partition=None) for one in work.learned for _ in range(n_columns)]
    every = (*result.stats, *result.by_subgroup)
    for one, learned in zip(every, (*work.learned, *without), strict=True):
        consistent &= one.sums.shape == (2, len(FIELDS), len(one.region)) and len(one.level_set) > 0
        consistent &= one.level_set.shape == one.region.shape and bool(
            (one.level_set >= 0).all()
            and (one.level_set < learned.n_level_sets).all()
            and (one.region >= 0).all()
            and (one.region < _MAX_REGIONS).all()
        )
        if learned.partition is not None:
            for place, region in zip(one.level_set.tolist(), one.region.tolist(), strict=True):
                learned.partition.path(place, region)  # raises an error for an unknown region
    wanted = [TwinSums.empty(models) for some in work.twin_models for models in some]
    forms = [[(one.layout, one.sums.shape) for one in some] for some in (result.twins, wanted)]
    return consistent and forms[0] == forms[1]


def sealed(facts: bytes, data: bytes) -> bytes:
    r"""Join a line of JSON and any bytes, with a checksum.

    Examples
    --------
    >>> unsealed(sealed(b"{}", b"a\nb"))
    (b'{}', b'a\nb')
    """
    body = facts + b"\n" + data
    return _HEADER + hashlib.blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


def unsealed(content: bytes) -> tuple[bytes, bytes]:
    """Return the arguments of :func:`sealed`, or raise an error if the checksum does not match."""
    digest, _, body = content.removeprefix(_HEADER).partition(b"\n")
    if hashlib.blake2b(body, digest_size=16).hexdigest().encode() != digest:
        raise ValueError("it was changed after it was written")
    facts, _, data = body.partition(b"\n")
    return facts, data


def digest(facts: Any) -> str:
    """Return a hash of values that can be written as JSON."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
