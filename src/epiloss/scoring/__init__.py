"""Proper scoring rules for a binary outcome: loss, entropy, divergence.

A scoring rule is defined by its entropy ``e``, which is concave on [0, 1] and has slope ``e'``. The
expected score of predicting ``p`` when the true probability is ``q`` is ``e(p) + (q - p) e'(p)``. Its
excess over ``e(q)`` is the divergence. The convex function of the theory is ``h = -e``.
"""

from epiloss.scoring.base import ScoringRule
from epiloss.scoring.rules import Brier, ClassLogLoss, LogLoss, resolve_rule

__all__ = ["Brier", "ClassLogLoss", "LogLoss", "ScoringRule", "resolve_rule"]
