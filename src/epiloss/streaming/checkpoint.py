"""Partial results on disk, from which a run that was killed goes on."""

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

_REST = 20  # writing takes at most one part in so many of the time
_MOST_REGIONS = 2**24
_UNFIT = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError)
_MARK = b"epiloss checkpoint 1\n"


class Checkpoint:
    """Merged results of the parts that are done, one file a pass, written wholly or not at all.

    ``run`` is what the results depend on beside the parts: the options.
    """

    def __init__(self, folder: str | os.PathLike[str], run: Mapping[str, Any]) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(
                f"checkpoint must be a folder to write to, got {str(folder)!r}: "
                f"{error.strerror or error}. Name another folder."
            ) from error
        self._run = digest(run)
        self._next = time.monotonic()
        self.used = False

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Say, where a run cannot go on with what the checkpoint holds, that it is the checkpoint."""
        try:
            yield
        except (DataError, OptionError):
            raise
        except _UNFIT as error:
            if not self.used:
                raise
            raise DataError(
                printable(
                    f"checkpoint {str(self._folder)!r} does not fit the data ({type(error).__name__}). "
                    "Remove it to start again."
                )
            ) from error

    def load(self, work: Pass[Any], inputs: str, parts: Iterable[str]) -> tuple[set[str], Any]:
        """Return the parts that a pass has done, and their merged result; none if there is none.

        ``inputs`` is what the pass depends on beside options and parts. Where that or a part has
        changed, the pass begins anew.
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
                        "columns. Use another folder, or remove it."
                    )
                )
            if known["inputs"] != inputs or not set(known["done"]) <= set(parts):
                return set(), None
            result = work.result.from_bytes(data)
            check_kept(work, result)
            self.used = True
            return set(known["done"]), result
        except (arrow().ArrowException, OSError, *_UNFIT) as error:
            if isinstance(error, OptionError):
                raise
            reason = str(error).rstrip(".")[:200]
            raise DataError(
                printable(
                    f"checkpoint {str(path)!r} cannot be read: {reason}. Remove it to start again."
                )
            ) from error

    def save(
        self, work: Pass[Any], inputs: str, done: Iterable[str], result: PassResult, *, now: bool = False
    ) -> None:
        """Write a pass's state, unless that was done a moment ago."""
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
                    f"cannot write the checkpoint {str(self._folder)!r}: {error.strerror}. What it "
                    "held before is kept: free some space, and run again to continue."
                )
            ) from error
        end = time.monotonic()
        self._next = end + _REST * (end - start)

    def _path(self, work: Pass[Any]) -> Path:
        return self._folder / f"{work.name}.checkpoint"


def check_kept(work: Pass[Any], result: PassResult) -> None:
    """Refuse numbers that no run has written, where they would decide what memory is taken."""
    counts = [result.n_rows]
    if isinstance(result, Census):
        counts += [result.n_weightless, result.n_unlabelled]
        counts += [*result.labels.values(), *result.parts.values()]
        labelled = sum(result.labels.values()) + result.n_unlabelled
        whole = sum(result.parts.values()) == labelled == result.n_rows
    elif isinstance(result, Survey):
        counts += [result.n_clipped, result.n_missing]
        whole = all(one.sums.shape == cell_shape(one.bits) for one in result.cells)
        if result.sample is not None:
            whole &= result.sample.column_names == [*work.columns, KEY, ROW]
            whole &= result.sample.num_rows <= result.n_rows
            result.sample.validate(full=True)
    elif isinstance(result, ScoreSum):
        whole = result.losses >= 0 and result.weights >= 0
    else:
        assert isinstance(result, Tally)
        assert isinstance(work, TakeTally)
        n_columns = len(work.reader.subgroups)
        whole = len(result.stats) == len(work.learned)
        whole &= len(result.by_subgroup) == n_columns * len(work.learned)
        without = [replace(one, partition=None) for one in work.learned for _ in range(n_columns)]
        every = (*result.stats, *result.by_subgroup)
        for one, learned in zip(every, (*work.learned, *without), strict=True):
            whole &= one.sums.shape == (2, len(FIELDS), len(one.region)) and len(one.level_set) > 0
            whole &= one.level_set.shape == one.region.shape and bool(
                (one.level_set >= 0).all()
                and (one.level_set < learned.n_level_sets).all()
                and (one.region >= 0).all()
                and (one.region < _MOST_REGIONS).all()
            )
            if learned.partition is not None:
                for place, region in zip(one.level_set.tolist(), one.region.tolist(), strict=True):
                    learned.partition.path(place, region)  # which tells of regions that are not there
        wanted = [TwinSums.empty(jury) for juries in work.juries for jury in juries]
        forms = [[(one.form, one.sums.shape) for one in some] for some in (result.twins, wanted)]
        whole &= forms[0] == forms[1]
    if not whole or not all(type(n) is int and 0 <= n < 2**53 for n in counts):
        raise ValueError("its numbers do not belong to any run")


def sealed(facts: bytes, data: bytes) -> bytes:
    r"""Return a line of JSON and any bytes as one, with what tells whether they are as they were.

    Examples
    --------
    >>> unsealed(sealed(b"{}", b"a\nb"))
    (b'{}', b'a\nb')
    """
    body = facts + b"\n" + data
    return _MARK + hashlib.blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


def unsealed(content: bytes) -> tuple[bytes, bytes]:
    """Return what :func:`sealed` was given, if nothing has changed since."""
    digest, _, body = content.removeprefix(_MARK).partition(b"\n")
    if hashlib.blake2b(body, digest_size=16).hexdigest().encode() != digest:
        raise ValueError("it was changed after it was written")
    facts, _, data = body.partition(b"\n")
    return facts, data


def digest(facts: Any) -> str:
    """Return a short text that differs for different facts."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
