"""What can go wrong, in words: each message says the rule, the offending value and the remedy."""

from __future__ import annotations

from collections.abc import Mapping


class DataError(ValueError):
    """The data breaks a rule; the command line answers with exit code 4."""


class NoColumnError(DataError):
    """An option names a column that the data do not have."""

    def __init__(self, option: str, rest: str) -> None:
        super().__init__(printable(f"{option} {rest}"))
        self.option, self.rest = option, rest

    def __reduce__(self) -> tuple[type[NoColumnError], tuple[str, str]]:
        return NoColumnError, (self.option, self.rest)

    def named(self, names: Mapping[str, str]) -> NoColumnError:
        """Return the same error with the option called as where it was given."""
        return NoColumnError(names.get(self.option, self.option), self.rest)


class OptionError(ValueError):
    """An option has a value that means nothing here; the command line answers with exit code 2."""


class MissingExtraError(ImportError):
    """An optional package is needed and not installed; the message names the extra to install."""


def printable(text: str) -> str:
    """Return text from a file with nothing in it that steers a terminal."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
