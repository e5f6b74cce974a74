"""What the person has written down about the open session: plain text, saved with it.

Must not import Qt. What can change has a name: notes. Undo within a text is the editor's own.
"""

from collections.abc import Callable

from attnscope.viewmodels.listeners import Listener, Listeners
from attnscope.viewmodels.session.reader import MAX_NOTES


class NotesState:
    """The notes; at most `MAX_NOTES` characters, as many as a session file holds."""

    text: str = ""

    def __init__(self) -> None:
        self._listeners = Listeners()

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` the name of what changed; the function given back ends it."""
        return self._listeners.add(callback)

    def write(self, text: str) -> None:
        """Take over what stands there now, cut where a session file would be too large."""
        kept = text.replace("\0", "")[:MAX_NOTES]
        if kept != self.text:
            self.text = kept
            self._listeners.tell("notes")

    @property
    def n_left(self) -> int:
        """How many characters there is still room for."""
        return MAX_NOTES - len(self.text)
