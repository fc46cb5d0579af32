"""Lower bound on the grouping loss without bins, from a learner that is cross-fitted on the rows."""
