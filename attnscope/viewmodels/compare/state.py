"""The state of the Compare page: two sides, their traces, and their differences.

Heads are named as A names them.
"""

from dataclasses import replace
from operator import itemgetter

from attnscope.last_made import LastMade
from attnscope.records.maps import CompareTraces, DifferenceGrid, StackAlignment, TracesCompared, Which
from attnscope.records.messages import Failed
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.compare.difference import (
    WAYS,
    ComparedMaps,
    MeasureDifference,
    PairedAnswer,
    align_stacks,
    alignment_words,
    compare_maps,
    measure_differences,
    pair_answers,
)
from attnscope.viewmodels.compare.sides import WHICH, CompareChanges, Side, SideTraces, keep_now, missing_head
from attnscope.viewmodels.maps.aspect import stack_tokens
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.changes import (
    LIMITS,
    Changes,
    Comparing,
    Kept,
    Order,
    SideChoice,
    choice_of,
    choice_words,
    look_words,
    with_text,
)
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.session.typed_text import clean_typed

# How far apart two traces are: their axes aligned, and the differences of all heads that both have.
#


class Differences:
    """Belongs to one comparison; sends one request for each pair of traces and method of alignment."""

    def __init__(self, session: Session, traces: SideTraces, requests: Requests) -> None:
        self._session, self._traces = session, traces
        self.query = Query(TracesCompared, requests)
        """Asked only while the page is looked at."""
        self.stacks: tuple[StackAlignment, ...] = ()
        self.answers: tuple[PairedAnswer, ...] = ()

    @property
    def grids(self) -> tuple[DifferenceGrid, ...]:
        """The differences of the heads of every stack."""
        return self.query.answer.grids if self.query.answer else ()

    @property
    def kl_nats(self) -> tuple[float, ...]:
        """KL of each pair of `answers`; empty while the comparison belongs to other answers."""
        n_pairs = sum(answer.pair is not None for answer in self.answers)
        found = self.query.answer
        values = found.kl_nats if found and not self.query.is_busy else ()
        return values if len(values) == n_pairs else ()

    @property
    def end(self) -> float:
        """The |Δ| at the ends of the colours; 0: the largest of each head."""
        if self._session.compared.limit != "every":
            return 1.0 if self._session.compared.limit == "unit" else 0.0
        return max((float(grid.peaks.max()) for grid in self.grids), default=0.0)

    @property
    def is_aligned(self) -> bool:
        """Whether the axes are those of the current traces."""
        return self.query.about == self._key

    @property
    def _key(self) -> object:
        return self._traces.numbers, self._session.compared.way, self._session.aspect.rows

    def forget(self) -> None:
        """Clear everything: there are other traces, or none."""
        self.stacks, self.answers = (), ()
        self.query.forget()

    def align(self) -> bool:
        """Align the tokens of both traces and request all differences, once; returns whether it did."""
        both = self._traces.both
        if both is None or self.is_aligned:
            return False
        way = self._session.compared.way
        self.stacks, self.answers = (
            align_stacks(*both, way, self._session.aspect.rows),
            pair_answers(*both, way),
        )
        request = CompareTraces(
            first=self._traces.sides["A"].view,
            second=self._traces.sides["B"].view,
            first_trace=both[0].number,
            second_trace=both[1].number,
            stacks=self.stacks,
            answers=tuple(found.pair for found in self.answers if found.pair is not None),
        )
        self.query.ask(self._key, request)
        return True


# What a person chooses to compare, and how to look at it: every choice is a step of the session's history.
#


class Choosing:
    """Belongs to one comparison; the session stores the choices, and reports when they change."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def choices(self) -> Comparing:
        """All choices made here, as undo restores them."""
        return self._session.compared

    def choose_model(self, which: Which, source: str | None) -> None:
        """Choose another model for one side; None is the open one."""
        self._choose(which, replace(self.choices.side(which), model=source))

    def set_text(self, which: Which, raw: str) -> None:
        """Another text for one side; empty follows Explore."""
        text = clean_typed(raw).text
        self._choose(which, with_text(self.choices.side(which), text), group=f"compare text {which}")
        if text.endswith(" "):
            self._session.history.close_group()

    def set_target(self, which: Which, raw: str) -> None:
        """Another second text for one side; empty lets its model write its own.

        A side that follows Explore keeps its text from then on.
        """
        choice = self.choices.side(which)
        target = clean_typed(raw).text if raw.strip() else None
        if target is None and choice.text is None:
            return
        text = self._session.text if choice.text is None else choice.text
        self._choose(which, replace(choice, text=text, target=target), group=f"compare target {which}")

    def choose_changes(self, which: Which, changes: Changes, kept: Kept | None = None) -> None:
        """Choose the gates and interventions of a side."""
        self._choose(which, replace(self.choices.side(which), changes=changes, kept=kept))

    def keep(self, which: Which) -> Kept | None:
        """Keep the current view of Explore and make it one side; None if it is empty."""
        kept = keep_now(self._session)
        if kept is not None:
            after = self.choices.with_side(which, choice_of(kept))
            self._change(f"compare: keep {which}, {kept.label}", after)
        return kept

    def swap(self) -> None:
        """Swap A and B; nothing is traced again."""
        self._change("compare: swap A and B", self.choices.swapped)

    def choose_way(self, name: str) -> None:
        """Align tokens by another method."""
        self._look(*(replace(self.choices, way=way) for way in WAYS if way == name))

    def choose_limit(self, name: str) -> None:
        """Set the difference at the ends of the colours."""
        self._look(*(replace(self.choices, limit=limit) for limit in LIMITS if limit == name))

    def show_all_stacks(self, has_all: bool) -> None:
        """Show thumbnails of every stack, or of the selected head's."""
        self._look(replace(self.choices, has_all_stacks=has_all))

    def order_by(self, order: Order) -> None:
        """Order the heads by layer, or the most changed first."""
        self._look(replace(self.choices, order=order))

    def _choose(self, which: Which, choice: SideChoice, group: str = "") -> None:
        before = self.choices.side(which)
        self._change(choice_words(before, choice, which), self.choices.with_side(which, choice), group)

    def _look(self, *wanted: Comparing) -> None:
        for after in wanted:
            self._change(look_words(self.choices, after), after)

    def _change(self, label: str, after: Comparing, group: str = "") -> None:
        self._session.change(label, replace(self._session.setting, compared=after), group=group)


_N_KEPT = 8


class CompareState:
    """Two sides of any kind; requests traces only while its page is visible."""

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
        return self.traces.sides

    @property
    def is_waiting(self) -> bool:
        """Whether a trace or the comparison is pending."""
        return self.differences.query.is_busy or self.traces.is_waiting

    def head_of(self, which: Which) -> HeadRef | None:
        """The selected head, as one side names it."""
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
        """Alignment of the tokens of the head's stack, in words."""
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
        """The differences of the heads shown as thumbnails: of one stack, or of all."""
        stack = self.head.stack if self.head and not self.choosing.choices.has_all_stacks else None
        return tuple(g for g in self.differences.grids if stack in (None, g.heads[0].stack))

    @property
    def measures(self) -> tuple[MeasureDifference, ...]:
        """Every measure of the head on both sides."""
        first, second = (self.sides[which].traced for which in WHICH)
        return measure_differences(first, second, self.head_of("A"), self.head_of("B"))

    @property
    def maps(self) -> ComparedMaps | None:
        """Both maps of the head and their difference; the old ones while new ones are pending."""
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
        """Why the head cannot be compared, in words; empty if it can."""
        if self.head is None or not self.traces.is_shown:
            return ""
        heads = {which: self.head_of(which) or self.head for which in WHICH}
        is_too_long = any(self.traces.is_too_long(which, head) for which, head in heads.items())
        too_long = "This map is too long to compare cell by cell." if is_too_long else ""
        return missing_head(self.head, heads, self.sides) or too_long

    # Intents

    def open(self) -> None:
        """The page is visible: from now on request what is missing."""
        if not self.differences.query.is_watched:
            self.differences.query.is_watched = True
            self._pump()

    def close(self) -> None:
        """The page is hidden: stop requesting."""
        self.differences.query.is_watched = False

    def select(self, head: HeadRef) -> None:
        """Select another head, in the whole window if the open model has it."""
        model = self._session.model
        self._take_head(head)
        if model is not None and any(head in site.heads for site in model.sites):
            self._session.select_heads((head,))

    def sort_by(self, order: Order) -> None:
        """Order the heads by layer, or the most changed first, which is then selected."""
        self.choosing.order_by(order)
        changes = [(c, h) for g in self.grids for c, h in zip(g.mean_abs, g.heads, strict=True) if c == c]
        if order == "changed" and changes:
            self.select(max(changes, key=itemgetter(0))[1])

    def give_up(self) -> tuple[int, ...]:
        """Stop waiting; returns the numbers of the requests to cancel."""
        numbers = (*self.traces.give_up(), self.differences.query.give_up())
        self.differences.query.renew()
        self.differences.query.error = "Comparing was stopped."
        self._session.notices.say(self.differences.query.error, action="trace-again")
        self.changed.traced.emit()
        self.changed.compared.emit()
        return numbers

    def again(self) -> None:
        """Send stopped or failed requests again."""
        self.traces.again()
        self._pump()

    # Replies

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
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
        """React to a new choice, made here or by undo: request what is missing."""
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
        """Select a head; one that fits only B's names is named as in A."""
        if head is not None and not any(aligned.stack == head.stack for aligned in self.differences.stacks):
            named = (a.stack for a in self.differences.stacks if a.second_stack == head.stack)
            head = replace(head, stack=next(named, head.stack))
        if head != self.head:
            self.head = head
            self.changed.head.emit()
            if self.differences.query.is_watched:
                self.traces.fetch_heads()

    def _pump(self) -> None:
        """Request what is missing, and compare once nothing is."""
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
        """Select a head that both sides have, if the current one is not on both."""
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
