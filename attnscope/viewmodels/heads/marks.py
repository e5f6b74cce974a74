"""Marks on maps of heads: gold links on the cross-attention, and a number that frames each thumbnail."""

import math
from dataclasses import dataclass
from pathlib import PurePath

from psygnal import Signal, SignalGroup

from attnscope.counting import fixed, significant
from attnscope.records.findings import (
    OWN_LINKS,
    AlignmentRows,
    AlignmentShown,
    AlignmentTable,
    GoldCell,
    GoldFiles,
    GoldPair,
    ShowAlignment,
)
from attnscope.records.maps import HeadMap
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.records.tiles import LongMap
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.maps.aspect import cell_of_words, stack_tokens, words_of_tokens
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.head_measures import COLUMNS, MEASURES, is_importance
from attnscope.viewmodels.session.state import Session

ROWS: dict[AlignmentRows, str] = {
    "predicting": "the row that predicts a word",
    "reading": "the row that has read a word",
}


class AligningChanges(SignalGroup):
    """Signals of AligningState."""

    alignment = Signal()


class AligningState:
    """Alignment with gold links; at most one request at a time."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.query = Query(AlignmentShown, requests)
        self.changed = AligningChanges()
        self.rows: AlignmentRows = "predicting"
        self.files = OWN_LINKS
        self._of = ("", "")
        session.changed.model.connect(self._on_model, max_args=0)
        for signal in (session.changed.traced, session.changed.selection, session.changed.heads):
            signal.connect(self._look_again, max_args=0)

    # What can be read

    @property
    def is_offered(self) -> bool:
        """Whether the shown head attends from one text to the other."""
        model = self._session.model
        is_double = model is not None and model.form == "encoder-decoder" and model.reads == "text"
        return is_double and self._session.stack == "cross"

    @property
    def table(self) -> AlignmentTable | None:
        """The numbers of this text; None if there are none."""
        is_of_text = self.query.answer is not None and self._of == self._texts()
        return (
            self.query.answer.table
            if self.query.answer is not None and self.query.is_watched and is_of_text
            else None
        )

    @property
    def origin(self) -> str:
        """The source of the links, or why there are none."""
        if self.query.error:
            return self.query.error
        if self.query.answer is None:
            return "Looking for gold links…" if self.query.is_busy else ""
        said = self.query.answer.origin or self.query.answer.note
        return f"{said[:1].upper()}{said[1:]}."

    @property
    def files_name(self) -> str:
        """The displayed name of the links file; empty for the task's own."""
        return PurePath(self.files.links).name

    @property
    def offered(self) -> GoldPair | None:
        """A pair to offer: one with known links, or the next one of the files."""
        if self.query.answer is None or not self.query.is_watched:
            return None
        return self.query.answer.offered or self.query.answer.following

    @property
    def best(self) -> HeadRef | None:
        """The head with the smallest error rate; in a tie the shown one, then the first."""
        table = self.table
        if table is None:
            return None
        rates = [float(rate) for rate in table.error_rate[: len(table.heads)]]
        places = [place for place, rate in enumerate(rates) if math.isfinite(rate)]
        least = min((rates[place] for place in places), default=math.nan)
        equals = [table.heads[place] for place in places if rates[place] == least]
        shown = self._session.primary
        return shown if shown in equals else next(iter(equals), None)

    def numbers_of(self, head: HeadRef | None) -> str:
        """Error rate, precision and recall of a head, in words."""
        table = self.table
        if table is None or head not in table.heads:
            return ""
        return f"{head.label}  {_numbers(table, table.heads.index(head))}"

    def mean_of(self, head: HeadRef | None) -> str:
        """The same of the mean of all heads of a head's layer."""
        table = self.table
        if table is None or head is None or head.layer not in table.layers:
            return ""
        index = len(table.heads) + table.layers.index(head.layer)
        return f"mean of L{head.layer}  {_numbers(table, index)}"

    def cells_on(self, shown: HeadMap | None) -> tuple[GoldCell, ...]:
        """The links to draw on a map of one cross head or of several as one, its cells tokens or words."""
        traced, cells = self._session.traced, self._cells_of_text()
        if shown is None or traced is None or shown.head.stack != "cross":
            return ()
        queries, keys = stack_tokens(traced, "cross", self._session.aspect.rows)
        if (queries, keys) == (shown.queries, shown.keys):
            return cells
        is_by_word = (words_of_tokens(queries), words_of_tokens(keys)) == (shown.queries, shown.keys)
        return tuple(cell_of_words(cell, queries, keys) for cell in cells) if is_by_word else ()

    def cells_on_long(self, shown: LongMap | None) -> tuple[GoldCell, ...]:
        """The links to draw on a long map, shown by tiles."""
        traced = self._session.traced
        if shown is None or traced is None or shown.head.stack != "cross" or shown.trace != traced.number:
            return ()
        return self._cells_of_text()

    # Intents

    def show(self, is_on: bool) -> None:
        """Show or hide gold links."""
        if is_on != self.query.is_watched:
            self.query.is_watched = is_on
            self._ask()
            self.changed.alignment.emit()

    def choose_rows(self, rows: str) -> None:
        """Choose the row that stands for a word."""
        for known in ROWS:
            if known == rows and known != self.rows:
                self.rows = known
                self._ask()
                self.changed.alignment.emit()

    def open_files(self, files: GoldFiles) -> None:
        """Take the links of two files, or OWN_LINKS, those of the model's own task."""
        self.files, self.query.is_watched = files, True
        self.query.renew()
        self._ask()
        self.changed.alignment.emit()

    def read_offered(self) -> None:
        """Read the offered pair."""
        pair = self.offered
        if pair is not None:
            if pair.source != self._session.text:
                self._session.texts.set_text(pair.source)
            self._session.texts.set_target(pair.target)

    def select_best(self) -> None:
        best = self.best
        self._session.select_heads((best,) if best is not None else ())

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        traced = self._session.traced
        is_old = isinstance(reply, AlignmentShown) and (traced is None or reply.trace != traced.number)
        if is_old and self.query.owns(reply):
            self.query.renew()  # the trace that is shown is asked about in its turn
        elif self.query.take(reply):
            self._of = self._texts()
            self.changed.alignment.emit()

    # Within

    def _cells_of_text(self) -> tuple[GoldCell, ...]:
        """The links on the tokens of the newest trace; none while they are of another one."""
        is_of_trace = self.table is not None and not self._session.tracing.is_stale
        return self.query.answer.cells if self.query.answer is not None and is_of_trace else ()

    def _on_model(self) -> None:
        self.query.forget()
        self._look_again()

    def _look_again(self) -> None:
        self._ask()
        self.changed.alignment.emit()

    def _texts(self) -> tuple[str, str]:
        traced = self._session.traced
        if traced is None:
            return "", ""
        return traced.source.text, traced.target.text if traced.target is not None else ""

    def _ask(self) -> None:
        """Ask about the newest trace, unless that was done already."""
        traced = self._session.tracing.settled if self.query.is_watched and self.is_offered else None
        if traced is None:
            return
        request = ShowAlignment(trace=traced.number, rows=self.rows, files=self.files)
        self.query.ask((traced.number, self.rows, self.files), request)


def _numbers(table: AlignmentTable, index: int) -> str:
    rate, precision, recall = (
        float(numbers[index]) for numbers in (table.error_rate, table.precision, table.recall)
    )
    return f"AER {fixed(rate)} · P {fixed(precision)} · R {fixed(recall)}"


OFF = ""
_TEXT, _TABLE = "text:", "table:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TintChoice:
    """A number that can frame the heads; `group` is its origin."""

    key: str
    group: str
    name: str
    unit: str
    definition: str


class TintChanges(SignalGroup):
    """Signals of TintState."""

    tint = Signal()


class TintState:
    """Follows the session's trace and the table of heads; a choice without numbers shows nothing."""

    def __init__(self, session: Session, heads: HeadsState) -> None:
        self._session, self._heads = session, heads
        self.changed = TintChanges()
        self.key = OFF
        self.values: dict[HeadRef, float] = {}
        session.changed.traced.connect(self._on_measures, max_args=0)
        session.changed.model.connect(self._on_measures, max_args=0)
        heads.changed.table.connect(self._read, max_args=0)

    @property
    def choices(self) -> tuple[TintChoice, ...]:
        """Everything that can be chosen now."""
        found = [
            TintChoice(
                key=f"{_TEXT}{kind.field}",
                group="on this text",
                name=kind.name,
                unit=kind.unit,
                definition=kind.definition,
            )
            for kind in (MEASURES if self._session.measures else ())
        ]
        table = self._heads.table
        for measure in COLUMNS:
            if measure.name in table.names:
                group = "importance" if is_importance(measure.name) else f"over {table.corpus}"
                found.append(
                    TintChoice(
                        key=f"{_TABLE}{measure.name}",
                        group=group,
                        name=measure.title,
                        unit=measure.unit,
                        definition=measure.definition,
                    )
                )
        return tuple(found)

    @property
    def choice(self) -> TintChoice | None:
        """The choice, if it can be shown."""
        return next((choice for choice in self.choices if choice.key == self.key), None)

    @property
    def ends(self) -> tuple[float, float]:
        """The numbers of the palest and of the strongest frame: 0 or the smallest, and the largest."""
        known = [value for value in self.values.values() if math.isfinite(value)]
        return min(0.0, *known) if known else 0.0, max(known, default=1.0)

    def share(self, head: HeadRef) -> float | None:
        """Strength of a head's frame, 0…1; None without a number."""
        value, (low, high) = self.values.get(head, math.nan), self.ends
        if not math.isfinite(value):
            return None
        return (value - low) / (high - low) if high > low else 0.0

    def words(self, head: HeadRef) -> str:
        """The number of one head as displayed."""
        return significant(self.values.get(head, math.nan), 3)

    def choose(self, key: str) -> None:
        """Frame the heads by another number; OFF removes the frames."""
        if key != self.key:
            self.key = key
            self._read()

    def choose_column(self, name: str) -> None:
        """Frame the heads by a column of the table."""
        self.choose(f"{_TABLE}{name}")

    def _read(self) -> None:
        before = self.values
        self.values = self._found()
        if self.values or before:
            self.changed.tint.emit()

    def _found(self) -> dict[HeadRef, float]:
        table, name = self._heads.table, self.key.removeprefix(_TABLE).removeprefix(_TEXT)
        if self.key.startswith(_TEXT):
            return {m.head: float(getattr(m, name)) for m in self._session.measures}
        if name not in table.names:
            return {}
        return dict(zip(table.heads, table.column(name).astype(float).tolist(), strict=True))

    def _on_measures(self) -> None:
        if self.key.startswith(_TEXT):
            self._read()
