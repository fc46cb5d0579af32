"""``python -m epiloss`` runs the command ``epiloss``."""

import os
import signal


def main() -> None:
    """Run the command; while it starts and ends, Ctrl-C stops the process immediately."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # background jobs ignore SIGINT
        signal.signal(signal.SIGINT, _end)
    from epiloss.cli.main import main as run

    run()


def _end(*_: object) -> None:
    os.write(2, b"stopped.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
