"""What all pages and pictures have in tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from epiloss.calibration import confidence_band


@pytest.fixture(scope="module", autouse=True)
def _bands_of_few_draws() -> Iterator[None]:
    """Draw bands of curves from few samples: more take half of the time of a page, and look the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confidence_band, "_DRAWS", 20)
        yield
