"""The menu of models: those that come with the program, those opened before, folders, runs."""

from collections.abc import Sequence

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from attnscope.figures.plain import plain_text, short_path
from attnscope.viewmodels.session.recents import Recents
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.labels import plain_tooltip, when

_N_RECENT = 6
_MOST_LETTERS = 60


class ModelMenu(QMenu):
    """Offers the demo models the worker has named, then `actions`."""

    def __init__(
        self,
        session: Session,
        actions: Sequence[QAction],
        parent: QWidget | None = None,
        recents: Recents | None = None,
    ) -> None:
        super().__init__("&Model", parent)
        self.setToolTipsVisible(True)
        self._session, self._recents = session, recents or Recents()
        self._fixed = tuple(actions)
        self._demos: list[QAction] = []
        self._group = QActionGroup(self)
        self._rule = self.addSeparator()
        self.addActions(self._fixed)
        self.triggered.connect(self._on_triggered)
        told = session.changed
        when(self, self._show_demos, told.ready, told.model, self._recents.changed)
        self._show_demos()

    def demo_actions(self) -> tuple[QAction, ...]:
        """One action for each demo model and each model opened before."""
        return tuple(self._demos)

    def _show_demos(self) -> None:
        for action in self._demos:
            self._group.removeAction(action)
            self.removeAction(action)
            action.setParent(None)
            action.deleteLater()
        self._demos.clear()
        open_source = self._session.model.source if self._session.model else ""
        open_name = self._session.model.name if self._session.model else ""
        for k, name in enumerate(self._session.demo_models):
            action = QAction(plain_text(name).replace("&", "&&"), self, checkable=True)
            action.setData(name)
            action.setChecked(name in (open_source, open_name))
            if k < 9:
                action.setShortcut(QKeySequence(f"Ctrl+Alt+{k + 1}"))
            self._group.addAction(action)
            self.insertAction(self._rule, action)
            self._demos.append(action)
        self._show_recents(open_source)

    def _show_recents(self, open_source: str) -> None:
        """Models opened before that are no demos, under a line of their own."""
        others = [name for name in self._recents.models if name not in self._session.demo_models]
        for source in others[:_N_RECENT]:
            action = QAction(short_path(plain_text(source), _MOST_LETTERS).replace("&", "&&"), self)
            action.setData(source)
            action.setCheckable(True)
            action.setChecked(source == open_source)
            action.setToolTip(plain_tooltip(source))
            self._group.addAction(action)
            self.insertAction(self._rule, action)
            self._demos.append(action)

    def _on_triggered(self, action: QAction) -> None:
        if action in self._demos:
            self._session.load_model(str(action.data()))
