"""A run as a row of the list of runs: what each column shows, and by what it is sorted.

Must not import Qt.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.counting import count_text, fixed
from attnscope.records.runs import RunSummary
from attnscope.viewmodels.training.recipe_differences import Settings

END_WORDS = {
    "done": "finished",
    "stopped": "stopped",
    "diverged": "diverged",
    "running": "live",
    "broken off": "interrupted",
}
FIXED_COLUMNS = ("run", "state", "step", "last loss", "best loss", "accuracy", "parameters")
COLUMN_TIPS = {
    "run": "Ticked runs are drawn; a click puts the run's recipe into the editor.",
    "state": "live: in progress; interrupted: nothing writes it any more, and it did not end properly.",
    "step": "Optimiser steps taken",
    "last loss": "The newest held-out loss in nats: per token, or per text where labels are predicted",
    "best loss": "The lowest held-out loss in nats: per token, or per text where labels are predicted",
    "accuracy": "The newest share of held-out tokens that are predicted correctly, or of texts where "
    "labels are predicted",
    "parameters": "Number of trainable parameters",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One row: `colour` is its place among the series' colours, `settings` its whole recipe."""

    summary: RunSummary
    colour: int
    is_shown: bool
    settings: Settings

    @property
    def folder(self) -> str:
        return self.summary.folder

    @property
    def state(self) -> str:
        """How it stands, in a word."""
        return END_WORDS[self.summary.end]

    def cell(self, column: str) -> str:
        """What a column shows."""
        run = self.summary
        match column:
            case "run":
                return run.name
            case "state":
                return self.state
            case "step":
                return f"{run.step:,}"
            case "last loss":
                return fixed(run.last_loss, 4)
            case "best loss":
                return fixed(run.best_loss, 4)
            case "accuracy":
                return f"{run.last_accuracy:.1%}" if math.isfinite(run.last_accuracy) else "—"
            case "parameters":
                return count_text(run.n_parameters)
            case _:
                return dict(self.settings).get(column, "—")

    def _number(self, column: str) -> float | None:
        """What a column of numbers holds; None for the other columns."""
        run = self.summary
        numbers = {
            "step": float(run.step),
            "last loss": run.last_loss,
            "best loss": run.best_loss,
            "accuracy": run.last_accuracy,
            "parameters": float(run.n_parameters),
        }
        return numbers.get(column)

    def plain_cell(self, column: str) -> str:
        """The same for a table that a machine reads: numbers whole, nothing where nothing is known."""
        value = self._number(column)
        if value is not None:
            if not math.isfinite(value):
                return ""
            return f"{value:.0f}" if value == round(value) else f"{value:.9g}"
        text = self.cell(column)
        return "" if text == "—" else text

    def sort_key(self, column: str) -> tuple[bool, float, str]:
        """Numbers by size, words by letters, what is unknown last."""
        value, name = self._number(column), self.summary.name
        if value is not None:
            return (not math.isfinite(value), value if math.isfinite(value) else 0.0, name)
        text = self.cell(column)
        try:
            return (False, float(text), name)
        except ValueError:
            return (text == "—", math.inf, text.lower())


def sorted_rows(rows: Sequence[RunRow], column: str, *, is_descending: bool) -> tuple[RunRow, ...]:
    """The rows by a column; what is unknown stays last either way."""
    known = [row for row in rows if not row.sort_key(column)[0]]
    unknown = [row for row in rows if row.sort_key(column)[0]]
    known.sort(key=lambda row: row.sort_key(column), reverse=is_descending)
    return (*known, *unknown)
