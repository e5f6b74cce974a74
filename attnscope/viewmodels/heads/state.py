"""The state of the Heads page: the texts, the progress of the pass, the table as sorted and filtered."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePath

from psygnal import Signal, SignalGroup

from attnscope.counting import duration_text, plural
from attnscope.records.findings import (
    OWN_TEXTS,
    UNMEASURED,
    CardShown,
    Findings,
    HeadsMeasured,
    MeasureHeads,
    MeasuringNews,
    ShowCard,
)
from attnscope.records.importance import Importance
from attnscope.records.measures import (
    SPECIAL_TOKENS,
    CorpusMeasure,
    HeadCard,
    RoleName,
    SpecialTokens,
    bare_table,
    order_heads,
)
from attnscope.records.messages import ModelLoaded
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef, Site, Stack, once_words
from attnscope.schemes.measures import MEASURES
from attnscope.viewmodels.query import Job, Phase, Query, Requests
from attnscope.viewmodels.session.head_measures import (
    ALIGNMENT,
    COLUMNS,
    bare_cards,
    statement_of,
    with_alignment,
    with_importance,
)
from attnscope.viewmodels.session.state import Session

_MOST_S = 10.0
_S_PER_PASS, _N_TOKENS, _FLOPS_PER_S = 0.004, 30, 2e10
"""Of an ordinary processor and text, to tell seconds from minutes."""


class FirstLook:
    """Calls `measure` once a text is traced, if `is_wanted` and `n_passes` will not take long."""

    def __init__(
        self,
        session: Session,
        n_passes: Callable[[], int],
        is_wanted: Callable[[], bool],
        measure: Callable[[], None],
    ) -> None:
        self._session, self._n_passes = session, n_passes
        self._is_wanted, self._measure = is_wanted, measure

    @property
    def words(self) -> str:
        """A sentence on how long measuring takes, if that is long."""
        minutes = round(self._seconds / 60)
        return f" A model of this size takes about {duration_text(60 * minutes)}." if minutes else ""

    def look(self, is_seen: bool) -> None:
        """Note that the page becomes visible or hidden."""
        traced = self._session.changed.traced
        traced.disconnect(self._look, missing_ok=True)
        if is_seen:
            traced.connect(self._look, max_args=0)
            self._look()

    def _look(self) -> None:
        if self._session.traced is not None and self.is_soon and self._is_wanted():
            self._measure()

    @property
    def is_soon(self) -> bool:
        """Whether measuring the open model takes seconds."""
        return self._session.model is not None and self._seconds <= _MOST_S

    @property
    def _seconds(self) -> float:
        model = self._session.model
        flops = 2.0 * _N_TOKENS * (model.n_parameters if model is not None else 0)
        return self._n_passes() * (_S_PER_PASS + flops / _FLOPS_PER_S)


# What a head was measured to do, in a word or two: its role, or in brackets what it leans to.

ROLE_NAMES: dict[RoleName, str] = {
    "positional": "one offset",
    "identity": "itself",
    "induction": "induction",
    "duplicate": "duplicates",
    "first": "rests on first",
    "separator": "rests on separators",
    "syntactic": "syntax",
    "rare": "rare words",
    "broad": "broad",
    "aligns": "aligns",
    "none": "–",
}
_LEANINGS = {
    "first": "first token",
    "separator": "separators",
    "duplicate_mul": ROLE_NAMES["duplicate"],
    "stripe": ROLE_NAMES["induction"],
    "entropy": ROLE_NAMES["broad"],
}


def role_words(card: HeadCard, offset: int | None, sites: Iterable[Site]) -> str:
    """The role of a head whose heaviest offset is `offset`; `sites` say whose columns are not tokens."""
    if card.roles:
        role = card.roles[0].name
        return _offset_name(offset) if role == "positional" else ROLE_NAMES[role]
    match card.leaning:
        case "":
            return ROLE_NAMES["none"]
        case "first" if not any(s.stack == card.head.stack and s.keys == "tokens" for s in sites):
            return "(first column)"
        case "offset":
            return f"({_offset_name(offset)})"
        case leaning:
            return f"({_LEANINGS.get(leaning, leaning)})"


def _offset_name(offset: int | None) -> str:
    names = {None: ROLE_NAMES["positional"], -1: "previous token", 0: "itself", 1: "next token"}
    return names.get(offset, f"offset {offset or 0:+d}")


SPECIAL_NAMES: dict[str, str] = {
    "kept": "kept",
    "dropped": "left out",
    "renormalised": "left out, rows renormalised",
}
HEAD_COLUMN, ROLE_COLUMN = "head", "role"
_N_PASSES = 200  # the model's own texts, and random ones


class HeadsChanges(SignalGroup):
    """Signals of HeadsState."""

    choice = Signal()
    progress = Signal()
    table = Signal()
    order = Signal()
    selection = Signal()
    card = Signal()


class MeasuredTexts:
    """The texts over which heads are measured: the model's own or a file, with gold links."""

    def __init__(self, state: "HeadsState", session: Session) -> None:
        self._state, self._session = state, session
        self.path = OWN_TEXTS
        self.specials: SpecialTokens = "kept"
        self.links, self.links_from = "", 0

    @property
    def corpus_name(self) -> str:
        """The displayed name of the texts."""
        if self.path == OWN_TEXTS:
            is_recorded = self._session.model is not None and self._session.model.is_recorded
            return "the recorded text" if is_recorded else "the model's own texts"
        return PurePath(self.path).name

    @property
    def has_cross(self) -> bool:
        """Whether heads attend from one text to another, so that they may align words."""
        model = self._session.model
        return model is not None and any(site.stack == "cross" for site in model.sites)

    @property
    def can_link(self) -> bool:
        """Whether a file of links can be given: the program's own texts have theirs."""
        return self.has_cross and self.path != OWN_TEXTS

    @property
    def links_name(self) -> str:
        """The displayed source of the links."""
        if self.can_link:
            return PurePath(self.links).name if self.links else "none"
        return "of the task" if self._state.measured.alignment is not None else "the texts' own"

    def choose_texts(self, path: str) -> None:
        """Measure over a file, or over OWN_TEXTS."""
        if path != self.path:
            self.path, self.links = path, ""
            self._state.changed.choice.emit()

    def choose_links(self, path: str, counts_from: int = 0) -> None:
        """Compare cross-attention with the gold links of a file, one line for each pair; '' for none."""
        if (path, counts_from) != (self.links, self.links_from):
            self.links, self.links_from = path, counts_from
            self._state.changed.choice.emit()

    def choose_specials(self, name: str) -> None:
        """Keep special tokens, drop them, or drop them and renormalise."""
        for known in SPECIAL_TOKENS:
            if known == name and known != self.specials:
                self.specials = known
                self._state.changed.choice.emit()

    def request(self, *, is_idle: bool = False) -> MeasureHeads:
        """A pass over them."""
        return MeasureHeads(
            path=self.path,
            specials=self.specials,
            links=self.links if self.can_link else "",
            links_from=self.links_from,
            is_idle=is_idle,
        )


class TableOrder:
    """Heads and measures of the table, in order."""

    def __init__(self, state: "HeadsState") -> None:
        self._state = state
        self.sorted_by = HEAD_COLUMN
        self.is_descending = False
        self.stack = ""
        """Whose heads are shown; empty: those of every stack."""
        self.filter_text = ""
        self.has_all_measures = False
        self.has_intervals = False

    @property
    def measures(self) -> tuple[CorpusMeasure, ...]:
        """The columns shown, without those that have no number for any head."""
        table = self._state.table
        shown = (m for m in COLUMNS if m.name in table.names)
        further = () if self.has_all_measures else [one.name for one in MEASURES.values() if one.is_further]
        shown = (m for m in shown if m.name not in further)
        return tuple(m for m in shown if table.counts[:, table.names.index(m.name)].any())

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that were measured."""
        return tuple(dict.fromkeys(head.stack for head in self._state.table.heads))

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of the table in display order, by number."""
        table = self._state.table
        if self.sorted_by in table.names:
            order = order_heads(table, self.sorted_by, is_descending=self.is_descending)
        else:
            numbers = range(len(table.heads))
            key = self._state.role if self.sorted_by == ROLE_COLUMN else None
            order = tuple(sorted(numbers, key=key, reverse=self.is_descending))
        return tuple(row for row in order if self._is_shown(row))

    def _is_shown(self, row: int) -> bool:
        head = self._state.cards[row].head
        if self.stack not in ("", head.stack):
            return False
        names = f"{head.stack} {head.label} {self._state.role(row)} {self._state.cards[row].sentence}".lower()
        return all(word in names for word in self.filter_text.split())

    def sort_by(self, column: str) -> None:
        """Sort by a column: numbers largest first, names in order; again to reverse."""
        if column == self.sorted_by:
            self.is_descending = not self.is_descending
        else:
            self.sorted_by = column
            self.is_descending = column not in (HEAD_COLUMN, ROLE_COLUMN, ALIGNMENT)
        self._state.changed.order.emit()

    def show_stack(self, stack: str) -> None:
        """Show the heads of one stack; an unknown name shows all."""
        self.stack = stack if stack in self.stacks else ""
        self._state.changed.order.emit()

    def filter(self, text: str) -> None:
        """Show the heads whose name or role contains a text."""
        if text.strip().lower() != self.filter_text:
            self.filter_text = text.strip().lower()
            self._state.changed.order.emit()

    def show_all_measures(self, has_all: bool) -> None:
        """Show every measure, or the usual ones."""
        self.has_all_measures = has_all
        self._state.changed.table.emit()

    def show_intervals(self, has_intervals: bool) -> None:
        """Show the interval after each number, or the number alone."""
        self.has_intervals = has_intervals
        self._state.changed.order.emit()


class HeadsState:
    """Every head of the open model over texts; at most one pass at a time.

    `measured` is what the pass found. `table` and `cards` are that with the importance, or the importance
    alone; they hold no head before.
    """

    def __init__(
        self,
        session: Session,
        requests: Requests,
    ) -> None:
        self._session, self._requests = session, requests
        self.job = Job(MeasuringNews, HeadsMeasured, requests)
        self._idle = Job(MeasuringNews, HeadsMeasured, requests)
        self._card = Query(CardShown, requests)
        self._card.is_watched = True
        self.texts, self.order = MeasuredTexts(self, session), TableOrder(self)
        self.changed = HeadsChanges()
        self.measured = UNMEASURED
        self.importances: tuple[Importance, ...] = ()
        self.table = UNMEASURED.table
        self.cards: tuple[HeadCard, ...] = ()
        self.first_look = FirstLook(session, lambda: _N_PASSES, lambda: self.phase == "empty", self.run)
        session.changed.selection.connect(self._on_selection, max_args=0)

    # What can be read

    @property
    def phase(self) -> Phase:
        """Phase of the pass; a hidden one counts once it is done."""
        return "done" if self.job.phase == "empty" and self._idle.phase == "done" else self.job.phase

    @property
    def error(self) -> str:
        """Why the newest pass failed, or what the table lacks."""
        return "" if self.job.is_running else self.job.error or " ".join(self.measured.notes)

    @property
    def can_run(self) -> bool:
        """Whether there is a model to measure, and no pass in progress."""
        return self._session.model is not None and not self.job.is_running

    @property
    def progress(self) -> str:
        """Progress of the pass, in words."""
        news = self.job.news
        if news is None:
            return ""
        return f"{news.what}: {news.n_done:,} of {news.n_total:,}" if news.n_total else f"{news.what}…"

    @property
    def statement(self) -> str:
        """Basis of the table's numbers."""
        parts = []
        measured = self.measured
        if measured is not UNMEASURED:
            parts.append(f"{measured.table.corpus}: {measured.table.statement}")
        if measured.alignment is not None:
            parts.append(statement_of(measured.alignment))
        if self.importances:
            parts.append(f"importance over {plural(self.importances[0].n_texts, 'text')}")
        return "; ".join(parts)

    def role(self, row: int) -> str:
        """Role of a row's head, in a word or two."""
        card = self.cards[row]
        return role_words(card, self.table.heaviest_offset(card.head), self._session.sites)

    def full_name(self, head: HeadRef) -> str:
        """Stack and name of a head, and the name it had before others were removed."""
        once = once_words(self._session.sites, head)
        return ", ".join(filter(None, (f"{head.stack} {head.label}", once)))

    @property
    def selected_row(self) -> int | None:
        """The row of the head that the session has selected last."""
        head = self._session.primary
        return self.table.heads.index(head) if head in self.table.heads else None

    @property
    def card(self) -> HeadCard | None:
        """The card of the selected head: the received one, or until then the table's data."""
        row, told = self.selected_row, self._card.answer
        if row is None:
            return None
        bare = self.cards[row]
        return told.card if told is not None and told.card.head == bare.head else bare

    # Intents

    def run(self) -> None:
        """Begin a pass."""
        if not self.can_run:
            return
        self._cancel_idle()
        self.job.start(self.texts.request())
        self.changed.progress.emit()

    def measure_when_idle(self) -> None:
        """Run the page's first measurement in the background while idle, if it takes seconds."""
        if self.phase == "empty" and self.first_look.is_soon:
            self._idle.start(self.texts.request(is_idle=True))

    def stop(self) -> None:
        """Cancel the pass; the earlier table stays."""
        if self.job.stop():
            self.changed.progress.emit()

    def rank(self, importances: tuple[Importance, ...]) -> None:
        """Show the importance of each head; without a measured table, that alone."""
        self.importances = importances
        self._join()
        self.changed.table.emit()
        self.changed.progress.emit()
        self._ask_card()

    def select(self, row: int) -> None:
        """Select the head of a row for the whole window."""
        if self.table.heads[row] != self._session.primary:
            self._session.select_heads((self.table.heads[row],))

    def look_at(self, index: int) -> None:
        """Show one of the card's texts on the Explore page."""
        texts = self.card.texts if self.card else ()
        if 0 <= index < len(texts):
            text = texts[index]
            self._session.texts.set_text(text.source)
            if text.target is not None:
                self._session.texts.set_target(text.target)

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
        match reply:
            case CardShown() if self._card.take(reply):
                self.changed.card.emit()
            case ModelLoaded():
                self._forget()
            case HeadsMeasured() if self.job.take(reply) or self._idle.take(reply):
                self._take(reply.found)
            case _ if self._idle.take(reply):
                pass  # nobody sees it
            case _ if self.job.take(reply):
                self.changed.progress.emit()
            case _:
                pass

    # Inside

    def _take(self, found: Findings) -> None:
        self.measured = replace(found, table=with_alignment(found.table, found.alignment))
        self._join()
        if self.order.stack not in self.order.stacks:
            self.order.stack = ""
        self._card.forget()
        self.changed.table.emit()
        self.changed.progress.emit()
        self._ask_card()

    def _join(self) -> None:
        """Combine the measures over texts with the importance in one table."""
        model, found = self._session.model, self.measured
        if found is UNMEASURED and self.importances and model is not None:
            heads = tuple(head for site in model.sites for head in site.heads)
            found = Findings(table=bare_table(model.name, heads), cards=bare_cards(heads))
        known = found is not UNMEASURED
        self.table = with_importance(found.table, self.importances) if known else UNMEASURED.table
        self.cards = found.cards
        self._tell_roles()

    def _tell_roles(self) -> None:
        """Tell the whole window the role of each head that was found to have one."""
        self._session.know_roles({c.head: self.role(row) for row, c in enumerate(self.cards) if c.roles})

    def _cancel_idle(self) -> None:
        """Stop waiting for a background pass."""
        number = self._idle.give_up()
        if number:
            self._requests.cancel(number)

    def _forget(self) -> None:
        self._cancel_idle()
        self.job.forget()
        self._idle.forget()
        self.measured, self.importances, self.order.stack = UNMEASURED, (), ""
        self.table, self.cards = UNMEASURED.table, ()
        self._card.forget()
        self._tell_roles()
        self.changed.table.emit()
        self.changed.progress.emit()
        self.changed.card.emit()

    def _on_selection(self) -> None:
        self.changed.selection.emit()
        self._ask_card()

    def _ask_card(self) -> None:
        """Request the card of the selected head, unless that was done already."""
        card = self.card
        if card is None:
            return
        if self.measured is not UNMEASURED:
            self._card.ask(card.head, ShowCard(head=card.head))
        self.changed.card.emit()
