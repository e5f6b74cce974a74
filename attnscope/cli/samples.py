"""The texts that a command studies a model on: a file, a built-in task, or what suits the model."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.arguments import figure_file, output_file, path_of, whole
from attnscope.cli.inputs import tell_columns
from attnscope.cli.terminal import say_progress
from attnscope.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attnscope.analysis.batches import Sample
    from attnscope.analysis.gold_links import AlignedPair
    from attnscope.models import Model
    from attnscope.records.charts import Chart
    from attnscope.records.importance import PartsDone

DEFAULT_TEXTS = 256
_HELD_OUT_SEED = 1
_TASKS_WITH_FORMS = ("copy", "reverse", "sort", "addition")


def add_corpus_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corpus", type=path_of, metavar="FILE", help="texts, one to a line; pairs have a tab between them"
    )


def add_links_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--links",
        type=path_of,
        metavar="FILE",
        help="gold word links (Pharaoh or talp) of the corpus's pairs",
    )
    parser.add_argument(
        "--links-from", type=int, default=0, choices=(0, 1), help="number of a line's first word"
    )


def add_sample_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --corpus, --links, --task and --max-texts."""
    add_corpus_argument(parser)
    add_links_arguments(parser)
    parser.add_argument("--task", help="examples of a built-in task that training never sees")
    parser.add_argument(
        "--max-texts", type=whole(1), default=DEFAULT_TEXTS, metavar="N", help=f"default {DEFAULT_TEXTS}"
    )


def read_linked(arguments: argparse.Namespace) -> "list[AlignedPair]":
    from attnscope.analysis.gold_links import read_gold_files
    from attnscope.records.word_tables import GoldFiles

    files = GoldFiles(
        pairs=str(arguments.corpus), links=str(arguments.links), counts_from=arguments.links_from
    )
    return read_gold_files(files, arguments.max_texts)


def add_figure_arguments(parser: argparse.ArgumentParser) -> None:
    """Add -o, --csv and --json."""
    parser.add_argument(
        "-o",
        "--out",
        type=figure_file,
        metavar="FIGURE",
        help="draw it: .svg, .pdf, .png; .csv, .npz, or .figure.json for later",
    )
    parser.add_argument("--csv", type=output_file, metavar="OUT", help="write the numbers there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def read_samples(arguments: argparse.Namespace, model: "Model") -> "tuple[list[Sample], str]":
    """The texts and where they come from: corpus, task, the model's own task, or its sample sentences."""
    if arguments.corpus is not None and arguments.task is not None:
        raise UserError(
            "There are two sets of texts.", expected="--corpus or --task", action="Leave out one."
        )
    if arguments.corpus is not None:
        return _from_corpus(arguments, model), str(arguments.corpus)
    task = arguments.task or _own_task(model)
    if task is not None:
        return _from_task(task, model, arguments.max_texts), f"task {task}"
    samples: list[Sample] = [
        sample.text if sample.target is None else (sample.text, sample.target)
        for sample in model.info.samples[: arguments.max_texts]
    ]
    return samples, "the model's sample sentences"


def save_chart(chart: "Chart", path: Path, model: "Model", *, note: str) -> None:
    """Write a chart as a figure, its caption naming the model."""
    from attnscope import boot

    application = boot.offscreen_application()
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption
    from attnscope.figures.views.curves import CurvesFigure

    caption = Caption(model=model.info.name, sha256=model.info.sha256, note=note)
    Figure(CurvesFigure(charts=(chart,), caption=caption, height_mm=100.0)).save(path)
    del application


def tell_progress(events: "Iterator[PartsDone | object]", unit: str = "") -> "Iterator[object]":
    """The events that are no progress; of `unit`s, a line of progress on standard error for each new tenth.

    A job that is done with its first step tells nothing, and on a terminal no line stays.
    """
    from attnscope.records.importance import PartsDone

    told: tuple[str, int] = ("", 0)
    for event in events:
        if not isinstance(event, PartsDone):
            yield event
            continue
        part = (event.about.split(":")[0].split(",")[0], 10 * event.n_done // max(1, event.n_total))
        is_at_once = event.n_done >= event.n_total and part[0] != told[0]
        if part != told and part[1] and not is_at_once:
            words = f"{event.about}: {event.n_done:,} of {event.n_total:,} {unit}"
            say_progress(words.rstrip())
        told = part
    say_progress("")


def _from_corpus(arguments: argparse.Namespace, model: "Model") -> "list[Sample]":
    from attnscope.analysis.corpus_texts import read_corpus

    if arguments.links is not None:
        return list(read_linked(arguments))
    takes_target = model.info.takes_target
    if takes_target:
        tell_columns(arguments.corpus)
    return list(read_corpus(arguments.corpus, takes_target=takes_target, max_texts=arguments.max_texts))


def _own_task(model: "Model") -> str | None:
    from attnscope.models.own import OwnNetwork

    network = model.network
    task = network.card.training.get("task") if isinstance(network, OwnNetwork) else None
    return task if isinstance(task, str) and task else None


def _from_task(name: str, model: "Model", n: int) -> "list[Sample]":
    from attnscope.text.tasks import make_task

    options = {"form": model.info.form} if name in _TASKS_WITH_FORMS else {}
    return list(make_task(name, **options).examples(n, seed=_HELD_OUT_SEED, held_out=True))
