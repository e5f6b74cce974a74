"""Measures as tables to read in a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnscope.errors import UserError
from attnscope.records.findings import COLUMNS
from attnscope.records.intervals import with_interval
from attnscope.records.word_tables import ALIGNMENT_NUMBERS
from attnscope.schemes.measures import ESTIMATED, MEASURES
from attnscope.viewmodels.session.head_measures import MEASURES as TEXT_KINDS

if TYPE_CHECKING:
    from attnscope.records.maps import HeadMeasures
    from attnscope.records.measures import HeadCard, HeadTable
    from attnscope.records.word_tables import AlignmentTable, SyntaxTable

_SHOWN = tuple(
    sorted((name for name in MEASURES if MEASURES[name].terminal), key=lambda name: MEASURES[name].terminal)
)
_CELL = 13


def table_of_text(measures: "Sequence[HeadMeasures]") -> str:
    """The measures of one text, one head to a line; a dash where a measure does not apply."""
    widths = {name: max(12, len(name) + 2) for name in COLUMNS}
    lines = [f"{'head':<16}" + "".join(f"{name:>{width}}" for name, width in widths.items())]
    for one in measures:
        values = ((getattr(one, name), width) for name, width in widths.items())
        cells = "".join(f"{x:>{width}.4f}" if x == x else f"{'–':>{width}}" for x, width in values)
        lines.append(f"{one.head.stack + ' ' + one.head.label:<16}{cells}")
    legend = (_legend_line(kind.field, kind.unit, kind.definition) for kind in TEXT_KINDS)
    return "\n".join([*lines, "", *_estimates(measures), *legend])


def _estimates(measures: "Sequence[HeadMeasures]") -> list[str]:
    """What is said of estimates from some rows, with their largest standard errors; nothing elsewhere."""
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
    """The measures of one text by one of its columns; what has no number comes last."""
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
    """One head to a line: its measures over the corpus, and what it does."""
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
