"""What the commands that look at a text have in common: model, text, target, gates, device."""

import argparse
import re
from typing import TYPE_CHECKING

from attnscope.errors import UserError
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site, Stack, check_heads

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.trace import Trace

_GATE = re.compile(r"(?:(?P<stack>[a-z]+):)?L(?P<layer>\d{1,6})H(?P<head>\d{1,6})=(?P<value>[0-9.eE+-]+)")


def add_input_arguments(parser: argparse.ArgumentParser, *, needs_text: bool = True) -> None:
    """Add MODEL, --text, --target, --gate and --device."""
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    parser.add_argument("--text", required=needs_text, help="the text to look at")
    parser.add_argument(
        "--target", help="the second text, where the model reads one (default: what it writes)"
    )
    parser.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="[STACK:]L0H1=0",
        help="multiply a head's output: 0 removes it, 1 leaves it alone; may be given again",
    )
    add_device_argument(parser)


def add_device_argument(parser: argparse.ArgumentParser) -> None:
    """Add --device."""
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")


def load_and_trace(arguments: argparse.Namespace) -> "tuple[Model, Trace]":
    """Load the model and trace the text that the arguments name; raises UserError."""
    from attnscope.models import load

    if not (arguments.text or "").strip():
        raise UserError(
            "There is no text to look at.", expected="at least one word", action="Give one with --text."
        )
    model = load(arguments.model, device=arguments.device)
    if arguments.target is not None and not model.info.takes_target:
        raise UserError(
            f"The model {model.info.name} reads one text only.",
            expected="no second text",
            action="Leave out --target.",
        )
    gates = parse_gates(arguments.gate, model.sites)
    return model, model.trace(arguments.text, arguments.target, gates)


def parse_gates(wishes: list[str], sites: tuple[Site, ...]) -> Gates:
    """Gates from texts such as `L0H1=0` or `cross:L0H1=0.5`; raises UserError naming the wrong one."""
    gates = NO_GATES
    for wish in wishes:
        match = _GATE.fullmatch(wish)
        if match is None:
            raise _gate_error(wish)
        try:
            value = float(match["value"])
        except ValueError as error:
            raise _gate_error(wish) from error
        stack = parse_stack(match["stack"], sites)
        head = HeadRef(stack=stack, layer=int(match["layer"]), head=int(match["head"]))
        check_heads((head,), sites)
        gates = gates.with_value(head, value)
    return gates


def parse_stack(name: str | None, sites: tuple[Site, ...]) -> Stack:
    """The stack of that name; without a name the model's only one. Raises UserError."""
    present = tuple(dict.fromkeys(site.stack for site in sites))
    if name is None and len(present) == 1:
        return present[0]
    for stack in present:
        if stack == name:
            return stack
    named = f"no stack '{name}'" if name is not None else f"{len(present)} stacks, and none was named"
    raise UserError(
        f"The model has {named}.",
        expected="one of " + ", ".join(present),
        action="Name it, for instance --stack cross, or --gate cross:L0H1=0.",
    )


def parse_heads(text: str, stack: Stack, layer: int, sites: tuple[Site, ...]) -> tuple[HeadRef, ...]:
    """Heads of one site from `3` or `0,2,5`; raises UserError."""
    try:
        heads = tuple(HeadRef(stack=stack, layer=layer, head=int(part)) for part in text.split(","))
    except ValueError as error:
        raise UserError(
            f"The head '{text}' is not a number.",
            expected="a head such as 3, or several such as 0,2,5",
            action="Layers and heads count from 0.",
        ) from error
    check_heads(heads, sites)
    return heads


def _gate_error(wish: str) -> UserError:
    return UserError(
        f"The gate '{wish}' is not understood.",
        expected="a head and a number from 0 to 1, for instance L0H1=0 or cross:L0H1=0.5",
        action="Layers and heads count from 0.",
    )
