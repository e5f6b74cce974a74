"""Several panels in one place, one shown at a time."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QScrollArea,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from attnscope.figures.style import text_width, type_px
from attnscope.widgets.flow_row import FlowRow
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import tool_button
from attnscope.widgets.theme import Dressed

_BESIDE_PX = 5


class SideTabs(Dressed):
    """Tabs, in two rows where one is too narrow, and the chosen panel below; a single panel has no tabs.

    `is_narrow` makes the tabs small, for many of them in a side panel. `shown` is emitted when another
    panel comes to the front.
    """

    shown = Signal()

    def __init__(self, *, is_narrow: bool = False) -> None:
        super().__init__()
        self._role = "side-tab" if is_narrow else "tab"
        self.tabs: dict[str, QToolButton] = {}
        self._pages = QStackedWidget()
        self._pages.currentChanged.connect(lambda _index: self.shown.emit())
        self._group = QButtonGroup(self)
        self._bar = QWidget()
        self._row = FlowRow(spacing=0, line_spacing=0)
        self._row.setContentsMargins(4 if is_narrow else 8, 4, 4 if is_narrow else 8, 0)
        self._bar.setLayout(self._row)
        # However low the window, the tabs stay whole: the panels scroll.
        self._pages.setMinimumHeight(1)
        column(self._bar, (self._pages, 1), on=self, spacing=0)
        self._bar.setVisible(False)

    def add(self, name: str, panel: QWidget, *, label: str = "", tip: str = "") -> None:
        """Add a panel after the others; `name` is its name in files, `label` what the tab says if other."""
        tab = tool_button(label or name, label or name, role=self._role, is_checkable=True)
        if tip:
            tab.setToolTip(tip)
        self._row.addWidget(tab)
        if self.tabs:
            self.setTabOrder(list(self.tabs.values())[-1], tab)  # before what the panels hold
        page = _scrolling(panel)
        self._group.addButton(tab, self._pages.addWidget(page))
        self.tabs[name] = tab
        tab.clicked.connect(lambda: self._pages.setCurrentWidget(page))
        tab.setChecked(len(self.tabs) == 1)
        self._bar.setVisible(len(self.tabs) > 1)
        self.dress()

    def dress(self) -> None:
        """Little beside the names of small tabs: as much as tells one from the next."""
        if self._role == "side-tab":
            for tab in self.tabs.values():
                tab.setFixedWidth(round(text_width(tab.text()) + type_px(_BESIDE_PX)))

    def show_panel(self, name: str) -> None:
        """Bring a panel to the front."""
        self.tabs[name].click()

    def show_bar(self, is_shown: bool) -> None:
        """Show the row of tabs, or only the panel at the front."""
        self._bar.setVisible(is_shown and len(self.tabs) > 1)

    def is_shown(self, name: str) -> bool:
        """Whether a panel is at the front."""
        return name in self.tabs and self.tabs[name].isChecked()


def _scrolling(panel: QWidget) -> QScrollArea:
    """The panel whole, scrolled where there is less height than it needs."""
    area = QScrollArea(widgetResizable=True)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(panel)
    panel.setAutoFillBackground(False)  # setWidget turns it on
    return area
