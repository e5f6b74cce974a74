"""The prediction of each layer: a table of positions and layers, and the panel around it."""

import math

from PySide6.QtCore import QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.figures.style import NORMAL_PX, SMALL_PX, drawn_piece, font, isolated, type_px
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
from attnscope.widgets.form_parts import ChoiceButton, below, column, row, scrolled
from attnscope.widgets.labels import PlainLabel, Telling, plain_tooltip, watch_seen, when_seen
from attnscope.widgets.theme import Dressed

_ROW_PX = 22
_STRONGEST = 0.5
_EXPLAINED = (
    "The logit lens: the stream after each layer, passed through the model's last norm and output "
    "layer.\nColumns are layers (in: what enters layer 0), rows are positions. Bold: already the model's "
    "prediction.\n"
    "nostalgebraist 2020"
)


class TokenTable(Telling, Dressed):
    """A row for each token, after its name; painted as far as visible."""

    token_px, cell_px, gap_px = 54, 37, 2

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.MinimumExpanding, QSizePolicy.Policy.Fixed)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows below the column names, and of columns."""
        raise NotImplementedError

    def dress(self) -> None:
        self.show_table()

    def show_table(self) -> None:
        """Resize for the table and paint it."""
        self.setFixedHeight(self.sizeHint().height())
        self.setMinimumWidth(self.sizeHint().width())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        n_rows, n_columns = self.shape
        if not n_rows:
            return QSize(0, 0)
        width = type_px(self.token_px) + n_columns * type_px(self.cell_px)
        return QSize(round(width), round((n_rows + 1) * type_px(_ROW_PX)))

    def rows_in(self, area: QRect) -> range:
        """The rows visible in a part of the table."""
        row_px = type_px(_ROW_PX)
        last = min(self.shape[0], int(area.bottom() / row_px) + 1)
        return range(max(0, int(area.top() / row_px) - 1), last)

    def cell(self, row: int, column: int) -> QRect:
        """Rectangle of a cell; row −1: the name of its column."""
        width = self._column_px()
        left = round(type_px(self.token_px) + column * width)
        right = round(type_px(self.token_px) + (column + 1) * width)
        top, height = round((row + 1) * type_px(_ROW_PX)), round(type_px(_ROW_PX))
        return QRect(left, top, right - left - self.gap_px, height - self.gap_px)

    def token_place(self, row: int) -> QRect:
        """Rectangle of a row's name."""
        place = self.cell(row, 0)
        return QRect(0, place.y(), round(type_px(self.token_px)) - 6, place.height())

    def place_at(self, place: QPointF) -> tuple[int, int]:
        """The row and the column under the cursor; −1 for the names of columns, and of rows."""
        column = math.floor((place.x() - type_px(self.token_px)) / self._column_px())
        return int(place.y() / type_px(_ROW_PX)) - 1, max(column, -1)

    def write(self, painter: QPainter, place: QRect, piece: str, side: Qt.AlignmentFlag) -> None:
        """Write a token's text as far as there is room."""
        metrics = QFontMetricsF(painter.font())
        text = metrics.elidedText(drawn_piece(piece), Qt.TextElideMode.ElideRight, place.width())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | side, isolated(text))

    def _column_px(self) -> float:
        room = (self.width() - type_px(self.token_px)) / max(1, self.shape[1])
        return max(type_px(self.cell_px), room)


class LensGrid(TokenTable):
    """Columns are the layers."""

    def __init__(self, state: LensState) -> None:
        super().__init__("What each layer would predict")
        self._state = state

    @property
    def shape(self) -> tuple[int, int]:
        table = self._state.table
        return (0, 0) if table is None else (len(table.positions), len(table.levels))

    def paintEvent(self, event: QPaintEvent) -> None:
        table = self._state.table
        if table is None:
            return
        with QPainter(self) as painter:
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            if event.rect().top() < type_px(_ROW_PX):
                painter.drawText(self.token_place(-1), Qt.AlignmentFlag.AlignVCenter, rows_name(table))
                for level in range(len(table.levels)):
                    painter.drawText(self.cell(-1, level), Qt.AlignmentFlag.AlignCenter, level_name(level))
            for column in self.rows_in(event.rect()):
                self._paint_row(painter, table, column)

    def tip_at(self, place: QPointF) -> str:
        table, cell = self._state.table, self.cell_at(int(place.x()), int(place.y()))
        return cell_sentences(table, *cell) if table is not None and cell is not None else ""

    def cell_at(self, x: int, y: int) -> tuple[int, int] | None:
        """The level and the column of the table under a pixel."""
        column, level = self.place_at(QPointF(x, y))
        n_columns, n_levels = self.shape
        return (level, column) if 0 <= column < n_columns and 0 <= level < n_levels else None

    def _paint_row(self, painter: QPainter, table: LensTable, column: int) -> None:
        palette, token = self.theme, table.tokens[column]
        painter.setFont(font(NORMAL_PX))
        painter.setPen(QColor(palette.muted if token.is_special else palette.text))
        self.write(painter, self.token_place(column), token.piece, Qt.AlignmentFlag.AlignLeft)
        for level in range(len(table.levels)):
            place = self.cell(column, level)
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
            self.write(painter, place.adjusted(3, 0, -3, 0), text, Qt.AlignmentFlag.AlignHCenter)


class LensPanel(QWidget):
    """The table with its heading; requests it only while visible."""

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
        whole = below(self.grid, ("p_l = softmax(W_U norm(x_l))",), "nostalgebraist 2020")
        self.area = scrolled(whole, is_framed=True, is_across=True)
        column(heading, self.note, (self.area, 1), on=self, margins=(16, 8, 8, 8), spacing=4)

    def _show(self) -> None:
        self.colour.show_choice(self._state.colour)
        self.colour.setText(f"{LENS_SHORT[self._state.colour]} ▾")
        self.note.say(self._state.note)
        self.grid.show_table()
