"""``python -m epiloss`` is the command ``epiloss``."""

from epiloss.cli.main import main

main()
