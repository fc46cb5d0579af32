"""Results on disk: files that are never half-written, and results as plain JSON."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = 2  # of to_dict and to_json


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


class SavedAsJson(ABC):
    """A result that can be written as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None."""

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the result as JSON, and write it to ``path`` if there is one."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
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
