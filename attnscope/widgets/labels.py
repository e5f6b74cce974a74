"""Labels and tooltips that never interpret their text as HTML, and helpers for every panel."""

import html
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from psygnal import SignalInstance
from PySide6.QtCore import QEvent, QObject, QPointF, QSize, Qt
from PySide6.QtCore import SignalInstance as QtSignal
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QSizePolicy, QToolButton, QToolTip, QWidget

from attnscope.errors import UserError

_Widget = TypeVar("_Widget", bound=QWidget)


def watch_seen(widget: QWidget, watch: Callable[[bool], None]) -> None:
    """Tell `watch` whether `widget` is visible: only visible widgets request data.

    Call it before `when_seen`, which then shows what came meanwhile before more is asked for.
    """
    _Seen(widget, watch)


def when(widget: QObject, react: Callable[[], object], *signals: SignalInstance) -> None:
    """Call `react` whenever one of `signals` is emitted, during the life of `widget`."""
    for signal in signals:
        signal.connect(react, max_args=0)
    widget.destroyed.connect(lambda: _disconnect(signals, react))


def when_seen(widget: QWidget, react: Callable[[], object], *signals: SignalInstance) -> None:
    """As `when`; in a visible window, calls are deferred while `widget` is hidden.

    Then `react` is called once, however often its signals came. For what only shows: nobody may ask it what
    it holds while it cannot be seen.
    """
    kept = widget.findChild(_Reactions, options=Qt.FindChildOption.FindDirectChildrenOnly)
    reactions = kept if isinstance(kept, _Reactions) else _Reactions(widget)
    when(widget, lambda: reactions.wish(react), *signals)


def _disconnect(signals: tuple[SignalInstance, ...], react: Callable[[], object]) -> None:
    for signal in signals:
        signal.disconnect(react, missing_ok=True)


class _Reactions(QObject):
    """Updates pending for hidden widgets, in the order of the last request."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._widget = widget
        self._wished: dict[Callable[[], object], None] = {}
        widget.installEventFilter(self)

    def wish(self, react: Callable[[], object]) -> None:
        """React now, or once the widget becomes visible."""
        self._wished.pop(react, None)
        self._wished[react] = None
        if self._widget.isVisible() or not self._widget.window().isVisible():
            self._react()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show:
            self._react()
        return super().eventFilter(watched, event)

    def _react(self) -> None:
        while self._wished:  # one that fails leaves those after it for the next time
            react = next(iter(self._wished))
            del self._wished[react]
            react()


class _Seen(QObject):
    """Watches a widget become visible and hidden."""

    def __init__(self, widget: QWidget, watch: Callable[[bool], None]) -> None:
        super().__init__(widget)
        self._watch = watch
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Show, QEvent.Type.Hide):
            self._watch(event.type() == QEvent.Type.Show)
        return super().eventFilter(watched, event)


def ground(widget: _Widget, role: str, edge: str = "") -> _Widget:
    """`widget` with the background of a role, painted by the style sheet, and a line along an `edge`."""
    widget.setProperty("role", role)
    if edge:
        widget.setProperty("edge", edge)
    widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return widget


def plain_tooltip(text: str) -> str:
    """`text` as a tooltip that shows it literally."""
    return f"<div style='white-space: pre-wrap'>{html.escape(text)}</div>" if text else ""


class Telling(QWidget if TYPE_CHECKING else object):  # type: ignore[misc]
    """Lets the tooltip of a widget describe the item under the cursor."""

    def tip_at(self, place: QPointF) -> str:
        """Tooltip of a position; empty for none."""
        raise NotImplementedError

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tooltip(self.tip_at(QPointF(event.pos()))), self)
            return True
        return bool(super().event(event))


class PlainLabel(QLabel):
    """A label for any text; `role` is its look (see theme.py)."""

    def __init__(
        self,
        text: str = "",
        role: str = "",
        parent: QWidget | None = None,
        *,
        wraps: bool = False,
        tip: str = "",
    ) -> None:
        super().__init__(parent, textFormat=Qt.TextFormat.PlainText, wordWrap=wraps)
        self.setToolTip(tip)
        self.setText(text)
        if role:
            self.setProperty("role", role)

    def say(self, text: str) -> None:
        """Show a text; if empty, the label takes no room."""
        self.setText(text)
        self.setVisible(bool(text))

    def set_role(self, role: str) -> None:
        """Set the look of another role."""
        if self.property("role") != role:
            self.setProperty("role", role)
            self.style().unpolish(self)
            self.style().polish(self)


class ElidedLabel(PlainLabel):
    """A label that ends in … if there is no room, with the whole text as its tooltip.

    It has one line, or at most `n_lines`: as many as the text needs at the width there is.
    """

    def __init__(
        self, text: str = "", role: str = "", parent: QWidget | None = None, *, n_lines: int = 1
    ) -> None:
        super().__init__(text, role, parent)
        self._full, self._about, self._n_lines = text, "", n_lines
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        if n_lines > 1:
            self.setWordWrap(True)
            policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def minimumSizeHint(self) -> QSize:
        """One line high, even without a text, so that nothing moves when one comes."""
        return QSize(0, self.fontMetrics().height())

    def sizeHint(self) -> QSize:
        """As wide as the shown text, one line high."""
        return QSize(super().sizeHint().width(), self.fontMetrics().height())

    def set_full_text(self, text: str, about: str = "") -> None:
        """Show `text`, cut to the available width; the tooltip is `about`, or else the full text."""
        if (text, about) != (self._full, self._about):
            self._full, self._about = text, about
            self._elide()

    def full_text(self) -> str:
        """The text before it was cut."""
        return self._full

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._elide()

    def _elide(self) -> None:
        metrics, room = self.fontMetrics(), max(self.width(), 8)
        # Lines end with words: of all but the last one something is left free.
        most = round(room * (1 + _FILLED * (self._n_lines - 1)))
        shown = metrics.elidedText(self._full, Qt.TextElideMode.ElideRight, most)
        if shown != self._full and room < _LEAST_LETTERS * metrics.averageCharWidth():
            shown = ""  # a letter and three dots tell nothing
        self.setText(shown)
        self.setToolTip(plain_tooltip(self._about or (self._full if shown != self._full else "")))


_LEAST_LETTERS, _FILLED = 9, 0.92


def rule(*, is_vertical: bool = False) -> QFrame:
    """A line of one pixel as a separator."""
    line = QFrame()
    line.setProperty("role", "rule")
    if is_vertical:
        line.setFixedWidth(1)
    else:
        line.setFixedHeight(1)
    return line


def named(widget: _Widget, name: str = "", tip: str = "", *, role: str = "") -> _Widget:
    """The widget, with an accessible name, a tooltip, and the look of a role (theme.py)."""
    if name:
        widget.setAccessibleName(name)
    if tip:
        widget.setToolTip(tip)
    if role:
        widget.setProperty("role", role)
    return widget


def push_button(
    text: str = "",
    *,
    name: str = "",
    tip: str = "",
    role: str = "",
    clicked: Callable[..., object] | QtSignal | None = None,
    is_default: bool = False,
) -> QPushButton:
    """A button of a form or dialog."""
    button = named(QPushButton(text, default=is_default), name, tip, role=role)
    if clicked is not None:
        button.clicked.connect(clicked)
    return button


def tool_button(
    text: str,
    name: str,
    *,
    tip: str = "",
    role: str = "",
    is_checkable: bool = False,
    clicked: Callable[..., object] | QtSignal | None = None,
) -> QToolButton:
    """A button with a text, and an accessible name."""
    button = named(QToolButton(), name, tip, role=role)
    button.setText(text)
    button.setCheckable(is_checkable)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    if clicked is not None:
        button.clicked.connect(clicked)
    return button


class Failing(Protocol):
    """A page's signal `failed`."""

    def emit(self, subject: str, why: str, /) -> None:
        """Report an error, or with an empty text that there is none any more."""
        ...


@contextmanager
def told_failures(failed: Failing, subject: str) -> Iterator[None]:
    """Do something that may fail for a reason the user can correct; the message stays until it succeeds."""
    try:
        yield
    except UserError as error:
        failed.emit(subject, str(error))
    else:
        failed.emit(subject, "")
