"""How one row of the command palette is painted: title with marked letters, detail, kind, shortcut."""

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from attnscope.figures.colours import Palette
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, text_width, type_px
from attnscope.viewmodels.palette import KIND_NAMES, Match

_ROW_PX = 34
_PAD_PX = 12.0


class MatchDelegate(QStyledItemDelegate):
    """Paints matches; letters that the query found are bold."""

    def __init__(self, palette: Palette, parent: QObject) -> None:
        super().__init__(parent)
        self._palette = palette

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette

    def row_px(self) -> int:
        """The height of a row."""
        return round(type_px(_ROW_PX))

    def sizeHint(self, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(320, self.row_px())

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        match = index.data(Qt.ItemDataRole.UserRole)
        if not isinstance(match, Match):
            return
        palette = self._palette
        rect = QRectF(option.rect)
        is_chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if is_chosen:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(palette.accent if match.item.is_enabled else palette.line))
            painter.drawRoundedRect(rect.adjusted(0, 1, 0, -1), 4, 4)
        is_lit = is_chosen and match.item.is_enabled
        ink = palette.accent_text if is_lit else palette.text if match.item.is_enabled else palette.no_data
        quiet = palette.accent_text if is_lit else palette.muted
        right = self._paint_right(painter, rect, match, quiet)
        left = self._paint_title(painter, rect, match, ink, right)
        self._paint_detail(painter, rect, match, quiet, left, right)
        painter.restore()

    def _paint_right(self, painter: QPainter, rect: QRectF, match: Match, colour: str) -> float:
        text = match.item.keys or KIND_NAMES[match.item.kind]
        painter.setFont(font(SMALL_PX, is_bold=bool(match.item.keys)))
        painter.setPen(QColor(colour))
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(rect.adjusted(0, 0, -_PAD_PX, 0), middle, text)
        return rect.right() - _PAD_PX - text_width(text, SMALL_PX, is_bold=True) - _PAD_PX

    def _paint_title(self, painter: QPainter, rect: QRectF, match: Match, colour: str, right: float) -> float:
        """The title letter by letter in runs of the same weight; returns where it ends."""
        places, title = set(match.places), match.item.title
        x, at = rect.left() + _PAD_PX, 0
        painter.setPen(QColor(colour))
        while at < len(title) and x < right:
            end = at + 1
            while end < len(title) and (end in places) == (at in places):
                end += 1
            face = font(NORMAL_PX, is_bold=at in places)
            metrics = QFontMetricsF(face)
            run = metrics.elidedText(title[at:end], Qt.TextElideMode.ElideRight, max(right - x, 8.0))
            painter.setFont(face)
            baseline = rect.center().y() + (metrics.ascent() - metrics.descent()) / 2
            painter.drawText(QPointF(x, baseline), run)
            x += metrics.horizontalAdvance(run)
            at = end
        return x + _PAD_PX

    def _paint_detail(
        self, painter: QPainter, rect: QRectF, match: Match, colour: str, left: float, right: float
    ) -> None:
        room = right - left
        if not match.item.detail or room < 40:
            return
        face = font(SMALL_PX)
        painter.setFont(face)
        painter.setPen(QColor(colour))
        text = QFontMetricsF(face).elidedText(match.item.detail, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRectF(left, rect.top(), room, rect.height()), Qt.AlignmentFlag.AlignVCenter, text)
