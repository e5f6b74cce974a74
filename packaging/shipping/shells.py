"""Shell completions of the packages, and the paths where shells look for them."""

import argparse
from collections.abc import Mapping

PLACES = {
    "bash": "bash-completion/completions/attnscope",
    "zsh": "zsh/vendor-completions/_attnscope",
    "fish": "fish/vendor_completions.d/attnscope.fish",
}
"""Below /usr/share, on Debian and Ubuntu."""


def completions(parser: argparse.ArgumentParser, meanings: Mapping[str, str]) -> dict[str, str]:
    """Output of `attnscope completion SHELL`, by its path; `parser` must know every command's options."""
    from attnscope.cli.completion import SHELLS, read_parser

    read = read_parser(parser, meanings)
    return {PLACES[shell]: script(*read) + "\n" for shell, script in SHELLS.items()}
