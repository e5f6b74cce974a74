"""The state of the attention graph: from the output token chosen beside it down to the inputs.

Asks only while somebody looks, once for each trace, token and threshold. Must not import Qt. Tells its
listeners `graph`.
"""

from collections.abc import Callable

from attnscope.records.attention_graph import (
    DEFAULT_THRESHOLD,
    THRESHOLDS,
    AttentionGraph,
    GraphShown,
    ShowGraph,
)
from attnscope.records.messages import Failed
from attnscope.records.requests import Reply, Request
from attnscope.viewmodels.causes.across_layers import AcrossState
from attnscope.viewmodels.listeners import Listener, Listeners
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.session.state import Session


class GraphState:
    """Follows the token of `AcrossState`; at most one request counts."""

    def __init__(
        self, session: Session, across: AcrossState, post: Callable[[Request], None], numbers: Numbers
    ) -> None:
        self._session, self._across, self._post, self._numbers = session, across, post, numbers
        self._listeners = Listeners()
        self.graph: AttentionGraph | None = None
        self.error = ""
        self.threshold = DEFAULT_THRESHOLD
        self._number = 0
        self._asked: object = None
        self._is_watched = False
        across.subscribe(self._on_across)
        session.subscribe(self._on_session)

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` the name of what changed; the function given back ends it."""
        return self._listeners.add(callback)

    def watch(self, is_watched: bool) -> None:
        """Somebody looks at the graph, or nobody does."""
        self._is_watched = is_watched
        self._ask()

    def choose_threshold(self, threshold: float) -> None:
        """Show what carries at least this share of the output."""
        if threshold in THRESHOLDS and threshold != self.threshold:
            self.threshold = threshold
            self._listeners.tell("graph")
            self._ask()

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
        match reply:
            case GraphShown() if reply.number == self._number:
                self.graph, self.error = reply.graph, ""
                self._listeners.tell("graph")
            case Failed() if reply.number == self._number and reply.number:
                self._number, self.graph, self.error = 0, None, reply.message
                self._listeners.tell("graph")
            case _:
                pass  # too late, or for another view

    def _on_session(self, name: str) -> None:
        if name == "model":
            self._number, self._asked, self.graph, self.error = 0, None, None, ""
            self._listeners.tell("graph")

    def _on_across(self, name: str) -> None:
        if name == "choice":
            self._ask()

    def _ask(self) -> None:
        """Ask for what is shown, unless that was done already."""
        session, across = self._session, self._across
        traced = session.traced
        if not self._is_watched or traced is None or session.is_stale:
            return
        if not across.is_followed:
            if self.graph is not None:
                self.graph, self._asked, self._number = None, None, 0
                self._listeners.tell("graph")
            return
        wish = (traced.number, across.position, self.threshold)
        if wish == self._asked:
            return
        self._asked, self._number = wish, self._numbers.next()
        self._post(
            ShowGraph(
                number=self._number,
                trace=traced.number,
                position=across.position,
                threshold=self.threshold,
            )
        )


def node_words(graph: AttentionGraph, node: int) -> str:
    """What a circle stands for, and the most that it reads."""
    one = graph.nodes[node]
    place = f"“{one.token.piece}” at {graph.levels[one.level]}: {100 * one.influence:.1f} % of the output"
    below = sorted((e for e in graph.edges if e.upper == node), key=lambda e: -e.weight)
    read = [
        f"“{graph.nodes[e.lower].token.piece}” {e.weight:.2f}" + (" (its own stream)" if e.is_stream else "")
        for e in below[:4]
    ]
    return f"{place}; reads " + ", ".join(read) + (" …" if len(below) > 4 else "") if read else place
