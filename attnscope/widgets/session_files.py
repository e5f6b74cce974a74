"""Opening and saving sessions, finding a model that has moved, and taking whatever is dropped."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QFileDialog, QWidget

from attnscope.errors import LoadError, UserError
from attnscope.figures.caption import program_version
from attnscope.figures.export import slug_of
from attnscope.files import replace_file
from attnscope.records.models import Sample
from attnscope.viewmodels.exploring import open_and_explore
from attnscope.viewmodels.gating import every_head
from attnscope.viewmodels.notes import NotesState
from attnscope.viewmodels.recents import Recents
from attnscope.viewmodels.session import Session
from attnscope.viewmodels.session_file import (
    ENDING,
    LookSaved,
    SavedSession,
    read_session,
    session_bytes,
    setting_for,
)
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.labels import listen
from attnscope.widgets.opening import Opened, find_moved_model, kind_of

AskPath = Callable[[QWidget, str, str], str]


def _ask_text(parent: QWidget, title: str, start: str) -> str:
    kinds = "Texts (*.txt *.md *.text);;All files (*)"
    return QFileDialog.getOpenFileName(parent, title, start, kinds)[0]


def _ask_open(parent: QWidget, title: str, start: str) -> str:
    return QFileDialog.getOpenFileName(parent, title, start, f"Sessions (*{ENDING})")[0]


def _ask_save(parent: QWidget, title: str, start: str) -> str:
    return QFileDialog.getSaveFileName(parent, title, start, f"Sessions (*{ENDING})")[0]


def _ask_folder(parent: QWidget, title: str, start: str) -> str:
    return QFileDialog.getExistingDirectory(parent, title, start)


class SessionFiles(QObject):
    """What is open, as files; `open_run` shows a training run."""

    def __init__(
        self,
        session: Session,
        view: ViewState,
        recents: Recents,
        window: QWidget,
        *,
        open_run: Callable[[str], None],
        device: str = "auto",
        notes: NotesState | None = None,
    ) -> None:
        super().__init__(window)
        self._session, self._view, self._recents, self._window = session, view, recents, window
        self._open_run, self._device = open_run, device
        self.notes = notes or NotesState()
        self._pending: SavedSession | None = None
        self._path: Path | None = None
        self.ask_open: AskPath = _ask_open
        self.ask_text: AskPath = _ask_text
        self.ask_save: AskPath = _ask_save
        self.ask_folder: AskPath = _ask_folder
        listen(window, session, self._on_session)

    @property
    def is_waiting(self) -> bool:
        """Whether a session waits for its model."""
        return self._pending is not None

    def content(self, folder: Path | None = None) -> bytes:
        """What is open as a session file; empty when there is nothing worth keeping."""
        session, view = self._session, self._view
        if session.model is None or not session.text.strip():
            return b""
        look = LookSaved(
            page=view.page,
            view=view.view,
            colour_map=view.colour_map,
            scale=view.scale,
            least_weight=view.least_weight,
            n_strongest=view.n_strongest,
            position=view.position,
        )
        saved = SavedSession(
            source=session.model.source,
            model=session.model.name,
            sha256=session.model.sha256,
            setting=session.setting,
            look=look,
            notes=self.notes.text,
        )
        return session_bytes(saved, folder=folder, version=program_version())

    def save(self) -> None:
        """Ask where, and write the session there."""
        if not self.content():
            self._session.tell_person("There is nothing to save yet: open a model and type a sentence.")
            return
        model = self._session.model
        name = f"{slug_of(model.name) if model else 'session'}{ENDING}"
        start = str(self._path or Path.home() / name)
        path = self.ask_save(self._window, "Save session", start)
        if path:
            self.save_to(Path(path))

    def save_to(self, path: Path) -> None:
        """Write the session; on failure the old file is untouched and the reason is told."""
        path = path if path.suffix == ENDING else path.with_name(path.name + ENDING)
        try:
            replace_file(path, self.content(path.parent))
        except UserError as error:
            self._session.tell_person(str(error), is_error=True)
            return
        self._path = path
        self._recents.add_session(str(path))
        self._session.tell_person(f"The session is saved in {path}.")

    def ask_and_open(self) -> None:
        """Ask for a session file and open it."""
        start = str(self._path.parent if self._path else Path.home())
        path = self.ask_open(self._window, "Open session", start)
        if path:
            self.open_path(path)

    def ask_and_open_text(self) -> None:
        """Ask for a text file and look at it."""
        path = self.ask_text(self._window, "Open text", str(Path.home()))
        if path:
            self._view.show_page("explore")
            self._session.open_text(path)

    def open_path(self, path: str) -> None:
        """Open whatever `path` is: a session, a model, a run or a text. What cannot be is told."""
        try:
            kind = kind_of(path)
            self._open_kind(kind, path)
        except LoadError as error:
            self._recents.forget(path)
            self._session.tell_person(str(error), is_error=True)

    def open_session(self, path: Path) -> None:
        """Open a session file; raises LoadError."""
        saved = read_session(path)
        self._path = path
        self._recents.add_session(str(path))
        self.restore(saved, near=path.parent)

    def restore(self, saved: SavedSession, *, near: Path | None = None) -> None:
        """Open the session's model, and show everything else once it is there."""
        notice = self._session.notice
        if notice is not None and not notice.is_error:
            self._session.dismiss_notice()
        self._pending = saved
        source = saved.source
        if near is not None:
            source = find_moved_model(saved.source, saved.sha256, near) or source
        setting = saved.setting
        sample = Sample(text=setting.text, target=setting.target)
        self._session.load_model(source, self._device, sample=sample)

    def locate_model(self) -> None:
        """Ask where the model of the waiting session is."""
        saved = self._pending
        if saved is None:
            return
        folder = self.ask_folder(self._window, f"Where is the model {saved.model}?", str(Path.home()))
        if folder:
            sample = Sample(text=saved.setting.text, target=saved.setting.target)
            self._session.load_model(folder, self._device, sample=sample)

    def _open_kind(self, kind: Opened, path: str) -> None:
        match kind:
            case "session":
                self.open_session(Path(path))
            case "text":
                self._view.show_page("explore")
                self._session.open_text(path)
            case "run":
                self._open_run(path)
            case "model":
                open_and_explore(self._session, self._view, path, self._device)

    def _on_session(self, name: str) -> None:
        if name == "model" and self._session.model is not None:
            self._recents.add_model(self._session.model.source)
            if self._pending is not None:
                QTimer.singleShot(0, self, self._restore_rest)
        elif name == "notice" and self._pending is not None:
            notice = self._session.notice
            if notice is not None and notice.is_error and notice.request == "LoadModel" and not notice.action:
                self._offer_to_locate(notice.message)

    def _offer_to_locate(self, reason: str) -> None:
        saved = self._pending
        if saved is None:
            return
        if not self._session.text.strip():
            self._session.set_text(saved.setting.text)
        self._session.tell_person(
            f"The session's model {saved.model or saved.source} was not found. {reason}",
            is_error=True,
            action="locate-model",
        )

    def _restore_rest(self) -> None:
        saved, model = self._pending, self._session.model
        self._pending = None
        if saved is None or model is None:
            return
        setting, n_lacking = setting_for(saved.setting, frozenset(every_head(model.sites)))
        self._session.restore(setting, "open session")
        self.notes.write(saved.notes)
        look, view = saved.look, self._view
        view.show_saved(look)
        warnings = [saved.warning] if saved.warning else []
        if saved.sha256 and saved.sha256 != model.sha256:
            warnings.append("The model's weights are not those the session was saved with.")
        if n_lacking:
            warnings.append(f"{n_lacking} heads of the session do not exist in this model.")
        if warnings:
            self._session.tell_person(" ".join(warnings), is_error=True)
