"""The window: places the bars and pages, builds the actions, keeps theme, layout and the focus."""

import functools
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QEvent, QFileSystemWatcher, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QResizeEvent,
    QStatusTipEvent,
)
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QMainWindow, QWidget
from shiboken6 import isValid

from attnscope.errors import UserError
from attnscope.figures.colours import Palette
from attnscope.figures.spec import FigureSpec
from attnscope.settings import Settings
from attnscope.viewmodels.session.changes import (
    Change,
    Setting,
    fixed_heads,
    is_recorded,
    why_no_inside,
    why_no_mask,
)
from attnscope.viewmodels.session.opening import Recents
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.states import States
from attnscope.viewmodels.view_state import Page, PagePart, ViewState
from attnscope.widgets.actions import allow, build_actions, connect_actions
from attnscope.widgets.compare.page import compare_handlers
from attnscope.widgets.explore.ask_panel import ask_offers
from attnscope.widgets.explore.mask_dialog import open_mask_editor
from attnscope.widgets.export.figures_offered import current_figure
from attnscope.widgets.form_parts import FoldedSizes, column, row
from attnscope.widgets.labels import when
from attnscope.widgets.labs.page import LabsPage, lab_offers
from attnscope.widgets.map_widget import remembered_view
from attnscope.widgets.theme import apply_theme, dress_application, on_stage, palette_for
from attnscope.widgets.tours.learning import Learning
from attnscope.widgets.window.bars import Banner, ModelMenu, PageBar, StatusBar, TopBar
from attnscope.widgets.window.commands import Commands, FigureCommands, Handout, Openings, release_clipboard
from attnscope.widgets.window.edge_panels import KeptLine
from attnscope.widgets.window.pages import Pages, SizesByType, restore_geometry, restore_splitters
from attnscope.widgets.window.places import PlacesOffered, WindowPlaces
from attnscope.widgets.window.session_files import SessionFiles
from attnscope.widgets.window.workspace import Workspace

_PRESSING = (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)


class SteadyFocus(QObject):
    """When a control can no longer hold the focus, moves it to a neighbour, in every window.

    It goes back to the control when that can be used again, unless a user has gone elsewhere.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting: tuple[QWidget, QWidget] | None = None
        """The control that the focus was taken from, until somebody puts it elsewhere, and its refuge."""
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._on_focus_changed)

    @Slot(QWidget, QWidget)
    def _on_focus_changed(self, old: QWidget | None, now: QWidget | None) -> None:
        if self._waiting is not None and now is self._waiting[1]:
            return
        self._forget()
        if old is None or not isValid(old) or _can_hold(old) or not old.window().isVisible():
            return
        if (now.window() if now is not None else QApplication.activeWindow()) is not old.window():
            return
        refuge = old.parentWidget()
        while refuge is not None and not _can_hold(refuge):
            refuge = None if refuge.isWindow() else refuge.parentWidget()
        if refuge is not None:
            if isinstance(now, QLineEdit):
                now.deselect()  # as Qt selects what it goes on to
            self._wait(old, refuge)

    def give(self, wanted: QWidget, window: QWidget) -> None:
        """Focus a control that is not visible yet: `window` holds the focus until then."""
        self._wait(wanted, window)

    def _wait(self, left: QWidget, refuge: QWidget) -> None:
        self._waiting = left, refuge
        left.installEventFilter(self)
        refuge.installEventFilter(self)
        refuge.setFocus()

    def _forget(self) -> None:
        for watched in filter(isValid, self._waiting or ()):
            watched.removeEventFilter(self)
        self._waiting = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Return to the control; until then, keys that would press it press nothing else."""
        if self._waiting is None:
            return False
        left, refuge = self._waiting
        if watched is left and event.type() in (QEvent.Type.EnabledChange, QEvent.Type.Show):
            if _can_hold(left):
                self._forget()
                left.setFocus()
        elif watched is refuge and isinstance(left, QAbstractButton) and isinstance(event, QKeyEvent):
            if event.key() in _PRESSING and not event.modifiers():
                event.accept()
                return True
        return False


def _can_hold(widget: QWidget) -> bool:
    return widget.isEnabled() and widget.isVisible()


# A step taken back or done again where it is not seen: what to say, with the page it belongs to.

_SEEN_ON: dict[str, tuple[Page, ...]] = {
    "gates": ("explore", "compare", "heads"),
    "selection": ("explore", "compare", "heads"),
    "aspect": ("explore",),
    "text": ("explore", "compare"),
    "target": ("explore", "compare"),
    "interventions": ("explore", "compare"),
    "compared": ("compare",),
}
"""Where a change of each part of a setting is seen; the first page is the one it belongs to."""


def unseen_words(verb: str, change: Change | None, page: Page) -> str:
    """A sentence for a step that changes nothing on `page`; empty if it does, or there is none.

    `verb` is what was done with the step: "Undid" or "Redid".
    """
    if change is None:
        return ""
    changed = [
        name
        for name in Setting.__dataclass_fields__
        if getattr(change.before, name) != getattr(change.after, name)
    ]
    if not changed or any(page in _SEEN_ON[name] for name in changed):
        return ""
    home = _SEEN_ON[changed[0]][0]
    return f"{verb} on the page {home.capitalize()}: {change.label.removeprefix(f'{home}: ')}."


# Undo and redo of what is looked at: on the page Labs the lab's own, elsewhere the session's.

Way = Literal["undo", "redo"]
_TOLD: dict[Way, str] = {"undo": "Undid", "redo": "Redid"}


class Undoing:
    """Names and enables the two actions by their effects.

    `of_session` is the session's undo on every page, for what is told of it.
    """

    def __init__(
        self,
        session: Session,
        view: ViewState,
        window: QWidget,
        actions: Mapping[str, QAction],
        labs: LabsPage,
    ) -> None:
        self._session, self._view = session, view
        self._actions, self._labs = actions, labs
        self.of_session = QAction("Undo", window)
        self.of_session.triggered.connect(lambda _checked=False: self._turn_session("undo"))
        when(window, self._show, session.changed.history, session.changed.model, view.changed.page)
        labs.controls_changed.connect(self._show)
        self._show()

    def handlers(self) -> dict[str, Callable[[], None]]:
        """The handlers of the two actions."""
        return {way: partial(self._turn, way) for way in _TOLD}

    def _show(self) -> None:
        for way in _TOLD:
            verb, words = way.capitalize(), self._words(way)
            action = self._actions[way]
            action.setText(words or verb)
            where = f" in {self._labs.shown}" if self._view.page == "labs" else ""
            nothing = f"Nothing to {way}{where}"
            allow(action, "" if words else nothing, tip=f"{words} ({action.shortcut().toString()})")
        self.of_session.setText(self._session_words("undo") or "Undo")

    def _words(self, way: Way) -> str:
        """Tip of an action; empty if it does nothing."""
        if self._view.page != "labs":
            return self._session_words(way)
        controls = self._labs.controls
        can = controls.can_undo if way == "undo" else controls.can_redo
        return f"{way.capitalize()} in {self._labs.shown}" if can else ""

    def _session_words(self, way: Way) -> str:
        history = self._session.history
        label = history.undo_label if way == "undo" else history.redo_label
        return f"{way.capitalize()}: {label}" if label else ""

    def _turn(self, way: Way) -> None:
        if self._view.page != "labs":
            self._turn_session(way)
        else:
            controls = self._labs.controls
            (controls.undo if way == "undo" else controls.redo)()

    def _turn_session(self, way: Way) -> None:
        """Report a step that is not visible on the page."""
        session = self._session
        change = session.history.undoing if way == "undo" else session.history.redoing
        words = unseen_words(_TOLD[way], change, self._view.page)
        (session.undo if way == "undo" else session.redo)()
        if words:
            session.notices.say(words)


# Notices when the files of the open model change on the disk, and offers to read them again.

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
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
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
        self._session.notices.say(
            f"The files of {self._folder.name} {what} since they were opened. "
            "The window still shows the old version.",
            action="reload-model" if found else "",
            about="Open",
        )


def stamp_of(folder: Path | None) -> Stamp:
    """Name, size and time of each weights file of a folder; empty if there is none."""
    if folder is None:
        return ()
    try:
        files = sorted(folder.glob("*.safetensors"))
        return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    except OSError:
        return ()


# What goes while pages are presented or a tour needs the room, beyond the parts of the Explore page.


def fold_with_view(view: ViewState, bars: tuple[QWidget, ...], pages: Pages) -> None:
    """Make bars and parts of Compare, of Labs and of Train hide themselves as the view says."""
    compare = pages.compare
    parts: dict[PagePart, tuple[QWidget, ...]] = {
        "bars": bars,
        "texts": (*compare.sides, compare.swap_button, pages.training.watched_texts),
        "looks": (
            *(compare.way, compare.limit, *compare.order_buttons.values(), compare.all_stacks),
            *(pages.heads.run_row, pages.positions.controls),
        ),
        "measures": (compare.measures,),
        "list": (pages.labs.side,),
        "curves": (pages.training.curves_half,),
        "watch": (pages.training.watch_half,),
    }

    sizes = FoldedSizes(compare.splitters())

    def show() -> None:
        if view.is_presenting:
            sizes.keep()
        for part, widgets in parts.items():
            for widget in widgets:
                widget.setVisible(not view.hides(part))
        if not view.is_presenting:
            sizes.give_back()

    when(pages, show, view.changed.folded)


# Which actions can be done now, and why the others cannot.

_NO_MODEL = "Open a model first"
_NO_HEAD = "Select a head first"
_RECORDED = "This is recorded attention: there is no model behind it"


def show_possible(actions: Mapping[str, QAction], session: Session) -> None:
    """Enable and name the actions that depend on the session."""
    for name, why_not in reasons(session).items():
        allow(actions[name], why_not)
    stacks = session.stacks
    for k in range(3):
        actions[f"stack-{k + 1}"].setVisible(k < len(stacks))
        if k < len(stacks):
            actions[f"stack-{k + 1}"].setText(f"Stack {stacks[k]}")


def reasons(session: Session) -> dict[str, str]:
    """Why each action that depends on the session is disabled; empty if it is not."""
    is_fixed, has_model = is_recorded(session.model), session.model is not None
    no_model = "" if has_model else _NO_MODEL
    no_own_model = no_model or (_RECORDED if is_fixed else "")
    fixed = no_own_model or fixed_heads(session.model)
    no_head = no_model or ("" if session.selection else _NO_HEAD)
    all_on = no_model or ("" if session.gates else "Every head is fully on")
    none_off = no_model or ("" if session.gates.off() else "No head is off: switch heads off first")
    return {
        "toggle-heads": fixed or no_head,
        "prune-all-but": fixed or no_head,
        "enlarge": no_head,
        "invert": fixed,
        "inside": why_no_inside(session.model),
        "save-model": no_own_model,
        "reload-model": no_model,
        "train-further": no_own_model,
        "reset": all_on,
        "remove-heads": none_off,
        "custom-mask": why_no_mask(session),
    }


_LEAST, _LARGE_LEAST, _LARGE_FROM = (960, 600), (1200, 720), 1.2
"""The least size of the window; larger where type is larger than this factor."""
_PAGES: tuple[Page, ...] = ("explore", "compare", "heads", "positions", "train", "labs", "learn")


class MainWindow(QMainWindow):
    """Shows the states and reports the user's actions; `closing` when it is being closed."""

    closing = Signal()

    def __init__(self, states: States, settings: Settings | None = None) -> None:
        super().__init__()
        dress_application()
        session = states.session
        self.states, self._session, self._training = states, session, states.training
        self.may_close: Callable[[], bool] = lambda: True
        self._settings = settings or Settings()
        self.view = remembered_view(self._settings)
        self._palette, self._is_closed = self._palette_now(), False
        self._recents = Recents(
            self._settings.recent, self._settings.recent_sessions, self._settings.recent_runs
        )
        self.openings = Openings(session, states.training, self.view, self._recents)
        actions = self.actions_by_name = build_actions(self)
        # before the pages fold, at their sizes until then
        when(self, self._fit_type, self.view.changed.folded)
        self.pages = Pages(
            states,
            self.view,
            actions,
            self._recents,
            offer_models=self.openings.models,
            open_checkpoint=self.openings.open_checkpoint,
        )
        self._sizes = SizesByType(self.pages.splitters(), self._settings)
        self.pages.failed.connect(self._on_failed)
        self._build_bars()
        places = WindowPlaces(self.pages, self.page_bar, self.view)
        files = SessionFiles(
            session,
            self.view,
            self._recents,
            places,
            self,
            open_run=self.openings.open_run,
            device=self._settings.device,
        )
        self.workspace = Workspace(self, states, self.view, actions, self.pages, files)
        self.undoing = Undoing(session, self.view, self, actions, self.pages.labs)
        self.learning = Learning(self.pages, places, self.workspace, states, self.view, self._settings.tours)
        self._build_top_bar()
        open_run = self.openings.open_run
        self._commands = Commands(
            session, self.view, self, open_run=open_run, edit_text=self._edit_text, pruning=states.pruning
        )
        self._figures = FigureCommands(
            session,
            self.view,
            self,
            self.offered_figures,
            folder=self._settings.export_folder,
            choices=self._settings.export_choices,
        )
        self.handout = Handout(states, self.view, self, files, self.pages, self.set_theme)
        self._connect_actions()
        kept_line = KeptLine(files.kept, session, self.view, actions)
        self.pages.labs.controls_changed.connect(kept_line.look_again)
        self.learning.toured.connect(kept_line.set_touring)
        self.learning.toured.connect(self.pages.explore.set_touring)
        self.status_bar.add_place(kept_line)
        self._lay_out()
        self._listen()
        self.set_theme(self._palette)
        restore_geometry(self, self._settings)
        restore_splitters(self.pages.splitters(), self._settings)
        self.workspace.panels.restore(self._settings.panels)
        if self._settings.is_maximised:
            self.setWindowState(self.windowState() | Qt.WindowState.WindowMaximized)
        self.pages.show_page()
        for show in (self._show_duration, self._show_actions, self._show_title):
            show()
        self._steady_focus = SteadyFocus(self)
        self._steady_focus.give(self.pages.explore.grid_panel.grid, self)  # so that L and Space are keys

    # For the program and its commands

    def set_theme(self, palette: Palette) -> None:
        """Style everything in the colours of a theme."""
        before, self._palette = self._palette.type_factor, palette
        if before != palette.type_factor:
            self._sizes.leave(before)
            QTimer.singleShot(0, self, self._stand_as_before)
        apply_theme(self, palette)
        is_large = palette.type_factor > _LARGE_FROM and not self.view.is_presenting
        self.setMinimumSize(*(_LARGE_LEAST if is_large else _LEAST))

    def _stand_as_before(self) -> None:
        """Restore the layout last used at this size of type; else, at a desk, the initial one."""
        factor = self._palette.type_factor
        if not self._sizes.enter(factor) and factor == 1.0:
            self.pages.explore.share_out()

    def offered_figures(self) -> dict[str, FigureSpec]:
        """Every figure that can be exported now, by its view."""
        return self.pages.offered_figures()

    def export_current(self, path: Path | str) -> Path:
        """Write the current figure; raises UserError if there is none or it cannot be saved."""
        offered = self.offered_figures()
        shown = current_figure(self.view, offered)
        if shown is None:
            raise UserError("There is no figure to export.", action="Type a sentence or open a run first.")
        from attnscope.figures.export import save  # not before the first paint

        return save(offered[shown], path)

    def settings_snapshot(self) -> Settings:
        """State to remember until the next start."""
        place = self.normalGeometry() if self.isMaximized() else self.geometry()
        return Settings(
            theme=self.view.theme,
            colour_map=self.view.colour_map,
            scale=self.view.scale,
            device=self._settings.device,
            page=self.view.page,
            geometry=(place.x(), place.y(), place.width(), place.height()),
            is_maximised=self.isMaximized(),
            splitters=self._sizes.to_remember(self._palette.type_factor),
            recent=self._recents.models,
            recent_sessions=self._recents.sessions,
            recent_runs=self._recents.runs,
            tours=self.learning.progress(),
            size_percent=self.view.size_percent,
            panels=self.workspace.panels.places(),
            export_folder=self._figures.last.folder,
            export_choices=kept.text if (kept := self._figures.last.choices) is not None else "",
        )

    def closeEvent(self, event: QCloseEvent) -> None:
        """Notify the program, which stops the worker and saves; ask first if training is in progress."""
        if not self.may_close():
            event.ignore()
            return
        release_clipboard()
        self._is_closed = True
        self.workspace.end()
        super().closeEvent(event)
        self.closing.emit()

    def event(self, event: QEvent) -> bool:
        """Show in the status bar what a menu entry does, or why it is disabled."""
        if isinstance(event, QStatusTipEvent):
            self.view.set_pointer_text(event.tip())
            return True
        return super().event(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Models, runs, sessions and texts can be dropped anywhere."""
        if self.workspace.can_take(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        self.workspace.take(event.mimeData())
        event.acceptProposedAction()

    # Building

    def _build_bars(self) -> None:
        actions = self.actions_by_name
        pages: dict[Page, QAction] = {page: actions[f"page-{page}"] for page in _PAGES}
        self.page_bar = PageBar(self.view, pages, actions["help-here"])
        self.status_bar = StatusBar(self._session, self.view, undo=actions["undo"], redo=actions["redo"])

    def _build_top_bar(self) -> None:
        actions = self.actions_by_name
        names = ("get-model", "open-model", "open-run", "reload-model", "save-model", "remove-heads")
        of_models = tuple(actions[name] for name in (*names, "train-further", "custom-mask"))
        self.model_menu = ModelMenu(self._session, of_models, self, self._recents)
        recent_menu = self.workspace.recent_menu()
        self.top_bar = TopBar(
            self._session, self.view, actions=actions, model_menu=self.model_menu, recent_menu=recent_menu
        )

    def _connect_actions(self) -> None:
        parts = (self._commands, self._figures, self.workspace, self.undoing)
        handlers = {name: run for part in parts for name, run in part.handlers().items()}
        handlers |= compare_handlers(self.states.compare, self._session, self.view)
        handlers["page-learn"] = functools.partial(self.view.show_page, "learn")
        handlers["help-here"] = self.learning.show_help_here
        handlers["custom-mask"] = functools.partial(open_mask_editor, self._session, self)
        handlers["several-runs"] = self._open_several
        handlers["train-further"] = self.openings.train_further
        handlers["handout"] = self.handout.ask
        self.workspace.kept.handout_button.clicked.connect(self.handout.ask)
        handlers["work"] = self.status_bar.work.open_list
        handlers["dismiss"] = functools.partial(self._stop_or, handlers["dismiss"])
        connect_actions(self.actions_by_name, handlers)
        pages, workspace = self.pages, self.workspace
        workspace.add_offers(lambda: lab_offers(pages.labs, self.view))
        workspace.add_offers(self.learning.offers)
        workspace.add_offers(PlacesOffered(pages, self.states, self.view).offers)
        workspace.add_offers(lambda: ask_offers(self.states.asking, pages.explore.show_question))
        workspace.scripts.add("compare", pages.compare.scripts)

    def _lay_out(self) -> None:
        self.setMenuWidget(self.top_bar)
        centre = QWidget()
        helping = {**self.actions_by_name, "undo": self.undoing.of_session}
        self.banner = Banner(self._session, self.view, helping)
        self.model_watch = ModelWatch(self._session, self)
        self.setAcceptDrops(True)
        learning = self.learning
        right = column(learning.invitation, (self.pages, 1), self.banner, learning.bar, spacing=0)
        column((row(self.page_bar, (right, 1), spacing=0), 1), self.status_bar, on=centre, spacing=0)
        self.setCentralWidget(centre)

    def _listen(self) -> None:
        told, view = self._session.changed, self.view.changed
        when(self, self._show_actions, told.model, told.history, told.gates, told.selection, told.notice)
        when(self, self._show_actions, told.traced, view.enlarged, view.folded)
        when(self, self._show_title, told.model)
        when(self, self._show_duration, view.page)
        when(self, self._on_theme, view.theme)
        fold_with_view(self.view, (self.top_bar, self.page_bar), self.pages)
        when(self, self._show_dismiss, self.status_bar.work.state.changed)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_system_theme_changed)

    # Showing

    def _show_title(self) -> None:
        model = self._session.model
        self.setWindowTitle(f"{model.name} – AttnScope" if model else "AttnScope")

    def _palette_now(self) -> Palette:
        palette = palette_for(self.view.theme, self.view.size_percent)
        return on_stage(palette, self.height()) if self.view.is_presenting else palette

    def _on_theme(self) -> None:
        self.set_theme(self._palette_now())

    def _fit_type(self) -> None:
        """Use large type while presenting: in any theme, and in a window of any height."""
        if not self._is_closed and self._palette_now().type_factor != self._palette.type_factor:
            self._on_theme()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_type()

    def _show_duration(self) -> None:
        self.status_bar.duration.setVisible(self.view.page == "explore")

    def _show_actions(self) -> None:
        show_possible(self.actions_by_name, self._session)
        self._show_dismiss()

    def _show_dismiss(self) -> None:
        """Enable Esc while there is a message, an enlarged or presented view, or work to stop."""
        is_told, is_waiting = self._session.notices.shown, self.status_bar.work.state.waited_for
        is_possible = is_told or is_waiting or self.view.is_enlarged or self.view.is_presenting
        why_not = "There is no message to dismiss, and nothing is enlarged or running"
        allow(self.actions_by_name["dismiss"], "" if is_possible else why_not)

    def _stop_or(self, dismiss: Callable[[], None]) -> None:
        """Esc ends the awaited task; if there is none, the message or the enlarged view."""
        work = self.status_bar.work.state
        if work.waited_for is not None:
            work.stop(work.waited_for.name)
        else:
            dismiss()

    def _open_several(self) -> None:
        self.view.show_page("train")
        self.pages.training.open_several()

    def _edit_text(self) -> None:
        self.view.show_page("explore")
        edit = self.pages.explore.text_bar.text_edit
        edit.setFocus()
        edit.selectAll()

    @Slot(str, str)
    def _on_failed(self, subject: str, why: str) -> None:
        if why:
            self._session.notices.say(why, is_error=True, about=subject)
        else:
            self._session.notices.drop(subject)

    @Slot(Qt.ColorScheme)
    def _on_system_theme_changed(self, _scheme: Qt.ColorScheme) -> None:
        if self.view.theme == "system":
            self._on_theme()
