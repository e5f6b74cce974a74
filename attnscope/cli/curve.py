"""`attnscope curve`: the quality of a model as its heads are removed, least important first."""

import argparse
import dataclasses
from collections.abc import Sequence

from attnscope.cli.arguments import real, seed
from attnscope.cli.inputs import (
    add_device_argument,
    add_figure_arguments,
    add_sample_arguments,
    open_model,
    read_samples,
    save_chart,
    tell_progress,
)
from attnscope.cli.terminal import save_finished, say, say_json
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.files import replace_file
from attnscope.records.importance import (
    DEFAULT_RANKINGS,
    METRICS,
    RANKINGS,
    PruningCurve,
    Ranking,
    rankings_reading,
)
from attnscope.records.measures import interval_said, with_interval


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("curve")
    add_sample_arguments(parser)
    parser.add_argument("--metric", default="loss", choices=METRICS, help="default: loss")
    parser.add_argument(
        "--rankings",
        default=",".join(DEFAULT_RANKINGS),
        help=f"some of {', '.join(RANKINGS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--step", type=real(), default=0.1, help="share of heads removed at a time (default 0.1)"
    )
    parser.add_argument("--once", action="store_true", help="score the heads once, not after each removal")
    parser.add_argument(
        "--normalise", action="store_true", help="divide the scores of each layer by their length"
    )
    parser.add_argument("--seed", type=seed, default=0, help=f"for {rankings_reading('seed')} (default 0)")
    add_figure_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Remove heads, measure, print, write."""
    rankings = parse_rankings(arguments.rankings)
    from attnscope.analysis.importance import CurveChoices, pruning_curves
    from attnscope.figures.charts import csv_of_curves, pruning_chart

    model = open_model(arguments)
    samples, source = read_samples(arguments, model)
    events = tell_progress(
        pruning_curves(
            model,
            samples,
            rankings,
            CurveChoices(
                metric=arguments.metric,
                step_share=arguments.step,
                is_rescored=not arguments.once,
                is_normalised=arguments.normalise,
                seed=arguments.seed,
            ),
        )
    )
    curves = [event for event in events if isinstance(event, PruningCurve)]
    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, csv_of_curves(curves).encode())
    if arguments.out is not None:
        note = f"Texts: {source}. Heads scored {'once' if arguments.once else 'again after each removal'}."
        save_finished(arguments, save_chart, pruning_chart(curves), arguments.out, model, note=note)
    if arguments.json:
        about = {"model": model.info.name, "sha256": model.info.sha256, "texts": source}
        say_json({**about, "curves": [dataclasses.asdict(curve) for curve in curves]})
        return 0
    first = curves[0]
    say(f"{model.info.name}: {first.metric} ({first.unit}) over {plural(first.n_texts, 'text')} of {source}")
    say(table_of_curves(curves))
    return 0


def parse_rankings(text: str) -> tuple[Ranking, ...]:
    """Rankings from `gradient,random`; raises UserError for an unknown one."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in RANKINGS:
            raise UserError(
                f"There is no ranking '{name}'.",
                expected=", ".join(RANKINGS),
                action="Separate them with commas.",
            )
    return names


def table_of_curves(curves: Sequence[PruningCurve]) -> str:
    """One line for each number of heads removed; each ranking with its interval."""
    lines = [f"{'removed':<10}" + "".join(f"{curve.ranking:>28}" for curve in curves)]
    for row in zip(*(curve.points for curve in curves), strict=True):
        cells = (f"{with_interval(point.value, point.low, point.high, 4):>28}" for point in row)
        lines.append(f"{row[0].n_removed:<10}" + "".join(cells))
    said = interval_said(curves[0].n_texts) if curves else ""
    return "\n".join([*lines, "", said])
