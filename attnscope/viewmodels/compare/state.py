"""The state of the Compare page: two sides, their traces, and how far apart they are.

Must not import Qt. Requests go out through `requests`; replies come in through `handle`. Heads are named as A
names them.
"""

from dataclasses import replace
from operator import itemgetter

from attnscope.last_made import LastMade
from attnscope.records.compare import DifferenceGrid, StackAlignment, Which
from attnscope.records.messages import Failed
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.compare.choosing import Choosing
from attnscope.viewmodels.compare.difference import ComparedMaps, compare_maps
from attnscope.viewmodels.compare.differences import Differences
from attnscope.viewmodels.compare.rows import (
    MeasureDifference,
    measure_differences,
)
from attnscope.viewmodels.compare.sides import Side, missing_head
from attnscope.viewmodels.compare.traces import WHICH, CompareChanges, SideTraces
from attnscope.viewmodels.maps.alignment import alignment_words
from attnscope.viewmodels.maps.segments import stack_tokens
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.comparing import (
    Kept,
    Order,
)
from attnscope.viewmodels.session.state import Session

_N_KEPT = 8


class CompareState:
    """Two sides of anything; asks for traces only while its page is looked at."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.changed = CompareChanges()
        self.traces = SideTraces(session, requests, self.head_of, self.changed)
        self.differences = Differences(session, self.traces, requests)
        self.choosing = Choosing(session)
        self.kept: tuple[Kept, ...] = ()
        self.head: HeadRef | None = session.primary
        self._maps: LastMade[ComparedMaps] = LastMade()
        told = session.changed
        told.selection.connect(self._on_selection, max_args=0)
        told.model.connect(self._on_model, max_args=0)
        told.compared.connect(self._take_choices, max_args=0)
        told.text.connect(self._pump, max_args=0)  # `history` follows
        for followed in (told.gates, told.interventions, told.model, told.history):
            followed.connect(self._follow, max_args=0)

    @property
    def sides(self) -> dict[Which, Side]:
        """A and B."""
        return self.traces.sides

    @property
    def is_waiting(self) -> bool:
        """Whether a trace or the comparison is on its way."""
        return self.differences.query.is_busy or self.traces.is_waiting

    def head_of(self, which: Which) -> HeadRef | None:
        """The head that is looked at, as one side names it."""
        aligned = self.aligned
        if self.head is None or aligned is None or which == "A":
            return self.head
        return replace(self.head, stack=aligned.second_stack)

    @property
    def aligned(self) -> StackAlignment | None:
        """The shared axes of the head's stack."""
        stack = self.head.stack if self.head else None
        return next((aligned for aligned in self.differences.stacks if aligned.stack == stack), None)

    @property
    def alignment_words(self) -> str:
        """How the tokens of the head's stack were aligned, in words."""
        aligned, first, second = self.aligned, self.sides["A"].traced, self.sides["B"].traced
        if aligned is None or first is None or second is None or not self.differences.is_aligned:
            return ""
        rows = self._session.aspect.rows
        own, other = (
            stack_tokens(first, aligned.stack, rows),
            stack_tokens(second, aligned.second_stack, rows),
        )
        keys = alignment_words(aligned.keys, own[1], other[1])
        queries = alignment_words(aligned.queries, own[0], other[0])
        return keys if keys == queries else f"queries: {queries}   keys: {keys}"

    @property
    def grids(self) -> tuple[DifferenceGrid, ...]:
        """The differences of the heads that are shown small: of one stack, or of all."""
        stack = self.head.stack if self.head and not self.choosing.choices.has_all_stacks else None
        return tuple(g for g in self.differences.grids if stack in (None, g.heads[0].stack))

    @property
    def measures(self) -> tuple[MeasureDifference, ...]:
        """Every measure of the head on both sides."""
        first, second = (self.sides[which].traced for which in WHICH)
        return measure_differences(first, second, self.head_of("A"), self.head_of("B"))

    @property
    def maps(self) -> ComparedMaps | None:
        """Both maps of the head and their difference; those before while newer ones are on their way."""
        first, second = (self.traces.map_of(which) for which in WHICH)
        aligned = self.aligned
        if first is None or second is None or aligned is None or not self.differences.is_aligned:
            shown = self._maps.newest if self.is_waiting else None
            return shown if shown is not None and shown.head == self.head else None
        names = self.traces.name("A"), self.traces.name("B")
        rows, end = self._session.aspect.rows, self.differences.end
        key = (self.differences.query.about, self.head, names, end, rows)
        axes = (aligned.queries, aligned.keys)
        return self._maps.of(
            key,
            lambda: compare_maps(first, second, *axes, names=names, limit=end, row_names=rows),
        )

    @property
    def missing(self) -> str:
        """Why the head cannot be compared, in words; empty when it can."""
        if self.head is None or not self.traces.is_shown:
            return ""
        heads = {which: self.head_of(which) or self.head for which in WHICH}
        is_too_long = any(self.traces.is_too_long(which, head) for which, head in heads.items())
        too_long = "This map is too long to compare cell by cell." if is_too_long else ""
        return missing_head(self.head, heads, self.sides) or too_long

    # Intents

    def open(self) -> None:
        """The page is looked at: from now on ask for what is missing."""
        if not self.differences.query.is_watched:
            self.differences.query.is_watched = True
            self._pump()

    def close(self) -> None:
        """The page is not looked at: nothing more is asked for."""
        self.differences.query.is_watched = False

    def select(self, head: HeadRef) -> None:
        """Look at another head, in the whole window where the open model has it."""
        model = self._session.model
        self._take_head(head)
        if model is not None and any(head in site.heads for site in model.sites):
            self._session.select_heads((head,))

    def sort_by(self, order: Order) -> None:
        """Order the heads by layer, or the most changed first, which is then the one looked at."""
        self.choosing.order_by(order)
        changes = [(c, h) for g in self.grids for c, h in zip(g.mean_abs, g.heads, strict=True) if c == c]
        if order == "changed" and changes:
            self.select(max(changes, key=itemgetter(0))[1])

    def give_up(self) -> tuple[int, ...]:
        """Wait for nothing any more; the numbers of the requests, which the worker is to give up."""
        numbers = (*self.traces.give_up(), self.differences.query.give_up())
        self.differences.query.renew()
        self.differences.query.error = "Comparing was stopped."
        self._session.tell_person(self.differences.query.error, action="trace-again")
        self.changed.traced.emit()
        self.changed.compared.emit()
        return numbers

    def again(self) -> None:
        """Ask once more for what was stopped, or failed."""
        self.traces.again()
        self._pump()

    # Replies

    def handle(self, reply: Reply) -> None:
        """Take a reply; those of other parts of the window are passed over."""
        if self.differences.query.take(reply):
            self.changed.compared.emit()
        elif self.traces.handle(reply):
            if isinstance(reply, Failed):
                self._forget_differences()
            self.changed.traced.emit()
            self._pump()

    def _forget_differences(self) -> None:
        self._maps.forget()
        self.differences.forget()

    def _take_choices(self) -> None:
        """What is chosen has changed, here or by undo: ask for what is missing."""
        choices = self.choosing.choices
        self.kept = tuple(dict.fromkeys((*choices.kept, *self.kept)))[:_N_KEPT]
        second_head = self.head_of("B")
        if self.traces.take(choices):
            self.head = second_head
            self._forget_differences()
            self.changed.sides.emit()
            self.changed.traced.emit()
            self.changed.head.emit()
        self.changed.kept.emit()
        self.changed.sides.emit()
        self.changed.look.emit()
        self._pump()

    def _on_selection(self) -> None:
        if self._session.primary not in (None, self.head, self.head_of("B")):
            self._take_head(self._session.primary)

    def _on_model(self) -> None:
        self.traces.forget_open_model()
        self._forget_differences()
        self.changed.traced.emit()

    def _follow(self) -> None:
        self.changed.sides.emit()
        self._pump()

    def _take_head(self, head: HeadRef | None) -> None:
        """Look at a head; one that only B's names fit is named as A does."""
        if head is not None and not any(aligned.stack == head.stack for aligned in self.differences.stacks):
            named = (a.stack for a in self.differences.stacks if a.second_stack == head.stack)
            head = replace(head, stack=next(named, head.stack))
        if head != self.head:
            self.head = head
            self.changed.head.emit()
            if self.differences.query.is_watched:
                self.traces.fetch_heads()

    def _pump(self) -> None:
        """Ask for what is missing, and compare when nothing is."""
        if not self.differences.query.is_watched:
            return
        if self.traces.pump():
            self._forget_differences()
            self.changed.traced.emit()
        if self.traces.is_waiting:
            self.changed.busy.emit()
        if self.differences.align():
            self._find_head()
            self.traces.fetch_heads()
            self.changed.heads.emit()
            self.changed.busy.emit()

    def _find_head(self) -> None:
        """Look at a head that both sides have, where the one looked at is on neither or on one only."""
        self._take_head(self.head)
        if self.head is not None and not self.missing:
            return
        first, before = self.sides["A"].traced, self.head
        for grid in first.grids if first else ():
            for head in grid.site.heads:
                self.head = head
                if not self.missing and self.aligned is not None:
                    self.changed.head.emit()
                    return
        self.head = before
