"""How rows are shown in reports: an identifier, a text, some columns, or a thumbnail."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss.errors import DataError, MissingExtraError
from epiloss.input.pandas_metadata import shown_name
from epiloss.input.problem import Problem
from epiloss.input.tables import column_names
from epiloss.input.values import is_missing

THUMBNAIL = 96  # pixels of the longer side
_MAX_CHARACTERS = 400
_DARK = 64  # images whose brightest pixel is at most this are not in 0..255


@dataclass(frozen=True)
class Display:
    """The columns to show, by name; each can be indexed by row."""

    columns: Mapping[str, Any]
    images: Any = None  # image files, pixels or PIL images, indexed by row

    def texts(self, row: int) -> dict[str, str]:
        """Return the text of each column for a row, truncated if it is long."""
        return {shown_name(name): _text(column[row]) for name, column in self.columns.items()}

    def thumbnail(self, row: int) -> str | None:
        """Return the thumbnail of a row as a ``data:`` URL, if there are images."""
        return None if self.images is None else _thumbnail(self.images[row], self._brightest)

    @cached_property
    def _brightest(self) -> float:
        """The largest value of the pixels."""
        return float(np.nanmax(self.images, initial=0.0)) if isinstance(self.images, np.ndarray) else 0.0


def read_display(display: Any, problem: Problem) -> Display | None:
    """Read strings, identifiers, a data frame, image files, pixels or images, one for each row."""
    if display is None:
        return None
    columns = _columns(display)
    n = len(next(iter(columns.values()))) if columns else len(display)
    n_rows = len(problem.labels)
    if problem.rows is not None:
        n_rows = n if n > int(problem.rows[-1]) else n_rows
    if n != n_rows:
        raise DataError(
            f"display must have one value for each of the {n_rows} rows, got {n}. "
            "Pass it in the order of the scores."
        )
    if columns:
        return Display(columns)
    if hasattr(display, "__array__") and not isinstance(display, np.ndarray):
        display = np.asarray(display)  # [0] is then the first row, not the one with index label 0
    if isinstance(display, np.ndarray) and display.ndim in (3, 4):
        return Display({}, display)
    first = display[0]
    if isinstance(first, Path) or hasattr(first, "thumbnail"):
        return Display({}, display)
    return Display({"": display})


def _columns(display: Any) -> dict[str, Any]:
    """Return the columns of a table, each indexed by row; none for a plain sequence."""
    return {str(name): np.asarray(display[name]) for name in column_names(display) or ()}


def _text(value: Any) -> str:
    if is_missing(value):
        return ""
    text = f"{value:g}" if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def _thumbnail(image: Any, brightest: float) -> str:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError(
            "thumbnails need Pillow, which is not installed. Run: pip install 'epiloss[images]'"
        ) from None
    if isinstance(image, Path):
        try:
            with Image.open(image) as opened:
                small = opened.convert("RGB")
        except OSError as error:
            raise DataError(
                f"display must hold paths of images, got {str(image)!r}, which cannot be read: {error}. "
                "Check the path and the format."
            ) from error
    elif isinstance(image, np.ndarray):
        small = Image.fromarray(_bytes(image, brightest)).convert("RGB")
    else:
        small = image.convert("RGB")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    if max(small.size) <= THUMBNAIL // 2:  # a few pixels would be invisible
        times = THUMBNAIL // (2 * max(small.size))
        small = small.resize((times * small.width, times * small.height), Image.Resampling.NEAREST)
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _bytes(pixels: NDArray[Any], brightest: float) -> NDArray[np.uint8]:
    """Return pixels in 0..255; those of images that are all dark, such as in 0..1, are scaled."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.dtype == np.uint8:
        return np.asarray(pixels, np.uint8)
    largest = max(brightest, 1.0)
    scale = 255.0 / largest if largest <= _DARK else 1.0
    return np.asarray(np.clip(np.nan_to_num(pixels) * scale, 0, 255), np.uint8)
