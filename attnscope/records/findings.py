"""A pass over texts: asking for it, and what it found of every head."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.counting import plural
from attnscope.files import replace_file
from attnscope.records.head_tables import (
    csv_of_corpus,
    json_of_alignment,
    json_of_corpus,
    json_of_syntax,
    rows_of_corpus,
)
from attnscope.records.measures import HeadTable, SpecialTokens
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.roles import HeadCard
from attnscope.records.sites import HeadRef
from attnscope.records.word_tables import AlignmentTable, SyntaxTable
from attnscope.table_text import html_table


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
