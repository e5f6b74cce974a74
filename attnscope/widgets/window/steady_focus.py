"""Where the keyboard is when the control it was at greys out or goes out of sight: beside it, at nothing.

Qt hands it to the next control, be it Stop after Pause, and what is typed next does something else.
"""

from PySide6.QtCore import QEvent, QObject, Qt, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QLineEdit, QWidget
from shiboken6 import isValid

_PRESSING = (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)


class SteadyFocus(QObject):
    """Keeps the focus of every window of the program with what is around a control that can hold it no more.

    It goes back to the control when that can be used again, unless a person has gone elsewhere.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting: tuple[QWidget, QWidget] | None = None
        """The control that the focus was taken from, until somebody puts it elsewhere, and its refuge."""
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._on_focus_changed)

    @Slot(QWidget, QWidget)
    def _on_focus_changed(self, old: QWidget | None, now: QWidget | None) -> None:
        if self._waiting is not None and now is self._waiting[1]:
            return
        self._forget()
        if old is None or not isValid(old) or _can_hold(old) or not old.window().isVisible():
            return
        if (now.window() if now is not None else QApplication.activeWindow()) is not old.window():
            return
        refuge = old.parentWidget()
        while refuge is not None and not _can_hold(refuge):
            refuge = None if refuge.isWindow() else refuge.parentWidget()
        if refuge is not None:
            if isinstance(now, QLineEdit):
                now.deselect()  # as Qt selects what it goes on to
            self._wait(old, refuge)

    def give(self, wanted: QWidget, window: QWidget) -> None:
        """Give the keyboard to a control that is not seen yet: `window` holds it until then."""
        self._wait(wanted, window)

    def _wait(self, left: QWidget, refuge: QWidget) -> None:
        self._waiting = left, refuge
        left.installEventFilter(self)
        refuge.installEventFilter(self)
        refuge.setFocus()

    def _forget(self) -> None:
        for watched in filter(isValid, self._waiting or ()):
            watched.removeEventFilter(self)
        self._waiting = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Go back to the control; until then, what would press it presses nothing else."""
        if self._waiting is None:
            return False
        left, refuge = self._waiting
        if watched is left and event.type() in (QEvent.Type.EnabledChange, QEvent.Type.Show):
            if _can_hold(left):
                self._forget()
                left.setFocus()
        elif watched is refuge and isinstance(left, QAbstractButton) and isinstance(event, QKeyEvent):
            if event.key() in _PRESSING and not event.modifiers():
                event.accept()
                return True
        return False


def _can_hold(widget: QWidget) -> bool:
    return widget.isEnabled() and widget.isVisible()
