"""`attnscope predict`: a model's prediction for a text, before and after changes; and its quality."""

import argparse
import dataclasses
from itertools import repeat
from typing import TYPE_CHECKING

from attnscope.cli.arguments import text_file, whole
from attnscope.cli.attribute import check_text
from attnscope.cli.inputs import (
    add_input_arguments,
    mask_changes,
    open_model,
    parse_gates,
    refuse_second,
    tell_cut,
)
from attnscope.cli.terminal import one_line, say, say_json
from attnscope.counting import plural
from attnscope.errors import NotFiniteError, UserError
from attnscope.records.measures import interval_said, with_interval

if TYPE_CHECKING:
    from attnscope.records.outputs import Comparison, Prediction

_MOST = 1000
_PIECE = 16
_OF_ONE_TEXT = ("target", "past_trained", "mask", "mask_rows")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "predict",
        description="Shows the next token, each <mask> (or each token, where there is none), each token of "
        "the second text, or the label. With --gate or a mask: the predictions before and after, and the KL "
        "divergence between them; <0.02 marks a token whose probability is below that of the candidates "
        "listed. With -f: how well a causal or masked model predicts a whole text, in nats per token and "
        "per character.",
    )
    add_input_arguments(parser, needs_text=False)
    parser.add_argument(
        "-f",
        "--file",
        type=text_file,
        metavar="FILE",
        help="score a text of any length, part by part; - is standard input",
    )
    parser.add_argument(
        "--top", type=whole(1, _MOST), default=5, metavar="N", help="candidates at each position (default: 5)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the text once, or twice if heads are changed, and print."""
    if (arguments.text is None) == (arguments.file is None):
        raise UserError(
            "There is no text." if arguments.text is None else "There are two texts.",
            expected="--text TEXT, or -f FILE",
            action="Give one of the two.",
        )
    if arguments.file is not None:
        return _tell_file(arguments)
    check_text(arguments.text, "--text")
    model = open_model(arguments)
    info = model.info
    if model.network.output_kind == "nothing":
        raise UserError(
            f"{info.name} has no output layer: it predicts nothing for a text.",
            expected="a model that predicts tokens or labels",
            action="Look at its attention: attnscope figure or attnscope measure.",
        )
    refuse_second(model, arguments.target)
    past_trained = arguments.past_trained and info.can_read_past
    text, target = arguments.text, arguments.target
    gates = parse_gates(arguments.gate, model.sites) if arguments.gate else None
    look = model.look(
        text,
        target,
        gates,
        interventions=mask_changes(arguments, model, text, target, past_trained=past_trained),
        top=arguments.top,
        past_trained=past_trained,
    )
    tell_cut(look.inputs.source, look.inputs.target, can_read_on=info.can_read_past and not past_trained)
    if look.comparison.refused:
        raise NotFiniteError(look.comparison.refused)
    is_changed = bool(arguments.gate or look.trace.interventions)
    if arguments.json:
        say_json(_as_json(info.name, look.comparison, is_changed=is_changed))
        return 0
    for line in prediction_lines(look.comparison, is_changed=is_changed):
        say(line)
    return 0


def _tell_file(arguments: argparse.Namespace) -> int:
    from attnscope.analysis.metrics import most_read, tell_text
    from attnscope.text.corpora import read_lines

    given = [f"--{name.replace('_', '-')}" for name in _OF_ONE_TEXT if getattr(arguments, name)]
    if given:
        raise UserError(
            f"{given[0]} needs a single text, and -f reads a whole file.",
            expected="-f, alone or with --gate",
            action=f"Leave out {given[0]}.",
        )
    text = "".join(f"{line}\n" for line in read_lines(arguments.file))
    model = open_model(arguments)
    told = tell_text(model, text, parse_gates(arguments.gate, model.sites))
    if arguments.json:
        say_json({"model": model.info.name, "file": str(arguments.file), **dataclasses.asdict(told)})
        return 0
    scored = "tokens" if told.per_character else "hidden tokens"
    if told.per_character:
        say(f"{with_interval(*told.per_character, 4)} nats a character")
    say(f"{with_interval(*told.per_token, 4)} nats a token")
    right, low, high = (100 * share for share in told.accuracy)
    say(f"{with_interval(right, low, high, 1)} % of the {scored} right")
    if told.words is not None:
        right, low, high = (100 * share for share in told.words)
        say(f"{with_interval(right, low, high, 1)} % of the hidden words right, each with all its pieces")
    counts = f"{plural(told.n_tokens, scored[:-1])} and {plural(told.n_characters, 'character')}"
    say(f"over {counts}; {interval_said(told.n_windows, 'part')} of at most {most_read(model):,} tokens")
    return 0


def prediction_lines(comparison: "Comparison", *, is_changed: bool) -> list[str]:
    """Each position with the best of both sides, the most probable on either side first."""
    from attnscope.viewmodels.compare.difference import (
        candidate_rows,
        certainty_text,
        copied_text,
        follows_text,
        kl_words,
    )

    lines = []
    pairs = zip(comparison.before.predictions, comparison.after.predictions, strict=True)
    for k, (before, after) in enumerate(pairs):
        named = one_line(before.context)
        copied = copied_text(comparison, k)
        named += f"  {copied}" if copied else ""
        lines.append(f"{named}  {kl_words(comparison.kl_nats, k)}, before → after" if is_changed else named)
        for row in candidate_rows(before, after, len(before.candidates) + len(after.candidates)):
            sides = ((row.before, row.before_below), (row.after, row.after_below))
            told = "  ".join(f"{_told(*side):>6}" for side in (sides if is_changed else sides[1:]))
            piece = row.name or row.token.piece
            lines.append(f"  {one_line(piece) or repr(piece):<{_PIECE}}{told}")
    follows = follows_text(comparison)
    lines += [follows] if follows else []
    written = (comparison.before.generated, comparison.after.generated)
    if any(written):
        certainty = certainty_text(comparison)
        lines += [certainty] if certainty else []
        lines.append(f"writes: {one_line(written[0]) or '(nothing)'}")
        lines += [f"   now: {one_line(written[1]) or '(nothing)'}"] if written[1] != written[0] else []
    return lines


def _told(probability: float | None, below: float | None) -> str:
    """A probability, or its upper bound if it is not among the best."""
    from attnscope.counting import below_text, probability_text

    if probability is not None:
        return probability_text(probability)
    return "–" if below is None else below_text(below)


def _as_json(model: str, comparison: "Comparison", *, is_changed: bool) -> dict[str, object]:
    before, after = comparison.before, comparison.after
    copied = zip(before.p_write, after.p_write, strict=True) if before.p_write else repeat(())
    pairs = zip(before.predictions, after.predictions, comparison.kl_nats, copied, strict=False)
    return {
        "model": model,
        "kind": before.kind,
        "is_changed": is_changed,
        "predictions": [
            {
                "position": one.position,
                "context": one.context,
                "kl_nats": kl,
                "before": _candidates(one),
                "after": _candidates(other),
                **({"p_gen": {"before": copied[0], "after": copied[1]}} if copied else {}),
            }
            for one, other, kl, copied in pairs
        ],
        "writes": {"before": before.generated, "after": after.generated},
        "certainty": before.certainty,
        "second_follows": {"before": before.follows, "after": after.follows},
    }


def _candidates(prediction: "Prediction") -> list[dict[str, object]]:
    return [
        {"id": c.token.id, "piece": c.token.piece, "probability": c.probability}
        for c in prediction.candidates
    ]
