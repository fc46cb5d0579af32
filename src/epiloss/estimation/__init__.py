"""Estimators of the losses: partition bound, cross-fitted bound, twin learners, standard errors."""
