"""From checked rows to losses: the partition bound, the cross-fitted bound, their uncertainty."""
