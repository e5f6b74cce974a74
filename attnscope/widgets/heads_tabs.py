"""The Heads page as a whole: the table of all heads, pruning curves, and which heads are alike."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.spec import FigureSpec
from attnscope.viewmodels.alike import AlikeState
from attnscope.viewmodels.pruning_curves import CurvesState
from attnscope.widgets.alike_page import AlikePage
from attnscope.widgets.heads_page import HeadsPage
from attnscope.widgets.pruning_page import PruningPage
from attnscope.widgets.side_tabs import SideTabs


class HeadsTabs(QWidget):
    """Tabs around the Heads page; `remove_wanted` asks for the dialog that removes heads."""

    failed = Signal(str)
    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, table: HeadsPage, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.table = table
        self.pruning: PruningPage | None = None
        self.alike: AlikePage | None = None
        self.tabs = SideTabs()
        self.tabs.add("Table", table)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)

    def offer_pruning(self, state: CurvesState, table_path: Callable[[], str]) -> None:
        """Pruning curves, in a tab of their own; `table_path` names the file measured for the table."""
        page = PruningPage(state, self._palette, table_path=table_path)
        page.failed.connect(self.failed)
        page.explore_wanted.connect(self.explore_wanted)
        page.remove_wanted.connect(self.remove_wanted)
        self.pruning = page
        self.tabs.add("Pruning", page)

    def offer_alike(self, state: AlikeState, table_path: Callable[[], str]) -> None:
        """Which heads attend alike, in a tab of its own."""
        self.alike = AlikePage(state, self._palette, table_path=table_path)
        self.tabs.add("Alike", self.alike)

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        self._palette = palette
        self.table.set_theme(palette)
        if self.pruning is not None:
            self.pruning.set_theme(palette)
        if self.alike is not None:
            self.alike.set_theme(palette)

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose places are worth remembering."""
        return self.table.splitters()

    def figure_spec(self) -> FigureSpec | None:
        """The figure that can be exported from here."""
        return self.pruning.figure_spec() if self.pruning is not None else None
