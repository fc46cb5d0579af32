"""How results are shown: plots and report pages."""
