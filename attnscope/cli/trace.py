"""`attnscope trace`: write the attention of every head on one text to a file."""

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.arguments import output_file
from attnscope.cli.inputs import add_file_argument, add_input_arguments, load_and_trace
from attnscope.cli.terminal import say_saved
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.files import replace_file

if TYPE_CHECKING:
    from attnscope.trace import Trace

ENDINGS = (".safetensors", ".npz")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("trace")
    add_input_arguments(parser, needs_text=False)
    add_file_argument(parser)
    parser.add_argument(
        "-o", "--out", required=True, type=output_file, metavar="FILE", help=".safetensors or .npz"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Trace and write: `.safetensors` can be opened again, `.npz` holds every head's weights in full."""
    ending = arguments.out.suffix.lower()
    if ending not in ENDINGS:
        raise UserError(
            f"A trace cannot be written as '{arguments.out.name}'.",
            expected=" or ".join(ENDINGS),
            action="Give the file one of these endings.",
        )
    from attnscope.records.tiles import is_long

    _, trace = load_and_trace(arguments)
    if ending == ".safetensors":
        trace.save(arguments.out)
    elif any(
        is_long(trace.records[site.key].n_queries, trace.records[site.key].n_keys) for site in trace.sites
    ):
        raise UserError(
            f"The maps of {len(trace.source):,} tokens are too large to be written cell by cell.",
            expected="a shorter text, or .safetensors, which keeps what every cell is made of",
            action="Give the file the ending .safetensors.",
        )
    else:
        _save_weights(trace, arguments.out)
    say_saved(arguments.out, f"{plural(len(trace.sites), 'site')}, {trace.check().sentence}")
    return 0


def _save_weights(trace: "Trace", path: Path) -> None:
    """Every head's weights as `STACK.LAYER` [n_heads, n_queries, n_keys], with the pieces of both axes."""
    import numpy as np

    arrays: dict[str, np.ndarray] = {}
    for site in trace.sites:
        name = f"{site.stack}.{site.layer}"
        queries, keys = trace.tokens(site)
        arrays[name] = np.stack([trace.weights(site, head) for head in range(site.n_heads)])
        arrays[f"{name}.queries"] = np.array([token.piece for token in queries])
        arrays[f"{name}.keys"] = np.array([token.piece for token in keys])
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    replace_file(path, content.getvalue())
