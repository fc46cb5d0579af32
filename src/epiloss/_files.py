"""Outputs are written beside their place and renamed, so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` to ``path``, wholly or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of ``path`` if all goes well."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"the folder of {target.name!r} must exist, got {str(target.parent)!r}. Make it first."
        )
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
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


def _settle(path: str) -> None:
    """Wait until the disk has the file: a rename may come there before what was written."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
