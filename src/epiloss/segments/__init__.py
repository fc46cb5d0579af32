"""Segments: describable groups whose rates differ from those of all rows with equal scores."""
