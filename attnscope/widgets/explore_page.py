"""The Explore page: text and tokens on top, grid and large head below, inspector and output beside."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QSplitter, QStackedWidget, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.viewmodels.session import Session
from attnscope.viewmodels.stage import stage_of
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.grid_panel import GridPanel
from attnscope.widgets.head_panel import HeadPanel
from attnscope.widgets.inspector import Inspector
from attnscope.widgets.labels import listen, rule
from attnscope.widgets.output_panel import OutputPanel
from attnscope.widgets.stale_watch import StaleWatch
from attnscope.widgets.state_card import StateCard
from attnscope.widgets.text_bar import TextBar


class ExplorePage(QWidget):
    """Places the parts; shows a state card instead of pictures when there are none."""

    def __init__(
        self,
        session: Session,
        view: ViewState,
        palette: Palette,
        head_actions: Sequence[QAction] = (),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._view = session, view
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.text_bar = TextBar(session, view, palette)
        self.grid_panel = GridPanel(session, view, palette, head_actions)
        self.head_panel = HeadPanel(session, view, palette)
        self.inspector = Inspector(session, palette)
        self.output = OutputPanel(session, view, palette)
        self.card = StateCard()
        self._stages = QStackedWidget()
        self.pictures = QSplitter(Qt.Orientation.Horizontal)
        self.side = QSplitter(Qt.Orientation.Vertical)
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self._lay_out()
        self._stale = StaleWatch(session, self._show_stale, self)
        listen(self, session, self._on_session)
        listen(self, view, self._on_view)
        self._show_stage()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        for part in (self.text_bar, self.grid_panel, self.head_panel, self.inspector, self.output):
            part.set_theme(palette)

    def splitters(self) -> dict[str, QSplitter]:
        """The splitters whose places are remembered, by name."""
        return {"explore.columns": self.columns, "explore.pictures": self.pictures, "explore.side": self.side}

    def _lay_out(self) -> None:
        self.pictures.addWidget(self.grid_panel)
        self.pictures.addWidget(self.head_panel)
        self.pictures.setStretchFactor(0, 2)
        self.pictures.setStretchFactor(1, 3)
        self.pictures.setSizes([400, 560])
        self._stages.addWidget(self.card)
        self._stages.addWidget(self.pictures)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.text_bar)
        column.addWidget(rule())
        column.addWidget(self._stages, 1)
        for panel in (self.inspector, self.output):
            panel.setProperty("role", "panel")
            panel.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
            self.side.addWidget(panel)
        self.side.setMinimumWidth(240)
        self.side.setStretchFactor(1, 1)
        self.side.setSizes([288, 420])
        self.columns.addWidget(left)
        self.columns.addWidget(self.side)
        self.columns.setStretchFactor(0, 1)
        self.columns.setSizes([1000, 280])
        for splitter in (self.pictures, self.side, self.columns):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.columns)

    def _on_session(self, name: str) -> None:
        if name in ("traced", "stale"):
            self._stale.check()
        if name in ("ready", "model", "text", "traced", "busy", "notice"):
            self._show_stage()

    def _on_view(self, name: str) -> None:
        if name == "enlarged":
            self.grid_panel.setVisible(not self._view.is_enlarged)

    def _show_stage(self) -> None:
        stage = stage_of(self._session)
        is_shown = stage.kind == "shown"
        if not is_shown:
            self.card.show_stage(stage)
        self._stages.setCurrentWidget(self.pictures if is_shown else self.card)

    def _show_stale(self, is_stale: bool) -> None:
        self.grid_panel.grid.set_stale(is_stale)
        self.head_panel.set_stale(is_stale)
        self.text_bar.set_stale(is_stale)
