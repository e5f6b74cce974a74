"""`attnscope measure`: measures of every head, on one text or over a corpus."""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnscope.cli.arguments import output_file, path_of, text_file, whole
from attnscope.cli.inputs import (
    add_corpus_argument,
    add_input_arguments,
    add_links_arguments,
    load_and_trace,
    open_model,
    parse_stack,
    read_linked,
    tell_columns,
)
from attnscope.cli.terminal import JobProgress, save_finished, say, say_error, say_json
from attnscope.errors import UserError
from attnscope.files import replace_file
from attnscope.records.findings import ALIGNMENT_NUMBERS, COLUMNS
from attnscope.records.measures import with_interval
from attnscope.records.sites import Stack
from attnscope.schemes.measures import ESTIMATED, MEASURES
from attnscope.viewmodels.session.head_measures import MEASURES as TEXT_KINDS

if TYPE_CHECKING:
    from attnscope.analysis.corpus_texts import Text
    from attnscope.conllu import Tree
    from attnscope.models import Model
    from attnscope.models.inputs import Inputs
    from attnscope.records.findings import AlignmentTable, Findings, SyntaxTable
    from attnscope.records.maps import HeadMeasures
    from attnscope.records.measures import CorpusProgress, HeadCard, HeadTable

_SHOWN = tuple(
    sorted((name for name in MEASURES if MEASURES[name].terminal), key=lambda name: MEASURES[name].terminal)
)
_CELL = 13


def table_of_text(measures: "Sequence[HeadMeasures]") -> str:
    """The measures of one text, one head a line; a dash if a measure does not apply."""
    widths = {name: max(12, len(name) + 2) for name in COLUMNS}
    lines = [f"{'head':<16}" + "".join(f"{name:>{width}}" for name, width in widths.items())]
    for one in measures:
        values = ((getattr(one, name), width) for name, width in widths.items())
        cells = "".join(f"{x:>{width}.4f}" if x == x else f"{'–':>{width}}" for x, width in values)
        lines.append(f"{one.head.stack + ' ' + one.head.label:<16}{cells}")
    legend = (_legend_line(kind.field, kind.unit, kind.definition) for kind in TEXT_KINDS)
    return "\n".join([*lines, "", *_estimates(measures), *legend])


def _estimates(measures: "Sequence[HeadMeasures]") -> list[str]:
    """Note on estimates from some rows, with their largest standard errors; empty if there are none."""
    some = [one for one in measures if one.n_rows]
    if not some:
        return []
    errors = {name: max([0.0, *(getattr(one, f"{name}_error") for one in some)]) for name in ESTIMATED}
    said = ", ".join(f"{name} {error:.2g}" for name, error in errors.items() if error > 0)
    *names, last = (one.title for one in ESTIMATED.values())
    who = f"{', '.join(names).capitalize()} and {last}"
    rows = f"{some[0].n_rows:,} of {some[0].n_all_rows:,} rows"
    return [
        f"{who} are estimated from {rows}; largest standard errors: {said}.",
        "--every-row reads every row.",
        "",
    ]


def sort_measures(
    measures: "Sequence[HeadMeasures]", name: str | None, *, is_ascending: bool
) -> "list[HeadMeasures]":
    """Sort the measures of one text by a column; missing numbers come last."""
    if name is None:
        return list(measures)
    check_column(name, COLUMNS)
    sign = 1.0 if is_ascending else -1.0

    def key(one: "HeadMeasures") -> tuple[bool, float]:
        value = float(getattr(one, name))
        return value != value, sign * value if value == value else 0.0

    return sorted(measures, key=key)


def check_column(name: str, names: Sequence[str]) -> None:
    """Raise UserError when there is no such column."""
    if name not in names:
        raise UserError(
            f"There is no column '{name}'.", expected="one of " + ", ".join(names), action="Correct --sort."
        )


def table_of_corpus(table: "HeadTable", rows: Sequence[int], cards: "Sequence[HeadCard]") -> str:
    """One head a line: its measures over the corpus, and its role."""
    lines = [f"{'head':<14}" + "".join(f"{name[:_CELL]:>{_CELL + 1}}" for name in _SHOWN) + "  what it does"]
    for row in rows:
        head = table.heads[row]
        values = (float(table.values[row, table.names.index(name)]) for name in _SHOWN)
        cells = "".join(f"{v:>{_CELL + 1}.3f}" if v == v else f"{'–':>{_CELL + 1}}" for v in values)
        lines.append(f"{head.stack + ' ' + head.label:<14}{cells}  {cards[row].sentence}")
    legend = (_legend_line(name, MEASURES[name].unit, MEASURES[name].definition) for name in _SHOWN)
    return "\n".join([*lines, "", table.statement + ".", "", *legend])


def _legend_line(name: str, unit: str, definition: str) -> str:
    return f"{name:<{_CELL + 3}}({unit}) {definition}"


def table_of_syntax(table: "SyntaxTable") -> str:
    """The best head of each relation against the best fixed offset."""
    lines = [f"{'relation':<28}{'head':<14}{'found':>18}{'offset':>8}{'share':>8}{'arcs':>8}"]
    for column, (relation, direction) in enumerate(table.relations):
        margins = table.margins[:, column]
        if np.isnan(margins).all():
            continue
        row = int(np.nanargmax(margins))
        head = table.heads[row]
        found = table.estimate(row, column).text
        lines.append(
            f"{relation + ' ' + direction:<28}{head.stack + ' ' + head.label:<14}{found:>18}"
            f"{int(table.offsets[row, column]):>+8d}{table.baseline[row, column]:>8.2f}"
            f"{int(table.n_arcs[row, column]):>8}"
        )
    return "\n".join([*lines, "", table.statement + "."])


def table_of_alignment(table: "AlignmentTable") -> str:
    """Error rate, precision and recall of every head and layer mean, the best first."""
    lines = [f"{'cross-attention':<18}{'error rate':>22}{'precision':>22}{'recall':>22}"]
    for index in np.argsort(np.where(np.isnan(table.error_rate), np.inf, table.error_rate), kind="stable"):
        numbers = [float(getattr(table, name)[index]) for name in ALIGNMENT_NUMBERS]
        parts = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        cells = (with_interval(value, low, high, 3) for value, low, high in parts)
        lines.append(f"{table.label(int(index)):<18}" + "".join(f"{cell:>22}" for cell in cells))
    n_heads = len(table.heads)
    rates = table.error_rate[:n_heads]
    best = "" if np.isnan(rates).all() else f"Best head {table.label(int(np.nanargmin(rates)))}; "
    said = f"{best}{table.n_texts:,} pairs, words merged from pieces, rows {table.rows} a word"
    left_out = f"; {table.n_skipped} left out" if table.n_skipped else ""
    return "\n".join([*lines, "", f"{said}{left_out}; {table.interval_said}."])


MAX_TEXTS = 1000
SPECIAL_TOKENS = ("kept", "dropped", "renormalised")
"""As in `records.measures`, which would import numpy before anything is to be measured."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("measure")
    add_input_arguments(parser, needs_text=False)
    parser.add_argument(
        "-f", "--file", type=text_file, metavar="FILE", help="one text, read from a file; - is standard input"
    )
    add_corpus_argument(parser)
    parser.add_argument(
        "--repeated",
        type=whole(1, 100_000),
        metavar="N",
        help="N rows of random tokens of the whole vocabulary, written twice",
    )
    parser.add_argument(
        "--conllu",
        type=path_of,
        metavar="FILE",
        help="dependency trees, plain or .gz: relations that heads follow",
    )
    add_links_arguments(parser)
    parser.add_argument(
        "--special",
        choices=SPECIAL_TOKENS,
        default="kept",
        help="special tokens of a corpus: kept, dropped, or dropped and the rest renormalised",
    )
    parser.add_argument(
        "--max-texts", type=whole(1), default=MAX_TEXTS, metavar="N", help=f"default {MAX_TEXTS}"
    )
    parser.add_argument(
        "--every-row",
        action="store_true",
        help="read every row of a very long text: exact numbers instead of estimates, in minutes",
    )
    parser.add_argument("--stack", help="show the heads of one stack only")
    parser.add_argument("--sort", metavar="COLUMN", help="the largest first; with --ascending the smallest")
    parser.add_argument("--ascending", action="store_true", help="sort the smallest first")
    parser.add_argument("--csv", type=output_file, metavar="OUT", help="write the whole table there")
    parser.add_argument(
        "--links-csv",
        type=output_file,
        metavar="OUT",
        help="write the alignment of heads and layer means there",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    sources = [
        name for name in ("text", "file", "corpus", "repeated") if getattr(arguments, name) is not None
    ]
    if len(sources) > 1 or (arguments.conllu is not None and sources not in ([], ["corpus"])):
        raise UserError(
            "There is more than one thing to measure.",
            expected="one of --text, -f, --corpus, --repeated, or --conllu with or without --corpus",
            action="Leave out the others.",
        )
    if arguments.links is not None and arguments.corpus is None:
        raise UserError(
            "Gold links are given without the pairs they belong to.",
            expected="--corpus with pairs: source, tab, target in each line",
            action="Add --corpus.",
        )
    if arguments.links_csv is not None and arguments.links is None:
        raise UserError(
            "There is no alignment to write.", expected="--links with --corpus", action="Add --links."
        )
    if arguments.sort is not None:
        _check_sort(arguments)
    if arguments.corpus is None and arguments.conllu is None and arguments.repeated is None:
        return _measure_text(arguments)
    return _measure_corpus(arguments)


def _check_sort(arguments: argparse.Namespace) -> None:
    """Raise UserError, before anything is measured, if no column has that name."""
    from attnscope.records.measures import MEASURE_NAMES
    from attnscope.viewmodels.session.head_measures import ALIGNMENT_COLUMNS

    names: Sequence[str] = COLUMNS
    if not (arguments.corpus is arguments.conllu is arguments.repeated is None):
        aligned = ALIGNMENT_COLUMNS if arguments.links is not None else ()
        names = (*MEASURE_NAMES, *(column.name for column in aligned))
    check_column(arguments.sort, names)


def _measure_text(arguments: argparse.Namespace) -> int:
    from attnscope.analysis.measures import MAX_CELLS, measure
    from attnscope.records.findings import csv_of_text
    from attnscope.text.corpora import read_lines

    if arguments.file is not None:
        arguments.text = "\n".join(read_lines(arguments.file))
    model, trace = load_and_trace(arguments)
    stack = _stack(arguments, model)
    max_cells = None if arguments.every_row else MAX_CELLS
    measures = [m for m in measure(trace, max_cells=max_cells) if stack is None or m.head.stack == stack]
    measures = sort_measures(measures, arguments.sort, is_ascending=arguments.ascending)
    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, csv_of_text(measures).encode())
    if arguments.json:
        say_json(
            {
                "model": model.info.name,
                "sha256": model.info.sha256,
                "text": arguments.text,
                "target": arguments.target,
                "check": trace.check().to_dict(),
                "heads": [dataclasses.asdict(one) for one in measures],
            }
        )
    else:
        say(f"{model.info.name}: {trace.check().sentence}")
        say(table_of_text(measures))
    return 0


def _measure_corpus(arguments: argparse.Namespace) -> int:
    from attnscope.analysis.corpus import measure_parts

    model = open_model(arguments)
    stack = _stack(arguments, model)
    trees = _trees(arguments)
    texts = _texts(arguments, model, trees)
    if model.info.form == "encoder-decoder" and not any(isinstance(text, tuple) for text in texts):
        _tell_sources_only(arguments, texts, stack)
    name = str(arguments.corpus or arguments.conllu or "random tokens written twice")
    pairs = [] if arguments.links is None else read_linked(arguments)
    passing = measure_parts(model, texts, trees=trees, pairs=pairs, name=name, specials=arguments.special)
    notes: Sequence[str] = ()
    for found in _telling(passing):
        notes = found.notes
        _hand_over(arguments, found, stack)
    for note in notes:
        say_error(f"attnscope: {note}")
    return 2 if notes else 0


def _hand_over(arguments: argparse.Namespace, found: "Findings", stack: Stack | None) -> None:
    from attnscope.records.findings import csv_of_alignment
    from attnscope.records.measures import order_heads
    from attnscope.viewmodels.session.head_measures import with_alignment

    alignment = found.alignment
    table = with_alignment(found.table, alignment)
    found = dataclasses.replace(found, table=table)
    rows: Sequence[int] = range(len(table.heads))
    if arguments.sort is not None and arguments.sort in table.names:
        rows = order_heads(table, arguments.sort, is_descending=not arguments.ascending)
    rows = [row for row in rows if stack is None or table.heads[row].stack == stack]
    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, found.to_csv(rows).encode())
    if arguments.links_csv is not None and alignment is not None:
        save_finished(arguments, replace_file, arguments.links_csv, csv_of_alignment(alignment).encode())
    if arguments.json:
        say_json(found.to_dict(rows))
        return
    say(f"{table.model} over {table.corpus}")
    say(table_of_corpus(table, rows, found.cards))
    if found.syntax is not None:
        say("\n" + table_of_syntax(found.syntax))
    if alignment is not None:
        say("\n" + table_of_alignment(alignment))


def _stack(arguments: argparse.Namespace, model: "Model") -> Stack | None:
    return None if arguments.stack is None else parse_stack(arguments.stack, model.sites)


def _trees(arguments: argparse.Namespace) -> "list[Tree]":
    from attnscope.conllu import read_conllu

    return [] if arguments.conllu is None else read_conllu(arguments.conllu, arguments.max_texts)


def _texts(
    arguments: argparse.Namespace, model: "Model", trees: "Sequence[Tree]"
) -> "Sequence[Text | Inputs]":
    from attnscope.analysis.corpus_texts import read_corpus
    from attnscope.analysis.induction_score import repeated_rows

    if arguments.repeated is not None:
        return repeated_rows(model, n_rows=arguments.repeated)
    if arguments.corpus is None:
        return [tree.text for tree in trees]
    if model.info.takes_target and arguments.links is None:
        tell_columns(arguments.corpus)
    return read_corpus(arguments.corpus, takes_target=model.info.takes_target, max_texts=arguments.max_texts)


def _tell_sources_only(
    arguments: argparse.Namespace, texts: "Sequence[Text | Inputs]", stack: Stack | None
) -> None:
    """Report that texts without targets measure the encoder only; raises UserError for another stack."""
    line = "The first line" if any("\t" in text for text in texts if isinstance(text, str)) else "Every line"
    why = f"{line} of {arguments.corpus} has no second text after a tab"
    if arguments.corpus is None:
        source = f"The trees of {arguments.conllu}" if arguments.conllu else "Random tokens"
        why = f"{source} have no second texts"
    if stack not in (None, "encoder"):
        raise UserError(
            f"{why}, so the {stack} stack has nothing to measure.",
            expected="pairs: source, tab, target in each line",
            action="Add the second texts, or measure the encoder with --stack encoder.",
        )
    say_error(f"attnscope: {why}: only the encoder is measured.")


def _telling(passing: "Iterator[CorpusProgress | Findings]") -> "Iterator[Findings]":
    """Result of a measuring pass, with progress on standard error."""
    from attnscope.records.findings import Findings

    progress = JobProgress()
    for one in passing:
        if isinstance(one, Findings):
            progress.end()
            yield one
        else:
            progress.tell(one.what, one.n_done, one.n_total, "texts")
