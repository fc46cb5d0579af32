"""Where rows come from: files and tables, as parts that are read in batches."""
