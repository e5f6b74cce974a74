"""Showing heads of a trace in full, on the worker's own thread. No Qt."""

from collections.abc import Iterator

from attnscope.records.messages import ShowHeads
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves
from attnscope.workers.views import show_heads


@serves(ShowHeads)
def show_heads_here(request: ShowHeads, desk: Desk) -> Iterator[Reply]:
    """Show heads of the newest trace in full."""
    return show_heads(request, desk.views)
