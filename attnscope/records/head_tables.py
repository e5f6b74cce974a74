"""The numbers of heads as CSV and as JSON."""

from collections.abc import Sequence

from attnscope.records.intervals import interval_kind
from attnscope.records.maps import HeadMeasures
from attnscope.records.measures import Estimate, HeadTable
from attnscope.records.roles import HeadCard
from attnscope.records.word_tables import ALIGNMENT_NUMBERS, AlignmentTable, SyntaxTable
from attnscope.schemes.measures import ESTIMATED, TEXT_MEASURES
from attnscope.table_text import csv_text

COLUMNS = tuple(TEXT_MEASURES)
"""The measures of one text."""
ERROR_COLUMNS = tuple(f"{name}_error" for name in ESTIMATED)
"""Standard errors of the measures that are estimated on very long texts; 0 elsewhere."""


def rows_of_corpus(
    table: HeadTable, rows: Sequence[int], cards: Sequence[HeadCard]
) -> list[dict[str, object]]:
    """Every measure with its interval and its number of texts, one head to a row."""
    found: list[dict[str, object]] = []
    for row in rows:
        head = table.heads[row]
        cells: dict[str, object] = {"stack": head.stack, "layer": head.layer, "head": head.head}
        cells |= {"best_offset": float(table.best_offsets[row]), "what_it_does": cards[row].sentence}
        for name in table.names:
            one = table.estimate(head, name)
            cells |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
            cells |= {f"{name}_texts": one.n, f"{name}_interval": one.kind}
        found.append(cells)
    return found


def csv_of_corpus(table: HeadTable, rows: Sequence[int], cards: Sequence[HeadCard]) -> str:
    """The rows of a corpus with a header; an empty cell is a number that does not apply."""
    found = rows_of_corpus(table, rows, cards)
    header = list(rows_of_corpus(table, [0], cards)[0]) if len(table.heads) else []
    lines = [[_cell(one) if isinstance(one, float) else one for one in row.values()] for row in found]
    return csv_text(header, lines)


def csv_of_text(measures: Sequence[HeadMeasures]) -> str:
    """The measures of one text, one head to a line, with standard errors where they are estimates."""
    fields = (*COLUMNS, *ERROR_COLUMNS)
    lines = [
        [m.head.stack, m.head.layer, m.head.head, *(_cell(getattr(m, name)) for name in fields)]
        for m in measures
    ]
    return csv_text(["stack", "layer", "head", *fields], lines)


def json_of_corpus(table: HeadTable, rows: Sequence[int], cards: Sequence[HeadCard]) -> dict[str, object]:
    """Everything of a corpus, heads in the order of `rows`."""
    return {
        "model": table.model,
        "corpus": table.corpus,
        "statement": table.statement,
        "specials": table.specials,
        "n_texts": table.n_texts,
        "n_tokens": table.n_tokens,
        "level": table.level,
        "n_resamples": table.n_resamples,
        "seed": table.seed,
        "heads": [_json_head(table, row, cards[row]) for row in rows],
    }


def json_of_syntax(table: SyntaxTable) -> dict[str, object]:
    """Every head's share of every relation."""
    return {
        "statement": table.statement,
        "relations": [
            {
                "relation": relation,
                "direction": direction,
                "heads": [
                    {
                        "head": f"{head.stack} {head.label}",
                        "share": float(table.values[row, column]),
                        "low": float(table.low[row, column]),
                        "high": float(table.high[row, column]),
                        "best_offset": int(table.offsets[row, column]),
                        "baseline": float(table.baseline[row, column]),
                        "n_arcs": int(table.n_arcs[row, column]),
                        "n_sentences": int(table.counts[row, column]),
                        "interval": table.estimate(row, column).kind,
                    }
                    for row, head in enumerate(table.heads)
                ],
            }
            for column, (relation, direction) in enumerate(table.relations)
        ],
    }


def json_of_alignment(table: AlignmentTable) -> dict[str, object]:
    """Every head and layer mean."""
    return {
        "n_texts": table.n_texts,
        "n_skipped": table.n_skipped,
        "rows": table.rows,
        "level": table.level,
        "interval": interval_kind(table.n_texts),
        "best": None if table.best is None else table.label(table.best),
        "heads": [
            {
                "name": table.label(index),
                **{name: float(getattr(table, name)[index]) for name in ALIGNMENT_NUMBERS},
            }
            for index in range(len(table.error_rate))
        ],
    }


def csv_of_alignment(table: AlignmentTable) -> str:
    """Error rate, precision and recall of every head and layer mean, with intervals, one to a line."""
    lines = []
    for index in range(len(table.error_rate)):
        is_head = index < len(table.heads)
        layer = table.heads[index].layer if is_head else table.layers[index - len(table.heads)]
        numbers = (getattr(table, name) for name in ALIGNMENT_NUMBERS)
        lines.append(
            [
                layer,
                table.heads[index].head if is_head else "mean",
                *(_cell(float(found[index])) for found in numbers),
                table.n_texts,
            ]
        )
    return csv_text(["layer", "head", *ALIGNMENT_NUMBERS, "pairs"], lines)


def _json_head(table: HeadTable, row: int, card: HeadCard) -> dict[str, object]:
    head = table.heads[row]
    return {
        "stack": head.stack,
        "layer": head.layer,
        "head": head.head,
        "what_it_does": card.sentence,
        "roles": [role.name for role in card.roles],
        "best_offset": float(table.best_offsets[row]),
        "measures": {name: _json_estimate(table.estimate(head, name)) for name in table.names},
    }


def _json_estimate(found: Estimate) -> dict[str, object]:
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "n_texts": found.n,
        "interval": found.kind,
    }


def _cell(value: float) -> str:
    return f"{value:.6g}" if value == value else ""
