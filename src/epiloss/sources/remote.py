"""Remote files: fetched with fsspec, part by part, only if the user passes an address."""

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

SMALL = 2**26  # if all files together are smaller, in bytes, they are fetched once and kept in memory
BEGINNING = 2**24  # bytes of a text file from which its columns are inferred
_TRIES, _PAUSE = 3, 0.5  # attempts per request, and seconds between the first two
_GAP = 2**20  # ranges with a smaller gap, in bytes, are fetched in one request
_PADDING = 128  # bytes after a column chunk, which some writers did not count
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
_FINAL = (FileNotFoundError, PermissionError, NotImplementedError)  # errors that are not retried
_LOGS = ("_delta_log", ".hoodie")
Range = tuple[int, int]  # the first byte, and the one after the last
Needed = Callable[[str], Iterator[Sequence[Range]]]
Found = TypeVar("Found")


class WholeOnlyError(Exception):
    """Raised if a server only sends whole files, no byte ranges."""


@dataclass(frozen=True)
class RemoteFile:
    """A remote file; its ``state`` changes with its content."""

    address: str
    size: int | None
    state: str

    @property
    def name(self) -> str:
        """The address without secrets."""
        return shown(self.address)

    def content(self) -> bytes:
        """Fetch the whole file into memory."""
        data: bytes = _request(self.address, lambda files, path: files.cat_file(path))
        if self.size is not None and len(data) != self.size:
            raise _incomplete(self.name, len(data), self.size)
        return data

    def piece(self, first: int, behind: int) -> bytes:
        """Fetch some bytes of the file."""

        def read(files: Any, path: str) -> bytes:
            try:
                # fsspec raises a ValueError if the server ignores the range and sends everything
                with files.open(path, "rb", block_size=2**20, cache_type="none") as file:
                    file.seek(first)
                    data: bytes = file.read(behind - first)
            except ValueError as error:
                raise WholeOnlyError from error
            return data

        data = _request(self.address, read)
        if len(data) != behind - first:
            raise _incomplete(self.name, len(data), behind - first)
        return data

    @contextmanager
    def fetched(self, needed: Needed | None = None) -> Iterator[str]:
        """Yield a local file with the content, or with the needed bytes of it.

        ``needed`` gets an empty file of the right size and yields the ranges to fill in next; it may
        read earlier ranges to find out about later ones.
        """
        self._check_state()
        with tempfile.TemporaryDirectory(prefix="epiloss-") as folder:
            # keep the ending, which may say how a text is compressed
            local = os.path.join(folder, f"file{''.join(PurePosixPath(self.name).suffixes[-2:])[:20]}")
            try:
                if needed is None or not self._fill(local, needed):
                    _request(self.address, lambda files, path: files.get_file(path, local))
                    self._check_size(local)
            except OSError as error:
                raise self._no_space(folder, error) from error
            try:
                yield local
            except RowsError:
                raise
            except DataError as error:
                raise DataError(str(error).replace(local, self.name)) from error

    @contextmanager
    def beginning(self) -> Iterator[str]:
        """Yield a local file with the first bytes, from which the columns of a text are inferred."""
        size = self.size or 0
        with self.fetched(lambda _: iter([[(0, min(size, BEGINNING))]])) as local:
            if size > BEGINNING:
                os.truncate(local, BEGINNING)
            yield local

    def head(self, n: int) -> bytes:
        """Fetch the first ``n`` bytes, or all if there are fewer."""
        try:
            if self.size is not None:
                return self.piece(0, min(n, self.size))
        except WholeOnlyError:
            pass  # fetch the whole file instead
        with self.fetched() as local, open(local, "rb") as file:
            return file.read(n)

    def _fill(self, temporary: str, needed: Needed) -> bool:
        """Fetch the needed bytes; return False if the server only sends whole files."""
        if self.size is None:
            return False
        with open(temporary, "wb") as file:
            file.truncate(self.size)  # a sparse file, which takes no space on the disk
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
        now = _file_info(self.address)
        if (now.size, now.state) != (self.size, self.state):
            raise DataError(
                printable(f"{self.name} has changed since it was opened. Run again when it is complete.")
            )

    def _check_size(self, local: str) -> None:
        size = os.path.getsize(local)
        if self.size is not None and size != self.size:
            raise _incomplete(self.name, size, self.size)

    def _no_space(self, folder: str, error: OSError) -> DataError:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _unreachable(self.address, error)
        size = "" if self.size is None else f" of {self.size:,} bytes"
        return DataError(
            printable(
                f"no space left for a temporary copy of {self.name}{size} in "
                f"{os.path.dirname(folder)!r}. Free some space, or set TMPDIR to another folder."
            )
        )


def _incomplete(name: str, found: int, expected: int) -> DataError:
    return DataError(
        printable(
            f"the download of {name} is incomplete: got {found:,} of {expected:,} bytes. Run again, or "
            "download the file first."
        )
    )


def _joined(ranges: Sequence[Range], size: int) -> list[Range]:
    """Return sorted ranges, with neighbouring ones merged.

    Examples
    --------
    >>> _joined([(5_000_000, 5_000_100), (4, 100), (200, 300)], 6_000_000)
    [(4, 428), (5000000, 5000228)]
    """
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if not 0 <= first <= last <= size:
            raise ValueError("it refers to bytes after its end")
        behind = min(last + _PADDING, size)
        if joined and first - joined[-1][1] < _GAP:
            joined[-1] = joined[-1][0], max(joined[-1][1], behind)
        else:
            joined.append((first, behind))
    return joined


def find_remote(address: str) -> list[tuple[RemoteFile, dict[str, str]]]:
    """Return the files at an address, a folder or a pattern (``*``), with their folder values."""
    if "*" in address:
        found = _listed(address, lambda files, path: files.glob(path))
        prefix = address.partition("*")[0]
    elif _is_folder(address):
        found = _listed(address, lambda files, path: files.find(path))
        prefix = f"{address.rstrip('/')}/"
    else:
        _check_plain(address)
        return [(_file_info(address), folder_values(_path(address)))]
    found = [one for one in found if one.startswith(prefix)]  # a web page may link to other places
    _check_logs(found, prefix)
    below = {one: one[len(prefix.rpartition("/")[0]) + 1 :] for one in found}
    data = [one for one in found if not is_hidden(PurePosixPath(below[one]).parts)]
    data = [one for one in data if is_table_name(one)] or data
    if not data:
        raise DataError(printable(f"no file {shown(address)!r}. Check the address or the pattern."))
    if not address.startswith("http"):
        for folder in {one.rpartition("/")[0] for one in data}:
            _check_plain(f"{folder}/file")
    return [(_file_info(one), folder_values(_path(one))) for one in data]


def _path(address: str) -> str:
    path = address.partition("://")[2]
    return unquote(path.partition("?")[0]) if address.startswith("http") else path


def _is_folder(address: str) -> bool:
    if address.startswith("http"):
        return address.endswith("/")  # nothing else distinguishes a folder from a file
    return bool(_request(address, lambda files, path: files.isdir(path)))


def _listed(address: str, call: Callable[[Any, str], Sequence[str]]) -> list[str]:
    """Return the full addresses of the files that a call lists."""
    scheme = address.partition("://")[0]
    found = _request(address, call)
    plain = (one if "://" in one else f"{scheme}://{one.lstrip('/')}" for one in found)
    return sorted(plain)


def _check_logs(found: Sequence[str], prefix: str) -> None:
    """Raise an error for Delta, Hudi and Iceberg tables, whose log says which files are valid."""
    for one in found:
        folders = one.split("/")
        iceberg = len(folders) > 1 and folders[-2] == "metadata" and METADATA.match(folders[-1])
        if iceberg or not set(_LOGS).isdisjoint(folders):
            raise _has_log(prefix)


def _check_plain(address: str) -> None:
    """Raise an error for a file in the folder of a table with a log; not checked for web servers."""
    if address.startswith("http"):
        return
    folder = address.rpartition("/")[0]
    # the folders above a repository of the Hugging Face Hub are no folders
    top = 4 if address.startswith(("hf://datasets/", "hf://spaces/")) else 3
    while not folder.endswith("/") and folder.count("/") >= top:
        if any(_is_folder(f"{folder}/{log}") for log in _LOGS):
            raise _has_log(folder)
        if _listed(f"{folder}/metadata/*", _iceberg_files):
            raise _has_log(folder)
        folder = folder.rpartition("/")[0]


def _iceberg_files(files: Any, path: str) -> list[str]:
    """Return the files that describe an Iceberg table; none if there is no such folder."""
    try:
        return list(files.glob(f"{path}.metadata.json"))
    except FileNotFoundError:  # raised by the file system of the Hugging Face Hub
        return []


def _has_log(folder: str) -> DataError:
    return DataError(
        printable(
            f"{shown(folder)!r} is a remote Delta, Iceberg or Hudi table, which cannot be read by its "
            "files. Open it with its own package in Python, and pass it to epiloss.audit_table."
        )
    )


def _file_info(address: str) -> RemoteFile:
    """Look up the size and the state of a remote file."""

    def ask(files: Any, path: str) -> dict[str, Any]:
        files.invalidate_cache()
        facts: dict[str, Any] = files.info(path)
        return facts

    facts = _request(address, ask)
    if facts.get("type") == "directory":
        raise DataError(printable(f"{shown(address)!r} is a folder. Append / to it, or pass a file."))
    size = facts.get("size")
    state = "|".join(str(facts[name]) for name in _STATES if facts.get(name) is not None)
    return RemoteFile(address, None if size is None else int(size), f"{size}|{state}")


def _request(address: str, call: Callable[[Any, str], Found]) -> Found:
    """Call a remote file system, with retries; convert its errors into a DataError."""
    pause = _PAUSE
    for tries_left in reversed(range(_TRIES)):
        try:
            files = _file_system(address.partition("://")[0].lower())
            return call(files, files._strip_protocol(address))
        except (DataError, MissingExtraError, MemoryError, WholeOnlyError):
            raise
        except Exception as raised:  # the packages of cloud providers may raise anything
            error = _underlying(raised)
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            if not tries_left or isinstance(error, _FINAL) or _is_refusal(error):
                raise _unreachable(address, error) from raised
        time.sleep(pause)
        pause *= 2
    raise AssertionError("the last attempt returns or raises")


def _underlying(error: BaseException) -> BaseException:
    """Return the cause of an error: fsspec also reports a missing file if no server answers."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or cause is None:
        return error
    return error if getattr(cause, "status", None) == 404 else cause


def _is_refusal(error: BaseException) -> bool:
    """Return whether a server refused the request, so that a retry is useless."""
    status = getattr(error, "status", None)
    return (isinstance(status, int) and 400 <= status < 500) or "Credentials" in type(error).__name__


def _unreachable(address: str, error: BaseException) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(printable(f"no file {shown(address)!r}. Check the address."))
    reason = without_secrets(" ".join(str(error).split()), address) or type(error).__name__
    return DataError(
        printable(f"{shown(address)} cannot be fetched: {reason[:200].rstrip('.')}. Check the address, ")
        + "the connection and your permissions, or download the file."
    )


@lru_cache
def _file_system(scheme: str) -> Any:
    """Return the fsspec file system of a scheme, configured by the environment."""
    package = _PACKAGES[scheme]
    try:
        import fsspec

        options: dict[str, Any] = {}
        if package == "aiohttp":
            import aiohttp

            # limit the wait for the next bytes, but not the total time of a large file
            waiting = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
            options = {"client_kwargs": {"timeout": waiting}}
        return fsspec.filesystem(scheme, **options)
    except ImportError:
        raise MissingExtraError(
            f"addresses with {scheme}:// need {package}, which is not installed. Run: "
            "pip install 'epiloss[remote]'"
        ) from None
