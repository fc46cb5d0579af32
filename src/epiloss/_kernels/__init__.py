"""Inner loops on arrays, in C with a NumPy reference of the same bits."""
