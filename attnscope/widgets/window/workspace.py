"""Around the pages: command palette, history, sessions, panels in windows of their own."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import QLockFile, QMimeData, QObject, QThreadPool, QTimer, Slot
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QApplication, QDialog, QMainWindow, QMenu, QWidget

from attnscope.errors import LoadError, SaveError
from attnscope.figures.style import plain_text, shorten
from attnscope.files import replace_file
from attnscope.viewmodels.session.file import ENDING, read_session
from attnscope.viewmodels.session.opening import Recents
from attnscope.viewmodels.session.scripts import Scripts, scripts_now
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.shelf import ShelfState
from attnscope.viewmodels.states import States
from attnscope.viewmodels.view_state import SIZES, ViewState
from attnscope.widgets.actions import allow, aspect_handlers
from attnscope.widgets.command_palette import (
    CommandPalette,
    Offer,
    action_offers,
    choice_offers,
    head_offers,
    model_offers,
    sample_offers,
    session_offers,
)
from attnscope.widgets.dialogs import open_one
from attnscope.widgets.explore.head_view import LinesPanel
from attnscope.widgets.explore.page import DEFAULT_SIZES
from attnscope.widgets.labels import plain_tooltip, when
from attnscope.widgets.window.commands import PRESENTING
from attnscope.widgets.window.edge_panels import HistoryPanel, KeptPanel, view_offers
from attnscope.widgets.window.pages import Pages, Panel, PanelWindows
from attnscope.widgets.window.session_files import SessionFiles

# Keeping a copy of the open session on the disk, and finding those of programs that died.

_PAUSE_MS = 1000
_MAX_AGE_S = 30 * 24 * 3600
LAST_NAME = f"last{ENDING}"


class Autosave(QObject):
    """Writes the result of `content` into a folder, at most once a second; empty content is not kept.

    Nothing is written or found before it has begun, nor after its end.
    """

    def __init__(self, content: Callable[[], bytes], parent: QObject) -> None:
        super().__init__(parent)
        self._content = content
        self._lie_in(Path(os.devnull))
        self._written = b""
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self.save_now)

    def _lie_in(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"open-{os.getpid()}-{time.time_ns()}{ENDING}"
        self._lock = QLockFile(f"{self._path}.lock")
        self._lock.setStaleLockTime(0)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def is_on(self) -> bool:
        """Whether autosaving is on."""
        return self._lock.isLocked()

    def start(self, folder: Path) -> Path | None:
        """Begin; returns the newest copy of a program that crashed, or None."""
        self._lie_in(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        self._lock.tryLock(0)
        left = _left_behind(self._folder, self._path)
        return left[0] if left else None

    def touch(self) -> None:
        """Note a change: it will be written within a second."""
        if self._lock.isLocked() and not self._timer.isActive():
            self._timer.start()

    @Slot()
    def save_now(self) -> None:
        """Write changes, on another thread."""
        content = self._content()
        if content and content != self._written and self.is_on:
            self._written = content
            self._pool.start(lambda: _write_quietly(self._path, content))

    def end(self) -> None:
        """The program ends normally: what was open becomes the last session, and the copy is removed."""
        self._timer.stop()
        self._pool.waitForDone(2000)
        if not self.is_on:
            return
        if content := self._content():
            _write_quietly(self._folder / LAST_NAME, content)
        self._path.unlink(missing_ok=True)
        self._lock.unlock()

    def last(self) -> Path | None:
        """Session to restore: the newest copy of a program that crashed, else the last one open."""
        left = _left_behind(self._folder, self._path)
        last = self._folder / LAST_NAME
        return left[0] if left else last if last.is_file() else None

    def forget(self, path: Path) -> None:
        """Drop a copy that was restored or refused."""
        if path.parent == self._folder and path.name != LAST_NAME:
            path.unlink(missing_ok=True)
            Path(f"{path}.lock").unlink(missing_ok=True)


def _left_behind(folder: Path, own: Path) -> list[Path]:
    """Copies of programs that crashed, newest first; those over a month old are removed."""
    found: list[tuple[float, Path]] = []
    try:
        candidates = [path for path in folder.glob(f"open-*{ENDING}") if path != own]
    except OSError:
        return []
    for path in candidates:
        lock = QLockFile(f"{path}.lock")
        lock.setStaleLockTime(0)
        if not lock.tryLock(0):
            continue  # its program is alive
        lock.unlock()
        try:
            changed_s = path.stat().st_mtime
        except OSError:
            continue
        if time.time() - changed_s > _MAX_AGE_S:
            path.unlink(missing_ok=True)
        else:
            found.append((changed_s, path))
    return [path for _, path in sorted(found, reverse=True)]


def _write_quietly(path: Path, content: bytes) -> None:
    """Ignore a copy that cannot be written: no message at every key."""
    try:
        replace_file(path, content)
    except SaveError:
        return


# The sessions opened lately, as a menu.


class RecentMenu(QMenu):
    """One entry for each session; choosing one opens it."""

    def __init__(
        self, recents: Recents, open_path: Callable[[str], None], parent: QWidget | None = None
    ) -> None:
        super().__init__("Recent sessions", parent)
        self._recents, self._open_path = recents, open_path
        self.setToolTipsVisible(True)
        self.triggered.connect(self._on_triggered)
        when(self, self._show, recents.changed)
        self._show()

    def _show(self) -> None:
        self.clear()
        for path in self._recents.sessions:
            action = self.addAction(shorten(plain_text(path), 60).replace("&", "&&"))
            action.setData(path)
            action.setToolTip(plain_tooltip(path))
        allow(self.menuAction(), "" if self._recents.sessions else "No session has been saved or opened yet")

    def _on_triggered(self, action: QAction) -> None:
        self._open_path(str(action.data()))


# Getting a model: the dialog of the shelf, and what opens from it.


class GetModels(QObject):
    """Opens the dialog over `window`; `open_model` opens the model chosen in it."""

    def __init__(self, window: QWidget, state: ShelfState, open_model: Callable[[str], None]) -> None:
        super().__init__(window)
        self._window, self.state, self._open_model = window, state, open_model

    def open(self, name: str = "") -> None:
        """Show the shelf, with the named model chosen, if any."""
        from attnscope.widgets.window.shelf_dialog import ShelfDialog  # not before the first paint

        def make() -> ShelfDialog:
            dialog = ShelfDialog(self.state, self._window)
            dialog.open_wanted.connect(self._open_model)
            return dialog

        self.state.show(name)
        open_one(self._window, ShelfDialog, make).activateWindow()


class PageScripts:
    """Copies scripts that reproduce the current view to the clipboard: the page's own, else Explore's."""

    def __init__(self, session: Session, view: ViewState) -> None:
        self._session, self._view = session, view
        self._scripts: dict[str, Callable[[], Scripts | None]] = {}

    def add(self, page: str, make: Callable[[], Scripts | None]) -> None:
        """Let a page provide its own scripts."""
        self._scripts[page] = make

    def copy_python(self) -> None:
        """Copy a Python script that makes the current view."""
        scripts = self._scripts_now()
        if scripts is not None:
            QGuiApplication.clipboard().setText(scripts.python)
            self._session.notices.say("Copied a Python script that draws this figure.")

    def copy_command(self) -> None:
        """Copy a command line that makes the current view."""
        scripts = self._scripts_now()
        if scripts is not None:
            QGuiApplication.clipboard().setText(scripts.command)
            lacks = " It leaves out changes to single heads; Copy as Python includes them."
            told = "Copied a command that draws this figure."
            self._session.notices.say(told + ("" if scripts.is_command_whole else lacks))

    def _scripts_now(self) -> Scripts | None:
        """The scripts of the current page; those of Explore on pages without their own."""
        make = self._scripts.get(self._view.page)
        scripts = make() if make is not None else scripts_now(self._session, self._view)
        if scripts is None:
            self._session.notices.say("There is nothing to copy yet: open a model and type a sentence.")
        return scripts


PANELS = ("grid", "head", "lines", "inspector", "output")
_MAX_DROPPED = 100_000


class Workspace(QObject):
    """Belongs to one window; the history and the kept views are over its `pages`."""

    def __init__(
        self,
        window: QMainWindow,
        states: States,
        view: ViewState,
        actions: Mapping[str, QAction],
        pages: Pages,
        files: SessionFiles,
    ) -> None:
        super().__init__(window)
        session = states.session
        self._window, self._session, self._view = window, session, view
        self._actions, self._splitters = actions, pages.splitters()
        self._default_sizes = {name: splitter.sizes() for name, splitter in self._splitters.items()}
        self._default_sizes.update(DEFAULT_SIZES)
        self.files = files
        self.getting = GetModels(window, states.shelf, files.open_gotten)
        files.awaited.get_model = self.getting.open
        self.recents = files.recents
        self.autosave = Autosave(files.content, self)
        self._came_from: QWidget | None = None
        self._more_offers: list[Callable[[], Iterable[Offer]]] = [partial(view_offers, files.kept)]
        self.scripts = PageScripts(session, view)
        self.palette = CommandPalette(window, self._offers)
        self.history = HistoryPanel(session, pages)
        self.history.close_button.clicked.connect(self.toggle_history)
        self.history.python_button.clicked.connect(self.scripts.copy_python)
        self.history.command_button.clicked.connect(self.scripts.copy_command)
        self.kept = KeptPanel(files.kept, session, pages)
        self.kept.close_button.clicked.connect(self.toggle_kept)
        self._drawers = (self.history, self.kept)
        for drawer in self._drawers:
            drawer.hide()
        explore = pages.explore
        panels = (
            Panel(name="grid", title="Grid", widget=explore.grid_panel),
            Panel(name="head", title="Head", widget=explore.head_panel),
            Panel(name="lines", title="Lines", make=lambda: LinesPanel(session, view)),
            Panel(name="inspector", title="Inspector", widget=explore.inspector),
            Panel(name="output", title="Output", widget=explore.answers),
        )
        self.panels = PanelWindows(window, {panel.name: panel for panel in panels})
        told, seen, kept = session.changed, view.changed, files.kept.changed
        when(window, self.autosave.touch, told.history, told.text, told.model)
        when(window, self.autosave.touch, seen.style, seen.view, seen.page, kept.all)
        when(window, self._on_folded, seen.folded)

    def handlers(self) -> Mapping[str, Callable[[], None]]:
        """One handler for each action that belongs here."""
        files = self.files
        return {
            "palette": self.open_palette,
            "show-as": self.open_choices,
            "history": self.toggle_history,
            "kept-views": self.toggle_kept,
            "keep-view": self.keep_view,
            "next-view": files.kept.next,
            "previous-view": files.kept.previous,
            "copy-python": self.scripts.copy_python,
            "copy-command": self.scripts.copy_command,
            "open-text": files.ask_and_open_text,
            "open-recording": files.ask_and_open_recording,
            "open-session": files.ask_and_open,
            "save-session": files.save,
            "restore-session": self.restore_last,
            "locate-model": files.awaited.locate,
            "download-model": files.awaited.download,
            "get-model": self.getting.open,
            "larger": lambda: self._resize_type(1),
            "smaller": lambda: self._resize_type(-1),
            "reset-layout": self.reset_layout,
            **{f"own-{name}": self._toggle_panel(name) for name in PANELS},
            **aspect_handlers(self._session),
        }

    def add_offers(self, make: Callable[[], Iterable[Offer]]) -> None:
        """Add a page's own offers to the command palette."""
        self._more_offers.append(make)

    def start_autosave(self, folder: Path) -> None:
        """Keep a copy of the session in `folder`; offers the copy of a crashed program there."""
        if self.autosave.start(folder) is not None:
            self._session.notices.say(
                "AttnScope ended unexpectedly last time; what was open has been saved.",
                action="restore-session",
            )

    def end(self) -> None:
        """The window closes: close dialogs, return panels and folded parts, remove the session's copy."""
        self._view.present(False)
        self._view.fold(frozenset())
        for dialog in self._window.findChildren(QDialog):
            dialog.close()
        self.panels.end()
        self.autosave.end()

    def recent_menu(self) -> RecentMenu:
        """A menu of recently opened sessions."""
        return RecentMenu(self.recents, self.files.open_path, self._window)

    # Intents

    def open_palette(self) -> None:
        """Show the command palette."""
        self.palette.open()

    def open_choices(self) -> None:
        """Show the palette with every display option."""
        self.palette.open(only="choice")

    def toggle_history(self) -> None:
        """Show or hide the history."""
        self._toggle_drawer(self.history, self.history.steps)

    def toggle_kept(self) -> None:
        """Show or hide the kept views and the notes."""
        self._toggle_drawer(self.kept, self.kept.list)

    def keep_view(self) -> None:
        """Keep the current display as a view."""
        self.kept.keep()

    def restore_last(self) -> None:
        """Reopen what was open when the program last ended, or crashed."""
        path = self.autosave.last()
        if path is None:
            self._session.notices.say("There is no earlier session to restore.")
            return
        try:
            self.files.restore(read_session(path))
        except LoadError as error:
            self._session.notices.say(str(error), is_error=True)
        self.autosave.forget(path)

    def reset_layout(self) -> None:
        """Every panel in its page, every splitter in its initial position, type at its own size."""
        self.panels.close_all()
        for drawer in self._drawers:
            drawer.hide()
        self._view.enlarge(False)
        self._view.set_size(100)
        self._reset_splitters()
        QTimer.singleShot(0, self, self._reset_splitters)  # once more when the type has its size

    def can_take(self, data: QMimeData) -> bool:
        """Whether a dropped object could be opened."""
        return data.hasText() or any(url.isLocalFile() for url in data.urls())

    def take(self, data: QMimeData) -> None:
        """Open a dropped file, folder, or text."""
        paths = [url.toLocalFile() for url in data.urls() if url.isLocalFile()]
        if paths:
            self.files.open_path(paths[0])
        elif data.hasText():
            self._view.show_page("explore")
            self._session.texts.set_text(" ".join(data.text()[:_MAX_DROPPED].split()))

    # Within

    def _toggle_drawer(self, drawer: QWidget, inside: QWidget) -> None:
        """Show a panel at the right edge with the focus in it, or hide it and restore the focus.

        There is room for one: the others go.
        """
        focus = QApplication.focusWidget()
        is_opened = drawer.isHidden()
        is_within = focus is not None and any(part.isAncestorOf(focus) for part in self._drawers)
        if is_opened and not is_within:
            self._came_from = focus
        for other in self._drawers if is_opened else ():
            if other is not drawer:
                other.hide()
        drawer.setVisible(is_opened)
        if is_opened:
            inside.setFocus()
        elif is_within and self._came_from is not None and self._came_from.isVisible():
            self._came_from.setFocus()

    def _reset_splitters(self) -> None:
        for name, splitter in self._splitters.items():
            splitter.setSizes(self._default_sizes[name])

    def _offers(self) -> Iterable[Offer]:
        session, view = self._session, self._view
        yield from action_offers(self._actions)
        for make in self._more_offers:
            yield from make()
        yield from model_offers(session, view, self.recents.models)
        yield from session_offers(self.recents.sessions, self.files.open_path)
        yield from choice_offers(session, view)
        yield from sample_offers(session, self._show_explore)
        yield from head_offers(session, self._show_explore)

    def _show_explore(self) -> None:
        self._view.show_page("explore")

    def _toggle_panel(self, name: str) -> Callable[[], None]:
        def run() -> None:
            self._view.present(False)  # panels leave and come back to their places of every day
            self._show_explore()
            self.panels.toggle(name)

        return run

    def _resize_type(self, step: int) -> None:
        present = self._view.size_percent
        larger = [size for size in SIZES if size > present]
        smaller = [size for size in SIZES if size < present]
        wanted = larger[:1] if step > 0 else smaller[-1:]
        if wanted:
            self._view.set_size(wanted[0])
            self._session.notices.say(f"Type at {wanted[0]} %.")

    def _on_folded(self) -> None:
        if not self._view.is_presenting:
            self._session.notices.drop(PRESENTING)
        else:
            self.kept.hide()  # it is for who speaks
