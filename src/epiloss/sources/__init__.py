"""Data sources: files and tables, split into parts that are read in batches."""
