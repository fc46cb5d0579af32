"""Extraction of a network's scores and embeddings into a file that can be audited."""

from epiloss.integrations.extraction.run import extract as extract
