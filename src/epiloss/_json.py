"""Results as JSON: plain Python values, with None for what JSON does not know."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epiloss._files import write_text

if TYPE_CHECKING:
    pass

SCHEMA = 1  # of to_dict and to_json


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
