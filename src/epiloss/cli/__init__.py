"""The command line of the package: ``epiloss audit``, ``apply`` and ``demo``."""

from epiloss.cli.main import cli, main

__all__ = ["cli", "main"]
