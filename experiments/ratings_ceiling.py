"""How much of a grouping loss can be found from features at all: twins with many ratings per text.

An audit uses one label per text. With many, each as a row of its own and the rows of a text kept
together, the same learners see nearly the truth of each text, and find what the features contain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import epiloss
from epiloss import Estimate
from epiloss._typing import Floats
from protocol import doubled

MOST = 10  # ratings of a text


def ceiling(scores: Floats, labels: Floats, X: Floats, clusters: Any, seed: int) -> Estimate:
    """Return the grouping loss that twins find from many labels (n, r) of each row, NaN where missing.

    Rows of a text, and texts of one of the ``clusters``, are on the same side of every split.
    """
    rows, places = np.nonzero(~np.isnan(labels[:, :MOST]))
    together: NDArray[Any] = rows if clusters is None else np.asarray(clusters)[rows]
    result = epiloss.audit(
        labels[rows, places], scores[rows], X[rows], clusters=together, random_state=seed
    )
    return doubled(result.grouping_loss)
