"""The door: raw labels, scores, features, weights and groups become checked arrays."""
