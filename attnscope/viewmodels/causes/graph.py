"""The state of the attention graph: from the output token chosen beside it down to the inputs.

Asks only while somebody looks, once for each trace, token and threshold. Must not import Qt.
"""

from psygnal import Signal, SignalGroup

from attnscope.records.influence import (
    DEFAULT_THRESHOLD,
    THRESHOLDS,
    AttentionGraph,
    GraphShown,
    ShowGraph,
)
from attnscope.records.requests import Reply
from attnscope.viewmodels.causes.across_layers import AcrossState
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session


class GraphChanges(SignalGroup):
    """What of it can change."""

    graph = Signal()


class GraphState:
    """Follows the token of `AcrossState`; at most one request counts."""

    def __init__(self, session: Session, across: AcrossState, requests: Requests) -> None:
        self._session, self._across = session, across
        self.query = Query(GraphShown, requests)
        self.changed = GraphChanges()
        self.threshold = DEFAULT_THRESHOLD
        across.changed.choice.connect(self._ask, max_args=0)
        session.changed.model.connect(self._on_model, max_args=0)

    @property
    def graph(self) -> AttentionGraph | None:
        """The graph, when it is known."""
        return self.query.answer.graph if self.query.answer is not None else None

    def watch(self, is_watched: bool) -> None:
        """Somebody looks at the graph, or nobody does."""
        self.query.is_watched = is_watched
        self._ask()

    def choose_threshold(self, threshold: float) -> None:
        """Show what carries at least this share of the output."""
        if threshold in THRESHOLDS and threshold != self.threshold:
            self.threshold = threshold
            self.changed.graph.emit()
            self._ask()

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
        if self.query.take(reply):
            self.changed.graph.emit()

    def _on_model(self) -> None:
        self.query.forget()
        self.changed.graph.emit()

    def _ask(self) -> None:
        """Ask for what is shown, unless that was done already."""
        session, across = self._session, self._across
        traced = session.traced
        if not self.query.is_watched or traced is None or session.tracing.is_stale:
            return
        if not across.is_followed:
            if self.query.forget():
                self.changed.graph.emit()
            return
        trace, position, threshold = wish = (traced.number, across.position, self.threshold)
        self.query.ask(wish, ShowGraph(trace=trace, position=position, threshold=threshold))


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
