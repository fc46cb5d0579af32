"""Pictures of results: compute first, then draw."""
