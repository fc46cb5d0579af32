"""Comparisons of models, drift, tracking over time, the cost of decisions, and gates."""
