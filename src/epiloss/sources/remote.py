"""Files elsewhere: fetched through fsspec, part by part, and only where a user gives an address."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote

from epiloss.errors import DataError, MissingExtraError, RowsError, printable
from epiloss.sources.addresses import shown, without_secrets
from epiloss.sources.discovery import folder_values, is_hidden, is_table_name
from epiloss.sources.lakehouse import METADATA

SMALL = 2**26  # bytes of all files together that are fetched once, and kept in memory
BEGINNING = 2**24  # bytes of a text, of which the columns are told
_TRIES, _PAUSE = 3, 0.5  # of each fetch, and seconds between the first two
_GAP = 2**20  # bytes that are fetched in vain rather than asked for apart
_PADDING = 128  # bytes behind a column chunk, which some writers did not count
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "hf": "huggingface_hub", "http": "aiohttp", "https": "aiohttp"}
_STATES = (
    "ETag",
    "etag",
    "LastModified",
    "last_modified",
    "Last-Modified",
    "mtime",
    "updated",
    "blob_id",
)
_FINAL = (FileNotFoundError, PermissionError, NotImplementedError)  # which another try does not mend
_LOGS = ("_delta_log", ".hoodie")
Range = tuple[int, int]  # the first byte, and the one behind the last
Needed = Callable[[str], Iterator[Sequence[Range]]]
Found = TypeVar("Found")


class WholeOnlyError(Exception):
    """A server gives files as a whole, and no part of one."""


@dataclass(frozen=True)
class RemoteFile:
    """A file elsewhere; ``state`` tells whether it is still the same."""

    address: str
    size: int | None
    state: str

    @property
    def name(self) -> str:
        """The address without secrets."""
        return shown(self.address)

    def content(self) -> bytes:
        """Fetch the whole file into memory."""
        data: bytes = _asked(self.address, lambda files, path: files.cat_file(path))
        if self.size is not None and len(data) != self.size:
            raise _cut(self.name, len(data), self.size)
        return data

    def piece(self, first: int, behind: int) -> bytes:
        """Fetch some bytes of the file."""

        def read(files: Any, path: str) -> bytes:
            try:
                # a file of fsspec: it notices that a server ignores what is asked for and sends it all
                with files.open(path, "rb", block_size=2**20, cache_type="none") as file:
                    file.seek(first)
                    data: bytes = file.read(behind - first)
            except ValueError as error:
                raise WholeOnlyError from error
            return data

        data = _asked(self.address, read)
        if len(data) != behind - first:
            raise _cut(self.name, len(data), behind - first)
        return data

    @contextmanager
    def fetched(self, needed: Needed | None = None) -> Iterator[str]:
        """Give a file of this machine with the content, or with those bytes of it that are needed.

        ``needed`` gets a file of the right size with nothing in it, and yields which bytes it must have
        next: more and more, as it can read them.
        """
        self._check_state()
        with tempfile.TemporaryDirectory(prefix="epiloss-") as folder:
            # the ending is kept: it may say how a text is compressed
            local = os.path.join(folder, f"file{''.join(PurePosixPath(self.name).suffixes[-2:])[:20]}")
            try:
                if needed is None or not self._fill(local, needed):
                    _asked(self.address, lambda files, path: files.get_file(path, local))
                    self._check_size(local)
            except OSError as error:
                raise self._no_room(folder, error) from error
            try:
                yield local
            except RowsError:
                raise
            except DataError as error:
                raise DataError(str(error).replace(local, self.name)) from error

    @contextmanager
    def beginning(self) -> Iterator[str]:
        """Give a file of this machine with the first bytes, of which the columns of a text are told."""
        size = self.size or 0
        with self.fetched(lambda _: iter([[(0, min(size, BEGINNING))]])) as local:
            if size > BEGINNING:
                os.truncate(local, BEGINNING)
            yield local

    def head(self, n: int) -> bytes:
        """Fetch the first ``n`` bytes, or all where there are fewer."""
        try:
            if self.size is not None:
                return self.piece(0, min(n, self.size))
        except WholeOnlyError:
            pass  # and so the whole file is fetched
        with self.fetched() as local, open(local, "rb") as file:
            return file.read(n)

    def _fill(self, temporary: str, needed: Needed) -> bool:
        """Fetch the bytes that are needed; False where the server gives whole files alone."""
        if self.size is None:
            return False
        with open(temporary, "wb") as file:
            file.truncate(self.size)  # without taking the room on the disk
        for wanted in needed(temporary):
            with open(temporary, "r+b") as file:
                for first, behind in _joined(wanted, self.size):
                    try:
                        data = self.piece(first, behind)
                    except WholeOnlyError:
                        return False
                    file.seek(first)
                    file.write(data)
        return True

    def _check_state(self) -> None:
        now = _looked_up(self.address)
        if (now.size, now.state) != (self.size, self.state):
            raise DataError(
                printable(f"{self.name} has changed since it was opened. Run again once it is complete.")
            )

    def _check_size(self, local: str) -> None:
        size = os.path.getsize(local)
        if self.size is not None and size != self.size:
            raise _cut(self.name, size, self.size)

    def _no_room(self, folder: str, error: OSError) -> DataError:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _unreachable(self.address, error)
        size = "" if self.size is None else f" of {self.size:,} bytes"
        return DataError(
            printable(
                f"there is no room for {self.name}{size} in {os.path.dirname(folder)!r}, where files "
                "are kept while they are read. Free some space, or set TMPDIR to another folder."
            )
        )


def _cut(name: str, found: int, expected: int) -> DataError:
    return DataError(
        printable(
            f"{name} was cut off: {found:,} of {expected:,} bytes came. Run again, or download it."
        )
    )


def _joined(ranges: Sequence[Range], size: int) -> list[Range]:
    """Return ranges in order, those that are near each other as one.

    Examples
    --------
    >>> _joined([(5_000_000, 5_000_100), (4, 100), (200, 300)], 6_000_000)
    [(4, 428), (5000000, 5000228)]
    """
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if not 0 <= first <= last <= size:
            raise ValueError("it names places behind its end")
        behind = min(last + _PADDING, size)
        if joined and first - joined[-1][1] < _GAP:
            joined[-1] = joined[-1][0], max(joined[-1][1], behind)
        else:
            joined.append((first, behind))
    return joined


def find_remote(address: str) -> list[tuple[RemoteFile, dict[str, str]]]:
    """Return the files at an address, in a folder or by a pattern (``*``); and their folders' values."""
    if "*" in address:
        found = _listed(address, lambda files, path: files.glob(path))
        prefix = address.partition("*")[0]
    elif _is_folder(address):
        found = _listed(address, lambda files, path: files.find(path))
        prefix = f"{address.rstrip('/')}/"
    else:
        _check_plain(address)
        return [(_looked_up(address), folder_values(_path(address)))]
    found = [one for one in found if one.startswith(prefix)]  # a page may list what is elsewhere
    _check_logs(found, prefix)
    below = {one: one[len(prefix.rpartition("/")[0]) + 1 :] for one in found}
    data = [one for one in found if not is_hidden(PurePosixPath(below[one]).parts)]
    data = [one for one in data if is_table_name(one)] or data
    if not data:
        raise DataError(
            printable(f"no file {shown(address)!r}. Check the address or the pattern, and its folder.")
        )
    if not address.startswith("http"):
        for folder in {one.rpartition("/")[0] for one in data}:
            _check_plain(f"{folder}/file")
    return [(_looked_up(one), folder_values(_path(one))) for one in data]


def _path(address: str) -> str:
    path = address.partition("://")[2]
    return unquote(path.partition("?")[0]) if address.startswith("http") else path


def _is_folder(address: str) -> bool:
    if address.startswith("http"):
        return address.endswith("/")  # where nothing else tells a page from a file
    return bool(_asked(address, lambda files, path: files.isdir(path)))


def _listed(address: str, ask: Callable[[Any, str], Sequence[str]]) -> list[str]:
    """Return the addresses of files, whatever a file system calls them."""
    scheme = address.partition("://")[0]
    found = _asked(address, ask)
    plain = (one if "://" in one else f"{scheme}://{one.lstrip('/')}" for one in found)
    return sorted(plain)


def _check_logs(found: Sequence[str], prefix: str) -> None:
    """Refuse tables with a log, as Delta, Hudi and Iceberg are: only it tells which files count."""
    for one in found:
        folders = one.split("/")
        iceberg = len(folders) > 1 and folders[-2] == "metadata" and METADATA.match(folders[-1])
        if iceberg or not set(_LOGS).isdisjoint(folders):
            raise _has_log(prefix)


def _check_plain(address: str) -> None:
    """Refuse a file beside, or below, the log of a table; pages of the web are not asked for one."""
    if address.startswith("http"):
        return
    folder = address.rpartition("/")[0]
    while not folder.endswith("/") and folder.count("/") > 2:
        if any(_is_folder(f"{folder}/{log}") for log in _LOGS):
            raise _has_log(folder)
        if _listed(f"{folder}/metadata/*", lambda files, path: files.glob(f"{path}.metadata.json")):
            raise _has_log(folder)
        folder = folder.rpartition("/")[0]


def _has_log(folder: str) -> DataError:
    return DataError(
        printable(
            f"{shown(folder)!r} is a Delta, Iceberg or Hudi table, of which some files may be deleted. "
            "Open it by its own package in Python, and pass it to epiloss.audit_table."
        )
    )


def _looked_up(address: str) -> RemoteFile:
    def ask(files: Any, path: str) -> dict[str, Any]:
        files.invalidate_cache()
        facts: dict[str, Any] = files.info(path)
        return facts

    facts = _asked(address, ask)
    if facts.get("type") == "directory":
        raise DataError(printable(f"{shown(address)!r} is a folder. End it with / or name a file."))
    size = facts.get("size")
    state = "|".join(str(facts[name]) for name in _STATES if facts.get(name) is not None)
    return RemoteFile(address, None if size is None else int(size), f"{size}|{state}")


def _asked(address: str, ask: Callable[[Any, str], Found]) -> Found:
    """Ask a file system elsewhere, again if it fails; and say in a sentence what it answers."""
    pause = _PAUSE
    for tries_left in reversed(range(_TRIES)):
        try:
            files = _file_system(address.partition("://")[0].lower())
            return ask(files, files._strip_protocol(address))
        except (DataError, MissingExtraError, MemoryError, WholeOnlyError):
            raise
        except Exception as raised:  # packages of clouds raise anything
            error = _reason(raised)
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            if not tries_left or isinstance(error, _FINAL) or _is_refusal(error):
                raise _unreachable(address, error) from raised
        time.sleep(pause)
        pause *= 2
    raise AssertionError("the last try returns or raises")


def _reason(error: BaseException) -> BaseException:
    """Return what is behind an error: fsspec calls a file missing also where no server answers."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or cause is None:
        return error
    return error if getattr(cause, "status", None) == 404 else cause


def _is_refusal(error: BaseException) -> bool:
    """Tell whether a server has answered that it will not: to ask again is in vain."""
    status = getattr(error, "status", None)
    return (isinstance(status, int) and 400 <= status < 500) or "Credentials" in type(error).__name__


def _unreachable(address: str, error: BaseException) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(printable(f"no file {shown(address)!r}. Check the address."))
    reason = without_secrets(" ".join(str(error).split()), address) or type(error).__name__
    return DataError(
        printable(f"{shown(address)} cannot be fetched: {reason[:200].rstrip('.')}. Check the address, ")
        + "the connection and your rights, or download the file."
    )


@lru_cache
def _file_system(scheme: str) -> Any:
    """Return what fsspec has for addresses of a kind; its settings come from the environment."""
    package = _PACKAGES[scheme]
    try:
        import fsspec

        options: dict[str, Any] = {}
        if package == "aiohttp":
            import aiohttp

            # no limit to the whole of a large file, but to waiting for its next bytes
            waiting = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
            options = {"client_kwargs": {"timeout": waiting}}
        return fsspec.filesystem(scheme, **options)
    except ImportError:
        raise MissingExtraError(
            f"addresses that begin with {scheme}:// need {package}, which is not installed. Run: "
            "pip install 'epiloss[remote]'"
        ) from None
