"""Laws over examples drawn at random, the same in every run, of which a share must really be audited."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from hypothesis import given, settings


def laws(examples: int) -> settings:
    """Return the settings of a law: so many examples, the same in every run."""
    return settings(deadline=None, derandomize=True, database=None, max_examples=examples)


def mostly_audited(
    examples: int, *strategies: Any, least: float
) -> Callable[[Callable[..., bool]], Callable[[], None]]:
    """Try a law on drawn examples; it returns whether one was audited, as ``least`` of them must be.

    The others were refused in words. Were everything refused, the law would hold of nothing.
    """

    def decorate(law: Callable[..., bool]) -> Callable[[], None]:
        def test() -> None:
            audited: list[bool] = []

            @laws(examples)
            @given(*strategies)
            @wraps(law)
            def noted(**example: Any) -> None:
                audited.append(law(**example))

            noted()
            assert len(audited) >= examples / 2
            assert np.mean(audited) >= least

        test.__name__, test.__qualname__, test.__doc__ = law.__name__, law.__qualname__, law.__doc__
        return test

    return decorate
