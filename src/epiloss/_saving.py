"""Saving results: files are written atomically, results as plain JSON or HTML."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import shutil
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = 2  # version of what to_dict and to_json return
_MAX_PREFIX = 200  # bytes; most file systems allow names of 255 bytes, and mkstemp adds a suffix


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically."""
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` if the block succeeds.

    Symbolic links are followed. Devices and pipes are written to, never replaced by a file.
    """
    if not is_special(path):
        with replacing(os.path.realpath(path)) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder, Path(path).name)
        yield temporary
        # Without O_CREAT, a device that has disappeared meanwhile is not recreated as a file.
        with temporary.open("rb") as written, os.fdopen(os.open(path, os.O_WRONLY), "wb") as special:
            shutil.copyfileobj(written, special)


def is_special(path: str | Path) -> bool:
    """Return whether a path is a device, a pipe or anything else but a regular file."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path``, even a symbolic link, if the block succeeds."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"the folder of {target.name!r} must exist, got {str(target.parent)!r}. Create it first."
        )
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=_hidden(target.name))
    os.close(handle)
    try:
        yield Path(name)
        _flush_to_disk(name)
        # mkstemp creates private files; give the result the permissions of the user's umask.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _hidden(name: str) -> str:
    """Return the prefix of a temporary file's name, short enough for the file system."""
    return os.fsdecode(b"." + os.fsencode(name)[:_MAX_PREFIX].decode(errors="ignore").encode() + b".")


def _flush_to_disk(path: str) -> None:
    """Flush a file to disk, because a rename may reach the disk before the content does."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class SavedAsJson(ABC):
    """A result that can be written as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; numbers that are not finite become None.

        Returns
        -------
        dict
            The values by attribute name.
        """

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the result as JSON, and write it to ``path`` if given.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.

        Returns
        -------
        str
            The JSON text.
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text


class SavedAsPage(ABC):
    """A result that can be written as an HTML page."""

    @abstractmethod
    def _page(self, **about: Any) -> str:
        """Return the page; ``about`` holds the arguments of :meth:`to_html`."""

    def to_html(
        self,
        path: str | Path | None = None,
        *,
        title: str | None = None,
        model: str | None = None,
        data: str | None = None,
        date: str | datetime.date | None = None,
        command: str | None = None,
        **sections: Any,
    ) -> str:
        """Return the result as a self-contained HTML page, and write it to ``path`` if given.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.
        title : str, optional
            The title of the page.
        model, data : str, optional
            Name of the model and of the data, shown at the top of the page.
        date : str or date, optional
            The date to show; by default today. Pass an empty string to omit it.
        command : str, optional
            The command that was run, shown in place of the Python call.
        **sections
            For an audit, ``intersections``: subgroup columns whose combinations are listed, such as
            ``[("race", "sex")]``; and ``costs``: pairs of the costs of a false positive and a false
            negative for which the cost of decisions is shown, such as ``[(1, 5)]``.

        Returns
        -------
        str
            The page as HTML.

        Examples
        --------
        For any result::

            result.to_html("report.html", title="Readmissions", model="logistic, 2026-03")
        """
        about = {"title": title, "model": model, "data": data, "date": date, "command": command}
        text = self._page(**about, **sections)
        if path is not None:
            write_text(path, text)
        return text


def for_json(value: Any) -> Any:
    """Return the value with NaN and infinite floats, which JSON does not allow, replaced by None."""
    if isinstance(value, dict):
        return {name: for_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(part) for part in value]
    if isinstance(value, np.generic):
        return for_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
