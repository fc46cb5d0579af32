"""Inner loops on arrays, in C, with a NumPy reference that gives identical results."""
