"""A pass over texts: asking for it, what it found of every head, and those numbers as CSV and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.counting import plural
from attnscope.files import replace_file
from attnscope.records.intervals import interval_kind
from attnscope.records.maps import HeadMeasures
from attnscope.records.measures import Estimate, HeadCard, HeadTable, SpecialTokens, bare_table
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.sites import HeadRef
from attnscope.records.word_tables import ALIGNMENT_NUMBERS, AlignmentTable, SyntaxTable
from attnscope.schemes.measures import ESTIMATED, TEXT_MEASURES
from attnscope.table_text import csv_text, html_table

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The table and the card of every head, in its order; relations of trees and alignments where known.

    `notes` say which parts are missing, and why.
    """

    table: HeadTable
    cards: tuple[HeadCard, ...]
    syntax: SyntaxTable | None = None
    alignment: AlignmentTable | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """What was measured, in one line: `Findings of 32 heads of stories over 2 texts`."""
        table = self.table
        n_heads, n_texts = plural(len(table.heads), "head"), plural(table.n_texts, "text")
        return f"Findings of {n_heads} of {table.model or 'a model'} over {n_texts}"

    def rows(self) -> list[dict[str, object]]:
        """One row a head: which it is, what it does, and each measure's value, interval and texts."""
        return rows_of_corpus(self.table, range(len(self.cards)), self.cards)

    def to_dict(self, order: Sequence[int] | None = None) -> dict[str, object]:
        """Everything, of plain lists, numbers and strings; `order` chooses and orders the heads."""
        chosen = range(len(self.cards)) if order is None else order
        found = json_of_corpus(self.table, chosen, self.cards)
        if self.syntax is not None:
            found["syntax"] = json_of_syntax(self.syntax)
        if self.alignment is not None:
            found["alignment"] = json_of_alignment(self.alignment)
        if self.notes:
            found["notes"] = list(self.notes)
        return found

    def _repr_html_(self) -> str:
        """What each head does, with its measures, as a notebook shows it."""
        names = ("stack", "layer", "head", "what_it_does", *self.table.names)
        rows = ([row[name] for name in names] for row in self.rows())
        return html_table([name.replace("_", " ") for name in names], rows, title=self.table.statement)

    def to_csv(self, order: Sequence[int] | None = None) -> str:
        """The rows as text, with a header; an empty cell is a number that does not apply.

        `order` chooses and orders the heads.
        """
        return csv_of_corpus(self.table, range(len(self.cards)) if order is None else order, self.cards)

    def save_csv(self, path: str | Path) -> None:
        """Write the rows to a file; raises SaveError."""
        replace_file(Path(path), self.to_csv().encode())


UNMEASURED = Findings(table=bare_table("", ()), cards=())
"""What is known of the heads of a model before a pass."""


OWN_TEXTS = ""
"""As a path: texts that the program has for the model (of its task, or its sample sentences)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureHeads(Request):
    """Measure every head of the open model over the texts of a file, or over OWN_TEXTS.

    `.conllu` and `.conllu.gz` hold trees, for which relations are measured too; any other file holds one
    text, or one pair with a tab, in each line. `links` is a file of gold word links of those pairs, empty for
    none; the pairs of the model's own task bring theirs. The pass runs in the background; a new one ends it.
    With `is_idle` it waits until nothing else is asked for, gives way to what is, and then begins again.
    """

    path: str = OWN_TEXTS
    specials: SpecialTokens = "kept"
    max_texts: int = 1000
    seed: int = 0
    links: str = ""
    links_from: int = 0
    is_idle: bool = False

    @property
    def beyond_recordings(self) -> str:
        """What it asks that only a running model can do."""
        return "" if self.path == OWN_TEXTS else "Measuring over other texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCard(Request):
    """Show what one head does, with its most telling texts, from the last pass."""

    head: HeadRef


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringNews(CountedNews):
    """How far the pass is: texts done and texts there are, and what is being done."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsMeasured(Reply):
    """The pass is complete: the numbers of all heads and what each does, without texts."""

    found: Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class CardShown(Reply):
    """What one head does, with its texts."""

    card: HeadCard
