"""Level sets of the score, calibration curves and recalibration maps."""
