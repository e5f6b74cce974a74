"""Telling listeners what changed, by name."""

from collections.abc import Callable

from psygnal import EmissionInfo, SignalGroup

Listener = Callable[[str], None]


class Listeners:
    """Callbacks that are told the name of what changed, in the order they came."""

    def __init__(self) -> None:
        self._callbacks: list[Listener] = []

    def add(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` from now on; the function given back ends it."""
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    def tell(self, *names: str) -> None:
        """Tell everyone that each of `names` changed."""
        for name in names:
            for callback in tuple(self._callbacks):
                callback(name)


def tell_names(changed: SignalGroup, callback: Listener) -> Callable[[], None]:
    """Tell `callback` the name of each signal of `changed`, until the function given back ends it."""

    def tell(info: EmissionInfo) -> None:
        callback(info.signal.name)

    changed.connect(tell)
    return lambda: changed.disconnect(tell)
