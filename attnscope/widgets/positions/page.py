"""The positions page: encodings side by side, and one plot of all of them against the offset."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QCheckBox, QComboBox, QLineEdit, QSpinBox, QSplitter, QWidget

from attnscope.counting import fixed, number_text
from attnscope.errors import UserError
from attnscope.figures.colours import lut_argb
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.figures.views import VIEWS
from attnscope.figures.views.checklist import checklist_point
from attnscope.records.maps import PositionTable
from attnscope.viewmodels.positions import D_MODEL_RANGE, POSITIONS_RANGE, SCHEMES, PositionsState
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.widgets.form_parts import (
    FlowRow,
    FormulaLabel,
    column,
    in_one,
    inset_text,
    row,
    split,
    stacked,
    together,
)
from attnscope.widgets.labels import ElidedLabel, PlainLabel, ground, named, plain_tooltip, when
from attnscope.widgets.map_widget import StateCard
from attnscope.widgets.positions.position_map import PositionMap
from attnscope.widgets.theme import Dressed

if TYPE_CHECKING:
    from attnscope.widgets.charts import OffsetPlots


# What the Positions page shows in one sentence, with the numbers of its tables.

FAR = 32
"""How many tokens are far, where there are so many positions."""


def position_point(tables: Iterable[PositionTable], title_of: Callable[[str], str]) -> str:
    """The conclusion of the page; empty without an encoding whose rows are positions."""
    vectors = [t for t in tables if t.axes == ("dimension", "position") and t.by_offset.size > 2]
    far = min(FAR, min((table.by_offset.size for table in vectors), default=1) - 1)
    found = [t for t in vectors if np.isfinite(t.by_offset[[1, far]]).all()]
    if not found:
        return ""
    numbers = (f"{title_of(t.name)} {_cosine(t, 1)} and {_cosine(t, far)}" for t in found)
    return (
        "An encoding is useful when near positions are more similar than distant ones: "
        f"mean cosine 1 token and {far} tokens apart, {', '.join(numbers)}."
    )


def _cosine(table: PositionTable, offset: int) -> str:
    return fixed(float(table.by_offset[offset]))


# One encoding on the positions page: its name, its matrix and its similarity map, one above the other.

_NOTE_LINES, _BELOW_NOTE_PX = 3, 4
_LEAST_MAP_PX, _LINES_AT_MAP = (110, 84), 3
"""Height of each of two maps before the note above them gives way, before the formula does; lines of its
title and axis."""


class PositionColumn(Dressed):
    """Shows one PositionTable; cursors and views are reported to the page."""

    matrix_hovered = Signal(int, int)
    cosine_hovered = Signal(int, int)
    left = Signal()
    matrix_moved = Signal(QRectF)
    cosine_moved = Signal(QRectF)

    def __init__(self, table: PositionTable, title: str, colour: str) -> None:
        super().__init__()
        self._swatch = _Swatch()
        self._title = PlainLabel(role="name")
        self._source = ElidedLabel(role="muted")
        self._formula = FormulaLabel(SMALL_PX)
        self._note = ElidedLabel(role="muted", n_lines=_NOTE_LINES)
        self._note.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._matrix_value = PlainLabel(role="value")
        self._cosine_value = PlainLabel(role="value")
        self.matrix = PositionMap("dimension", "position")
        self.cosine = PositionMap("position", "position", is_square=True)
        self._scale = ElidedLabel(role="muted")
        heading = row(self._swatch, self._title, (self._source, 1), spacing=4)
        layout = column(heading, self._formula, self._note, on=self, spacing=2)
        self._maps = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._maps.setSpacing(8)
        cosine_title = ElidedLabel("Cosine similarity, to ±1", "muted")
        for name, value, shown in (
            (self._scale, self._matrix_value, self.matrix),
            (cosine_title, self._cosine_value, self.cosine),
        ):
            part = QWidget()
            inside = column(on=part, spacing=0)
            heading = row((name, 1), value)
            inside.addLayout(heading)
            inside.addWidget(shown, 1)
            self._maps.addWidget(part, 1)
        layout.addLayout(self._maps, 1)
        self.matrix.hovered.connect(self.matrix_hovered)
        self.cosine.hovered.connect(self.cosine_hovered)
        self.matrix.view_moved.connect(self.matrix_moved)
        self.cosine.view_moved.connect(self.cosine_moved)
        self.matrix.left.connect(self.left)
        self.cosine.left.connect(self.left)
        self.show_table(table, title, colour)

    def show_table(self, table: PositionTable, title: str, colour: str) -> None:
        """Show another table; values written out for the last one are cleared."""
        self.clear_cursors()
        self.table = table
        self._title.setText(title)
        self._swatch.set_colour(colour)
        self._source.set_full_text(table.source)
        self._formula.set_formulas(*filter(None, table.formula.split(",   ")))
        self._note.set_full_text(table.note)
        self._title.setToolTip(plain_tooltip("\n".join(filter(None, (title, table.formula, table.note)))))
        finite = np.abs(table.matrix[np.isfinite(table.matrix)])
        limit = float(finite.max()) if finite.size else 0.0
        self._scale.set_full_text(f"Encoding, to ±{number_text(limit)}")
        self.matrix.set_labels(*table.axes)
        self.cosine.set_labels(table.axes[1], table.axes[1])
        self.matrix.set_values(table.matrix, limit)
        self.cosine.set_values(table.cosine, 1.0)

    def formula_height(self, width: int) -> int:
        """Height of the formulas at this width, in px; 0 without one."""
        return self._formula.heightForWidth(width) if self._formula.text() else 0

    def set_formula_height(self, height: int) -> None:
        """Reserve this height for the formulas, as for the note."""
        self._formula.setFixedHeight(height)
        self._formula.setVisible(height > 0)

    def note_height(self, width: int) -> int:
        """Height of the note at this width, in px; 0 without one."""
        metrics, words = self._note.fontMetrics(), self._note.full_text()
        room = QRect(0, 0, width, _NOTE_LINES * metrics.lineSpacing())
        return min(metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, words).height(), room.height())

    def set_note_height(self, height: int) -> None:
        """Reserve this height for the note, so that the maps of all columns are aligned."""
        self._note.setFixedHeight(height + _BELOW_NOTE_PX if height else 0)
        self._note.setVisible(height > 0)

    def fit_room(self) -> None:
        """Put the maps beside each other if there is more width than height."""
        is_wide = self.width() > 1.25 * self.height()
        direction = QBoxLayout.Direction.LeftToRight if is_wide else QBoxLayout.Direction.TopToBottom
        self._maps.setDirection(direction)

    def set_stale(self, is_stale: bool) -> None:
        """Dim both maps."""
        self.matrix.set_stale(is_stale)
        self.cosine.set_stale(is_stale)

    @Slot(int, int)
    def show_matrix_cursor(self, position: int, dimension: int) -> None:
        """Mark a cell of the matrix and write its value."""
        self.matrix.set_cursor((position, dimension))
        self._matrix_value.setText(_text(self.matrix.value_at((position, dimension))))

    @Slot(int, int)
    def show_cosine_cursor(self, first: int, second: int) -> None:
        """Mark a cell of the similarity map and write its value."""
        self.cosine.set_cursor((first, second))
        self._cosine_value.setText(_text(self.cosine.value_at((first, second))))

    @Slot()
    def clear_cursors(self) -> None:
        """Clear the marks."""
        self.matrix.set_cursor(None)
        self.cosine.set_cursor(None)
        self._matrix_value.setText("")
        self._cosine_value.setText("")


class _Swatch(QWidget):
    """A short piece of this encoding's line in the plot below."""

    def __init__(self) -> None:
        super().__init__()
        self._colour = QColor()
        self.setFixedSize(self.sizeHint())

    def set_colour(self, colour: str) -> None:
        self._colour = QColor(colour)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(16, 16)

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(0, 7, 16, 3, self._colour)


def _text(value: float | None) -> str:
    return "" if value is None else number_text(value)


# A short horizontal colour bar with its ends written beside it.

_LOWER_PX = 116
"""The least height of the plots: the names of four schemes at the ends of their lines."""
_BAR_PX = 96


class ScaleBar(Dressed):
    """The diverging colour map from `low` to `high`."""

    def __init__(self, low: str, high: str) -> None:
        super().__init__()
        self._low, self._high = low, high
        words = lut_argb("diverging").reshape(1, 256).copy()
        self._image = QImage(words.data, 256, 1, 1024, QImage.Format.Format_RGB32).copy()
        self.setFixedSize(self.sizeHint())

    def dress(self) -> None:
        self.setFixedSize(self.sizeHint())

    def sizeHint(self) -> QSize:
        ends = text_width(self._low) + text_width(self._high)
        return QSize(round(_BAR_PX + ends + 16), round(type_px(16)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            start = text_width(self._low) + 6
            whole = QRectF(self.rect())
            painter.drawText(whole, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, self._low)
            painter.drawText(
                whole.adjusted(start + _BAR_PX + 6, 0, 4, 0), Qt.AlignmentFlag.AlignVCenter, self._high
            )
            painter.drawImage(QRectF(start, whole.height() / 2 - 4, _BAR_PX, 8), self._image)


class _Drawn(Dressed):
    """A figure as it would be exported, painted on the page."""

    def __init__(self) -> None:
        super().__init__()
        self._spec: FigureSpec | None = None

    def show_spec(self, spec: FigureSpec) -> None:
        self._spec = spec
        self.setAccessibleName(spec.title)
        self.update()

    def dress(self) -> None:
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._spec is not None:
            with QPainter(self) as painter:
                self._spec.paint(painter, QRectF(self.rect()), self.theme)


class PositionColumns(Dressed):
    """The encodings side by side, with a common cursor and a common visible part."""

    hover_text = Signal(str)
    offset_hovered = Signal(int)
    """How far apart the two positions under the cursor are; −1: there are none any more."""

    def __init__(self) -> None:
        super().__init__()
        self._columns: dict[str, PositionColumn] = {}
        self._row = row(on=self, margins=(0, 0, 0, 8), spacing=16)

    def show_tables(
        self, tables: tuple[PositionTable, ...], titles: tuple[str, ...], colours: tuple[str, ...]
    ) -> None:
        """Show these and no others, in this order."""
        for name in [n for n in self._columns if n not in {t.name for t in tables}]:
            gone = self._columns.pop(name)
            self._row.removeWidget(gone)
            gone.deleteLater()
        for i, (table, title, colour) in enumerate(zip(tables, titles, colours, strict=True)):
            if table.name in self._columns:
                self._columns[table.name].show_table(table, title, colour)
            else:
                self._add(PositionColumn(table, title, colour))
            shown = self._columns[table.name]
            self._row.removeWidget(shown)
            self._row.insertWidget(i, shown, 1)

    def set_stale(self, is_stale: bool) -> None:
        for shown in self._columns.values():
            shown.set_stale(is_stale)

    def fit_room(self) -> None:
        self.even_notes(self.width())

    def even_notes(self, width: int) -> None:
        """Equal heights for the notes of all columns, and for their formulas: those of the longest.

        Where they would leave too little to the maps, notes give way first; the tooltip of the name has both.
        """
        columns = self._columns.values()
        gaps = self._row.spacing() * max(len(columns) - 1, 0)
        own = (width - gaps) // max(len(columns), 1)
        note_px = max((shown.note_height(own) for shown in columns), default=0)
        formula_px = max((shown.formula_height(own) for shown in columns), default=0)
        line_px = self.fontMetrics().lineSpacing()
        rooms = (self.height() - 2 * line_px - 2 * (px + _LINES_AT_MAP * line_px) for px in _LEAST_MAP_PX)
        is_note, is_formula = (
            px <= room for px, room in zip((note_px + formula_px, formula_px), rooms, strict=True)
        )
        for shown in columns:
            shown.set_note_height(note_px if is_note else 0)
            shown.set_formula_height(formula_px if is_formula else 0)

    def _add(self, shown: PositionColumn) -> None:
        self._columns[shown.table.name] = shown
        shown.matrix_hovered.connect(self._on_matrix_hovered)
        shown.cosine_hovered.connect(self._on_cosine_hovered)
        shown.left.connect(self._on_left)
        shown.matrix_moved.connect(self._on_matrix_moved)
        shown.cosine_moved.connect(self._on_cosine_moved)

    @Slot(int, int)
    def _on_matrix_hovered(self, position: int, dimension: int) -> None:
        for shown in self._columns.values():
            shown.show_matrix_cursor(position, dimension)
        self.hover_text.emit(f"position {position} · dimension {dimension}")

    @Slot(int, int)
    def _on_cosine_hovered(self, first: int, second: int) -> None:
        for shown in self._columns.values():
            shown.show_cosine_cursor(first, second)
        self.offset_hovered.emit(abs(first - second))
        self.hover_text.emit(f"positions {first} and {second} · offset {abs(first - second)}")

    @Slot()
    def _on_left(self) -> None:
        for shown in self._columns.values():
            shown.clear_cursors()
        self.offset_hovered.emit(-1)
        self.hover_text.emit("")

    @Slot(QRectF)
    def _on_matrix_moved(self, view: QRectF) -> None:
        for shown in self._columns.values():
            shown.matrix.set_view(view)

    @Slot(QRectF)
    def _on_cosine_moved(self, view: QRectF) -> None:
        for shown in self._columns.values():
            shown.cosine.set_view(view)


class PositionsPage(Dressed):
    """Shows a PositionsState; the cursor of one map appears in all of them and in the plots."""

    hover_text = Signal(str)
    lab_wanted = Signal(str)

    def __init__(self, state: PositionsState) -> None:
        super().__init__()
        self._state = state
        ground(self, "page")
        self.sentence = PlainLabel(role="name", wraps=True)
        self.controls = in_one(self._build_controls())
        layout = column(self.controls, self._note, self.sentence, on=self, margins=12)
        self._card = StateCard()
        self._columns = PositionColumns()
        self._columns.hover_text.connect(self.hover_text)
        self._columns.offset_hovered.connect(self._on_columns_hovered)
        self._lower = QWidget()
        parts = (self._columns, self._lower)
        self._splitter = split(Qt.Orientation.Vertical, *parts, sizes=(520, 180), stretches=(5, 2))
        self._drawn = _Drawn()
        self._pages = stacked(self._card, self._splitter, self._drawn)
        layout.addWidget(self._pages, 1)
        changed = state.changed
        when(self, self._show_choice, changed.choice, changed.model, changed.tables)
        when(self, self._show_stale, changed.choice, changed.model, changed.busy)
        when(self, self._show_tables, changed.tables, changed.view)
        self._show_choice()
        self._show_tables()

    def dress(self) -> None:
        self._lower.setMinimumHeight(round(type_px(_LOWER_PX)))
        self._show_tables()

    def figure_spec(self) -> FigureSpec | None:
        """The tables as a figure, None if there are none."""
        try:
            return self._spec()
        except UserError:
            return None

    def _spec(self) -> FigureSpec | None:
        """The same; raises UserError if the choice of tables is invalid."""
        state, tables = self._state, self._state.tables
        if not tables:
            return None
        n_positions, d_model = tables[0].matrix.shape
        model = state.model_name if "model" in state.names else ""
        return VIEWS[state.view].of_positions(
            tables,
            state.only,
            state.checks,
            title=f"Positional encodings, {n_positions} positions, d_model {d_model}",
            caption=Caption(model=model),
            width_mm=max(160.0, 60.0 * len(tables)),
            height_mm=170.0,
        )

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose positions are saved."""
        return (self._splitter,)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._state.open()

    def fit_room(self) -> None:
        self._columns.even_notes(self._pages.width())

    @cached_property
    def _plots(self) -> "OffsetPlots":
        """Curves over the offset, created for the first tables: the plotting library is slow to import."""
        from attnscope.widgets.charts import OffsetPlots

        plots = OffsetPlots()
        plots.offset_hovered.connect(self._on_offset_hovered)
        plots.lab_button.clicked.connect(self._on_lab_clicked)
        column(plots, on=self._lower)
        return plots

    # --- building ---------------------------------------------------------------------------------

    def _build_controls(self) -> FlowRow:
        self._boxes = {name: QCheckBox() for name in SCHEMES}
        for name, box in self._boxes.items():
            box.setProperty("scheme", name)
            box.clicked.connect(self._on_box_clicked)
        self._n_positions = self._spin_box(POSITIONS_RANGE, 1, self._state.n_positions, "Positions")
        self._d_model = self._spin_box(D_MODEL_RANGE, 2, self._state.d_model, "d_model")
        self._n_positions.valueChanged.connect(self._state.set_n_positions)
        self._d_model.valueChanged.connect(self._state.set_d_model)
        self._bar = ScaleBar("− limit", "+ limit")
        self._bar.setToolTip("Blue is below 0, orange above; cosine similarity runs from −1 to 1")
        self._note = ElidedLabel(role="warning")
        self._views = named(QComboBox(), "View")
        for name, kind in VIEWS.items():
            if kind.reads_positions:
                self._views.addItem(name.capitalize(), name)
                tip = f"Draw {kind.words}"
                self._views.setItemData(self._views.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self._views.activated.connect(self._on_view_chosen)
        self._only = QLineEdit()
        self._only.setObjectName("only")
        self._only.setFixedWidth(110)
        self._only.textEdited.connect(self._on_only_edited)
        self._only.hide()
        layout = FlowRow(*self._boxes.values(), spacing=12)
        layout.add_stretch()
        layout.addWidget(together(self._views, self._only))
        layout.addWidget(together(PlainLabel("positions", "muted"), self._n_positions))
        layout.addWidget(together(PlainLabel("d_model", "muted"), self._d_model))
        layout.addWidget(self._bar)
        return layout

    def _spin_box(self, ends: tuple[int, int], step: int, value: int, name: str) -> QSpinBox:
        box = named(QSpinBox(singleStep=step), name)
        box.setRange(*ends)
        box.setValue(value)
        box.setKeyboardTracking(False)
        inset_text(box)
        return box

    def _on_lab_clicked(self) -> None:
        self.lab_wanted.emit("Past the trained length")

    def _on_view_chosen(self, index: int) -> None:
        view = str(self._views.itemData(index))
        self._state.show(view, has_checks=VIEWS[view].reads_checks)

    def _on_only_edited(self, only: str) -> None:
        self._state.show(self._state.view, only, has_checks=self._state.has_checks)

    # --- showing ----------------------------------------------------------------------------------

    def _show_choice(self) -> None:
        state = self._state
        for name, box in self._boxes.items():
            box.setText(state.title(name))
            box.setChecked(name in state.names)
        has_model = bool(state.model_name)
        self._boxes["model"].setEnabled(has_model)
        self._boxes["model"].setToolTip("" if has_model else "Open a model in Explore first")
        self._n_positions.setValue(state.n_positions)
        self._d_model.setValue(state.d_model)
        self._note.set_full_text(state.model_note)
        self._note.setVisible(bool(state.model_note))

    def _show_tables(self) -> None:
        tables = self._state.tables
        if not tables:
            self._show_sentence()
            self._card.show_stage(self._stage())
            self._pages.setCurrentWidget(self._card)
            return
        colours = tuple(self._colour(table.name) for table in tables)
        titles = tuple(self._state.heading(table.name) for table in tables)
        self._columns.show_tables(tables, titles, colours)
        names = tuple(self._state.short_title(table.name) for table in tables)
        self._plots.show_tables(tables, names, colours)
        self._show_view()
        self._columns.even_notes(self._pages.width())
        self._show_stale()

    def _show_view(self) -> None:
        """Show the matrices, or another view; an invalid choice only shows the reason."""
        state = self._state
        kind = VIEWS[state.view]
        self._views.setCurrentIndex(self._views.findData(state.view))
        self._show_sentence()
        self._bar.setVisible(state.view == "positions")
        self._only.setVisible(bool(kind.asks))
        self._only.setPlaceholderText(kind.asks)
        self._only.setAccessibleName(kind.asks)
        if self._only.text() != state.only:
            self._only.setText(state.only)
        if state.view == "positions":
            self._pages.setCurrentWidget(self._splitter)
            return
        try:
            spec = self._spec()
        except UserError as error:
            self._note.set_full_text(str(error))
            self._note.show()
            return
        self._note.set_full_text(state.model_note)
        self._note.setVisible(bool(state.model_note))
        if spec is not None:
            self._drawn.show_spec(spec)
        self._pages.setCurrentWidget(self._drawn)

    def _show_sentence(self) -> None:
        """Show the conclusion of the view, with its numbers."""
        state = self._state
        has_checks = VIEWS[state.view].reads_checks and bool(state.tables)
        said = (
            checklist_point(state.checks) if has_checks else position_point(state.tables, state.short_title)
        )
        self.sentence.say(said)

    def _show_stale(self) -> None:
        self._columns.set_stale(self._state.is_stale)
        if not self._state.tables:
            self._card.show_stage(self._stage())

    def _stage(self) -> Placeholder:
        state = self._state
        if state.query.error:
            return Placeholder(kind="failed", title="These encodings cannot be drawn", hint=state.query.error)
        if state.query.is_busy:
            return Placeholder(kind="waiting", title="Computing the encodings…", is_working=True)
        if state.model_note:
            return Placeholder(kind="failed", title="No table to show", hint=state.model_note)
        return Placeholder(
            kind="empty",
            title="Choose an encoding",
            hint="Tick one or more above to see their matrices and similarities side by side.",
        )

    def _colour(self, name: str) -> str:
        index = SCHEMES.index(name) if name in SCHEMES else len(SCHEMES)
        series = self.theme.series
        return series[index % len(series)]

    # --- user actions ----------------------------------------------------------------------------

    @Slot(bool)
    def _on_box_clicked(self, is_chosen: bool) -> None:
        self._state.choose(str(self.sender().property("scheme")), is_chosen)

    @Slot(int)
    def _on_offset_hovered(self, offset: int) -> None:
        self.hover_text.emit(f"offset {offset}")

    @Slot(int)
    def _on_columns_hovered(self, offset: int) -> None:
        if offset >= 0:
            self._plots.show_offset(offset)
        else:
            self._plots.clear_cursor()
