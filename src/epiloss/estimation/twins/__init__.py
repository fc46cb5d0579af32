"""Twin learners: the default estimate of the grouping loss, without bins."""
