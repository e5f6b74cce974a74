"""`python -m attnscope`, and the entry point of the installed command."""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    from attnscope.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
