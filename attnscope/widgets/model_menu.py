"""The menu of models: those that come with the program, folders, runs."""

from collections.abc import Sequence

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from attnscope.figures.plain import plain_text
from attnscope.viewmodels.session import Session
from attnscope.widgets.labels import listen


class ModelMenu(QMenu):
    """Offers the demo models the worker has named, then `actions`."""

    def __init__(self, session: Session, actions: Sequence[QAction], parent: QWidget | None = None) -> None:
        super().__init__("&Model", parent)
        self._session = session
        self._fixed = tuple(actions)
        self._demos: list[QAction] = []
        self._group = QActionGroup(self)
        self._rule = self.addSeparator()
        self.addActions(self._fixed)
        self.triggered.connect(self._on_triggered)
        listen(self, session, self._on_session)
        self._show_demos()

    def demo_actions(self) -> tuple[QAction, ...]:
        """One action for each demo model."""
        return tuple(self._demos)

    def _on_session(self, name: str) -> None:
        if name in ("ready", "model"):
            self._show_demos()

    def _show_demos(self) -> None:
        for action in self._demos:
            self._group.removeAction(action)
            self.removeAction(action)
            action.deleteLater()
        self._demos.clear()
        open_source = self._session.model.source if self._session.model else ""
        open_name = self._session.model.name if self._session.model else ""
        for k, name in enumerate(self._session.demo_models):
            action = QAction(plain_text(name).replace("&", "&&"), self)
            action.setData(name)
            action.setCheckable(True)
            action.setChecked(name in (open_source, open_name))
            if k < 9:
                action.setShortcut(QKeySequence(f"Ctrl+Alt+{k + 1}"))
            self._group.addAction(action)
            self.insertAction(self._rule, action)
            self._demos.append(action)

    def _on_triggered(self, action: QAction) -> None:
        if action in self._demos:
            self._session.load_model(str(action.data()))
