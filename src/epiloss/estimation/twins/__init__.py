"""Twin learners: the headline, an estimate of the grouping loss without bins."""
