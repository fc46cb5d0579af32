"""The grouping loss without bins: what a learner, trained on other rows, finds beyond the score."""
