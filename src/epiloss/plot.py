"""Displays of results, which keep the arrays they draw: ``from epiloss.plot import GapsDisplay``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epiloss.presentation.plot import __all__ as __all__
from epiloss.presentation.plot import __dir__ as __dir__
from epiloss.presentation.plot import __getattr__ as __getattr__

if TYPE_CHECKING:
    from epiloss.presentation.plot import *  # noqa: F403
