"""The command ``epiloss``, with one module for each subcommand."""

from epiloss.cli.main import cli, main

__all__ = ["cli", "main"]
