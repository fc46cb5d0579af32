"""Logs of language-model evaluations: lm-evaluation-harness, Inspect, and plain files of answers."""
