"""The newest trace of each model, kept so that other heads can be shown without another pass. No Qt."""

from collections import OrderedDict
from collections.abc import Iterable

from attnscope.errors import UserError
from attnscope.records.maps import HeadMap
from attnscope.records.sites import HeadRef, check_heads
from attnscope.trace import Trace

N_TRACES_KEPT = 6


class Views:
    """The newest trace by the name its request gave the model."""

    def __init__(self) -> None:
        self._traces: OrderedDict[str, Trace] = OrderedDict()

    def keep(self, model: str, trace: Trace) -> None:
        """Make `trace` the newest of `model`."""
        self._traces[model] = trace
        self._traces.move_to_end(model)
        while len(self._traces) > N_TRACES_KEPT:
            self._traces.popitem(last=False)

    def forget(self, model: str) -> None:
        """Drop the trace of `model`: another model has taken its name."""
        self._traces.pop(model, None)

    def head_maps(self, model: str, heads: Iterable[HeadRef]) -> tuple[HeadMap, ...]:
        """Heads of the newest trace in full; raises UserError when there is none or no such head."""
        trace = self._traces.get(model)
        if trace is None:
            raise UserError("There is no trace to show heads of.", action="Enter a text first.")
        return head_maps(trace, heads)


def head_maps(trace: Trace, heads: Iterable[HeadRef]) -> tuple[HeadMap, ...]:
    """The heads of `trace` in full; raises UserError for a head that the model does not have."""
    wanted = tuple(heads)
    check_heads(wanted, trace.sites)
    return tuple(trace.head_map(head) for head in wanted)
