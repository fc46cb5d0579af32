"""What can go wrong, in words: each message says the rule, the offending value and the remedy."""


class DataError(ValueError):
    """The data breaks a rule; the command line answers with exit code 4."""


class OptionError(ValueError):
    """An option has a value that means nothing here; the command line answers with exit code 2."""


class MissingExtraError(ImportError):
    """An optional package is needed and not installed; the message names the extra to install."""


def printable(text: str) -> str:
    """Return text from a file with nothing in it that steers a terminal."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
