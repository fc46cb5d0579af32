"""The audit of rows in memory: its result, tables, verdict and ledger."""
