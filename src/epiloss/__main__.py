"""``python -m epiloss`` is the command ``epiloss``."""

import os
import signal


def main() -> None:
    """Run the command; before it has begun, and once it is done, Ctrl-C ends the process at once."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # jobs in the background ignore it
        signal.signal(signal.SIGINT, _end)
    from epiloss.cli.main import main as run

    run()


def _end(*_: object) -> None:
    os.write(2, b"stopped.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
