"""A message in a row of its own below the page, covering nothing: what went wrong, or what was done."""

from collections.abc import Mapping

from PySide6.QtCore import QElapsedTimer, QSize, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QSizePolicy

from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.form_parts import row
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, push_button, tool_button, when
from attnscope.widgets.theme import Dressing

_NOTE_MS, _LEAST_MS = 6000, 1500
"""How long a note stays when nothing is done, and at least, whatever is done."""


class Banner(Dressing, QFrame):
    """Shows the session's notice; errors and questions stay until dismissed.

    A note goes after some seconds, and before with the next thing that a person does. A notice that
    names one of `actions` gets a button for it.
    """

    def __init__(
        self,
        session: Session,
        view: ViewState,
        actions: Mapping[str, QAction] | None = None,
    ) -> None:
        super().__init__()
        self._session, self._actions = session, dict(actions or {})
        self._age = QElapsedTimer()
        self._help = push_button(clicked=self._on_help_clicked)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._sign, self._label = PlainLabel(), PlainLabel()
        self._label.setWordWrap(True)
        self._close = tool_button("", "Dismiss the message", role="flat", tip="Dismiss (Esc)")
        self._timer = QTimer(self, singleShot=True, interval=_NOTE_MS)
        row(self._sign, (self._label, 1), self._help, self._close, on=self, margins=(16, 4, 8, 4), spacing=-1)
        self._close.clicked.connect(session.dismiss_notice)
        self._timer.timeout.connect(session.dismiss_notice)
        self.dress()
        when(self, self._show, session.changed.notice)
        when(self, self._leave, session.changed.history, view.changed.page)
        self._show()

    def dress(self) -> None:
        self._close.setIcon(icon("close", self.theme.muted, side_px=16))
        self._show_sign()

    def _show_sign(self) -> None:
        """A sign besides the colour: not everybody can tell red from blue."""
        notice, side = self._session.notice, round(type_px(16))
        is_error = notice is not None and notice.is_error
        name, colour = ("error", self.theme.error) if is_error else ("note", self.theme.accent)
        self._sign.setPixmap(icon(name, colour, side_px=16).pixmap(QSize(side, side)))

    @property
    def message(self) -> str:
        """What the banner says."""
        return self._label.text()

    def _on_help_clicked(self) -> None:
        notice = self._session.notice
        action = self._actions.get(notice.action) if notice is not None else None
        self._session.dismiss_notice()
        if action is not None:
            action.trigger()

    def _leave(self) -> None:
        """The person does the next thing: a note that could be read goes."""
        notice = self._session.notice
        if notice is not None and not notice.is_lasting and self._age.hasExpired(_LEAST_MS):
            self._session.dismiss_notice()

    def _show(self) -> None:
        notice = self._session.notice
        self._timer.stop()
        self.setVisible(notice is not None)
        if notice is None:
            return
        log = f"  The log is {notice.crash_log}." if notice.crash_log else ""
        self._label.setText(plain_text(notice.message + log))
        self.setProperty("role", "banner-error" if notice.is_error else "banner-note")
        self.style().unpolish(self)
        self.style().polish(self)
        self._show_sign()
        self.setAccessibleName(f"{'Error' if notice.is_error else 'Note'}: {notice.message}")
        helping = self._actions.get(notice.action)
        self._help.setVisible(helping is not None)
        self._help.setText(helping.text() if helping is not None else "")
        self._age.start()
        if not notice.is_lasting:
            self._timer.start()
