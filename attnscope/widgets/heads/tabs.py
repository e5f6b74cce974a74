"""The Heads page as a whole: the table of all heads, pruning curves, which are alike, what weights say."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QSplitter, QWidget

from attnscope.figures.spec import FigureSpec
from attnscope.viewmodels.states import States
from attnscope.widgets.form_parts import column
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

    def __init__(self, table: HeadsPage, states: States) -> None:
        super().__init__()
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.table = table
        self.pruning = PruningPage(states.curves, table_path=lambda: states.heads.texts.path)
        self.alike = AlikePage(states.alike, table_path=lambda: states.heads.texts.path)
        self.weights = WeightsPage(states.weights)
        self.pruning.explore_wanted.connect(self.explore_wanted)
        self.pruning.remove_wanted.connect(self.remove_wanted)
        for page in (self.pruning, self.weights):
            page.failed.connect(self.failed)
        self.tabs = SideTabs()
        self.tabs.add("Table", table)
        self.tabs.add("Pruning", self.pruning)
        self.tabs.add("Alike", self.alike, label="Similar heads")
        self.tabs.add("Weights", self.weights)
        self.tabs.shown.connect(self.updateGeometry)
        column(self.tabs, on=self, spacing=-1)

    def minimumSizeHint(self) -> QSize:
        """The width of the tab in front: a panel at the right edge leaves it no less."""
        hint = super().minimumSizeHint()
        pages = (self.table, self.pruning, self.alike, self.weights)
        widths = [page.minimumSizeHint().width() for page in pages if page.isVisibleTo(self)]
        return QSize(max(widths, default=hint.width()), hint.height())

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose places are worth remembering."""
        return self.table.splitters()

    def figure_spec(self) -> FigureSpec | None:
        """The figure that can be exported from here."""
        return self.pruning.figure_spec()
