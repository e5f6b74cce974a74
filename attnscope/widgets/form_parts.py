"""Small building blocks of pages and panels: rows that wrap, choices, tabs, sliders."""

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QColor,
    QFont,
    QFontDatabase,
    QIcon,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPixmap,
    QPolygonF,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QBoxLayout,
    QButtonGroup,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLayout,
    QLayoutItem,
    QMenu,
    QScrollArea,
    QSizePolicy,
    QSlider,
    QSplitter,
    QStackedWidget,
    QStyle,
    QStyleOptionComboBox,
    QStyleOptionSlider,
    QStylePainter,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
    QWidgetAction,
)

from attnscope.figures.formula_painting import SetFormula, set_formula
from attnscope.figures.style import NORMAL_PX, text_width, type_px
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, tool_button
from attnscope.widgets.theme import Dressed

_COMBO_MARGIN_PX = 4
_INSET_PX = 7.0


Placed = QWidget | QLayout
Part = Placed | int | tuple[Placed, int] | tuple[QWidget, int, Qt.AlignmentFlag] | None
"""None stretches, a number is a gap; a stretch and an alignment may follow a widget."""
Margins = int | tuple[int, int, int, int] | None


def row(*parts: Part, on: QWidget | None = None, margins: Margins = 0, spacing: int = 8) -> QHBoxLayout:
    """Parts beside each other, on a widget or for another layout; see `column`."""
    return _fill(QHBoxLayout(), parts, on, margins, spacing)


def column(*parts: Part, on: QWidget | None = None, margins: Margins = 0, spacing: int = 8) -> QVBoxLayout:
    """Parts below each other. Margins of None, and a spacing of −1, are those of the style."""
    return _fill(QVBoxLayout(), parts, on, margins, spacing)


_Box = TypeVar("_Box", bound=QBoxLayout)


def _fill(box: _Box, parts: Iterable[Part], on: QWidget | None, margins: Margins, spacing: int) -> _Box:
    if on is not None:
        on.setLayout(box)
    if margins is not None:
        box.setContentsMargins(*(margins if isinstance(margins, tuple) else (margins,) * 4))
    box.setSpacing(spacing)
    for part in parts:
        match part:
            case None:
                box.addStretch(1)
            case int():
                box.addSpacing(part)
            case (QWidget() as widget, stretch, *alignment):
                box.addWidget(widget, stretch, *alignment)
            case (QLayout() as layout, stretch):
                box.addLayout(layout, stretch)
            case QWidget():
                box.addWidget(part)
            case QLayout():
                box.addLayout(part)
    return box


def inset_text(*boxes: QAbstractSpinBox) -> None:
    """Align the numbers of spin boxes with the words of lists, which a style sheet cannot do."""
    for box in boxes:
        box.lineEdit().setTextMargins(round(type_px(_INSET_PX)), 0, 0, 0)


def scrolled_column(parent: QWidget, *, spacing: int = 8) -> QVBoxLayout:
    """A vertical layout in a panel that fills `parent` and scrolls if it is too long."""
    inner = named(QWidget(), role="panel")
    layout = column(on=inner, margins=(16, 8, 16, 8), spacing=spacing)
    column(scrolled(inner, is_framed=True), on=parent)
    return layout


def scrolled(inner: QWidget, *, is_framed: bool = False, is_across: bool = False) -> QScrollArea:
    """A widget that scrolls if it has less height than it needs; `is_across`: sideways too."""
    area = QScrollArea(widgetResizable=True)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    if not is_framed:
        area.setFrameShape(QFrame.Shape.NoFrame)
    if not is_across:
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(inner)
    inner.setAutoFillBackground(False)  # setWidget turns it on
    return area


def stacked(*pages: QWidget) -> QStackedWidget:
    """Widgets in one place, of which one is visible: initially the first."""
    stack = QStackedWidget()
    for page in pages:
        stack.addWidget(page)
    return stack


def split(
    way: Qt.Orientation, *parts: QWidget, sizes: Sequence[int], stretches: Sequence[int] = ()
) -> QSplitter:
    """Widgets separated by draggable lines, none of them collapsible."""
    splitter = QSplitter(way, childrenCollapsible=False, handleWidth=1)
    for part in parts:
        splitter.addWidget(part)
    for k, stretch in enumerate(stretches):
        splitter.setStretchFactor(k, stretch)
    splitter.setSizes(sizes)
    return splitter


def one_of(owner: QObject, buttons: Iterable[QAbstractButton]) -> QButtonGroup:
    """Make these buttons exclusive."""
    group = QButtonGroup(owner)
    for button in buttons:
        group.addButton(button)
    return group


class _NarrowCombo(QComboBox):
    """A combo box that shows `…` if its text has no room."""

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint frame and arrow as the style does, and the text as far as it has room."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        control, field = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(control, option, field, self).width() - _COMBO_MARGIN_PX
        text = option.currentText if self.currentIndex() >= 0 else self.placeholderText()
        shown = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
        option.currentText = shown
        painter = QStylePainter(self)
        painter.drawComplexControl(control, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()


def narrow_combo(name: str, n_characters: int = 12) -> QComboBox:
    """A combo box no wider than so many characters, however long its choices are."""
    combo = _NarrowCombo()
    combo.setAccessibleName(name)
    combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    combo.setMinimumContentsLength(n_characters)
    return combo


def dress_table(table: QTableView, name: str) -> None:
    """Make a table one of rows that are read and chosen one at a time."""
    table.setAccessibleName(name)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.verticalHeader().hide()
    table.horizontalHeader().setHighlightSections(False)


Index = QModelIndex | QPersistentModelIndex


class Column(NamedTuple):
    """A column of a table: words are left-aligned, numbers right-aligned."""

    title: str
    tip: str = ""
    is_left: bool = False

    @property
    def side(self) -> Qt.AlignmentFlag:
        """Side of its texts."""
        side = Qt.AlignmentFlag.AlignLeft if self.is_left else Qt.AlignmentFlag.AlignRight
        return side | Qt.AlignmentFlag.AlignVCenter


class TableModel(QAbstractTableModel):
    """`rows` under the names of `heads`; each table's `data` gives the cells."""

    heads: Sequence[Column] = ()
    rows: Sequence[object] = ()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(self.heads)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation is not Qt.Orientation.Horizontal or section >= len(self.heads):
            return None
        head = self.heads[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return head.title
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tooltip(head.tip) if head.tip else None
            case Qt.ItemDataRole.TextAlignmentRole:
                return head.side
        return None


def play_icon(colour: str, *, is_playing: bool) -> QIcon:
    """A triangle, or two bars while playing."""
    size = 32
    pixmap = QPixmap(QSize(size, size))
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        if is_playing:
            painter.drawRect(QRectF(8, 6, 6, 20))
            painter.drawRect(QRectF(18, 6, 6, 20))
        else:
            painter.drawPolygon(QPolygonF([QPointF(9, 5), QPointF(27, 16), QPointF(9, 27)]))
    return QIcon(pixmap)


def monospaced_font(size_px: int = 12) -> QFont:
    """The system's monospaced font."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPixelSize(size_px)
    return font


class FlowRow(QLayout):
    """Widgets beside each other at their own sizes, wrapped like words.

    Those added after `add_stretch` stand at the right of the line they come to, as long as those before
    them leave room. The lines follow from the width alone, so the layout never feeds on itself.
    """

    def __init__(self, *widgets: QWidget, spacing: int = 8, line_spacing: int = 4) -> None:
        super().__init__()
        self._items: list[QLayoutItem] = []
        self._line_spacing = line_spacing
        self._first_right = sys.maxsize  # of those at the right; there are none yet
        self.setSpacing(spacing)
        self.setContentsMargins(0, 0, 0, 0)
        for widget in widgets:
            self.addWidget(widget)

    def add_stretch(self) -> None:
        """Align the items added from now on at the right."""
        self._first_right = len(self._items)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        if not 0 <= index < len(self._items):
            return None
        if index < self._first_right:
            self._first_right -= 1
        return self._items.pop(index)

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        margins = self.contentsMargins()
        lines = self._lines(width - margins.left() - margins.right())
        heights = [max(item.sizeHint().height() for _place, item in line) for line in lines]
        between = self._line_spacing * max(len(lines) - 1, 0)
        return sum(heights) + between + margins.top() + margins.bottom()

    def sizeHint(self) -> QSize:
        shown = [item.sizeHint() for item in self._items if not item.isEmpty()]
        width = sum(size.width() for size in shown) + self.spacing() * max(len(shown) - 1, 0)
        return self._framed(width, max((size.height() for size in shown), default=0))

    def minimumSize(self) -> QSize:
        shown = [item.minimumSize() for item in self._items if not item.isEmpty()]
        widest = max((size.width() for size in shown), default=0)
        return self._framed(widest, max((size.height() for size in shown), default=0))

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        inner = rect.marginsRemoved(self.contentsMargins())
        top = inner.top()
        for line in self._lines(inner.width()):
            height = max(item.sizeHint().height() for _place, item in line)
            for (left, width), item in line:
                own = item.sizeHint().height()
                place = QPoint(inner.left() + left, top + (height - own) // 2)
                item.setGeometry(QRect(place, QSize(width, own)))
            top += height + self._line_spacing

    def _framed(self, width: int, height: int) -> QSize:
        margins = self.contentsMargins()
        return QSize(
            width + margins.left() + margins.right(),
            height + margins.top() + margins.bottom(),
        )

    def _lines(self, room: int) -> list[list[tuple[tuple[int, int], QLayoutItem]]]:
        """The lines, with position and width of each item."""
        lines: list[list[tuple[int, QLayoutItem]]] = []
        used = 0
        for index, item in enumerate(self._items):
            if item.isEmpty():
                continue
            width = item.sizeHint().width()
            if not lines or used + self.spacing() + width > room:
                lines.append([])
                used = 0
            used += width + (self.spacing() if lines[-1] else 0)
            lines[-1].append((index, item))
        return [self._placed(line, room) for line in lines]

    def _placed(
        self, line: list[tuple[int, QLayoutItem]], room: int
    ) -> list[tuple[tuple[int, int], QLayoutItem]]:
        widths = [min(item.sizeHint().width(), room) for _index, item in line]
        free = max(room - sum(widths) - self.spacing() * (len(line) - 1), 0)
        starts = itertools.accumulate(widths[:-1], lambda at, width: at + width + self.spacing(), initial=0)
        return [
            ((start + (free if index >= self._first_right else 0), width), item)
            for start, width, (index, item) in zip(starts, widths, line, strict=True)
        ]


def in_one(layout: QLayout) -> QWidget:
    """A layout as one widget, to be hidden and shown."""
    whole = QWidget()
    whole.setLayout(layout)
    layout.setContentsMargins(0, 0, 0, 0)
    return whole


def together(*widgets: QWidget, spacing: int = 4) -> QWidget:
    """Widgets that stay together in one line of a FlowRow."""
    group = QWidget()
    row(*widgets, on=group, spacing=spacing)
    return group


class ChoiceButton(QToolButton):
    """One of several choices; `chosen` carries the key chosen by the user. No title: an icon alone."""

    chosen = Signal(str)

    def __init__(
        self, title: str, name: str, choices: Mapping[str, str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._title, self._choices = title, dict(choices)
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setProperty("role", "flat")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        group = QActionGroup(self)
        self._actions: dict[str, QAction] = {}
        for key, text in self._choices.items():
            # Made here and not by the menu: an action of the menu's own is forgotten by the binding when a
            # widget around it goes from one window to another.
            action = QAction(text.replace("&", "&&"), menu, checkable=True)
            menu.addAction(action)
            action.setData(key)
            group.addAction(action)
            self._actions[key] = action
        menu.triggered.connect(self._on_triggered)
        self.setMenu(menu)
        self.show_choice("")

    def show_choice(self, key: str) -> None:
        """Show the current choice; for an unknown one, none."""
        for name, action in self._actions.items():
            action.setChecked(name == key)
        short = _SHORT.get(key, self._choices.get(key, ""))
        words = f"{self._title}: {short} ▾" if short else f"{self._title} ▾"
        self.setText(words if self._title else "")

    def _on_triggered(self, action: QAction) -> None:
        self.chosen.emit(str(action.data()))


_SHORT = {
    "fixed": "0–1",
    "head": "per head",
    "row": "per row",
    "none": "one",
    "mean": "mean",
    "max": "largest",
    "sum": "sum",
    "selection": "selection",
    "layer": "layer",
    "stack": "stack",
    "nothing": "all",
    "first": "no first",
    "special": "no special",
    "both": "no first, special",
    "weight:0": "all",
    "pairs": "pieces, in pairs",
    "pieces": "same pieces",
    "position": "by position",
    "every": "all heads",
    "unit": "±1",
}


class JumpSlider(QSlider):
    """Qt's slider moves a page towards a click; this one moves its handle under it."""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.orientation() == Qt.Orientation.Horizontal:
            option = QStyleOptionSlider()
            self.initStyleOption(option)
            groove, handle = (
                self.style().subControlRect(QStyle.ComplexControl.CC_Slider, option, part, self)
                for part in (QStyle.SubControl.SC_SliderGroove, QStyle.SubControl.SC_SliderHandle)
            )
            if not handle.contains(event.position().toPoint()):
                self.setSliderPosition(
                    QStyle.sliderValueFromPosition(
                        self.minimum(),
                        self.maximum(),
                        round(event.position().x()) - groove.x() - handle.width() // 2,
                        groove.width() - handle.width(),
                        option.upsideDown,
                    )
                )
        super().mousePressEvent(event)  # the handle is under the hand now: a drag goes on from here


_BESIDE_PX = 5


class SideTabs(Dressed):
    """Tabs, in two rows if one is too narrow, and the chosen panel below; a single panel has no tabs.

    `is_narrow` makes the tabs small, for many of them in a side panel. `shown` is emitted when another
    panel comes to the front.
    """

    shown = Signal()

    def __init__(self, *, is_narrow: bool = False) -> None:
        super().__init__()
        self._role = "side-tab" if is_narrow else "tab"
        self.tabs: dict[str, QToolButton] = {}
        self._pages = QStackedWidget()
        self._pages.currentChanged.connect(lambda _index: self.shown.emit())
        self._group = QButtonGroup(self)
        self._bar = QWidget()
        self._row = FlowRow(spacing=0, line_spacing=0)
        self._row.setContentsMargins(4 if is_narrow else 8, 4, 4 if is_narrow else 8, 0)
        self._bar.setLayout(self._row)
        # However low the window, the tabs stay whole: the panels scroll.
        self._pages.setMinimumHeight(1)
        column(self._bar, (self._pages, 1), on=self, spacing=0)
        self._bar.setVisible(False)

    def add(self, name: str, panel: QWidget, *, label: str = "", tip: str = "") -> None:
        """Add a panel after the others; `name` is its name in files, `label` the tab's text if different."""
        tab = tool_button(label or name, label or name, role=self._role, is_checkable=True)
        if tip:
            tab.setToolTip(tip)
        self._row.addWidget(tab)
        if self.tabs:
            self.setTabOrder(list(self.tabs.values())[-1], tab)  # before what the panels hold
        page = scrolled(panel)
        self._group.addButton(tab, self._pages.addWidget(page))
        self.tabs[name] = tab
        tab.clicked.connect(lambda: self._pages.setCurrentWidget(page))
        tab.setChecked(len(self.tabs) == 1)
        self._bar.setVisible(len(self.tabs) > 1)
        self.dress()

    def dress(self) -> None:
        """Set narrow padding for small tabs: just enough to separate them."""
        if self._role == "side-tab":
            for tab in self.tabs.values():
                tab.setFixedWidth(round(text_width(tab.text()) + type_px(_BESIDE_PX)))

    def show_panel(self, name: str) -> None:
        """Bring a panel to the front."""
        self.tabs[name].click()

    def is_shown(self, name: str) -> bool:
        """Whether a panel is at the front."""
        return name in self.tabs and self.tabs[name].isChecked()


class FoldedSizes:
    """Keeps the sizes of `splitters` once, until they are restored; those never shown are ignored."""

    def __init__(self, splitters: Iterable[QSplitter]) -> None:
        self._splitters = tuple(splitters)
        self._kept: dict[QSplitter, list[int]] | None = None

    def keep(self) -> None:
        """Record their positions, unless that is done."""
        if self._kept is None:
            was_shown = Qt.WidgetAttribute.WA_WState_Created
            self._kept = {s: s.sizes() for s in self._splitters if s.testAttribute(was_shown)}

    def give_back(self) -> bool:
        """Restore the positions, if known; returns whether they were."""
        is_known = bool(self._kept)
        for splitter, sizes in (self._kept or {}).items():
            splitter.setSizes(sizes)
        self._kept = None
        return is_known


def below(view: QWidget, formulas: tuple[str, ...], source: str) -> QWidget:
    """A view with its formulas and their source below it, scrolled together."""
    both, label, said = QWidget(), FormulaLabel(), PlainLabel(source, role="muted", wraps=True)
    label.set_formulas(*formulas)
    column(view, label, said, None, on=both, spacing=6)
    return both


class FormulaLabel(QWidget):
    """Formulas below each other, broken at spaces if there is no room; as high as needed."""

    def __init__(self, size_px: int = NORMAL_PX) -> None:
        super().__init__()
        self._size_px = size_px
        self._texts: tuple[str, ...] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def set_formulas(self, *texts: str) -> None:
        if texts != self._texts:
            self._texts = texts
            self.setAccessibleName(f"Formula: {self.text()}")
            self.setToolTip(plain_tooltip(self.text()))
            self.updateGeometry()
            self.update()

    def text(self) -> str:
        """The formulas as typed, a line for each."""
        return "\n".join(self._texts)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return math.ceil(self._set(width).height) + 2

    def sizeHint(self) -> QSize:
        whole = self._set(0)
        return QSize(math.ceil(whole.width) + 2, math.ceil(whole.height) + 2)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.heightForWidth(max(self.width(), 80)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        colour: QColor = self.palette().color(QPalette.ColorRole.WindowText)
        with QPainter(self) as painter:
            self._set(self.width()).paint(painter, 0.0, 1.0, colour.name())

    def _set(self, room: int) -> SetFormula:
        return set_formula(self._texts, self._size_px, float(room))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFormula:
    """One thing by name: its formulas, the meaning of their symbols, and the source."""

    name: str
    formulas: tuple[str, ...]
    symbols: str = ""
    source: str = ""


class FormulaButton(QToolButton):
    """`said` gives the card's content each time it opens; Esc or a click elsewhere closes it."""

    def __init__(self, said: Callable[[], Sequence[NamedFormula]]) -> None:
        super().__init__()
        named(self, "Formula and source", "The formula, and where it was published", role="line")
        self.setText("ƒ")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._said = said
        self._card = named(QMenu(self), "Formula and source")
        self._card.aboutToShow.connect(self._fill)
        self.setMenu(self._card)

    def text_of_card(self) -> str:
        """The card's content, as plain text."""
        lines = [(one.name, *one.formulas, one.symbols, one.source) for one in self._said()]
        return "\n".join(line for one in lines for line in one if line)

    def _fill(self) -> None:
        self._card.clear()
        inner, parts = QWidget(), list[QWidget | int]()
        for one in self._said():
            formula = FormulaLabel()
            formula.set_formulas(*one.formulas)
            rest = [PlainLabel(words, role="muted") for words in (one.symbols, one.source) if words]
            parts += [*((10,) if parts else ()), PlainLabel(one.name, role="name"), formula, *rest]
        column(*parts, on=inner, margins=12, spacing=3)
        inner.setAccessibleName(self.text_of_card())
        action = QWidgetAction(self._card)
        action.setDefaultWidget(inner)
        self._card.addAction(action)
