"""Where shells look for the completions that packages bring, and what they are."""

import argparse
from collections.abc import Mapping

PLACES = {
    "bash": "bash-completion/completions/attnscope",
    "zsh": "zsh/vendor-completions/_attnscope",
    "fish": "fish/vendor_completions.d/attnscope.fish",
}
"""Below /usr/share, on Debian and Ubuntu."""


def completions(parser: argparse.ArgumentParser, meanings: Mapping[str, str]) -> dict[str, str]:
    """What `attnscope completion SHELL` prints, by its place; `parser` must know every command's options."""
    from attnscope.cli.completion import SHELLS, read_parser

    read = read_parser(parser, meanings)
    return {PLACES[shell]: script(*read) + "\n" for shell, script in SHELLS.items()}
