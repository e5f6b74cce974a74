"""`attnscope importance`: the importance of each head for the loss."""

import argparse
import dataclasses
from typing import TYPE_CHECKING

from attnscope.cli.arguments import flag_of, given_options, note_given, real, seed, whole
from attnscope.cli.inputs import (
    add_device_argument,
    add_figure_arguments,
    add_sample_arguments,
    open_model,
    read_samples,
    save_chart,
    tell_progress,
)
from attnscope.cli.terminal import save_finished, say, say_error, say_json
from attnscope.counting import csv_text, listed, plural
from attnscope.files import replace_file
from attnscope.records.importance import LEARNING_STEPS, RANKINGS, Importance, LearnedGates, rankings_reading
from attnscope.records.measures import interval_said

if TYPE_CHECKING:
    from attnscope.analysis.batches import Sample
    from attnscope.models import Model


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("importance")
    note_given(parser)
    add_sample_arguments(parser)
    parser.add_argument("--ranking", default="gradient", choices=RANKINGS, help="default: gradient")
    parser.add_argument(
        "--normalise", action="store_true", help="divide the scores of each layer by their length"
    )
    parser.add_argument(
        "--penalty",
        type=real(0, 1_000_000),
        default=0.02,
        help=f"for {rankings_reading('penalty')}: nats per open head (default 0.02)",
    )
    parser.add_argument(
        "--steps",
        type=whole(1),
        default=LEARNING_STEPS,
        metavar="N",
        help=f"for {rankings_reading('steps')}: steps (default {LEARNING_STEPS})",
    )
    parser.add_argument("--seed", type=seed, default=0, help=f"for {rankings_reading('seed')} (default 0)")
    add_figure_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Score, print, write."""
    from attnscope.figures.charts import importance_chart

    idle = sorted(given_options(arguments) & _idle_options(arguments.ranking))
    if idle:
        flags = listed([flag_of(one) for one in idle])
        say_error(f"attnscope: the ranking {arguments.ranking} does not use {flags}.")
    model = open_model(arguments)
    samples, source = read_samples(arguments, model)
    found, learned = _score(arguments, model, samples)
    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, csv_of_scores(found).encode())
    if arguments.out is not None:
        save_finished(
            arguments, save_chart, importance_chart(found), arguments.out, model, note=f"Texts: {source}."
        )
    if arguments.json:
        say_json(
            {
                "model": model.info.name,
                "sha256": model.info.sha256,
                "texts": source,
                "kept": None if learned is None else learned.n_kept,
                **dataclasses.asdict(found),
            }
        )
        return 0
    say(f"{model.info.name}: {found.ranking} over {plural(found.n_texts, 'text')} of {source}")
    if learned is not None:
        say(f"{learned.n_kept} of {len(found.scores)} heads are kept at a penalty of {learned.penalty:g}")
    say(table_of_scores(found))
    return 0


def _idle_options(ranking: str) -> set[str]:
    """The options that change nothing about this ranking."""
    return {option for one in RANKINGS.values() for option in one.reads}.difference(RANKINGS[ranking].reads)


def table_of_scores(found: Importance) -> str:
    """The heads, most important first, with their intervals and the unit."""
    from attnscope.figures.charts import score_unit

    lines = [f"{'head':<16}{'value':>12}{'low':>12}{'high':>12}"]
    for score in sorted(found.scores, key=lambda one: -one.value):
        cells = "".join(
            f"{value:>12.5f}" if value == value else f"{'–':>12}"
            for value in (score.value, score.low, score.high)
        )
        lines.append(f"{score.head.stack + ' ' + score.head.label:<16}{cells}")
    has_intervals = any(score.low == score.low for score in found.scores)
    low_high = f"; low, high: {interval_said(found.n_texts)}" if has_intervals else ""
    return "\n".join((*lines, "", f"value: {score_unit(found)}{low_high}"))


def csv_of_scores(found: Importance) -> str:
    """One line for each head, in the order of the model."""
    header = ("stack", "layer", "head", "ranking", "value", "low", "high", "n_texts")
    rows = (
        (
            score.head.stack,
            score.head.layer,
            score.head.head,
            found.ranking,
            score.value,
            score.low,
            score.high,
            found.n_texts,
        )
        for score in found.scores
    )
    return csv_text(header, rows)


def _score(
    arguments: argparse.Namespace, model: "Model", samples: "list[Sample]"
) -> tuple[Importance, LearnedGates | None]:
    from attnscope.analysis.batches import build_batches
    from attnscope.analysis.importance import ScoringChoices, measure_importance
    from attnscope.analysis.model_adapter import subject_of

    subject, batches = subject_of(model), build_batches(model, samples)
    how = ScoringChoices(
        is_normalised=arguments.normalise,
        seed=arguments.seed,
        penalty=arguments.penalty,
        n_steps=arguments.steps,
    )
    told = list(tell_progress(measure_importance(subject, batches, arguments.ranking, how)))
    learned = next((event for event in told if isinstance(event, LearnedGates)), None)
    return next(event for event in told if isinstance(event, Importance)), learned
