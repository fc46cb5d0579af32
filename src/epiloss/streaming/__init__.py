"""Audits of data larger than memory, read in several passes, on one machine or on a cluster."""
