"""A calm outline around a part of the window, which the mouse goes through."""

from PySide6.QtCore import QEvent, QObject, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from attnscope.widgets.theme import Dressed

_WIDTH_PX, _RADIUS_PX, _SETTLE_MS = 2.0, 5.0, 30
_MOVED = {
    QEvent.Type.Move,
    QEvent.Type.Resize,
    QEvent.Type.Show,
    QEvent.Type.Hide,
    QEvent.Type.ParentChange,
    QEvent.Type.LayoutRequest,
}


class PointerFrame(Dressed):
    """Follows its target wherever that goes, in another window too; hidden while the target is."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._home = window
        self._target: QWidget | None = None
        self._watched: list[QWidget] = []
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_SETTLE_MS)
        self._timer.timeout.connect(self.place)
        self.hide()

    @property
    def target(self) -> QWidget | None:
        """What is pointed at."""
        return self._target

    def point_at(self, target: QWidget | None) -> None:
        """Outline another part, or none."""
        if target is not self._target:
            if self._target is not None:
                self._target.destroyed.disconnect(self._on_target_gone)
            if target is not None:
                target.destroyed.connect(self._on_target_gone)
            self._target = target
        self.place()

    def place(self) -> None:
        """Lie around the target as it is now."""
        self._watch()
        target = self._target
        if target is None or not target.isVisible():
            self.hide()
            return
        window = target.window()
        if self.parentWidget() is not window:
            self.setParent(window)
        corner = target.mapTo(window, target.rect().topLeft())
        seen = QRect(corner, target.size())
        parent = target.parentWidget()
        while parent is not None and parent is not window:
            seen = seen.intersected(QRect(parent.mapTo(window, parent.rect().topLeft()), parent.size()))
            parent = parent.parentWidget()
        self.setGeometry(seen.intersected(window.rect()))
        self.show()
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Whatever lies above the target has moved; a window that closes does not take the frame along."""
        is_closing = event.type() in (QEvent.Type.Close, QEvent.Type.DeferredDelete)
        if is_closing and watched is self.parentWidget() and watched is not self._home:
            self.setParent(self._home)
            self.hide()
        if event.type() in _MOVED:
            self._timer.start()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(self.theme.accent), _WIDTH_PX))
            inset = _WIDTH_PX / 2
            frame = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
            painter.drawRoundedRect(frame, _RADIUS_PX, _RADIUS_PX)

    def _watch(self) -> None:
        """Hear of every move of the target and of what it lies in."""
        wanted: list[QWidget] = []
        widget = self._target
        while widget is not None:
            wanted.append(widget)
            widget = None if widget.isWindow() else widget.parentWidget()
        if wanted != self._watched:
            for old in filter(isValid, self._watched):
                old.removeEventFilter(self)
            for new in wanted:
                new.installEventFilter(self)
            self._watched = wanted

    def _on_target_gone(self) -> None:
        self._target, self._watched = None, []
        self.hide()
