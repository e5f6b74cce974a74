"""`attnscope info`: what a model is, what it weighs, what it costs, and what it reads."""

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.inputs import add_device_argument
from attnscope.cli.terminal import one_line, say, say_json
from attnscope.errors import UserError
from attnscope.files import sha256_of
from attnscope.nn.recurrent_choices import OF_TRANSFORMERS
from attnscope.records.models import ModelInfo
from attnscope.records.sites import Site

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.models.cost import Cost

_WEIGHTS = "*.safetensors"
_CARD_LETTERS = 1_000_000


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("info", help="say what a model is, what it weighs and what it costs")
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a demo model's or preset's name, or a model or run folder",
    )
    parser.add_argument(
        "--presets", action="store_true", help="instead, the models of the literature as a table"
    )
    parser.add_argument(
        "--tokens",
        type=_count,
        metavar="N",
        help="count operations for a text of N tokens (default: the most)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Load the model and print its facts."""
    if arguments.presets:
        from attnscope.cli.plan import tell_presets

        return tell_presets(is_json=arguments.json)
    if not arguments.model:
        raise UserError("There is no model to look at.", expected="MODEL or --presets", action="Name one.")
    from attnscope.cli.presets import preset_row, tell_preset

    preset = preset_row(arguments.model)
    if preset is not None:
        return tell_preset(preset, arguments)
    from attnscope.models import load
    from attnscope.models.cost import FORMULA, count_cost

    model = load(arguments.model, device=arguments.device)
    info = model.info
    cost = count_cost(model, arguments.tokens or info.max_tokens)
    parts, choices, files = parameter_parts(model), architecture(model), weight_files(info)
    if arguments.json:
        say_json(
            {
                **dataclasses.asdict(info),
                "architecture_table": choices,
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
        table("parameters", (*((n, f"{k:,}") for n, k in parts), ("total", f"{info.n_parameters:,}"))),
        cost_text(cost, FORMULA, max_tokens=info.max_tokens),
        sites_table(info.sites),
        table("files", tuple((name, f"{size:,} bytes  SHA-256 {digest}") for name, size, digest in files)),
    )
    say("\n\n".join(block for block in blocks if block))
    return 0


def start_words(model: "Model") -> str:
    """What the model's training went on from, as its card says; empty for one that began anew."""
    from attnscope.models.own import OwnNetwork

    card = model.network.card.training if isinstance(model.network, OwnNetwork) else {}
    source, rank = card.get("from"), card.get("lora_rank")
    if not isinstance(source, str):
        return ""
    return f"{source[:80]}, by low-rank changes of rank {rank}" if isinstance(rank, int) else source[:80]


def facts(info: ModelInfo, start: str = "") -> str:
    """The model in lines of name and value; `start` is what it goes on from."""
    rows = {
        "name": info.name,
        "source": info.source,
        "form": ", ".join(filter(None, (info.form, info.objective, info.architecture, _cells(info)))),
        "parameters": f"{info.n_parameters:,}",
        "tokens": f"at most {info.max_tokens}, {info.vocab_size:,} pieces ({info.tokenizer})",
        "goes on from": start,
        "reads": reads(info),
        "labels": ", ".join(info.labels),
        "device": info.device,
        "weights": f"SHA-256 {info.sha256}" if info.sha256 else "",
        "licence": info.licence or licence_in_card(Path(info.source)) or "not named in its files",
        "note": info.note,
    }
    return "\n".join(f"{name:<14}{one_line(value)}" for name, value in rows.items() if value)


def _cells(info: ModelInfo) -> str:
    return f"recurrent cells ({info.body})" if info.body else ""


def licence_in_card(folder: Path) -> str:
    """The paragraph on the licence in a model folder's own card; empty when there is none."""
    card = folder / "card.md"
    try:
        text = card.read_text(encoding="utf-8", errors="replace")[:_CARD_LETTERS]
    except OSError:
        return ""
    heading, _, rest = text.partition("## Data and licence")
    return rest.strip().split("\n\n")[0][:400] if heading != text else ""


def reads(info: ModelInfo) -> str:
    """What the model takes and what it says, in words."""
    if info.reads != "text":
        own = ", and a second text that it can write itself" if info.takes_target else ""
        return f"a {info.reads}, named by its path{own}"
    if info.reads_pairs:
        return "two sentences" if info.labels else "one text, or two sentences"
    return "a text, and a second one that it can write itself" if info.takes_target else "one text"


_ONLY_WITH: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rope_base": ("position", ("rotary",)),
    "n_buckets": ("position", ("t5",)),
    "max_distance": ("position", ("t5", "shaw")),
    "window": ("mask", ("window", "dilated", "global", "bigbird")),
    "dilation": ("mask", ("dilated",)),
    "global_tokens": ("mask", ("global", "bigbird")),
    "random_blocks": ("mask", ("bigbird",)),
    "mask_block": ("mask", ("bigbird",)),
    "mask_seed": ("mask", ("bigbird",)),
    "prefix_tokens": ("mask", ("prefix",)),
    "temperature": ("score", ("cosine",)),
    "sigma": ("score", ("gaussian",)),
    "sentence_ends": ("pooling", ("hierarchical",)),
    "sentence_encoder": ("pooling", ("hierarchical",)),
}
_OF_LABELS = ("n_labels", "pooling", "reads_pair", "sentence_ends", "sentence_encoder")
_OF_CELLS = ("has_attention", "feeds_context", "local_reach")
_OF_PIECES = ("tie_embeddings", "transform_head", "output_bias", "has_pooler", "has_next_sentence")


def matters(name: str, choices: Mapping[str, object]) -> bool:
    """Whether a value of the architecture is looked at beside the other choices."""
    is_recurrent = choices.get("body") in ("rnn", "gru", "lstm")
    if name in (OF_TRANSFORMERS if is_recurrent else _OF_CELLS):
        return False
    if name in (_OF_PIECES if choices.get("n_labels") else _OF_LABELS):
        return False
    if name not in _ONLY_WITH:
        return name != "n_projected" or bool(choices[name])
    other, needed = _ONLY_WITH[name]
    return choices.get(other, needed[0]) in needed


def architecture(model: "Model") -> dict[str, object]:
    """Every choice of the architecture: of config.json for our own models, else of the library's."""
    from attnscope.models.own import OwnNetwork

    if isinstance(model.network, OwnNetwork):
        return model.network.config.to_dict()
    config = getattr(getattr(model.network, "module", None), "config", None)
    values = config.to_dict() if config is not None else {}
    return {name: value for name, value in sorted(values.items()) if isinstance(value, int | float | str)}


def parameter_parts(model: "Model") -> tuple[tuple[str, int], ...]:
    """How many numbers each part of the model learned."""
    from attnscope.models.own import OwnNetwork
    from attnscope.nn.config import count_parameters

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
    return [(file.name, file.stat().st_size, sha256_of(file)) for file in files]


def cost_text(cost: "Cost", formula: str, *, max_tokens: int = 0) -> str:
    """The operations on paper, with the formula; a note when it is more than the model reads."""
    is_more = 0 < max_tokens < cost.n_tokens
    note = f"{cost.n_tokens:,} tokens are more than the {max_tokens:,} that the model was made for"
    title = f"operations on paper, {cost.n_tokens:,} tokens" + ("" if cost.is_whole else " (not all of them)")
    rows = (
        *((name, f"{n:.4g}") for name, n in cost.parts),
        ("forward pass", f"{cost.forward:.4g}"),
        ("a token", f"{cost.forward_a_token:.4g} forward, {cost.training_a_token:.4g} in training"),
        ("formula", formula),
        *((("note", note),) if is_more else ()),
    )
    return table(title, rows)


def sites_table(sites: tuple[Site, ...]) -> str:
    """Every site with its heads; layers of a stack that are alike share a line."""
    if not sites:
        return "sites\n  none: the model has no head"
    rows: list[tuple[str, str]] = []
    start = 0
    for k, site in enumerate(sites):
        following = sites[k + 1] if k + 1 < len(sites) else None
        is_alike = following is not None and _shape(following) == _shape(site)
        if is_alike and following is not None and following.layer == site.layer + 1:
            continue
        first = sites[start]
        layers = f"L{site.layer}" if first.layer == site.layer else f"L{first.layer} to L{site.layer}"
        heads = f"{site.n_heads} heads" if site.n_heads != 1 else "1 head"
        heads += f", on {site.n_slots} slots" if site.keys == "slots" else ""
        heads += ", on sentences" if site.keys == "sentences" else ""
        shared = f", {site.n_kv_heads} key-value heads" if site.n_kv_heads != site.n_heads else ""
        rows.append((f"{site.stack} {layers}", heads + shared))
        start = k + 1
    return table("sites", tuple(rows))


def _shape(site: Site) -> tuple[str, int, int]:
    return site.stack, site.n_heads, site.n_kv_heads


def table(title: str, rows: tuple[tuple[str, str], ...]) -> str:
    """A title and lines of name and value; empty without rows."""
    if not rows:
        return ""
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join([title, *(f"  {one_line(name):<{width}}{one_line(value)}" for name, value in rows)])


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens from 1 to 1,000,000,000")
    return int(text)
