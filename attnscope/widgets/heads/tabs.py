"""The Heads page as a whole: the table of all heads, pruning curves, which are alike, what weights say."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from attnscope.figures.spec import FigureSpec
from attnscope.viewmodels.heads.alike import AlikeState
from attnscope.viewmodels.heads.head_weights import WeightsState
from attnscope.viewmodels.heads.pruning_curves import CurvesState
from attnscope.widgets.heads.alike_page import AlikePage
from attnscope.widgets.heads.page import HeadsPage
from attnscope.widgets.heads.pruning_page import PruningPage
from attnscope.widgets.heads.weights_page import WeightsPage
from attnscope.widgets.side_tabs import SideTabs


class HeadsTabs(QWidget):
    """Tabs around the Heads page; `remove_wanted` asks for the dialog that removes heads."""

    failed = Signal(str, str)
    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, table: HeadsPage) -> None:
        super().__init__()
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.table = table
        self.pruning: PruningPage | None = None
        self.alike: AlikePage | None = None
        self.weights: WeightsPage | None = None
        self.tabs = SideTabs()
        self.tabs.add("Table", table)
        self.tabs.shown.connect(self.updateGeometry)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)

    def offer_pruning(self, state: CurvesState, table_path: Callable[[], str]) -> None:
        """Pruning curves, in a tab of their own; `table_path` names the file measured for the table."""
        page = PruningPage(state, table_path=table_path)
        page.failed.connect(self.failed)
        page.explore_wanted.connect(self.explore_wanted)
        page.remove_wanted.connect(self.remove_wanted)
        self.pruning = page
        self.tabs.add("Pruning", page)

    def offer_alike(self, state: AlikeState, table_path: Callable[[], str]) -> None:
        """Which heads attend alike, in a tab of its own."""
        self.alike = AlikePage(state, table_path=table_path)
        self.tabs.add("Alike", self.alike, label="Similar heads")

    def offer_weights(self, state: WeightsState) -> None:
        """What the selected head's weights say, in a tab of its own."""
        self.weights = WeightsPage(state)
        self.weights.failed.connect(self.failed)
        self.tabs.add("Weights", self.weights)

    def minimumSizeHint(self) -> QSize:
        """The width of the tab in front: a panel at the right edge leaves it no less."""
        hint = super().minimumSizeHint()
        pages = (self.table, self.pruning, self.alike, self.weights)
        widths = [page.minimumSizeHint().width() for page in pages if page and page.isVisibleTo(self)]
        return QSize(max(widths, default=hint.width()), hint.height())

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose places are worth remembering."""
        return self.table.splitters()

    def figure_spec(self) -> FigureSpec | None:
        """The figure that can be exported from here."""
        return self.pruning.figure_spec() if self.pruning is not None else None
