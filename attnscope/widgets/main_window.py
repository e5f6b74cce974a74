"""The window: places the bars and pages, builds the actions, keeps theme and layout."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QAction, QCloseEvent, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from attnscope.errors import UserError
from attnscope.figures.clipboard import release_clipboard
from attnscope.figures.colours import COLOUR_MAPS, Palette
from attnscope.figures.export import save
from attnscope.figures.spec import FigureSpec, View
from attnscope.records.models import Sample
from attnscope.settings import Settings
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.session import Session
from attnscope.viewmodels.training import TrainingState
from attnscope.viewmodels.view_state import Page, Scale, ViewState
from attnscope.widgets.actions import HEAD_ACTIONS, build_actions
from attnscope.widgets.banner import Banner
from attnscope.widgets.commands import Commands
from attnscope.widgets.explore_page import ExplorePage
from attnscope.widgets.figures_offered import current_figure, offered_figures
from attnscope.widgets.labels import listen
from attnscope.widgets.layout_memory import restore_geometry, restore_splitters, splitter_sizes
from attnscope.widgets.map_style import map_style
from attnscope.widgets.model_menu import ModelMenu
from attnscope.widgets.page_bar import PageBar
from attnscope.widgets.positions_page import PositionsPage
from attnscope.widgets.status_bar import StatusBar
from attnscope.widgets.theme import apply_theme, dress_application, palette_for
from attnscope.widgets.top_bar import TopBar
from attnscope.widgets.training_page import TrainingPage

_PAGES: tuple[Page, ...] = ("explore", "positions", "train")


class MainWindow(QMainWindow):
    """Shows the states and reports what the person wants; `closing` when it is being closed."""

    closing = Signal()

    def __init__(
        self,
        session: Session,
        training: TrainingState,
        positions: PositionsState,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        dress_application()
        self._session, self._training = session, training
        self._settings = settings or Settings()
        self.view = _view_state(self._settings)
        self._palette = palette_for(self.view.theme)
        self._commands = Commands(
            session,
            self.view,
            self,
            offer_figures=self.offered_figures,
            open_run=self._open_run,
            edit_text=self._edit_text,
            export_folder=self._settings.export_folder,
        )
        self.actions_by_name = build_actions(self, self._commands.handlers())
        self._build_pages(positions)
        self._build_bars()
        self._lay_out()
        listen(self, session, self._on_session)
        listen(self, self.view, self._on_view)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_system_theme_changed)
        self.set_theme(self._palette)
        restore_geometry(self, self._settings)
        restore_splitters(self._splitters(), self._settings)
        if self._settings.is_maximised:
            self.setWindowState(self.windowState() | Qt.WindowState.WindowMaximized)
        self._show_page()
        self._on_session("model")
        self.explore.text_bar.text_edit.setFocus()

    # For the program and its commands

    def set_theme(self, palette: Palette) -> None:
        """Dress everything in the colours of a theme."""
        self._palette = palette
        apply_theme(self, palette)
        parts = (self.top_bar, self.page_bar, self.status_bar, self.banner)
        for part in (*parts, self.explore, self.positions, self.training_page):
            part.set_theme(palette)

    def offered_figures(self) -> dict[View, FigureSpec]:
        """Every figure that can be exported now, by its view."""
        pages = {"positions": self.positions.figure_spec, "train": self.training_page.figure_spec}
        return offered_figures(self._session, self.view, pages)  # type: ignore[arg-type]

    def export_current(self, path: Path | str) -> Path:
        """Write the figure that is looked at; raises UserError when there is none or it cannot be saved."""
        offered = self.offered_figures()
        shown = current_figure(self.view, offered)
        if shown is None:
            raise UserError("There is no figure to export.", action="Type a sentence or open a run first.")
        return save(offered[shown], path)

    def settings_snapshot(self) -> Settings:
        """What to remember until the next start."""
        place = self.normalGeometry() if self.isMaximized() else self.geometry()
        return Settings(
            theme=self.view.theme,
            colour_map=self.view.colour_map,
            scale=self.view.scale,
            device=self._settings.device,
            page=self.view.page,
            geometry=(place.x(), place.y(), place.width(), place.height()),
            is_maximised=self.isMaximized(),
            splitters=splitter_sizes(self._splitters()),
            recent=self._settings.recent,
            export_folder=self._commands.export_folder,
        )

    def closeEvent(self, event: QCloseEvent) -> None:
        """Tell the program, which stops the worker and saves."""
        release_clipboard()
        super().closeEvent(event)
        self.closing.emit()

    # Building

    def _build_pages(self, positions: PositionsState) -> None:
        head_actions = tuple(self.actions_by_name[name] for name in HEAD_ACTIONS)
        self.explore = ExplorePage(self._session, self.view, self._palette, head_actions)
        self.positions = PositionsPage(positions, self._palette)
        self.training_page = TrainingPage(
            self._training, self._palette, open_checkpoint=self._open_checkpoint
        )
        self.training_page.failed.connect(self._on_failed)
        self.positions.hover_text.connect(self.view.set_pointer_text)
        self.training_page.hover_text.connect(self.view.set_pointer_text)
        self._stack = QStackedWidget()
        for page in (self.explore, self.positions, self.training_page):
            self._stack.addWidget(page)

    def _build_bars(self) -> None:
        actions = self.actions_by_name
        model_actions = tuple(actions[name] for name in ("open-model", "open-run", "save-model"))
        self.model_menu = ModelMenu(self._session, model_actions, self)
        self.top_bar = TopBar(
            self._session, self.view, self._palette, actions=actions, model_menu=self.model_menu
        )
        pages: dict[Page, QAction] = {page: actions[f"page-{page}"] for page in _PAGES}
        self.page_bar = PageBar(self.view, self._palette, pages)
        self.banner = Banner(self._session, self._palette)
        self.status_bar = StatusBar(
            self._session, self.view, self._palette, undo=actions["undo"], redo=actions["redo"]
        )

    def _lay_out(self) -> None:
        self.setMenuWidget(self.top_bar)
        centre = QWidget()
        column = QVBoxLayout(centre)
        row, right = QHBoxLayout(), QVBoxLayout()
        for layout in (column, row, right):
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setSpacing(0)
        right.addWidget(self.banner)
        right.addWidget(self._stack, 1)
        row.addWidget(self.page_bar)
        row.addLayout(right, 1)
        column.addLayout(row, 1)
        column.addWidget(self.status_bar)
        self.setCentralWidget(centre)
        self.setMinimumSize(960, 600)

    def _splitters(self) -> dict[str, QSplitter]:
        training = {f"train.{k}": s for k, s in enumerate(self.training_page.splitters())}
        positions = {f"positions.{k}": s for k, s in enumerate(self.positions.splitters())}
        return {**self.explore.splitters(), **training, **positions}

    # Showing

    def _on_session(self, name: str) -> None:
        if name in ("model", "history", "gates", "selection", "notice", "traced"):
            self._show_actions()
        if name == "model":
            model = self._session.model
            self.setWindowTitle(f"{model.name} – AttnScope" if model else "AttnScope")

    def _on_view(self, name: str) -> None:
        if name == "page":
            self._show_page()
        elif name == "theme":
            self.set_theme(palette_for(self.view.theme))
        elif name == "enlarged":
            self._show_actions()
        elif name == "style":
            self.training_page.set_style(map_style(self.view))

    def _show_page(self) -> None:
        self._stack.setCurrentIndex(_PAGES.index(self.view.page))
        self.status_bar.duration.setVisible(self.view.page == "explore")

    def _show_actions(self) -> None:
        session, actions = self._session, self.actions_by_name
        has_model, has_head = session.model is not None, bool(session.selection)
        for name, label in (("undo", session.undo_label), ("redo", session.redo_label)):
            verb = name.capitalize()
            actions[name].setEnabled(bool(label))
            actions[name].setText(f"{verb}: {label}" if label else verb)
            actions[name].setToolTip(f"{actions[name].text()} ({actions[name].shortcut().toString()})")
        for name in ("toggle-heads", "prune-all-but", "enlarge"):
            actions[name].setEnabled(has_head)
        for name in ("invert", "save-model"):
            actions[name].setEnabled(has_model)
        actions["reset"].setEnabled(bool(session.gates))
        for k in range(3):
            actions[f"stack-{k + 1}"].setVisible(k < len(session.stacks))
            if k < len(session.stacks):
                actions[f"stack-{k + 1}"].setText(f"Stack {session.stacks[k]}")
        actions["dismiss"].setEnabled(session.notice is not None or self.view.is_enlarged)

    # Intents that need more than one state

    def _open_run(self, folder: str) -> None:
        self._training.open_run(folder)
        self._session.load_model(folder)
        self.view.show_page("train")

    def _open_checkpoint(self, folder: str) -> None:
        watch = self._training.watch
        sample = Sample(text=watch.text, target=watch.target) if watch.text.strip() else None
        self._session.load_model(folder, sample=sample)
        self.view.show_page("explore")

    def _edit_text(self) -> None:
        self.view.show_page("explore")
        edit = self.explore.text_bar.text_edit
        edit.setFocus()
        edit.selectAll()

    @Slot(str)
    def _on_failed(self, message: str) -> None:
        self._session.tell_person(message, is_error=True)

    @Slot(Qt.ColorScheme)
    def _on_system_theme_changed(self, _scheme: Qt.ColorScheme) -> None:
        if self.view.theme == "system":
            self.set_theme(palette_for("system"))


def _view_state(settings: Settings) -> ViewState:
    """The view state as remembered; what is not known there is left at its default."""
    view = ViewState()
    view.set_theme(settings.theme)
    view.set_colour_map(settings.colour_map if settings.colour_map in COLOUR_MAPS else "viridis")
    scales: dict[str, Scale] = {"fixed": "fixed", "head": "head", "row": "row"}
    view.set_scale(scales.get(settings.scale, "fixed"))
    pages: dict[str, Page] = {page: page for page in _PAGES}
    view.show_page(pages.get(settings.page, "explore"))
    return view
