"""What was opened lately: models, sessions and runs, newest first."""

from pathlib import Path

from psygnal import Signal

from attnscope import paths
from attnscope.errors import LoadError

MAX_RECENT = 12


class Recents:
    """Short lists that menus, the palette and the welcome show and the settings keep."""

    changed = Signal()

    def __init__(
        self, models: tuple[str, ...] = (), sessions: tuple[str, ...] = (), runs: tuple[str, ...] = ()
    ) -> None:
        self.models = tuple(dict.fromkeys(map(short_source, models)))[:MAX_RECENT]
        self.sessions = sessions[:MAX_RECENT]
        self.runs = runs[:MAX_RECENT]

    def add_model(self, source: str) -> None:
        """A model was opened."""
        self.models = with_first(self.models, short_source(source))
        self.changed.emit()

    def add_session(self, path: str) -> None:
        """A session was opened or saved."""
        self.sessions = with_first(self.sessions, path)
        self.changed.emit()

    def add_run(self, folder: str) -> None:
        """A training run was opened or begun."""
        if folder and self.runs[:1] != (folder,):
            self.runs = with_first(self.runs, folder)
            self.changed.emit()

    def forget(self, name: str) -> None:
        """What could not be opened is offered no more."""
        self.models = tuple(other for other in self.models if other != name)
        self.sessions = tuple(other for other in self.sessions if other != name)
        self.runs = tuple(other for other in self.runs if other != name)
        self.changed.emit()


def with_first(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names with `name` first and once, at most MAX_RECENT of them."""
    return (name, *(other for other in names if other != name))[:MAX_RECENT] if name else names


def short_source(source: str) -> str:
    """The name of a model that comes with the program, for its folder; every other source as it is."""
    try:
        folder = paths.resources_folder() / "models"
    except LoadError:
        return source
    path = Path(source)
    return path.name if path.parent == folder else source
