"""The Learn page: the welcome and the help, each behind a tab; made when it is first looked at."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from attnscope.widgets.side_tabs import SideTabs
from attnscope.widgets.tours.help_panel import HelpPanel
from attnscope.widgets.tours.welcome_panel import WelcomePanel

MakeParts = Callable[[], tuple[WelcomePanel, HelpPanel]]


class LearnPage(QWidget):
    """Holds both; `link_wanted` carries a link of a help page that leads out of the help."""

    link_wanted = Signal(str)

    def __init__(self, make: MakeParts, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._make = make
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.welcome: WelcomePanel | None = None
        self.help: HelpPanel | None = None
        self.tabs = SideTabs()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self.tabs)

    def build(self) -> None:
        """Make what is shown, unless that has been done."""
        if self.welcome is None:
            self.welcome, self.help = self._make()
            self.tabs.add("Welcome", self.welcome)
            self.tabs.add("Help", self.help)
            self.help.link_wanted.connect(self.link_wanted)

    def show_help(self, name: str, heading: str = "") -> None:
        """Turn to a help page."""
        self.build()
        self.tabs.show_panel("Help")
        if self.help is not None:
            self.help.show_page(name, heading)

    def showEvent(self, event: QShowEvent) -> None:
        self.build()
        super().showEvent(event)
