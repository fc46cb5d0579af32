"""What to do about it: probabilities corrected by region, learned, saved and applied."""

from epiloss.repair.estimators import RegionRecalibratedClassifier, RegionRecalibrator, load_repair

__all__ = ["RegionRecalibratedClassifier", "RegionRecalibrator", "load_repair"]
