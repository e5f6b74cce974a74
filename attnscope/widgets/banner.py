"""A message over the page that blocks nothing: what went wrong, or what was done."""

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text
from attnscope.viewmodels.session import Notice, Session
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, listen, tool_button

_NOTE_MS = 6000


class Banner(QFrame):
    """Shows the session's notice; errors stay until dismissed, notes go by themselves."""

    def __init__(self, session: Session, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._label = PlainLabel()
        self._label.setWordWrap(True)
        self._close = tool_button("", "Dismiss the message", role="flat")
        self._close.setToolTip("Dismiss (Esc)")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_NOTE_MS)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 4, 8, 4)
        layout.addWidget(self._label, 1)
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
        if not notice.is_error:
            self._timer.start()
