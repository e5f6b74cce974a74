"""`attnscope info`: a model's architecture, size, cost, and inputs."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.arguments import whole
from attnscope.cli.inputs import add_device_argument, tell_recorded
from attnscope.cli.model_tables import (
    cost_text,
    facts,
    formulas,
    formulas_table,
    matters,
    preset_row,
    reads,
    sites_table,
    table,
    tell_preset,
    tell_presets,
)
from attnscope.cli.terminal import say, say_json
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.files import sha256_of
from attnscope.records.models import ModelInfo

if TYPE_CHECKING:
    from attnscope.models import Model

_WEIGHTS = "*.safetensors"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("info")
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a demo model's or preset's name, or a model or run folder",
    )
    parser.add_argument("--presets", action="store_true", help="instead, a table of published models")
    parser.add_argument(
        "--tokens",
        type=whole(1),
        metavar="N",
        help="count operations for a text of N tokens (default: the longest)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Load the model and print its facts."""
    if arguments.presets:
        return tell_presets(is_json=arguments.json)
    if not arguments.model:
        raise UserError("There is no model to look at.", expected="MODEL or --presets", action="Name one.")
    preset = preset_row(arguments.model)
    if preset is not None:
        return tell_preset(preset, arguments)
    from attnscope.models import count_cost, load
    from attnscope.models.cost import FORMULA
    from attnscope.trace.store import is_trace_file

    if is_trace_file(arguments.model):
        return tell_recorded(arguments)
    model = load(arguments.model, device=arguments.device)
    info = model.info
    cost = count_cost(model, arguments.tokens or info.max_tokens)
    parts, choices, files = parameter_parts(model), architecture(model), weight_files(info)
    if arguments.json:
        say_json(
            {
                **{name: value for name, value in dataclasses.asdict(info).items() if name != "words"},
                "architecture_table": choices,
                "formulas": formulas(choices),
                "parameters": dict(parts),
                "operations": {
                    "n_tokens": cost.n_tokens,
                    "forward": cost.forward,
                    "forward_a_token": cost.forward_a_token,
                    "training_a_token": cost.training_a_token,
                    "parts": dict(cost.parts),
                    "is_whole": cost.is_whole,
                    "formula": FORMULA,
                },
                "reads": reads(info),
                "files": [{"name": n, "n_bytes": size, "sha256": digest} for n, size, digest in files],
            }
        )
        return 0
    blocks = (
        facts(info, start_words(model)),
        table("architecture", tuple((n, str(v)) for n, v in choices.items() if matters(n, choices))),
        formulas_table(choices),
        table("parameters", (*((n, f"{k:,}") for n, k in parts), ("total", f"{info.n_parameters:,}"))),
        cost_text(cost, FORMULA, max_tokens=info.max_tokens),
        sites_table(info.sites),
        table("files", tuple((name, f"{size:,} bytes  SHA-256 {digest}") for name, size, digest in files)),
    )
    say("\n\n".join(block for block in blocks if block))
    return 0


def start_words(model: "Model") -> str:
    """The model that training started from, according to the card; empty if it started from scratch."""
    from attnscope.models import OwnNetwork

    card = model.network.card.training if isinstance(model.network, OwnNetwork) else {}
    source, rank = card.get("from"), card.get("lora_rank")
    if not isinstance(source, str):
        return ""
    n = card.get("prompt_tokens")
    if isinstance(n, int):
        return f"{source[:80]}, by a prompt of {plural(n, 'token')}"
    return f"{source[:80]}, by low-rank changes of rank {rank}" if isinstance(rank, int) else source[:80]


def architecture(model: "Model") -> dict[str, object]:
    """All choices of the architecture: from config.json for our own models, else the library's."""
    from attnscope.models import OwnNetwork

    if isinstance(model.network, OwnNetwork):
        return model.network.config.to_dict()
    config = getattr(getattr(model.network, "module", None), "config", None)
    values = config.to_dict() if config is not None else {}
    return {name: value for name, value in sorted(values.items()) if isinstance(value, int | float | str)}


def parameter_parts(model: "Model") -> tuple[tuple[str, int], ...]:
    """Parameters of each part of the model."""
    from attnscope.models import OwnNetwork
    from attnscope.nn import count_parameters

    if isinstance(model.network, OwnNetwork):
        return count_parameters(model.network.config).parts
    parts: dict[str, int] = {}
    module = getattr(model.network, "module", None)
    for name, parameter in module.named_parameters() if module is not None else ():
        words = name.split(".")
        # Layers are one part: what is below the list of layers is left out.
        depth = next((k for k, word in enumerate(words) if word.isdigit()), min(2, len(words) - 1))
        part = ".".join(words[: max(1, depth)])
        parts[part] = parts.get(part, 0) + parameter.numel()
    return tuple(parts.items())


def weight_files(info: ModelInfo) -> list[tuple[str, int, str]]:
    """Name, bytes and SHA-256 of each weights file in the model's folder."""
    folder = Path(info.source)
    files = sorted(folder.glob(_WEIGHTS)) if info.source and folder.is_dir() else []
    known = (
        info.sha256 if len(files) == 1 else ""
    )  # of the bytes that were read; of several files their joint one
    return [(file.name, file.stat().st_size, known or sha256_of(file)) for file in files]
