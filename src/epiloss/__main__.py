"""``python -m epiloss`` is the command ``epiloss``."""

from epiloss.cli import main

main()
