"""The traces of both sides: asked for one at a time for each side, taken when they come.

Must not import Qt.
"""

from collections.abc import Callable
from dataclasses import replace

from psygnal import Signal, SignalGroup

from attnscope.records.maps import HeadMap, Which
from attnscope.records.messages import OPEN_MODEL, Failed, HeadsShown, Progress, ShowHeads, Traced, TraceText
from attnscope.records.outputs import OutputWritten
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.records.tiles import is_long
from attnscope.viewmodels.compare.sides import Side, SideWish, side_words, wish_of
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.comparing import Comparing
from attnscope.viewmodels.session.state import Session

WHICH: tuple[Which, Which] = ("A", "B")
HeadOf = Callable[[Which], HeadRef | None]


class CompareChanges(SignalGroup):
    """What of a comparison can change."""

    sides = Signal()
    kept = Signal()
    look = Signal()
    """How it is shown: aligned, ordered, coloured."""
    traced = Signal()
    head = Signal()
    """Another head is looked at."""
    heads = Signal()
    """Its full maps."""
    compared = Signal()
    output = Signal()
    """What the models write."""
    busy = Signal()


class SideTraces:
    """Holds both sides; `head_of` says which head of each is looked at, `changed` is told what comes."""

    def __init__(
        self,
        session: Session,
        requests: Requests,
        head_of: HeadOf,
        changed: CompareChanges,
    ) -> None:
        self._session, self._requests, self._head_of = session, requests, head_of
        self._changed = changed
        self.sides: dict[Which, Side] = {
            "A": Side(view="compare A", choice=session.compared.first),
            "B": Side(view="compare B", choice=session.compared.second),
        }

    @property
    def is_waiting(self) -> bool:
        """Whether a trace is on its way."""
        return any(side.is_waiting for side in self.sides.values())

    @property
    def is_shown(self) -> bool:
        """Whether there are two traces to look at."""
        return all(side.traced is not None for side in self.sides.values())

    @property
    def is_same_wish(self) -> bool:
        """Whether both sides ask for the same thing, so that nothing can differ."""
        return self.wish("A") is not None and self.wish("A") == self.wish("B")

    @property
    def progress(self) -> str:
        """What is being done, in words."""
        return next((side.progress for side in self.sides.values() if side.progress), "")

    def wish(self, which: Which) -> SideWish | None:
        """What a side is to be now; None while there is no model or no text."""
        return wish_of(self.sides[which].choice, self._session)

    def name(self, which: Which) -> str:
        """What a side is, naming only what tells it from the other one."""
        other: Which = "B" if which == "A" else "A"
        words = side_words(self.sides[which], self.sides[other], which)
        return f"{which} · {words}" if words and words != which else which

    @property
    def both(self) -> tuple[Traced, Traced] | None:
        """The traces of both sides, when both are there and none newer is on its way."""
        first, second = self.sides["A"].traced, self.sides["B"].traced
        return None if first is None or second is None or self.is_waiting else (first, second)

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the traces that are there; 0: none."""
        first, second = (side.traced.number if side.traced else 0 for side in self.sides.values())
        return first, second

    def map_of(self, which: Which) -> HeadMap | None:
        """The head that is looked at, in full, when it has come."""
        head = self._head_of(which)
        return self.sides[which].maps.get(head) if head is not None else None

    def take(self, compared: Comparing) -> bool:
        """Take over what both sides are to be; sides that change places keep all that has come of them.

        Whether they have changed places.
        """
        present = self.sides["A"].choice, self.sides["B"].choice
        wanted = compared.first, compared.second
        is_swapped = present != wanted and present == (compared.second, compared.first)
        if is_swapped:
            self.sides = {"A": self.sides["B"], "B": self.sides["A"]}
        for which, choice in zip(WHICH, wanted, strict=True):
            self.sides[which].choice = choice
        return is_swapped

    def forget_open_model(self) -> None:
        """Another model is open: what is of the one before is not to be shown."""
        for side in self.sides.values():
            if side.choice.model is None or (side.wish and side.wish.model == OPEN_MODEL):
                side.forget()

    def pump(self) -> bool:
        """Ask for what is missing; whether a side has nothing to be shown any more."""
        is_lost = False
        for which, side in self.sides.items():
            wish = wish_of(side.choice, self._session)
            if side.is_waiting or wish == side.wish:
                continue
            if wish is None:
                side.forget()
                is_lost = True
                continue
            self._trace(which, side, wish)
        return is_lost

    def give_up(self) -> tuple[int, ...]:
        """Wait for no trace any more; the numbers of the requests, which the worker is to give up."""
        numbers = []
        for side in self.sides.values():
            if side.is_waiting:
                numbers.append(side.number)
                wish = side.wish
                side.forget()
                side.wish, side.error = wish, "Tracing was stopped."
        return tuple(numbers)

    def again(self) -> None:
        """Let what was stopped or failed be asked for once more."""
        for side in self.sides.values():
            if side.error:
                side.forget()

    def fetch_heads(self) -> None:
        """Ask each side for the head that is looked at, unless it is there or cannot be."""
        for which, side in self.sides.items():
            head = self._head_of(which)
            if head is None or side.is_waiting or head in side.maps:
                continue  # a trace on its way may bring it
            if side.has(head) and not self.is_too_long(which, head):
                trace = side.traced.number if side.traced else 0
                request = ShowHeads(heads=(head,), view=side.view, trace=trace)
                side.heads_number = self._requests.send(request)

    def is_too_long(self, which: Which, head: HeadRef) -> bool:
        """Whether the map of a head is too large to be held whole."""
        traced = self.sides[which].traced
        grids = traced.grids if traced else ()
        return any(is_long(g.n_queries, g.n_keys) for g in grids if head in g.site.heads)

    def handle(self, reply: Reply) -> bool:
        """Take a reply, if it is to one of the sides; True when a trace has come, or failed."""
        for side in self.sides.values():
            match reply:
                case Traced() | Failed() if reply.number == side.number != 0:
                    self._take(side, reply)
                    return True
                case Progress() if reply.number == side.number != 0:
                    side.progress = reply.what
                    self._changed.busy.emit()
                    break
                case HeadsShown() if reply.number == side.heads_number != 0:
                    side.heads_number = 0
                    side.maps.update({found.head: found for found in reply.maps})
                    self._changed.heads.emit()
                    break
                case OutputWritten() if side.traced is not None and side.traced.number == reply.number:
                    side.traced = replace(side.traced, comparison=reply.comparison)
                    self._changed.output.emit()
                    break
        return False

    def _take(self, side: Side, reply: Traced | Failed) -> None:
        """What was asked for one side, or that it failed."""
        wish = side.wish
        if isinstance(reply, Failed):
            side.forget()
            side.wish, side.error = wish, reply.message
            return
        side.number, side.progress, side.error = 0, "", ""
        side.traced, side.shown = reply, wish
        side.maps = {found.head: found for found in reply.maps}

    def _trace(self, which: Which, side: Side, wish: SideWish) -> None:
        head = self._head_of(which)
        is_known = side.shown is not None and side.shown.source == wish.source
        side.wish, side.error = wish, ""
        side.number = self._requests.send(
            TraceText(
                text=wish.text,
                target=wish.target,
                gates=wish.gates,
                interventions=wish.interventions,
                heads=(head,) if head is not None and is_known and side.has(head) else (),
                model=wish.model,
                thumbnail_px=1,
                past_trained=wish.is_past_trained,
                view=side.view,
            )
        )
