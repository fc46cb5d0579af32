"""The default learner: a ridge regression and boosted trees on codes that all models share."""
