"""The values that the paper printed, read from ``published/beyond_calibration.csv``.

A. Perez-Lebel, M. Le Morvan, G. Varoquaux, "Beyond calibration: estimating the grouping loss of modern
neural networks", ICLR 2023 (https://openreview.net/forum?id=6w1k-IixnL8). Losses are Brier scores summed
over both classes.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "published" / "beyond_calibration.csv"
PUBLISHER = "the paper's"
RENDITIONS, MERGED, SNOW = "ImageNet-R", "ImageNet-C, merged 5", "ImageNet-C, snow 5"
VALIDATION, YAHOO = "ImageNet-1K", "Yahoo Answers"
SHIFTED = (RENDITIONS, MERGED, SNOW)  # of images
VISION = (*SHIFTED, VALIDATION)
TOPICS = {"seen": "in-distribution", "unseen": "out-of-distribution"}  # of Yahoo Answers
DIGIT = 0.001  # the last that is printed
_NAMES = {  # of data sets: the file's and those of our tables
    "imagenet-r": RENDITIONS,
    "imagenet-c merged": MERGED,
    "imagenet-c snow": SNOW,
    "imagenet-1k": VALIDATION,
    "nlp": YAHOO,
}


@dataclass(frozen=True)
class Printed:
    """One printed row: losses as given and, with ``_after``, after isotonic recalibration."""

    data_set: str
    model: str
    accuracy: float
    cl: float
    cl_after: float
    gl: float
    gl_after: float

    @property
    def by_column(self) -> Mapping[str, float]:
        """The values by the column names of our tables."""
        values = self.accuracy, self.cl, self.cl_after, self.gl, self.gl_after
        return dict(zip(("accuracy", "CL", "CL'", "GL", "GL'"), values, strict=True))


@cache
def printed() -> tuple[Printed, ...]:
    """Return all rows in the order of the paper: by falling accuracy in each data set.

    Examples
    --------
    >>> len(printed()), printed()[2].model, printed()[2].gl
    (110, 'ConvNeXt Large', 0.055)
    """
    with FILE.open(newline="", encoding="utf-8") as stream:
        return tuple(_row(row) for row in csv.DictReader(stream))


def _row(row: Mapping[str, str]) -> Printed:
    return Printed(
        _NAMES[row["data_set"]],
        row["model"],
        round(float(row["accuracy_percent"]) / 100, 3),
        float(row["cl"]),
        float(row["cl_recalibrated"]),
        float(row["gl_lower_bound"]),
        float(row["gl_lower_bound_recalibrated"]),
    )


def printed_on(data_set: str) -> dict[str, Printed]:
    """Return the rows of one data set by the paper's names of the models.

    Examples
    --------
    >>> printed_on("ImageNet-R")["ViT B-16"].accuracy
    0.301
    """
    return {one.model: one for one in printed() if one.data_set == data_set}


def printed_topics(which: str) -> Printed:
    """Return the row of BART on the topics of Yahoo Answers that were ``seen`` or ``unseen``."""
    return printed_on(YAHOO)[TOPICS[which]]
