"""Opening and saving sessions, finding a model that has moved, and opening dropped files."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from attnscope.counting import plural
from attnscope.errors import LoadError, UserError
from attnscope.figures.figure_file import ENDING as FIGURE_ENDING
from attnscope.figures.figure_file import SavedFigure, is_figure_file, read_figure_file
from attnscope.figures.words_and_numbers import program_version
from attnscope.files import replace_file
from attnscope.outside import as_object, read_json, read_outside
from attnscope.records.models import ModelInfo, Sample, is_download, on_this_machine
from attnscope.viewmodels.session.changes import Setting, every_head
from attnscope.viewmodels.session.file import (
    ENDING,
    MAX_BYTES,
    KeptViews,
    LookSaved,
    SavedSession,
    Views,
    read_session,
    session_bytes,
    setting_for,
)
from attnscope.viewmodels.session.opening import OPENING, Recents, open_and_explore
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.dialogs import ask_file, ask_folder
from attnscope.widgets.labels import when

# A figure file that somebody opens: its numbers in the export dialog, its question in the window.

LABEL = "open figure"


def open_figure_file(
    path: Path, show: Callable[[SavedSession, str], None], parent: QWidget, tell: Callable[[str], None]
) -> None:
    """Show the content of a figure file; raises LoadError for any other file.

    Numbers stand in the export dialog, to be saved in another size, look or format; `tell` says where they
    were written. Of a question `show` brings model, text, heads and look back, and Export draws it.
    """
    kept = read_figure_file(path)
    if isinstance(kept, SavedFigure):
        show(session_of(kept), LABEL)
        return
    from attnscope.widgets.export.dialog import ExportDialog  # not before the first paint

    dialog = ExportDialog(
        {kept.view: kept}, kept.view, folder=str(path.absolute().parent), keeps_panels=True, parent=parent
    )
    dialog.setWindowTitle(f"Export figure – {path.name}")
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.exported.connect(tell)
    dialog.open()


def session_of(saved: SavedFigure) -> SavedSession:
    """Session that shows the figure's question."""
    origin, style = saved.origin, saved.style
    return SavedSession(
        source=origin.source,
        model=origin.model,
        sha256=origin.sha256,
        setting=Setting(
            gates=saved.gates,
            selection=saved.heads,
            aspect=origin.aspect,
            text=origin.text,
            target=origin.target,
            interventions=saved.interventions,
        ),
        look=LookSaved(
            view="lines" if saved.view == "lines" else "heatmap",
            colour_map=style.colour_map,
            scale=style.scale,
            least_weight=style.least_weight,
            n_strongest=style.n_strongest,
        ),
    )


# What a path is that somebody opens or drops: a session, a figure, a text, a picture, a run, a model.

Opened = Literal["session", "figure", "text", "picture", "run", "model"]
_TEXT_ENDINGS = (".txt", ".md", ".text")
_PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
_MODEL_ENDINGS = (".safetensors", ".json", ".toml", ".bin", ".pt")
_MAX_SIBLINGS = 60


def kind_of_path(path: str) -> Opened:
    """Kind of file at `path`; raises LoadError if it is none of these."""
    place = Path(path)
    try:
        is_file, is_folder = place.is_file(), place.is_dir()
    except (OSError, ValueError) as error:
        raise _unknown(path, "it is not a path") from error
    if "\0" in path:
        raise _unknown(path.replace("\0", "‹NUL›"), "it is not a path")
    ending = place.suffix.lower()
    if ending == ENDING:
        return "session"
    if is_file and is_figure_file(path):
        return "figure"
    if is_folder:
        return "run" if (place / "recipe.toml").is_file() else "model"
    if is_file and ending in _TEXT_ENDINGS:
        return "text"
    if is_file and is_picture(path):
        return "picture"
    if is_file and ending in _MODEL_ENDINGS:
        return "model"
    if not is_file and place.name == path:
        return "model"  # a demo model's name, or a name the engine knows
    raise _unknown(path, "it does not exist" if not is_file else f"'{ending or place.name}' is not known")


def is_picture(path: str) -> bool:
    """Whether a file's name is that of a picture."""
    return Path(path).suffix.lower() in _PICTURE_ENDINGS


def find_moved_model(source: str, sha256: str, near: Path) -> str:
    """Location of a session's model: its own path, or a folder beside the session with its hash.

    Empty when it is in neither place. Folders are compared by their manifest, so nothing large is read.
    """
    if is_in_place(source):
        return source
    try:
        candidates = [near / Path(source).name, *sorted(near.iterdir())[:_MAX_SIBLINGS]]
    except (OSError, ValueError):
        return ""
    return next((str(folder) for folder in candidates if sha256 and _holds(folder, sha256)), "")


def is_in_place(source: str) -> bool:
    """Whether a session's model is in its place: a name, or a path that exists."""
    try:
        return not source or Path(source).name == source or Path(source).exists()
    except (OSError, ValueError):
        return False


def _holds(folder: Path, sha256: str) -> bool:
    """Whether a model folder's manifest names weights with this hash."""
    manifest = folder / "manifest.json"
    try:
        entries = as_object(read_json(manifest, max_bytes=1_000_000), what=str(manifest))
        return any(isinstance(entry, dict) and entry.get("sha256") == sha256 for entry in entries.values())
    except LoadError:
        return False


def _unknown(path: str, reason: str) -> LoadError:
    return LoadError(
        f"{path[:200]} cannot be opened: {reason}.",
        kind="unknown",
        expected=f"a session (*{ENDING}), a figure file (*{FIGURE_ENDING}), a model or run folder, recorded "
        "attention, a text or a picture",
        action="Open or drop one of these.",
    )


# Not writing over a session file that another program has changed since it was read or written here.

Answer = Literal["overwrite", "elsewhere", "cancel"]
AskOverwrite = Callable[[QWidget, str], Answer]


class SessionGuard:
    """Knows the session file as this program last read or wrote it; ignores other paths."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._digest = ""

    def remember(self, path: Path, digest: str | None = None) -> None:
        """Record that the file was read with `digest`, or has just been written."""
        self.path, self._digest = path, digest_of(path) if digest is None else digest

    def warning(self, path: Path) -> str:
        """Why writing to `path` would overwrite another's changes; empty if it would not."""
        is_ours = self.path is not None and self.path.resolve() == path.resolve()
        present = digest_of(path) if is_ours else ""
        if not present or present == self._digest:
            return ""
        try:
            saved = f"{datetime.fromtimestamp(path.stat().st_mtime):%H:%M:%S on %d %B %Y}"
        except (OSError, OverflowError, ValueError):
            saved = "some time"
        return (
            f"{path.name} has changed on disk since it was opened or saved here: another program wrote it "
            f"at {saved}. Overwriting it discards that version."
        )


def digest_of(path: Path) -> str:
    """The SHA-256 of a file; empty if there is none that can be read."""
    try:
        data = read_outside(path, expected="a session file", max_bytes=MAX_BYTES)
        return hashlib.sha256(data).hexdigest()
    except LoadError:
        return ""


def ask_overwrite(parent: QWidget, warning: str) -> Answer:
    """Ask what to do about a file that has changed; Esc writes nothing."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle("The session has changed on disk")
    box.setText(warning)
    elsewhere = box.addButton("Save as…", QMessageBox.ButtonRole.AcceptRole)
    overwrite = box.addButton("Overwrite", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(elsewhere)
    box.exec()
    if box.clickedButton() is overwrite:
        return "overwrite"
    return "elsewhere" if box.clickedButton() is elsewhere else "cancel"


AskPath = Callable[[QWidget, str, str], str]
_MOST_BYTES = MAX_BYTES * 9 // 10
"""Of a session with its kept views, so that there is room for what is typed later."""


class ShownPlaces(Protocol):
    """The parts of the view unknown to the view state: tabs, the lab and its settings."""

    @property
    def look(self) -> LookSaved:
        """The current look."""
        ...

    def show_look(self, look: LookSaved) -> None:
        """Restore tabs and the lab."""
        ...


def _ask_text(parent: QWidget, title: str, start: str) -> str:
    kinds = "Texts (*.txt *.md *.text);;Pictures (*.png *.jpg *.jpeg);;All files (*)"
    return QFileDialog.getOpenFileName(parent, title, start, kinds)[0]


def _ask_recording(parent: QWidget, title: str, start: str) -> str:
    return QFileDialog.getOpenFileName(parent, title, start, "Recorded attention (*.safetensors)")[0]


def _ask_open(parent: QWidget, title: str, start: str) -> str:
    kinds = f"Sessions (*{ENDING});;Figure files (*{FIGURE_ENDING})"
    return QFileDialog.getOpenFileName(parent, title, start, kinds)[0]


def _ask_save(parent: QWidget, title: str, start: str) -> str:
    return ask_file(parent, title, start, f"Sessions (*{ENDING})")


class AwaitedSession:
    """The session that waits for its model, which is opened, located or downloaded; at most one.

    `label`: of a step that brings it back; empty for a session file, which brings notes and kept views.
    """

    def __init__(self, session: Session, window: QWidget, device: str) -> None:
        self._session, self._window, self._device = session, window, device
        self.saved: SavedSession | None = None
        self.label = ""
        self._number = 0
        self.ask_folder: AskPath = ask_folder
        self.get_model: Callable[[str], None] = lambda _name: None
        when(window, self._on_notice, session.changed.notice)

    def begin(self, saved: SavedSession, source: str, label: str = "") -> None:
        """Open its model from its location."""
        self.saved, self.label = saved, label
        self.load(on_this_machine(source))

    def load(self, source: str) -> None:
        """Open its model from another location; no effect while no session waits."""
        if self.saved is not None:
            setting = self.saved.setting
            sample = Sample(text=setting.text, target=setting.target)
            self._session.opening.load(source, self._device, sample=sample)
            self._number = self._session.opening.number

    def is_for(self, model: ModelInfo) -> bool:
        """Whether a session waits for this model: the one it requested, or one with the same weights.

        Where another model is opened instead, it waits no longer.
        """
        if self.saved is None:
            return False
        if self._number == self._session.opening.number or self.saved.sha256 == model.sha256:
            return True
        left = self.saved.model or on_this_machine(self.saved.source)
        self.end()
        self._session.notices.say(f"The session of {left} was not shown: {model.name} was opened instead.")
        return False

    def end(self) -> SavedSession | None:
        """Stop waiting; returns the session."""
        saved, self.saved = self.saved, None
        return saved

    def download(self) -> None:
        """Show its model on the shelf, from where it can be downloaded."""
        if self.saved is not None:
            self.get_model(on_this_machine(self.saved.source))

    def locate(self) -> None:
        """Ask for the location of its model."""
        if self.saved is not None:
            title = f"Where is the model {self.saved.model}?"
            if folder := self.ask_folder(self._window, title, str(Path.home())):
                self.load(folder)

    def _on_notice(self) -> None:
        notice = self._session.notices.shown
        if self.saved is None or notice is None:
            return
        if notice.is_error and notice.request == "LoadModel" and not notice.action:
            self._offer(self.saved, notice.message)

    def _offer(self, saved: SavedSession, reason: str) -> None:
        """Report that the model was not found, and offer remedies."""
        if not self._session.text.strip():
            self._session.texts.set_text(saved.setting.text)
        name = on_this_machine(saved.source)
        why = f". {reason}" if is_in_place(name) else f": there is no {name[:200]}."
        told = f"The session's model {saved.model or saved.source} was not found{why}"
        if is_download(saved.source):
            told = (
                f"The file needs the model {name[:100]}, which is not on this computer. Nothing was "
                f"downloaded. Download… fetches it from huggingface.co/{name[:100]} and shows its size "
                "first."
            )
        action = "download-model" if is_download(saved.source) else "locate-model"
        self._session.notices.say(told, is_error=True, action=action, about="Open")


class SessionFiles(QObject):
    """The open work as files; `open_run` shows a training run."""

    def __init__(
        self,
        session: Session,
        view: ViewState,
        recents: Recents,
        places: ShownPlaces,
        window: QWidget,
        *,
        open_run: Callable[[str], None],
        device: str = "auto",
    ) -> None:
        super().__init__(window)
        self._session, self._view, self.recents, self._window = session, view, recents, window
        self._open_run, self._device, self._places = open_run, device, places
        self._moved: dict[str, str] = {}
        """Where models are that were not in their place, by the hash of their weights."""
        self.kept = KeptViews(self.take, self.show, self._fits, reads=self._reads)
        self.awaited = AwaitedSession(session, window, device)
        self._guard = SessionGuard()
        self.ask_overwrite: AskOverwrite = ask_overwrite
        self.ask_open: AskPath = _ask_open
        self.ask_text: AskPath = _ask_text
        self.ask_recording: AskPath = _ask_recording
        self.ask_save: AskPath = _ask_save
        when(window, self._on_model, session.changed.model)

    def content(self, folder: Path | None = None) -> bytes:
        """The open work as a session file; empty if there is nothing worth saving."""
        return self._bytes(self.kept.views, folder)

    def _bytes(self, views: Views, folder: Path | None = None) -> bytes:
        shown = self.take()
        if shown is None:
            return b""
        views = tuple(replace(view, saved=self._as_moved(view.saved)) for view in views)
        saved = replace(shown, notes=self.kept.notes, views=views)
        return session_bytes(saved, folder=folder, version=program_version())

    def _place(self, saved: SavedSession, near: Path | None) -> str:
        """Location of a session's model, as far as known: its path, near a file, or found before."""
        found = find_moved_model(saved.source, saved.sha256, near) if near is not None else ""
        return found or (saved if is_in_place(saved.source) else self._as_moved(saved)).source

    def _as_moved(self, saved: SavedSession) -> SavedSession:
        moved = self._moved.get(saved.sha256, "") if saved.sha256 else ""
        return replace(saved, source=moved) if moved else saved

    def _reads(self) -> str:
        return self._session.model.reads if self._session.model is not None else ""

    def _fits(self, views: Views) -> bool:
        return len(self._bytes(views)) <= _MOST_BYTES

    def take(self) -> SavedSession | None:
        """The current view, without notes and kept views; None if no model or no text is open."""
        session = self._session
        if session.model is None or not session.text.strip():
            return None
        return SavedSession(
            source=session.model.source,
            model=session.model.name,
            sha256=session.model.sha256,
            setting=session.setting,
            look=self._places.look,
        )

    def save(self) -> None:
        """Ask for a path, and save the session there."""
        if not self.content():
            self._session.notices.say("There is nothing to save yet: open a model and type a sentence.")
            return
        from attnscope.figures.file_names import slug_of

        model = self._session.model
        name = f"{slug_of(model.name) if model else 'session'}{ENDING}"
        start = str(self._guard.path or Path.home() / name)
        path = self.ask_save(self._window, "Save session", start)
        if path:
            self.save_to(Path(path))

    def save_to(self, path: Path) -> None:
        """Save the session; on failure the old file is untouched and the reason is shown.

        Where another program has written the file since it was opened or saved here, the user is asked.
        """
        path = path if path.suffix == ENDING else path.with_name(path.name + ENDING)
        warning = self._guard.warning(path)
        answer = self.ask_overwrite(self._window, warning) if warning else "overwrite"
        if answer != "overwrite":
            if answer == "elsewhere":
                self.save()
            return
        try:
            replace_file(path, self.content(path.parent))
        except UserError as error:
            self._session.notices.say(str(error), is_error=True)
            return
        self._guard.remember(path)
        self.recents.add_session(str(path))
        self._session.notices.say(f"The session is saved in {path}.")

    def ask_and_open(self) -> None:
        start = str(self._guard.path.parent if self._guard.path else Path.home())
        path = self.ask_open(self._window, "Open session", start)
        if path:
            self.open_path(path)

    def ask_and_open_text(self) -> None:
        path = self.ask_text(self._window, "Open text", str(Path.home()))
        if path:
            self._look_at_file(path)

    def ask_and_open_recording(self) -> None:
        path = self.ask_recording(self._window, "Open recorded attention", str(Path.home()))
        if path:
            self.open_path(path)

    def open_path(self, path: str) -> None:
        """Open `path`, whatever it is: a session, a model, a run or a text. Errors are shown."""
        try:
            kind = kind_of_path(path)
            self._open_kind(kind, path)
        except LoadError as error:
            self.recents.forget(path)
            self._session.notices.say(str(error), is_error=True, about="Open")

    def open_session(self, path: Path) -> None:
        """Open a session file; raises LoadError."""
        digest = digest_of(path)  # before it is read: what is written meanwhile counts as a change
        saved = read_session(path)
        self._guard.remember(path, digest)
        self.recents.add_session(str(path))
        self.restore(saved, near=path.parent)

    def restore(self, saved: SavedSession, *, near: Path | None = None) -> None:
        """Open the session's model, and show everything else once it is there."""
        notice = self._session.notices.shown
        if notice is not None and not notice.is_error:
            self._session.notices.dismiss()
        self.awaited.begin(saved, self._place(saved, near))

    def show(self, saved: SavedSession, label: str) -> None:
        """Restore an earlier view, as a step with this label; notes and kept views stay."""
        model = self._session.model
        if model is not None and self._session.opening.busy is None and saved.sha256 == model.sha256:
            self.awaited.end()
            self._show(saved, label)
        else:
            near = self._guard.path.parent if self._guard.path is not None else None
            self.awaited.begin(saved, self._place(saved, near), label)

    def open_gotten(self, source: str) -> None:
        """Open a model of the shelf; a session waiting for it is shown with it."""
        saved = self.awaited.saved
        if saved is not None and on_this_machine(saved.source) == source:
            self.awaited.load(source)
        else:
            self.awaited.end()
            open_and_explore(self._session, self._view, source, self._device)

    def _open_kind(self, kind: Opened, path: str) -> None:
        match kind:
            case "session":
                self.open_session(Path(path))
            case "figure":
                open_figure_file(Path(path), self.show, self._window, self._on_exported)
            case "text" | "picture":
                self._look_at_file(path)
            case "run":
                self._session.notices.drop(*OPENING)
                self._open_run(path)
            case "model":
                open_and_explore(self._session, self._view, path, self._device)

    def _on_exported(self, path: str) -> None:
        self._session.notices.say(f"Saved {path}.")

    def _look_at_file(self, path: str) -> None:
        """Read a text file; for a model of pictures or recordings the file's path is the text."""
        self._view.show_page("explore")
        self._session.notices.drop(*OPENING)
        model = self._session.model
        if model is not None and model.reads != "text":
            self._session.texts.set_text(path)
        elif is_picture(path):
            words = f"{path} is a picture, and the open model reads text. Open a vision model first."
            self._session.notices.say(words, is_error=True, about="Open")
        else:
            self._session.texts.open_file(path)

    def _on_model(self) -> None:
        model = self._session.model
        if model is not None:
            self.recents.add_model(model.source)
            if self.awaited.is_for(model):
                QTimer.singleShot(0, self, self._restore_rest)

    def _restore_rest(self) -> None:
        saved, model = self.awaited.end(), self._session.model
        if saved is None or model is None:
            return
        if saved.sha256 == model.sha256 and not is_in_place(on_this_machine(saved.source)):
            self._moved[model.sha256] = model.source
        if not self.awaited.label:
            self.kept.write(saved.views, saved.notes)
        self._show(saved, self.awaited.label or "open session")

    def _show(self, saved: SavedSession, label: str) -> None:
        """Restore everything but the model, which is there; differences are reported."""
        model = self._session.model
        if model is None:
            return
        setting, n_lacking = setting_for(saved.setting, frozenset(every_head(model.sites)))
        self._session.restore(setting, label)
        self._view.show_saved(saved.look)
        self._places.show_look(saved.look)
        warnings = [saved.warning] if saved.warning else []
        if saved.sha256 and saved.sha256 != model.sha256:
            warnings.append("The model's weights are not those the session was saved with.")
        if n_lacking:
            warnings.append(
                f"{plural(n_lacking, 'head of the session does', 'heads of the session do')} "
                "not exist in this model."
            )
        if warnings:
            self._session.notices.say(" ".join(warnings), is_error=True)
