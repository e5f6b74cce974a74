"""A message that lies over the page, moves nothing and blocks nothing: what went wrong, or what was done."""

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.viewmodels.session.notices import Notice
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, listen, tool_button

_NOTE_MS = 6000
_MAX_WIDTH_PX, _EDGE_PX = 720, 16


class Banner(QFrame):
    """Shows the session's notice at the lower edge of `over`; errors stay until dismissed, notes go.

    A notice that names one of `actions` gets a button for it.
    """

    def __init__(
        self, session: Session, palette: Palette, over: QWidget, actions: Mapping[str, QAction] | None = None
    ) -> None:
        super().__init__(over)
        self._session, self._over, self._actions = session, over, dict(actions or {})
        self._help = QPushButton()
        self._help.clicked.connect(self._on_help_clicked)
        over.installEventFilter(self)
        self._label = PlainLabel()
        self._label.setWordWrap(True)
        self._close = tool_button("", "Dismiss the message", role="flat")
        self._close.setToolTip("Dismiss (Esc)")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_NOTE_MS)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 8, 8, 8)
        layout.addWidget(self._label, 1)
        layout.addWidget(self._help)
        layout.addWidget(self._close)
        self._close.clicked.connect(session.dismiss_notice)
        self._timer.timeout.connect(session.dismiss_notice)
        self.set_theme(palette)
        listen(self, session, self._on_session)
        self._show(session.notice)

    def set_theme(self, palette: Palette) -> None:
        """Draw the cross in another colour."""
        self._close.setIcon(icon("close", palette.muted, side_px=16))

    @property
    def message(self) -> str:
        """What the banner says."""
        return self._label.text()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the lower edge when the page changes its size."""
        if watched is self._over and event.type() == QEvent.Type.Resize and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        """As wide as the sentence needs, above the lower edge, in the middle."""
        room = self._over.size()
        width = min(round(type_px(_MAX_WIDTH_PX)), room.width() - 2 * _EDGE_PX)
        height = max(self.heightForWidth(width), self.sizeHint().height() if width <= 0 else 0)
        height = min(max(height, self.minimumSizeHint().height()), room.height() - 2 * _EDGE_PX)
        self.setGeometry((room.width() - width) // 2, room.height() - height - _EDGE_PX, width, height)
        self.raise_()

    def _on_help_clicked(self) -> None:
        notice = self._session.notice
        action = self._actions.get(notice.action) if notice is not None else None
        self._session.dismiss_notice()
        if action is not None:
            action.trigger()

    def _on_session(self, name: str) -> None:
        if name == "notice":
            self._show(self._session.notice)

    def _show(self, notice: Notice | None) -> None:
        self._timer.stop()
        self.setVisible(notice is not None)
        if notice is None:
            return
        log = f"  The log is {notice.crash_log}." if notice.crash_log else ""
        self._label.setText(plain_text(notice.message + log))
        self.setProperty("role", "banner-error" if notice.is_error else "banner-note")
        self.style().unpolish(self)
        self.style().polish(self)
        self.setAccessibleName(f"{'Error' if notice.is_error else 'Note'}: {notice.message}")
        helping = self._actions.get(notice.action)
        self._help.setVisible(helping is not None)
        self._help.setText(helping.text() if helping is not None else "")
        self._place()
        if not notice.is_error and helping is None:
            self._timer.start()
