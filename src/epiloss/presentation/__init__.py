"""Plots and report pages of results."""
