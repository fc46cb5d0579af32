"""Common metrics with intervals: accuracy, AUC, calibration errors with their noise floors."""
