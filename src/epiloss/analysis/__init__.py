"""What else can be asked: comparisons, drift, tracking, the cost of decisions, gates."""
