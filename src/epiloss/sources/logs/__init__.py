"""Logs of language-model evaluations: lm-evaluation-harness, Inspect, and other files of answers."""
