"""Repairs: corrections of scores by their features, fitted, saved and applied."""

from epiloss.repair.classifier import RegionRecalibratedClassifier
from epiloss.repair.recalibrator import RegionRecalibrator, load_repair

__all__ = ["RegionRecalibratedClassifier", "RegionRecalibrator", "load_repair"]
