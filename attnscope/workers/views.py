"""The newest trace of each model, kept so that other heads can be shown without another pass. No Qt.

The worker puts traces here, the tile thread reads them: a trace never changes, and a lock guards the list.
Must not import the engine: the program makes this before torch is there.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from attnscope.errors import UserError
from attnscope.records.maps import HeadMap
from attnscope.records.messages import HeadsShown, ShowHeads
from attnscope.records.sites import HeadRef, check_heads
from attnscope.records.tiles import is_long

if TYPE_CHECKING:
    from attnscope.trace import Trace

N_CHECKPOINTS_KEPT = 6
"""How many checkpoints keep their trace; the open model and what a view looks at always do."""


class Views:
    """The newest trace by the name its request gave the model, and the number of that request."""

    def __init__(self) -> None:
        self._traces: dict[str, tuple[int, Trace]] = {}
        self._checkpoints: OrderedDict[str, None] = OrderedDict()
        self._parts: dict[str, tuple[int, Trace]] = {}
        self._lock = threading.Lock()

    def keep(self, model: str, trace: "Trace", number: int = 0, *, is_checkpoint: bool = False) -> None:
        """Set the newest trace of `model`; of a checkpoint only until enough others were viewed."""
        with self._lock:
            self._parts.pop(model, None)
            self._traces[model] = (number, trace)
            if is_checkpoint:
                self._checkpoints[model] = None
                self._checkpoints.move_to_end(model)
            while len(self._checkpoints) > N_CHECKPOINTS_KEPT:
                self._traces.pop(self._checkpoints.popitem(last=False)[0], None)

    def keep_part(self, model: str, trace: "Trace", number: int) -> None:
        """Keep the known layers of a running pass; only tiles are made of them."""
        with self._lock:
            self._parts[model] = (number, trace)

    def find_shown(self, model: str, number: int) -> "Trace | None":
        """As `find`, or the known part of it while its pass runs."""
        with self._lock:
            found = self._parts.get(model)
        return found[1] if found is not None and found[0] == number else self.find(model, number)

    def forget(self, model: str) -> None:
        """Drop the trace of `model`, whose name another model has taken."""
        with self._lock:
            self._traces.pop(model, None)
            self._parts.pop(model, None)
            self._checkpoints.pop(model, None)

    def find(self, model: str, number: int) -> "Trace | None":
        """The trace of the request `number`, unless a newer one has replaced it."""
        with self._lock:
            found = self._traces.get(model)
        return found[1] if found is not None and found[0] == number else None

    def newest(self, model: str) -> "Trace | None":
        with self._lock:
            found = self._traces.get(model)
        return found[1] if found is not None else None

    def head_maps(self, model: str, heads: Iterable[HeadRef]) -> tuple[HeadMap, ...]:
        """Heads of the newest trace in full; raises UserError if there is none or no such head."""
        trace = self.newest(model)
        if trace is None:
            raise UserError("There is no trace to show heads of.", action="Enter a text first.")
        return head_maps(trace, heads)


def show_heads(request: ShowHeads, views: Views) -> Iterator[HeadsShown]:
    """Show heads of the newest trace in full; nothing if it is not the requested one."""
    if not request.trace:
        maps = views.head_maps(request.place, request.heads)
        yield HeadsShown(number=request.number, model=request.model, maps=maps)
        return
    trace = views.find(request.place, request.trace)
    if trace is not None:
        maps = head_maps(trace, request.heads)
        yield HeadsShown(number=request.number, model=request.model, maps=maps, trace=request.trace)


def head_maps(trace: "Trace", heads: Iterable[HeadRef]) -> tuple[HeadMap, ...]:
    """The heads of `trace` in full, without those too long for that, which are shown by tiles.

    Raises UserError for a head that the model does not have.
    """
    wanted = tuple(heads)
    check_heads(wanted, trace.sites)
    records = trace.records
    return tuple(
        trace.head_map(head)
        for head in wanted
        if not is_long(records[head.site_key].n_queries, records[head.site_key].n_keys)
    )
