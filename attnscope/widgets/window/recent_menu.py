"""The sessions opened lately, as a menu."""

from collections.abc import Callable

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from attnscope.figures.plain import plain_text, shorten
from attnscope.viewmodels.session.recents import Recents
from attnscope.widgets.labels import plain_tooltip, when
from attnscope.widgets.possible import allow


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
