"""Familiar numbers: accuracy, AUC, calibration errors and their like, with intervals and floors."""
