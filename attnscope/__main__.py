"""`python -m attnscope`, and the entry point of the installed command."""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        from attnscope.cli.main import main as run
        from attnscope.collector import collect_seldom
    except KeyboardInterrupt:
        return 130  # stopped before there was anything to stop; from here on `cli.interrupting` tells it

    collect_seldom()
    return run()


if __name__ == "__main__":
    sys.exit(main())
