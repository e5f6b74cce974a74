"""What each layer would predict: a table of positions and layers, and the panel around it."""

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QToolTip, QWidget

from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, isolated, plain_piece, type_px
from attnscope.records.causes import LensTable
from attnscope.viewmodels.causes.across_layers import (
    LENS_COLOURS,
    LENS_SHORT,
    LensState,
    cell_sentences,
    cell_share,
    lens_cell_text,
    level_name,
    rows_name,
)
from attnscope.widgets.form_parts import ChoiceButton, below, column, row
from attnscope.widgets.labels import PlainLabel, plain_tooltip, watch_seen, when_seen
from attnscope.widgets.theme import Dressed

_ROW_PX, _TOKEN_PX, _CELL_PX, _GAP_PX = 22, 54, 37, 2
_STRONGEST = 0.5
_EXPLAINED = (
    "The logit lens: the stream after each layer, passed through the model's last norm and output "
    "layer.\nColumns are layers (in: what enters layer 0), rows are positions. Bold: already the model's "
    "prediction.\n"
    "nostalgebraist 2020"
)


class LensGrid(Dressed):
    """The table itself, painted as far as it can be seen."""

    def __init__(self, state: LensState) -> None:
        super().__init__()
        self._state = state
        self.setAccessibleName("What each layer would predict")
        self.setSizePolicy(QSizePolicy.Policy.MinimumExpanding, QSizePolicy.Policy.Fixed)

    def dress(self) -> None:
        self.show_table()

    def show_table(self) -> None:
        """Fit the table and paint it."""
        self.setFixedHeight(self.sizeHint().height())
        self.setMinimumWidth(self.sizeHint().width())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        table = self._state.table
        if table is None:
            return QSize(0, 0)
        n_rows, n_columns = len(table.positions) + 1, len(table.levels)
        width = type_px(_TOKEN_PX) + n_columns * type_px(_CELL_PX)
        return QSize(round(width), round(n_rows * type_px(_ROW_PX)))

    def paintEvent(self, event: QPaintEvent) -> None:
        table = self._state.table
        if table is None:
            return
        row_px = type_px(_ROW_PX)
        first = max(0, int(event.rect().top() / row_px) - 1)
        last = min(len(table.positions), int(event.rect().bottom() / row_px) + 1)
        with QPainter(self) as painter:
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            if event.rect().top() < row_px:
                painter.drawText(self._token_place(-1), Qt.AlignmentFlag.AlignVCenter, rows_name(table))
                for level in range(len(table.levels)):
                    painter.drawText(self._cell(-1, level), Qt.AlignmentFlag.AlignCenter, level_name(level))
            for column in range(first, last):
                self._paint_row(painter, table, column)

    def event(self, event: QEvent) -> bool:
        """Tell about the cell under the cursor."""
        if isinstance(event, QHelpEvent):
            place = self.cell_at(event.pos().x(), event.pos().y())
            table = self._state.table
            if table is not None and place is not None:
                QToolTip.showText(event.globalPos(), plain_tooltip(cell_sentences(table, *place)), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def cell_at(self, x: int, y: int) -> tuple[int, int] | None:
        """The level and the column of the table under a pixel."""
        table = self._state.table
        if table is None or x < type_px(_TOKEN_PX):
            return None
        column = int(y / type_px(_ROW_PX)) - 1
        level = int((x - type_px(_TOKEN_PX)) / self._cell_px(len(table.levels)))
        is_inside = 0 <= column < len(table.positions) and 0 <= level < len(table.levels)
        return (level, column) if is_inside else None

    def _cell_px(self, n_levels: int) -> float:
        return max(type_px(_CELL_PX), (self.width() - type_px(_TOKEN_PX)) / max(1, n_levels))

    def _cell(self, column: int, level: int) -> QRect:
        table = self._state.table
        width = self._cell_px(len(table.levels) if table else 1)
        left = round(type_px(_TOKEN_PX) + level * width)
        right = round(type_px(_TOKEN_PX) + (level + 1) * width)
        top = round((column + 1) * type_px(_ROW_PX))
        return QRect(left, top, right - left - _GAP_PX, round(type_px(_ROW_PX)) - _GAP_PX)

    def _token_place(self, column: int) -> QRect:
        place = self._cell(column, 0)
        return QRect(0, place.y(), round(type_px(_TOKEN_PX)) - 6, place.height())

    def _paint_row(self, painter: QPainter, table: LensTable, column: int) -> None:
        palette, token = self.theme, table.tokens[column]
        painter.setFont(font(NORMAL_PX))
        painter.setPen(QColor(palette.muted if token.is_special else palette.text))
        self._write(painter, self._token_place(column), token.piece, Qt.AlignmentFlag.AlignLeft)
        for level in range(len(table.levels)):
            place = self._cell(column, level)
            share = cell_share(table, level, column, self._state.colour)
            colour = QColor(palette.accent)
            colour.setAlphaF(_STRONGEST * share)
            painter.fillRect(place, QColor(palette.grid))
            painter.fillRect(place, colour)
            type_ = font(SMALL_PX)
            type_.setBold(int(table.rank[level, column]) == 0)
            painter.setFont(type_)
            painter.setPen(QColor(palette.text))
            text = lens_cell_text(table, level, column, self._state.colour)
            self._write(painter, place.adjusted(3, 0, -3, 0), text, Qt.AlignmentFlag.AlignHCenter)

    def _write(self, painter: QPainter, place: QRect, piece: str, side: Qt.AlignmentFlag) -> None:
        metrics = QFontMetricsF(painter.font())
        text = metrics.elidedText(plain_piece(piece), Qt.TextElideMode.ElideRight, place.width())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | side, isolated(text))


class LensPanel(QWidget):
    """The table with its heading; asks for it only while it can be seen."""

    def __init__(self, state: LensState) -> None:
        super().__init__()
        self._state = state
        self.title = PlainLabel("Logit lens", "muted", tip=plain_tooltip(_EXPLAINED))
        self.colour = ChoiceButton("show", "What the cells show", LENS_COLOURS)
        self.colour.chosen.connect(state.choose_colour)
        self.note = PlainLabel(role="hint", wraps=True)
        self.grid = LensGrid(state)
        self._lay_out()
        watch_seen(self, state.watch)
        when_seen(self, self._show, state.changed.all)
        self._show()

    def _lay_out(self) -> None:
        heading = row(self.title, None, self.colour, spacing=-1)
        self.area = QScrollArea(self, widgetResizable=True)
        self.area.setWidget(below(self.grid, ("p_l = softmax(W_U norm(x_l))",), "nostalgebraist 2020"))
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(heading, self.note, (self.area, 1), on=self, margins=(16, 8, 8, 8), spacing=4)

    def _show(self) -> None:
        self.colour.show_choice(self._state.colour)
        self.colour.setText(f"{LENS_SHORT[self._state.colour]} ▾")
        self.note.setText(self._state.note)
        self.note.setVisible(bool(self._state.note))
        self.grid.show_table()
