"""The repair of one score: a calibration curve, followed by corrections by the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from epiloss._typing import Floats
from epiloss.calibration.curves import InterpolatedCurve
from epiloss.input.features import Features

_KEPT = 0.1  # a correction moves a probability at most nine tenths of the way to 0 or 1


class Correction(Protocol):
    """A correction of probabilities by the features."""

    def corrected(self, features: Features, base: Floats) -> Floats:
        """Return the corrected probability of each row."""


@dataclass(frozen=True)
class BinaryRepair:
    """The repair of one score; ``curve`` is None if the scores are not recalibrated."""

    curve: InterpolatedCurve | None
    corrections: Sequence[Correction]

    @property
    def keeps(self) -> bool:
        """Whether the repair leaves the scores unchanged, because nothing was clearly better."""
        return self.curve is None and not self.corrections

    def predict(self, features: Features, scores: Floats) -> Floats:
        """Return the repaired scores."""
        base = scores if self.curve is None else self.curve(scores)
        for correction in self.corrections:
            base = correction.corrected(features, base)
        return base


def moved(base: Floats, offset: Floats) -> Floats:
    """Add an offset to probabilities without ever reaching 0 or 1.

    Examples
    --------
    >>> moved(np.array([0.5, 0.2, 0.0]), np.array([0.25, -0.5, 0.1])).round(3).tolist()
    [0.75, 0.02, 0.1]
    """
    return np.asarray(np.clip(base + offset, _KEPT * base, 1 - _KEPT * (1 - base)), float)
