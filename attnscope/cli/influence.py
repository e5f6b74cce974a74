"""Influence of inputs on one output token across layers, by one method: `rollout`, `flow`, `relevance`."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from attnscope.cli.arguments import token_place
from attnscope.cli.attribute import check_text, read_target, save_maps
from attnscope.cli.inputs import (
    add_device_argument,
    add_figure_arguments,
    add_gate_argument,
    add_text_arguments,
    open_model,
    parse_gates,
    tell_progress,
)
from attnscope.cli.terminal import save_finished, say, say_error, say_json
from attnscope.counting import csv_text
from attnscope.errors import UserError
from attnscope.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attnscope.models import Model
    from attnscope.records.causes import InfluenceMap
    from attnscope.records.importance import PartsDone
    from attnscope.records.sites import Gates

FollowedBy = Literal["rollout", "flow", "relevance"]
_ABOUT: dict[FollowedBy, str] = {
    "rollout": "Attention rollout (Abnar and Zuidema 2020): the mean attention of each layer, half of it the"
    " token's own stream, multiplied along the layers.",
    "flow": "Attention flow (Abnar and Zuidema 2020): the largest flow from each input through the network"
    " that the layers' mean attention makes.",
    "relevance": "Relevance (Chefer, Gur and Wolf 2021): attention weighted by its gradient, layer upon"
    " layer, without the 1 that every token gives itself.",
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", method: FollowedBy) -> None:
    parser = commands.add_parser(method, description=_ABOUT[method])
    add_text_arguments(parser, "the text to look at, or the path of a picture")
    parser.add_argument(
        "--position",
        type=token_place,
        metavar="N",
        help="the token whose output is explained, from 0, or from the end if negative",
    )
    add_gate_argument(parser)
    add_figure_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run, method=method)


def run(arguments: argparse.Namespace) -> int:
    """Trace one output token back to the inputs, print, write."""
    check_text(arguments.text, "--text")
    model = open_model(arguments)
    if model.info.body:
        raise UserError(
            f"There is no {arguments.method} in {model.info.name}: recurrent cells read its text.",
            expected="a model whose layers read their own text through attention",
            action="Look at the weights of the cross-attention: attnscope figure.",
        )
    target = read_target(model, arguments.text, arguments.target)
    found, position = _follow(model, arguments, target)
    row = found.weights[0]
    token = found.queries[0].piece
    if arguments.position is None:
        say_error(
            f"attnscope: the output at token {position} “{token}” is used; --position N chooses another."
        )
    rows = [_row_of(found, place, float(value)) for place, value in enumerate(row)]
    if arguments.csv is not None:
        header = ("text", "position", "token", arguments.method)
        save_finished(arguments, replace_file, arguments.csv, csv_text(header, rows).encode())
    if arguments.out is not None:
        note = f"Output at token {position} “{token}” of: {target or arguments.text}"
        save_finished(arguments, _draw, model, arguments, found, note)
    if arguments.json:
        about = {"model": model.info.name, "sha256": model.info.sha256, "text": arguments.text}
        inputs = [{"text": text, "position": place, "token": piece} for text, place, piece, _ in rows]
        more = {"target": target, "method": found.method, "position": position, "token": token}
        say_json({**about, **more, "inputs": inputs, "weights": row.tolist(), "about": found.about})
        return 0
    say(f"{found.method} from the inputs to the output at token {position} “{token}”, {found.about}")
    for text, place, piece, value in rows:
        say(f"{f'{text} {place}':<12}{piece[:20]:<22}{value:>10.5f}")
    return 0


def _row_of(found: "InfluenceMap", place: int, value: float) -> tuple[str, int, str, float]:
    """One input: its text, its index, its piece, its share."""
    is_source = place < found.n_source
    text = "input" if not found.n_source else "source" if is_source else "target"
    return text, place if is_source else place - found.n_source, found.keys[place].piece, value


def _follow(model: "Model", arguments: argparse.Namespace, target: str | None) -> "tuple[InfluenceMap, int]":
    """A map of one row, and the output token of that row."""
    from attnscope.analysis.answers import telling_position
    from attnscope.analysis.influence import check_position
    from attnscope.analysis.watched_pass import predicting_tokens
    from attnscope.records.causes import InfluenceMap

    gates = parse_gates(arguments.gate, model.sites)
    n_tokens = len(predicting_tokens(model.encode(arguments.text, target)))
    position = arguments.position
    if position is None:
        position = telling_position(model, arguments.text, target)
    position = check_position(position, n_tokens)
    events = influence_row(model, arguments.method, arguments.text, target, position, gates)
    found = next(one for one in tell_progress(events, "inputs") if isinstance(one, InfluenceMap))
    return found, position


def influence_row(
    model: "Model", method: FollowedBy, text: str, target: str | None, position: int, gates: "Gates"
) -> "Iterator[PartsDone | InfluenceMap]":
    """Yield progress of slow parts, then the row of one output token by one method."""
    import numpy as np

    from attnscope.analysis.influence import flow_values, relevance, rollout, trace_levels
    from attnscope.records.importance import PartsDone

    if method == "relevance":
        yield relevance(model, text, target, position=position, gates=gates, keeps_start=False)
        return
    trace = model.trace(text, target, gates)
    found = rollout(trace)
    weights = found.weights[position]
    if method == "flow":
        values: list[float] = []
        for value in flow_values(trace_levels(trace), position):
            values.append(value)
            yield PartsDone(n_done=len(values), n_total=len(found.keys), about="flow")
        weights = np.array(values, np.float32)
    queries = found.queries[position : position + 1]
    yield replace(found, method=method, queries=queries, weights=weights[None])


def _draw(model: "Model", arguments: argparse.Namespace, found: "InfluenceMap", note: str) -> None:
    """The row as a table of inputs, or over the patches of a picture."""
    import numpy as np

    from attnscope.figures.cause_maps import influence_cells, table_cells
    from attnscope.models.inputs import picture_under

    numbers = found.weights[0].astype(np.float64)
    picture = picture_under(model, arguments.text)
    if picture is not None:
        cells = influence_cells(found.method, numbers, picture)
    else:
        cells = table_cells(found.keys, {found.method: numbers}, found.n_source, "as computed")
    save_maps((cells,), arguments.out, model, note)
