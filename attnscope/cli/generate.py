"""`attnscope generate`: generate text with a model: greedily, by sampling or with beams."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from attnscope.cli.arguments import output_file, real, seed, whole
from attnscope.cli.inputs import add_device_argument, add_gate_argument, open_model, parse_gates, tell_cut
from attnscope.cli.terminal import save_finished, say, say_error, say_json
from attnscope.errors import UserError
from attnscope.records.outputs import WriteMode, WriteSettings

if TYPE_CHECKING:
    from attnscope.models.writing.written import Written
    from attnscope.records.outputs import BeamTree

_DRAWING = ("temperature", "top_k", "top_p", "seed")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "generate",
        description="Greedy unless --beams, or any of --temperature, --top-k, --top-p and --seed, is given.",
    )
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    parser.add_argument("--text", required=True, help="the text to continue, or to translate")
    parser.add_argument("--prefix", default="", help="the beginning of the translation")
    parser.add_argument(
        "--max-tokens", type=whole(1), default=50, metavar="N", help="at most this many tokens (default: 50)"
    )
    parser.add_argument("--beams", type=whole(1), metavar="N", help="follow the N best texts")
    parser.add_argument(
        "--length-penalty",
        type=real(0, 10),
        default=0.6,
        metavar="A",
        help="for beams, 0: none (default: 0.6)",
    )
    parser.add_argument(
        "--temperature",
        type=real(0, 100),
        metavar="T",
        help="below 1 more predictable, above 1 more varied (1 where another option samples)",
    )
    parser.add_argument("--top-k", type=whole(1), metavar="K", help="sample from the K most probable tokens")
    parser.add_argument(
        "--top-p", type=real(), metavar="P", help="sample from the fewest tokens with total probability P"
    )
    parser.add_argument(
        "--seed", type=seed, metavar="S", help="sample; the same seed gives the same text (default: 0)"
    )
    add_gate_argument(parser)
    parser.add_argument(
        "-o", "--out", type=output_file, metavar="FILE", help="write the trace here (.safetensors)"
    )
    parser.add_argument("--json", action="store_true", help="print every token and the beam tree as JSON")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Generate, print, and keep the trace if a file is named."""
    settings = settings_from(arguments)
    settings.check()
    if arguments.out is not None and arguments.out.suffix.lower() != ".safetensors":
        raise UserError(
            f"A trace cannot be written as '{arguments.out.name}'.",
            expected=".safetensors",
            action="Give the file this ending.",
        )
    if not arguments.text.strip():
        raise UserError(
            "There is no text to continue.", expected="at least one word", action="Give one with --text."
        )
    model = open_model(arguments)
    if arguments.prefix and not model.info.takes_target:
        raise UserError(
            f"The model {model.info.name} reads one text only.",
            expected="no --prefix",
            action="Put the beginning into --text.",
        )
    gates = parse_gates(arguments.gate, model.sites)
    written = model.write(arguments.text, settings, gates, prefix=arguments.prefix)
    is_translation = model.info.form == "encoder-decoder"
    read = model.network.encode(arguments.text, arguments.prefix if is_translation else None)
    tell_cut(read.source, read.target)
    if all(one.token.is_special for one in written.text.tokens):
        say_error(f"attnscope: nothing was generated; {model.info.name} ended the text at once.")
    if arguments.out is not None:
        save_finished(arguments, written.trace.save, arguments.out)
    if arguments.json:
        say_json(_as_json(model.info.name, arguments.text, written))
    else:
        say(written.text.whole)
    return 0


def settings_from(arguments: argparse.Namespace) -> WriteSettings:
    """Settings from the arguments; raises UserError for beams and sampling at once."""
    drawing = {name: value for name in _DRAWING if (value := getattr(arguments, name)) is not None}
    if arguments.beams is not None and drawing:
        raise UserError(
            "Beams and sampling cannot be combined.",
            expected="--beams, or --temperature, --top-k, --top-p and --seed",
            action="Leave out one of them.",
        )
    mode: WriteMode = "beams" if arguments.beams is not None else "sample" if drawing else "greedy"
    if arguments.beams is not None:
        drawing["n_beams"] = arguments.beams
    return WriteSettings(
        mode=mode, max_tokens=arguments.max_tokens, length_penalty=arguments.length_penalty, **drawing
    )


def _as_json(model: str, prompt: str, written: "Written") -> dict[str, object]:
    text = written.text
    return {
        "model": model,
        "prompt": prompt,
        "settings": asdict(text.settings),
        "text": text.text,
        "whole": text.whole,
        "has_ended": text.has_ended,
        "log_probability_nats": text.log_probability,
        "tokens_per_s": text.tokens_per_s,
        "tokens": [
            {
                "id": token.token.id,
                "piece": token.token.piece,
                "row": token.position,
                "probability": token.probability,
                "chance": token.chance,
                "alternatives": [
                    {
                        "id": c.token.id,
                        "piece": c.token.piece,
                        "probability": c.probability,
                        "chance": c.chance,
                    }
                    for c in token.alternatives
                ],
            }
            for token in text.tokens
        ],
        "tree": None if text.tree is None else _tree_as_json(text.tree),
    }


def _tree_as_json(tree: "BeamTree") -> dict[str, object]:
    return {
        "best": tree.best,
        "nodes": [
            {
                "parent": node.parent,
                "depth": node.depth,
                "id": node.token.id,
                "piece": node.token.piece,
                "log_probability_nats": node.log_probability,
                "total_nats": node.total,
                "score": node.score,
                "state": node.state,
            }
            for node in tree.nodes
        ],
    }
