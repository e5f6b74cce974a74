"""What was opened lately: models and sessions, newest first. Telling name: recents."""

from collections.abc import Callable

from attnscope.viewmodels.listeners import Listener, Listeners

MAX_RECENT = 12


class Recents:
    """Two short lists that menus and the palette show and the settings keep."""

    def __init__(self, models: tuple[str, ...] = (), sessions: tuple[str, ...] = ()) -> None:
        self.models, self.sessions = models[:MAX_RECENT], sessions[:MAX_RECENT]
        self._listeners = Listeners()

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` when a list changes; the function given back ends it."""
        return self._listeners.add(callback)

    def add_model(self, source: str) -> None:
        """A model was opened."""
        self.models = with_first(self.models, source)
        self._listeners.tell("recents")

    def add_session(self, path: str) -> None:
        """A session was opened or saved."""
        self.sessions = with_first(self.sessions, path)
        self._listeners.tell("recents")

    def forget(self, name: str) -> None:
        """What could not be opened is offered no more."""
        self.models = tuple(other for other in self.models if other != name)
        self.sessions = tuple(other for other in self.sessions if other != name)
        self._listeners.tell("recents")


def with_first(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names with `name` first and once, at most MAX_RECENT of them."""
    return (name, *(other for other in names if other != name))[:MAX_RECENT] if name else names
