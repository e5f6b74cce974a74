"""Notices when the files of the open model change on the disk, and offers to read them again.

What is shown stays what was read: the program holds a copy of the weights.
"""

from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer

from attnscope.viewmodels.session.state import Session
from attnscope.widgets.labels import when

SETTLE_MS = 600
"""A save touches many files; what they are in the end is looked at once."""

Stamp = tuple[tuple[str, int, int], ...]


class ModelWatch(QObject):
    """Watches the folder of the session's model and its weights."""

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._folder: Path | None = None
        self._stamp: Stamp = ()
        self._files = QFileSystemWatcher(self)
        self._settle = QTimer(self)
        self._settle.setSingleShot(True)
        self._settle.setInterval(SETTLE_MS)
        self._settle.timeout.connect(self._look)
        self._files.fileChanged.connect(self._on_changed)
        self._files.directoryChanged.connect(self._on_changed)
        when(self, self._on_model, session.changed.model)

    def _on_model(self) -> None:
        model = self._session.model
        folder = Path(model.source) if model and model.source else None
        self._folder = folder if folder is not None and folder.is_dir() else None
        self._stamp = stamp_of(self._folder)
        self._watch()

    def _watch(self) -> None:
        watched = [*self._files.files(), *self._files.directories()]
        if watched:
            self._files.removePaths(watched)
        if self._folder is not None and self._folder.is_dir():
            names = [str(self._folder / name) for name, _, _ in self._stamp]
            self._files.addPaths([str(self._folder), *(name for name in names if Path(name).exists())])

    def _on_changed(self, _path: str) -> None:
        self._settle.start()

    def _look(self) -> None:
        found = stamp_of(self._folder)
        if self._folder is None or found == self._stamp:
            self._watch()
            return
        self._stamp = found
        self._watch()
        what = "have changed" if found else "are gone"
        self._session.tell_person(
            f"The files of {self._folder.name} {what} since they were opened. "
            "What is shown is still what was read then.",
            action="reload-model" if found else "",
            about="Open",
        )


def stamp_of(folder: Path | None) -> Stamp:
    """Name, size and time of each weights file of a folder; empty when there is none."""
    if folder is None:
        return ()
    try:
        files = sorted(folder.glob("*.safetensors"))
        return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    except OSError:
        return ()
