"""Data beyond memory: read in passes, part by part, by any engine, with the same result."""
