"""`attnscope convert`: a model of ours as a folder that other programs open."""

import argparse

from attnscope.cli.arguments import path_of
from attnscope.cli.inputs import add_device_argument, open_model
from attnscope.cli.prune import refuse_taken
from attnscope.cli.terminal import say_saved


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "convert",
        description="Write a model of AttnScope in the format of the library transformers, where one of its "
        "architectures can be it: GPT-2 (learned positions, layer norms, GELU) or Llama (rotary positions, "
        "RMS norms, SwiGLU, no biases). Before it is written its logits are compared with ours.",
    )
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    parser.add_argument("-o", "--out", required=True, type=path_of, metavar="FOLDER", help="where to save it")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Convert, compare, write, report."""
    refuse_taken(arguments.out)
    title, difference = open_model(arguments).save_for_transformers(arguments.out)
    say_saved(
        arguments.out, f"{title} in the format of transformers; its logits differ by at most {difference:.1g}"
    )
    return 0
