"""The choice of what frames the heads of the grid, and the legend of the frames."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QActionGroup, QColor, QIcon, QLinearGradient, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolButton, QWidget

from attnscope.counting import short_number
from attnscope.figures.colours import Palette, ramp_colour
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.viewmodels.heads.tinting import OFF, TintState
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.labels import plain_tooltip, when

_ROW_PX, _BAR_PX, _RAMP_PX, _PAD_PX, _ICON_PX = 22, 8, 96, 8, 16


class TintButton(QToolButton):
    """Offers every number there is for the heads; the menu is made when it is opened."""

    def __init__(self, state: TintState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setIconSize(QSize(_ICON_PX, _ICON_PX))
        self.setAccessibleName("What frames the heads")
        self.setToolTip("Frame every head by a measure or its importance")
        self.setProperty("role", "flat")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.fill)
        menu.triggered.connect(lambda action: state.choose(str(action.data())))
        self.setMenu(menu)
        self.set_theme(palette)
        when(self, self._show, state.changed.tint)

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self._show()

    def _show(self) -> None:
        is_on = self._state.choice is not None
        self.setIcon(frame_icon(ramp_colour(self._palette, 1.0) if is_on else self._palette.muted))

    def fill(self) -> None:
        """Offer what there is now."""
        menu, group = self.menu(), ""
        menu.clear()
        actions = QActionGroup(menu)
        offered = [(OFF, "no frames", "")]
        chosen = self._state.choice
        for choice in self._state.choices:
            offered.append((choice.key, choice.name, f"{choice.unit}\n{choice.definition}"))
        groups = {choice.key: choice.group for choice in self._state.choices}
        for key, name, tip in offered:
            if groups.get(key, "") != group:
                group = groups[key]
                menu.addSection(group.replace("&", "&&"))
            action = menu.addAction(name.replace("&", "&&"))
            action.setCheckable(True)
            action.setData(key)
            action.setChecked(key == (chosen.key if chosen is not None else OFF))
            action.setToolTip(plain_tooltip(tip))
            actions.addAction(action)
        if self._state.choices and not any(key.startswith("table:") for key in groups):
            hint = menu.addAction("more after measuring on the Heads page")
            hint.setEnabled(False)


def frame_icon(colour: str) -> QIcon:
    """A frame around nothing."""
    pixmap = QPixmap(2 * _ICON_PX, 2 * _ICON_PX)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setPen(QPen(QColor(colour), 6.0))
        painter.drawRect(5, 5, 2 * _ICON_PX - 10, 2 * _ICON_PX - 10)
    return QIcon(pixmap)


class TintLegend(QWidget):
    """What the frames stand for: the name, a ramp between its ends, and the head under the cursor."""

    def __init__(
        self, state: TintState, view: ViewState, palette: Palette, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._state, self._view, self._palette = state, view, palette
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        when(self, self._show, state.changed.tint)
        when(self, self.update, view.changed.hovered_head)
        self._show()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def sizeHint(self) -> QSize:
        """One row."""
        return QSize(160, round(type_px(_ROW_PX)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint name, ends and ramp; a mark and a number for the head under the cursor."""
        choice = self._state.choice
        if choice is None:
            return
        palette, low_high = self._palette, [short_number(end) for end in self._state.ends]
        with QPainter(self) as painter:
            painter.setFont(font(SMALL_PX))
            low_px, high_px = (text_width(end) for end in low_high)
            ramp_px = type_px(_RAMP_PX)
            right = self.width() - _PAD_PX - high_px - 4
            ramp = QRectF(right - ramp_px, (self.height() - _BAR_PX) / 2, ramp_px, _BAR_PX)
            fill = QLinearGradient(ramp.topLeft(), ramp.topRight())
            for k in range(9):
                fill.setColorAt(k / 8, QColor(ramp_colour(palette, k / 8)))
            painter.fillRect(ramp, fill)
            painter.setPen(QColor(palette.muted))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(ramp.right() + 4, 0, high_px + 4, self.height()), middle, low_high[1])
            place = QRectF(ramp.left() - 4 - low_px, 0, low_px, self.height())
            painter.drawText(place, middle, low_high[0])
            self._paint_name(painter, ramp, place.left() - 8)

    def _paint_name(self, painter: QPainter, ramp: QRectF, right: float) -> None:
        choice, head = self._state.choice, self._view.hovered_head
        if choice is None:
            return
        words = f"frame: {choice.name}"
        share = self._state.share(head) if head is not None else None
        if head is not None and head in self._state.values:
            words = f"{head.label}  {choice.name} {self._state.words(head)}"
        painter.setPen(QColor(self._palette.text if head is not None else self._palette.muted))
        room = QRectF(_PAD_PX, 0, max(0.0, right - _PAD_PX), self.height())
        shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, int(room.width()))
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, shown)
        if share is not None:
            x = ramp.left() + share * ramp.width()
            painter.fillRect(QRectF(x - 1, ramp.top() - 3, 2, ramp.height() + 6), QColor(self._palette.text))

    def _show(self) -> None:
        choice = self._state.choice
        self.setVisible(choice is not None)
        about = f"{choice.name}, {choice.unit}\n{choice.definition}" if choice is not None else ""
        self.setToolTip(plain_tooltip(about))
        self.setAccessibleName(f"Frames: {choice.name}" if choice is not None else "No frames")
        self.setFixedHeight(self.sizeHint().height())
        self.update()
