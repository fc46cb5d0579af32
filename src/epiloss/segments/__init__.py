"""Segments: the few groups of rows, told in words, whose rates differ from those of equal scores."""
