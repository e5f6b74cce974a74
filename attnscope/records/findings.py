"""What a pass over texts found of every head: its numbers, what it does, and what could not be found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.files import replace_file
from attnscope.records.head_tables import (
    csv_of_corpus,
    json_of_alignment,
    json_of_corpus,
    json_of_syntax,
    rows_of_corpus,
)
from attnscope.records.measures import HeadTable
from attnscope.records.roles import HeadCard
from attnscope.records.word_tables import AlignmentTable, SyntaxTable


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

    def rows(self) -> list[dict[str, object]]:
        """One head each: its place, what it does, and of every measure the value, its interval, its texts."""
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

    def to_csv(self, order: Sequence[int] | None = None) -> str:
        """The rows as text, with a header; an empty cell is a number that does not apply."""
        return csv_of_corpus(self.table, range(len(self.cards)) if order is None else order, self.cards)

    def save_csv(self, path: str | Path) -> None:
        """Write the rows to a file; raises SaveError."""
        replace_file(Path(path), self.to_csv().encode())
