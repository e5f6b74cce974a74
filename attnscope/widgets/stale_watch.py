"""Dimming what is out of date, but only when the new picture takes longer than an eye's blink."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

_PATIENCE_MS = 160


class StaleWatch(QObject):
    """Tells `show` whether what is shown `is_stale`; quick answers pass without a flicker."""

    def __init__(self, is_stale: Callable[[], bool], show: Callable[[bool], None], parent: QObject) -> None:
        super().__init__(parent)
        self._is_stale, self._show = is_stale, show
        self._is_shown = False
        self._timer = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._timer.timeout.connect(self._on_time_up)

    def check(self) -> None:
        """Something was posted or received."""
        if not self._is_stale():
            self._timer.stop()
            self._set(False)
        elif not self._timer.isActive() and not self._is_shown:
            self._timer.start()

    @Slot()
    def _on_time_up(self) -> None:
        self._set(self._is_stale())

    def _set(self, is_stale: bool) -> None:
        if is_stale != self._is_shown:
            self._is_shown = is_stale
            self._show(is_stale)
