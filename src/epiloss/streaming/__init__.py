"""Audits of data that are read in passes, on one machine or on a cluster."""
