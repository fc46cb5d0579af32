"""Results on disk: files that are never half-written, and results as plain JSON."""

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

SCHEMA = 2  # of to_dict and to_json
_LONGEST_PREFIX = 200  # bytes of a temporary file's name, of which most systems allow 255


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` to ``path``, wholly or not at all."""
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """Give a file to write to, whose content ``path`` gets if all goes well.

    A link is followed. Devices and pipes are written to, and never replaced by a file.
    """
    if not is_special(path):
        with replacing(os.path.realpath(path)) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder, Path(path).name)
        yield temporary
        # without O_CREAT: what has gone meanwhile is not made again, as a file
        with temporary.open("rb") as written, os.fdopen(os.open(path, os.O_WRONLY), "wb") as special:
            shutil.copyfileobj(written, special)


def is_special(path: str | Path) -> bool:
    """Tell whether a path leads to a device, a pipe or anything else that is no regular file."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of ``path`` if all goes well; so of a link too."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"the folder of {target.name!r} must exist, got {str(target.parent)!r}. Make it first."
        )
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=_hidden(target.name))
    os.close(handle)
    try:
        yield Path(name)
        _settle(name)
        # mkstemp makes private files; give the result what the user's umask would have
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _hidden(name: str) -> str:
    """Return how the name of a temporary file begins: not so long that no file may be called so."""
    return os.fsdecode(
        b"." + os.fsencode(name)[:_LONGEST_PREFIX].decode(errors="ignore").encode() + b"."
    )


def _settle(path: str) -> None:
    """Wait until the disk has the file: a rename may come there before what was written."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class SavedAsJson(ABC):
    """A result that can be written as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None.

        Returns
        -------
        dict
            By the names of the attributes.
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
    """A result that can be written as a page."""

    @abstractmethod
    def _page(self, **about: Any) -> str:
        """Return the page; ``about`` is what :meth:`to_html` takes."""

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
        """Return the result as a page that needs nothing else, and write it to ``path`` if given.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.
        title : str, optional
            The title of the page.
        model, data : str, optional
            What was audited: named at the top of the page.
        date : str or date, optional
            By default today; an empty text leaves it out.
        command : str, optional
            The command that was run, shown in place of the Python call.
        **sections
            Of an audit, ``intersections``: columns of subgroups whose combinations are listed, such as
            ``[("race", "sex")]``.

        Returns
        -------
        str
            The page.

        Examples
        --------
        Of any result::

            result.to_html("report.html", title="Readmissions", model="logistic, 2026-03")
        """
        about = {"title": title, "model": model, "data": data, "date": date, "command": command}
        text = self._page(**about, **sections)
        if path is not None:
            write_text(path, text)
        return text


def for_json(value: Any) -> Any:
    """Return the value with floats that JSON does not know replaced by None."""
    if isinstance(value, dict):
        return {name: for_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(part) for part in value]
    if isinstance(value, np.generic):
        return for_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
