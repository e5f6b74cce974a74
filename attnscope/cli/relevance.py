"""`attnscope relevance`; see `influence`."""

import argparse

from attnscope.cli.influence import add_influence_parser


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    add_influence_parser(commands, "relevance")
