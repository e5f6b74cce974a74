"""The look of the window from one palette: Qt's own palette, a style sheet for the rest, and icons."""

import dataclasses
import math
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QIcon,
    QPainter,
    QPainterPath,
    QPalette,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from attnscope.figures.colours import DARK, LIGHT, PROJECTOR, Palette
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, set_type_factor, type_px
from attnscope.paths import resources_folder
from attnscope.viewmodels.view_state import Theme

_STYLE = "fusion"


def dress_application() -> None:
    """Set one style and one font on every system, before a window is built with type at its own size."""
    application = QApplication.instance()
    if isinstance(application, QApplication):
        set_type_factor(1.0)
        if application.style().name() != _STYLE:  # to set it again repaints whatever is there, for seconds
            application.setStyle(_STYLE)
        application.setFont(font(NORMAL_PX))


def palette_for(theme: Theme, size_percent: int = 100) -> Palette:
    """The palette of a theme, with a size of type; `system` asks the desktop."""
    found = _palette_of(theme)
    return dataclasses.replace(found, type_factor=found.type_factor * size_percent / 100)


def on_stage(palette: Palette, height_px: int) -> Palette:
    """The palette with type readable from the back of a room: at least 2.5 % of a window's height."""
    least = math.ceil(STAGE_SHARE * height_px) / SMALL_PX
    return dataclasses.replace(palette, type_factor=max(palette.type_factor, least))


def _palette_of(theme: Theme) -> Palette:
    if theme == "system":
        return DARK if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT
    return {"dark": DARK, "projector": PROJECTOR}.get(theme, LIGHT)


def apply_theme(widget: QWidget, palette: Palette) -> None:
    """Style `widget` and everything in it, and the program's menus and tooltips: see `Dressing`."""
    application = QApplication.instance()
    if isinstance(application, QApplication):
        set_type_factor(palette.type_factor)
        application.setPalette(_qt_palette(palette))
    widget.setProperty(_THEME, palette)
    if widget.styleSheet():
        widget.ensurePolished()  # else Qt tells a window that was never shown of its first style sheet only
    with _all_at_once():
        widget.setStyleSheet(stylesheet(palette))
    for part in reversed(_Made.alive()):
        if _is_in(part, widget):
            part.dress()


def _is_in(part: QWidget | None, widget: QWidget) -> bool:
    """Whether a widget is another one, or is in it or in a window above it."""
    while part is not None:
        if part is widget or widget.isAncestorOf(part):
            return True
        part = part.window().parentWidget()
    return False


def theme_of(widget: QWidget) -> Palette:
    """The palette of the window of `widget`, or of the one above it; light if there is none."""
    above: QWidget | None = widget
    while above is not None:
        window = above.window()
        found = window.property(_THEME)
        if isinstance(found, Palette):
            return found
        above = window.parentWidget()
    return LIGHT


class _Now:
    """Whether a style sheet is being applied to a window."""

    is_dressing = False


@contextmanager
def _all_at_once() -> Iterator[None]:
    _Now.is_dressing = True
    try:
        yield
    finally:
        _Now.is_dressing = False


class _Made:
    """Every styled widget, in order of creation.

    Qt could list them too, but would hand out the inner parts of lists and tables as well, and Python keeps
    what stands for those when they are gone.
    """

    known: ClassVar[dict[int, "weakref.ref[Dressing]"]] = {}
    n = 0

    @classmethod
    def add(cls, widget: "Dressing") -> None:
        """Add a new widget."""
        cls.n += 1
        at, known = cls.n, cls.known
        known[at] = weakref.ref(widget, lambda _: known.pop(at, None))

    @classmethod
    def alive(cls) -> list["Dressing"]:
        """The living ones, the oldest first."""
        found = [one() for one in cls.known.values()]
        return [one for one in found if one is not None and isValid(one)]


class Dressing(QWidget if TYPE_CHECKING else object):  # type: ignore[misc]
    """Lets a widget of any kind paint in the theme of its window, and adapt to each new one.

    It is dressed after all that lies in it, so that it can measure its parts; one that joins a window later,
    when Qt sends it a StyleChange.
    """

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        made: Self = super().__new__(cls, *arguments, **named)
        _Made.add(made)
        return made

    if TYPE_CHECKING:

        @property
        def theme(self) -> Palette: ...
    else:
        theme = property(theme_of, doc="The colours to paint in now.")

    def dress(self) -> None:
        """Handle another theme, or size of type."""
        self.fit_room()

    def fit_room(self) -> None:
        """Handle another size of the widget or of type."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit_room()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and not _Now.is_dressing:
            self.dress()


class Dressed(Dressing, QWidget):
    """A plain widget that does so."""


def stylesheet(palette: Palette) -> str:
    """The style sheet of the window."""
    names = {name: getattr(palette, name) for name in _NAMES}
    sheet = _SHEET
    for name in sorted(names, key=len, reverse=True):
        sheet = sheet.replace(f"@{name}@", names[name])
    tick = "tick-dark" if palette.is_dark else "tick-light"
    for name, file in (("chevron", "chevron"), ("chevron-up", "chevron-up"), ("tick", tick)):
        sheet = sheet.replace(f"@{name}@", (resources_folder() / "icons" / f"{file}.svg").as_posix())
    sheet = _LENGTH.sub(lambda found: f"{round(int(found[1]) * palette.type_factor)}px", sheet)
    return sheet.replace("@handle@", "12px")


def _qt_palette(palette: Palette) -> QPalette:
    result = QPalette()
    role = QPalette.ColorRole
    for where, colour in (
        (role.Window, palette.panel),
        (role.Base, palette.raised),
        (role.AlternateBase, palette.panel),
        (role.Button, palette.raised),
        (role.Text, palette.text),
        (role.WindowText, palette.text),
        (role.ButtonText, palette.text),
        (role.PlaceholderText, palette.muted),
        (role.Highlight, palette.accent),
        (role.HighlightedText, palette.accent_text),
        (role.ToolTipBase, palette.raised),
        (role.ToolTipText, palette.text),
        (role.Link, palette.accent),
        (role.Mid, palette.line),
    ):
        result.setColor(where, QColor(colour))
    for where in (role.Text, role.WindowText, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, where, QColor(palette.no_data))
    return result


_NAMES = (
    "background", "panel", "raised", "text", "muted", "accent", "accent_text", "focus",
    "warning", "error", "line", "grid", "no_data",
)  # fmt: skip

STAGE_SHARE = 0.025
"""The height of the smallest type while presenting, of the window's height."""
_THEME = "theme"
"""The property of a dressed widget that holds its palette."""
_LENGTH = re.compile(r"\b(1[0-9]|[2-9][0-9])px")
"""Lengths that grow with the type; thinner ones are lines and gaps."""

_SHEET = """
* { font-size: 13px; color: @text@; outline: none; }
QMainWindow, QDialog, QWidget[role="page"] { background: @background@; }
QWidget[role="bar"], QWidget[role="panel"] { background: @panel@; }
QWidget[role="bar"] { border: none; }
QWidget[edge="bottom"] { border-bottom: 1px solid @line@; }
QWidget[edge="top"] { border-top: 1px solid @line@; }
QWidget[edge="left"] { border-left: 1px solid @line@; }
QWidget[edge="right"] { border-right: 1px solid @line@; }
QLabel { background: transparent; border: none; }
QLabel[role="small"], QLabel[role="muted"], QLabel[role="value"] { font-size: 11px; }
QLabel[role="muted"] { color: @muted@; }
QLabel:disabled { color: @no_data@; }
QLabel[role="hint"] { color: @muted@; }
QLabel[role="section"] { font-size: 11px; font-weight: 600; color: @muted@; }
QLabel[role="name"] { font-weight: 600; }
QTextBrowser[role="reading"] { background: transparent; border: none; selection-background-color: @accent@;
    selection-color: @accent_text@; }
QAbstractButton[role="card"] { background: @raised@; border: 1px solid @line@; border-radius: 4px; }
QAbstractButton[role="card"]:hover { background: @grid@; }
QAbstractButton[role="card"]:focus { border: 1px solid @focus@; }
QLabel[role="large"] { font-size: 18px; font-weight: 600; }
QLabel[role="warning"] { font-size: 11px; color: @warning@; font-weight: 600; }
QLabel[role="error"] { color: @error@; }
QLabel[role="alarm"] { font-size: 11px; background: @error@; color: @background@; font-weight: 600;
    padding: 0 6px; }
QLabel[role="good"] { font-size: 11px; color: @muted@; }
QFrame[swatch] { border: 1px solid @muted@; background: @background@; }
QFrame[swatch="on"] { background: @accent@; }
QFrame[role="rule"] { background: @line@; border: none; }
QFrame[role="palette"] { background: @panel@; border: 1px solid @line@; border-radius: 8px; }
QFrame[role="palette"] QListView { background: transparent; border: none; }
QListView, QTreeView, QTableView { background: @raised@; border: 1px solid @line@; border-radius: 4px; }
QListView::item { padding: 4px 8px; border-radius: 4px; }
QListView[role="contents"] { background: transparent; border: none; border-radius: 0; outline: none;
    border-left: 2px solid transparent; }
QListView[role="contents"]::item { padding: 4px 4px 4px 12px; border-radius: 0; color: @text@; }
QListView[role="contents"]::item:disabled { color: @muted@; padding: 8px 4px 2px 8px; }
QListView[role="contents"]::item:hover:!selected:!disabled { background: @grid@; }
QListView::item:selected { background: @accent@; color: @accent_text@; }
QListView:focus, QTreeView:focus, QTableView:focus, QScrollArea:focus { border: 1px solid @focus@; }
QListView[role="contents"]:focus { border: none; border-left: 2px solid @focus@; }
QFrame[role="banner-error"] { background: @raised@; border: 1px solid @line@; border-left: 4px solid @error@;
    border-radius: 4px; }
QFrame[role="banner-note"] { background: @raised@; border: 1px solid @line@; border-left: 4px solid @accent@;
    border-radius: 4px; }
QMenuBar { background: transparent; padding: 0; }
QMenuBar::item { background: transparent; padding: 4px 8px; border-radius: 4px; }
QMenuBar::item:selected { background: @grid@; }
QMenu { background: @raised@; border: 1px solid @line@; padding: 4px; }
QMenu::item { padding: 5px 24px 5px 24px; border-radius: 4px; }
QMenu::item:selected { background: @accent@; color: @accent_text@; }
QMenu::item:disabled { color: @no_data@; }
QMenu::separator { height: 1px; background: @line@; margin: 4px 8px; }
QToolTip { background: @raised@; color: @text@; border: 1px solid @line@; padding: 4px; font-size: 11px; }
QLineEdit, QPlainTextEdit {
    background: @raised@; border: 1px solid @line@; border-radius: 4px; padding: 4px 8px;
    selection-background-color: @accent@; selection-color: @accent_text@; }
QLineEdit { padding: 0 8px; min-height: 26px; }
QLineEdit, QPlainTextEdit, QComboBox { placeholder-text-color: @muted@; }
QLineEdit:disabled, QPlainTextEdit:disabled { placeholder-text-color: @no_data@; }
QLineEdit:focus, QPlainTextEdit:focus { border: 1px solid @focus@; }
QLineEdit QToolButton { min-height: 0; padding: 0; border: none; background: transparent; }
QLineEdit:read-only { background: @panel@; }
QComboBox { background: @raised@; border: 1px solid @line@; border-radius: 4px; padding: 0 8px;
    min-height: 26px; }
QComboBox:hover { background: @grid@; }
QComboBox:focus, QAbstractSpinBox:focus { border: 1px solid @focus@; }
QComboBox::drop-down { border: none; width: 20px; }
QComboBox::down-arrow { image: url("@chevron@"); width: 12px; height: 12px; margin-right: 8px; }
QAbstractSpinBox[buttonSymbols="UpDownArrows"] { background: @raised@; border: 1px solid @line@;
    border-radius: 4px; padding: 0 4px; min-height: 26px; max-height: 26px;
    selection-background-color: @accent@; selection-color: @accent_text@; }
QAbstractSpinBox[buttonSymbols="UpDownArrows"]::up-button { subcontrol-origin: border; width: 18px;
    subcontrol-position: top right; background: transparent; border: none; }
QAbstractSpinBox[buttonSymbols="UpDownArrows"]::down-button { subcontrol-origin: border; width: 18px;
    subcontrol-position: bottom right; background: transparent; border: none; }
QAbstractSpinBox[buttonSymbols="UpDownArrows"]::up-arrow { image: url("@chevron-up@"); width: 10px;
    height: 10px; }
QAbstractSpinBox[buttonSymbols="UpDownArrows"]::down-arrow { image: url("@chevron@"); width: 10px;
    height: 10px; }
QCheckBox, QRadioButton { spacing: 6px; border: 1px solid transparent; border-radius: 4px; padding: 0 2px; }
QCheckBox:focus, QRadioButton:focus { border: 1px solid @focus@; }
QCheckBox::indicator, QAbstractItemView::indicator { width: 13px; height: 13px; background: @raised@;
    border: 1px solid @muted@; border-radius: 3px; }
QCheckBox::indicator:hover { border-color: @accent@; }
QCheckBox::indicator:checked, QAbstractItemView::indicator:checked { background: @accent@;
    border: 1px solid @accent@; image: url("@tick@"); }
QCheckBox::indicator:disabled { border: 1px solid @line@; background: transparent; }
QCheckBox::indicator:checked:disabled { background: @no_data@; }
QHeaderView { background: @panel@; }
QHeaderView::section { background: @panel@; border: none; border-bottom: 1px solid @line@;
    border-right: 1px solid @grid@; padding: 4px 5px 2px 5px; }
QHeaderView::up-arrow { image: url("@chevron-up@"); width: 10px; height: 10px;
    subcontrol-origin: border; subcontrol-position: top center; }
QHeaderView::down-arrow { image: url("@chevron@"); width: 10px; height: 10px;
    subcontrol-origin: border; subcontrol-position: top center; }
QTableView::item { padding: 0 5px; }
QComboBox QAbstractItemView { background: @raised@; border: 1px solid @line@; padding: 4px;
    selection-background-color: @accent@; selection-color: @accent_text@; }
QLineEdit:disabled, QPlainTextEdit:disabled, QComboBox:disabled, QAbstractSpinBox:disabled,
QCheckBox:disabled { color: @no_data@; }
QPushButton, QToolButton { background: @raised@; border: 1px solid @line@; border-radius: 4px;
    padding: 0 8px; min-height: 26px; }
QPushButton:hover, QToolButton:hover { background: @grid@; }
QPushButton:pressed, QToolButton:pressed { background: @line@; }
QPushButton:focus, QToolButton:focus { border: 1px solid @focus@; }
QPushButton:disabled, QToolButton:disabled { color: @no_data@; }
QPushButton:default { background: @accent@; color: @accent_text@; border: 1px solid @accent@; }
QPushButton:default:focus { background: @raised@; color: @accent@; border: 1px solid @focus@; }
QPushButton:default:disabled { background: @grid@; color: @no_data@; border: 1px solid @line@; }
QToolButton { max-height: 26px; icon-size: 16px; }
QToolButton[role="page"] { max-height: 64px; icon-size: 24px; }
QToolButton::menu-indicator { image: none; width: 0; }
QToolButton[role="flat"] { background: transparent; border: 1px solid transparent; }
QToolButton[role="flat"]:hover { background: @grid@; }
QToolButton[role="flat"]:focus { border: 1px solid @focus@; }
QToolButton[role="line"] { background: transparent; border: 1px solid transparent; padding: 0 4px;
    min-height: 17px; font-size: 11px; color: @muted@; }
QToolButton[role="line"]:hover { background: @grid@; color: @text@; }
QToolButton[role="line"]:focus { border: 1px solid @focus@; }
QToolButton[role="status"] { background: transparent; border: 1px solid transparent; padding: 0 4px;
    min-height: 18px; font-size: 11px; }
QToolButton[role="status"]:hover { background: @grid@; }
QToolButton[role="status"]:focus { border: 1px solid @focus@; }
QToolButton[role="tab"], QToolButton[role="side-tab"] { background: transparent; border: none;
    border-bottom: 2px solid transparent; border-radius: 0; padding: 0 8px; min-height: 26px;
    color: @muted@; }
QToolButton[role="side-tab"] { padding: 0; font-size: 11px; }
QToolButton[role="tab"]:hover, QToolButton[role="side-tab"]:hover { color: @text@; }
QToolButton[role="tab"]:checked, QToolButton[role="side-tab"]:checked { color: @text@;
    border-bottom: 2px solid @accent@; }
QToolButton[role="tab"]:focus { border: 1px solid @focus@; padding: 0 7px; color: @accent@; }
QToolButton[role="tab"]:checked:focus { border-bottom: 2px solid @accent@; min-height: 25px; }
QToolButton[role="side-tab"]:focus { border-top: 1px solid @focus@; min-height: 25px; color: @accent@; }
QToolButton[role="segment"] { background: transparent; color: @muted@; padding: 0 8px; min-height: 22px; }
QToolButton[role="segment"]:checked { background: @line@; color: @text@; }
QToolButton[role="segment"]:disabled { color: @no_data@; background: transparent; }
QToolButton[role="segment"]:focus { border: 1px solid @focus@; }
QToolButton[role="page"] { background: transparent; border: none; border-left: 2px solid transparent;
    border-radius: 0; padding: 6px 0 4px 0; font-size: 11px; color: @muted@; }
QToolButton[role="page"]:hover { background: @grid@; color: @text@; }
QToolButton[role="page"]:checked { border-left: 2px solid @accent@; color: @text@; background: @background@; }
QToolButton[role="page"]:focus { background: @grid@; color: @accent@; border-top: 1px solid @focus@;
    border-bottom: 1px solid @focus@; padding: 5px 0 3px 0; }
QSplitter::handle { background: @line@; }
QSplitter::handle:hover { background: @accent@; }
QSlider::groove:horizontal { height: 4px; background: @line@; border-radius: 2px; }
QSlider::sub-page:horizontal { background: @accent@; border-radius: 2px; }
QSlider::handle:horizontal { width: @handle@; height: @handle@; margin: -5px 0; border-radius: 7px;
    background: @raised@; border: 1px solid @muted@; }
QSlider::sub-page:horizontal:disabled { background: @line@; }
QSlider::handle:horizontal:focus, QSlider::handle:horizontal:hover { border: 2px solid @focus@; }
QProgressBar { background: @grid@; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; }
QProgressBar::chunk { background: @accent@; border-radius: 2px; }
QScrollArea, QScrollArea > QWidget { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 8px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 8px; margin: 0; }
QScrollBar::handle { background: @line@; border-radius: 4px; min-height: 24px; min-width: 24px; }
QScrollBar::handle:hover { background: @muted@; }
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page {
    background: none; border: none; width: 0; height: 0; }
"""


_SIDE = 24.0


def icon(name: str, colour: str, *, side_px: int = 24) -> QIcon:
    """The icon called `name` in one colour, `side_px` at the size of type; KeyError for an unknown name."""
    result, side_px = QIcon(), round(type_px(side_px))
    for scale in (1, 2):
        pixmap = QPixmap(QSize(side_px, side_px) * scale)
        pixmap.fill(Qt.GlobalColor.transparent)
        with QPainter(pixmap) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.scale(side_px * scale / _SIDE, side_px * scale / _SIDE)
            pen = QPen(QColor(colour), 1.6)
            pen.setCapStyle(Qt.PenCapStyle.RoundCap)
            pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
            painter.setPen(pen)
            _DRAWINGS[name](painter, QColor(colour))
        pixmap.setDevicePixelRatio(scale)
        result.addPixmap(pixmap)
    return result


def _explore(painter: QPainter, colour: QColor) -> None:
    filled = {(0, 0), (1, 1), (2, 2), (2, 1)}
    for row in range(3):
        for column in range(3):
            cell = QRectF(4 + 5.7 * column, 4 + 5.7 * row, 4.4, 4.4)
            if (row, column) in filled:
                painter.fillRect(cell, colour)
            else:
                painter.drawRect(cell.adjusted(0.4, 0.4, -0.4, -0.4))


def _positions(painter: QPainter, _colour: QColor) -> None:
    path = QPainterPath(QPointF(3, 12))
    path.cubicTo(QPointF(6, 1), QPointF(9, 1), QPointF(12, 12))
    path.cubicTo(QPointF(15, 23), QPointF(18, 23), QPointF(21, 12))
    painter.drawPath(path)


def _compare(painter: QPainter, colour: QColor) -> None:
    painter.drawRect(QRectF(3.5, 5, 7, 14))
    painter.drawRect(QRectF(13.5, 5, 7, 14))
    for left, top in ((5.2, 7), (5.2, 14), (15.2, 7), (15.2, 10.5)):
        painter.fillRect(QRectF(left, top, 3.6, 3), colour)


def _heads(painter: QPainter, colour: QColor) -> None:
    for row, length in enumerate((13.0, 8.0, 11.0, 4.5)):
        y = 5.0 + 4.6 * row
        painter.drawEllipse(QPointF(5, y), 1.2, 1.2)
        painter.fillRect(QRectF(8.5, y - 1.2, length, 2.4), colour)


def _train(painter: QPainter, _colour: QColor) -> None:
    painter.drawPolyline([QPointF(4, 4), QPointF(4, 20), QPointF(20, 20)])
    path = QPainterPath(QPointF(7, 6))
    path.cubicTo(QPointF(9, 15), QPointF(12, 16), QPointF(20, 16.5))
    painter.drawPath(path)


def _labs(painter: QPainter, colour: QColor) -> None:
    left = [(9.5, 4.0), (9.5, 9.5), (4.2, 18.2), (5.4, 20.5)]
    flask = [*left, *((24 - x, y) for x, y in reversed(left))]
    painter.drawPolyline([QPointF(x, y) for x, y in flask])
    painter.drawLine(QPointF(8, 4), QPointF(16, 4))
    filled = QPainterPath(QPointF(7.4, 15))
    for x, y in ((16.6, 15), (18.4, 18), (17.8, 19), (6.2, 19), (5.6, 18)):
        filled.lineTo(x, y)
    painter.fillPath(filled, colour)


def _learn(painter: QPainter, _colour: QColor) -> None:
    path = QPainterPath(QPointF(12, 7))
    path.cubicTo(QPointF(9, 4.5), QPointF(6, 4.5), QPointF(3, 5.5))
    path.lineTo(3, 18)
    path.cubicTo(QPointF(6, 17), QPointF(9, 17), QPointF(12, 19.5))
    path.cubicTo(QPointF(15, 17), QPointF(18, 17), QPointF(21, 18))
    path.lineTo(21, 5.5)
    path.cubicTo(QPointF(18, 4.5), QPointF(15, 4.5), QPointF(12, 7))
    path.lineTo(12, 19.5)
    painter.drawPath(path)


def _undo(painter: QPainter, _colour: QColor) -> None:
    painter.drawPolyline([QPointF(8, 5), QPointF(4, 9), QPointF(8, 13)])
    path = QPainterPath(QPointF(4, 9))
    path.lineTo(14, 9)
    path.cubicTo(QPointF(21, 9), QPointF(21, 19), QPointF(14, 19))
    path.lineTo(10, 19)
    painter.drawPath(path)


def _redo(painter: QPainter, colour: QColor) -> None:
    painter.translate(_SIDE, 0)
    painter.scale(-1, 1)
    _undo(painter, colour)


def _light(painter: QPainter, _colour: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 4, 4)
    for k in range(8):
        painter.save()
        painter.translate(12, 12)
        painter.rotate(45 * k)
        painter.drawLine(QPointF(0, -7), QPointF(0, -9))
        painter.restore()


def _dark(painter: QPainter, _colour: QColor) -> None:
    path = QPainterPath(QPointF(14, 4))
    path.arcTo(QRectF(4, 4, 16, 16), 75, 270)
    path.cubicTo(QPointF(15, 18), QPointF(9, 12), QPointF(14, 4))
    painter.drawPath(path)


def _system(painter: QPainter, colour: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 8, 8)
    path = QPainterPath(QPointF(12, 4))
    path.arcTo(QRectF(4, 4, 16, 16), 90, 180)
    path.closeSubpath()
    painter.fillPath(path, colour)


def _projector(painter: QPainter, _colour: QColor) -> None:
    painter.drawRect(QRectF(3, 5, 18, 11))
    painter.drawLine(QPointF(12, 16), QPointF(12, 20))
    painter.drawLine(QPointF(8, 20), QPointF(16, 20))


def _search(painter: QPainter, _colour: QColor) -> None:
    painter.drawEllipse(QPointF(10.5, 10.5), 6, 6)
    painter.drawLine(QPointF(15, 15), QPointF(20, 20))


def _close(painter: QPainter, _colour: QColor) -> None:
    painter.drawLine(QPointF(6, 6), QPointF(18, 18))
    painter.drawLine(QPointF(18, 6), QPointF(6, 18))


def _note(painter: QPainter, colour: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 9, 9)
    painter.drawLine(QPointF(12, 11), QPointF(12, 17))
    painter.setBrush(colour)
    painter.drawEllipse(QPointF(12, 7.5), 0.6, 0.6)


def _error(painter: QPainter, colour: QColor) -> None:
    painter.drawPolygon([QPointF(12, 3), QPointF(22, 20.5), QPointF(2, 20.5)])
    painter.drawLine(QPointF(12, 9.5), QPointF(12, 14.5))
    painter.setBrush(colour)
    painter.drawEllipse(QPointF(12, 17.5), 0.6, 0.6)


def _brand(painter: QPainter, colour: QColor) -> None:
    painter.drawRoundedRect(QRectF(3, 3, 18, 18), 4, 4)
    for k in range(3):
        painter.fillRect(QRectF(6.2 + 4 * k, 6.2 + 4 * k, 3.6, 3.6), colour)


_DRAWINGS: dict[str, Callable[[QPainter, QColor], None]] = {
    "explore": _explore,
    "positions": _positions,
    "compare": _compare,
    "heads": _heads,
    "train": _train,
    "labs": _labs,
    "learn": _learn,
    "undo": _undo,
    "redo": _redo,
    "light": _light,
    "dark": _dark,
    "system": _system,
    "projector": _projector,
    "search": _search,
    "close": _close,
    "note": _note,
    "error": _error,
    "brand": _brand,
}
