"""Reading input: labels, scores, features, weights and subgroups become checked arrays."""
