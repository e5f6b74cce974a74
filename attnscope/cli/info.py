"""`attnscope info`: what a model is."""

import argparse
import dataclasses

from attnscope.cli.inputs import add_device_argument
from attnscope.cli.terminal import one_line, say, say_json
from attnscope.records.models import ModelInfo


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("info", help="say what a model is")
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Load the model and print its facts."""
    from attnscope.models import load

    info = load(arguments.model, device=arguments.device).info
    if arguments.json:
        say_json(dataclasses.asdict(info))
    else:
        say(facts(info))
    return 0


def facts(info: ModelInfo) -> str:
    """The model in lines of name and value."""
    sites = (f"{site.stack} L{site.layer} {site.n_heads} heads" for site in info.sites)
    rows = {
        "name": info.name,
        "source": info.source,
        "form": f"{info.form}, {info.objective}",
        "parameters": f"{info.n_parameters:,}",
        "tokens": f"at most {info.max_tokens}, {info.vocab_size:,} pieces ({info.tokenizer})",
        "device": info.device,
        "weights": f"SHA-256 {info.sha256}",
        "sites": ", ".join(sites),
        "note": info.note,
    }
    return "\n".join(f"{name:<12}{one_line(value)}" for name, value in rows.items() if value)
