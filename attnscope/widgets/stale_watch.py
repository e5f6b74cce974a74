"""Dimming what is out of date, but only when the new picture takes longer than an eye's blink."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

from attnscope.viewmodels.session.state import Session

_PATIENCE_MS = 160


class StaleWatch(QObject):
    """Tells `show` whether the pictures are out of date; quick answers pass without a flicker."""

    def __init__(self, session: Session, show: Callable[[bool], None], parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._show = session, show
        self._is_shown = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_PATIENCE_MS)
        self._timer.timeout.connect(self._on_time_up)

    def check(self) -> None:
        """The session has posted or received something."""
        if not self._session.is_stale:
            self._timer.stop()
            self._set(False)
        elif not self._timer.isActive() and not self._is_shown:
            self._timer.start()

    @Slot()
    def _on_time_up(self) -> None:
        self._set(self._session.is_stale)

    def _set(self, is_stale: bool) -> None:
        if is_stale != self._is_shown:
            self._is_shown = is_stale
            self._show(is_stale)
