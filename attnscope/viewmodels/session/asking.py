"""What a session has asked of the worker: each kind of request with the number of the newest one."""

from collections.abc import Callable

from attnscope.records.messages import LoadModel, SaveModel, ShowHeads, TraceText
from attnscope.records.sites import HeadRef
from attnscope.records.texts import OpenText
from attnscope.records.tokens import Token
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.history import Setting


class Asking:
    """Posts requests and remembers their numbers; 0 means that nothing of the kind is awaited."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.load_number = self.save_number = self.text_number = self.edges_number = 0
        self.trace_number = self.heads_number = 0

    def load(self, source: str, device: str) -> None:
        """Open a model."""
        self.load_number = self._requests.send(LoadModel(source=source, device=device))

    def save(self, folder: str) -> None:
        """Write the open model to a folder."""
        self.save_number = self._requests.send(SaveModel(folder=folder))

    def read_edges(self, path: str, tokens: tuple[Token, ...]) -> None:
        """Read a file as an edge list of these tokens."""
        self.edges_number = self._requests.send(OpenText(path=path, tokens=tokens))

    def open_text(self, path: str) -> None:
        """Read a text file."""
        self.text_number = self._requests.send(OpenText(path=path))

    def trace(
        self, setting: Setting, heads: tuple[HeadRef, ...], *, past_trained: bool, tell: Callable[[], None]
    ) -> None:
        """Trace the text of a setting with its gates and interventions; show `heads` in full.

        `tell` is called before the request goes: what the window does after it waits for the worker, which
        holds the interpreter by then for up to 5 ms.
        """
        self.trace_number = self._requests.next()
        request = TraceText(
            number=self.trace_number,
            text=setting.text,
            target=setting.target,
            gates=setting.gates,
            heads=heads,
            interventions=setting.interventions,
            past_trained=past_trained,
        )
        tell()
        self._requests.post(request)

    def show_heads(self, heads: tuple[HeadRef, ...], model: str, trace: int) -> None:
        """Show heads of the trace of `model` that the request `trace` made in full."""
        self.heads_number = self._requests.send(ShowHeads(heads=heads, model=model, trace=trace))

    def is_awaited(self, number: int) -> bool:
        """Whether a failure of this request is the session's business; 0 is of no request."""
        return number in (0, self.heads_number, self.save_number, self.text_number)
