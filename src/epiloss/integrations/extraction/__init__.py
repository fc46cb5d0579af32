"""Embeddings once, audits many times: a network's scores and features in one file."""

from epiloss.integrations.extraction.run import extract as extract
