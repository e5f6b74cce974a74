"""One head large: exact values under the cursor, row and column highlight, zoom and pan."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
)
from PySide6.QtWidgets import QWidget

from attnscope.figures.map_layout import MapLayout, map_layout
from attnscope.figures.paint_gold import paint_gold
from attnscope.figures.paint_map import paint_head_map, paint_readout
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import type_at, type_px
from attnscope.figures.token_axis import LINE_PX, PAD_PX, axis_names
from attnscope.records.findings import GoldCell
from attnscope.records.maps import HeadMap
from attnscope.widgets.cell_map import CellMapWidget
from attnscope.widgets.labels import plain_tooltip

_RENAMING = (
    "Written: a row is named after the word written there.\nQuery: after the word read last. (Shift+R)"
)
_NO_HEAD = ("No head chosen", "Click a small map to see it here with its tokens and exact weights.")


class HeadView(CellMapWidget[HeadMap]):
    """Shows one HeadMap; the cell under the cursor, or walked to with the arrows, is read out."""

    cell_hovered = Signal(int, int, float)
    """Query, key and weight (NaN where the mask forbids) of the cell under the cursor."""
    menu_wanted = Signal(object, object)
    """Where (QPoint in the view) a menu is wanted, and the cell (query, key) there or None."""
    edge_toggled = Signal(int, int)
    """Query and key of the cell that the person knocks out or puts back."""
    rows_clicked = Signal()
    """The rows are to be called after something else."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Attention of one head", parent=parent, empty=_NO_HEAD)
        self._gate = 1.0
        self._highlight: tuple[int | None, int | None] = (None, None)
        self._knocked_out: frozenset[tuple[int, int]] = frozenset()
        self._gold: tuple[GoldCell, ...] = ()
        self._cache = ImageCache()
        self._is_compact = self._can_rename = False

    def set_map(self, head_map: HeadMap | None) -> None:
        """Show this head. The zoom stays when the number of tokens does."""
        self._cache.clear()
        self._is_stale = False
        self.show_cells(head_map, (0, 0) if head_map is None else head_map.weights.shape)

    def set_renaming(self, can_rename: bool) -> None:
        """Let the name of the rows be clicked."""
        self._can_rename = can_rename

    def set_gate(self, gate: float) -> None:
        """Name the head's gate in the title."""
        self._gate = gate
        self.update()

    def set_knocked_out(self, cells: frozenset[tuple[int, int]]) -> None:
        """These (query, key) have no weight because a person took them out, not because of the mask."""
        self._knocked_out = cells
        self.update()

    def set_gold(self, cells: tuple[GoldCell, ...]) -> None:
        """Mark these gold word links."""
        if cells != self._gold:
            self._gold = cells
            self.update()

    def set_compact(self, is_compact: bool) -> None:
        """Leave the title and the names of the axes out, where a low panel needs its height for the cells."""
        self._is_compact = is_compact
        self.update()

    def set_highlight(self, query: int | None, key: int | None) -> None:
        """Mark a row, a column or both, as another view asks; the own cursor wins while it is here."""
        self._highlight = (query, key)
        self.update()

    def layout_now(self) -> MapLayout | None:
        """Where everything lies at this moment; None without a map."""
        if self.shown is None:
            return None
        with type_at(self._factor_now()):
            return self._layout_of(self.shown)

    def _factor_now(self) -> float:
        """How large type is beside the cells that are shown."""
        if self.shown is None or not self._is_on_stage:
            return self.type_factor()
        with type_at(self.type_factor()):
            layout = self._layout_of(self.shown)
        return self.type_factor(min(layout.rows.step, layout.columns.step))

    def _layout_of(self, shown: HeadMap) -> MapLayout:
        return map_layout(
            QRectF(self.rect()),
            shown.queries,
            shown.keys,
            view=self._view,
            has_title=not self._is_compact,
            is_compact=self._is_compact,
            names=axis_names(shown.queries, self._style),
        )

    def names_rows_at(self, position: QPointF) -> bool:
        """Whether the name of rows that can be called otherwise stands there."""
        layout = self.layout_now()
        if layout is None or not self._can_rename or self._is_compact:
            return False
        bottom, height = layout.cells.top(), type_px(LINE_PX) + PAD_PX
        name = QRectF(layout.cells.left() - layout.row_width, bottom - height, layout.row_width, height)
        return name.contains(position)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.names_rows_at(event.position()):
            self.rows_clicked.emit()
            return
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        is_name = self.names_rows_at(event.position())
        self.setToolTip(plain_tooltip(_RENAMING) if is_name else "")
        if is_name:
            self.setCursor(Qt.CursorShape.PointingHandCursor)
        elif self.cursor().shape() == Qt.CursorShape.PointingHandCursor:
            self.unsetCursor()

    def sizeHint(self) -> QSize:
        return QSize(560, 480)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        if self.shown is None or 0 in self.shown.weights.shape:
            return False
        with type_at(self._factor_now()):
            layout = paint_head_map(
                painter,
                room,
                self.shown,
                style=self._style,
                palette=self.theme,
                gate=self._gate,
                view=self._view,
                highlight=self._cell or self._highlight,
                has_title=not self._is_compact,
                is_compact=self._is_compact,
                cache=self._cache,
                not_allowed_words="ruled out" if self._knocked_out else "not allowed",
            )
            if self._gold:
                paint_gold(painter, layout, self._gold)
            if self._is_stale:
                self.veil(painter, layout.cells)
            if self._cell:
                self.paint_pointed(painter, room)
        return True

    def paint_cell(self, painter: QPainter, room: QRectF, shown: HeadMap, cell: tuple[int, int]) -> None:
        is_off = cell in self._knocked_out
        paint_readout(painter, room, shown, cell, self._cursor, self.theme, is_knocked_out=is_off)

    def panel_at(self, position: QPointF | None = None) -> MapLayout | None:
        return self.layout_now()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        layout = self.layout_now()
        is_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        cell = layout.hit(QPointF(event.pos())) if layout is not None and is_mouse else self._cell
        place = event.pos() if is_mouse else self._cursor.toPoint()
        self.menu_wanted.emit(place, cell)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) and self._cell is not None:
            self.edge_toggled.emit(*self._cell)
        else:
            super().keyPressEvent(event)

    def tell_cell(self, shown: HeadMap, cell: tuple[int, int]) -> None:
        self.cell_hovered.emit(*cell, float(shown.weights[cell]))
