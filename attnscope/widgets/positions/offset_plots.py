"""How alike two positions are by how far apart they are: every encoding on shared axes."""

import numpy as np
from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QCheckBox, QGridLayout, QWidget

from attnscope.records.maps import PositionTable
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, tool_button
from attnscope.widgets.line_plot import Line, LinePlot

_LABEL_PX = 128
_DASHED = ("rotary",)
"""Its similarities are those of the sinusoidal encoding: dashes let both be seen."""


class OffsetPlots(QWidget):
    """Mean cosine similarity at the left, mean dot product at the right, against the offset."""

    offset_hovered = Signal(int)
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tables: tuple[PositionTable, ...] = ()
        self._titles: tuple[str, ...] = ()
        self._colours: tuple[str, ...] = ()
        self._cosine = LinePlot(label_px=_LABEL_PX)
        self._dot = LinePlot(label_px=_LABEL_PX)
        self._cosine.setAccessibleName("Cosine similarity against offset")
        self._dot.setAccessibleName("Dot product against offset")
        self._is_relative = QCheckBox("Relative to offset 0")
        self._is_relative.setToolTip("Divide each dot product by that of a position with itself")
        self._is_relative.toggled.connect(self._redraw)
        self._offset = PlainLabel(role="value")
        words = "Past the trained length →"
        self.lab_button = tool_button(words, f"Lab: {words}", role="status")
        self.lab_button.setToolTip("Open the lab: these and relative encodings at offsets never trained")
        layout = QGridLayout()  # one row for both headings: the plots begin at the same height
        layout.setHorizontalSpacing(16)
        layout.setVerticalSpacing(0)
        layout.setRowStretch(1, 1)
        for i, (title, plot) in enumerate((("Cosine similarity", self._cosine), ("Dot product", self._dot))):
            quiet = ElidedLabel("against offset, mean over all pairs", "muted")
            beside = (self._offset, self.lab_button) if i == 0 else (self._is_relative,)
            heading = row(PlainLabel(title, "small"), (quiet, 1), *beside)
            layout.addLayout(heading, 0, i)
            layout.addWidget(plot, 1, i)
            layout.setColumnStretch(i, 1)
            plot.cursor_moved.connect(self._on_cursor_moved)
            plot.cursor_left.connect(self._on_cursor_left)
        self._dot.setXLink(self._cosine)
        layout.setContentsMargins(0, 8, 0, 0)
        self.setLayout(layout)

    def show_tables(
        self, tables: tuple[PositionTable, ...], titles: tuple[str, ...], colours: tuple[str, ...]
    ) -> None:
        """Draw these encodings, in these colours."""
        self._tables, self._titles, self._colours = tables, titles, colours
        self._cosine.is_fitted = self._dot.is_fitted = True
        self._redraw()

    @Slot(int)
    def show_offset(self, offset: int) -> None:
        """Stand the cursor at an offset; the labels carry the values of all encodings there."""
        self._cosine.set_cursor(float(offset))
        self._dot.set_cursor(float(offset))
        self._offset.setText(f"at offset {offset}")

    @Slot()
    def clear_cursor(self) -> None:
        """Take the cursor away."""
        self._cosine.set_cursor(None)
        self._dot.set_cursor(None)
        self._offset.setText("")

    def _cosines(self) -> list[np.ndarray]:
        return [table.by_offset.astype(np.float64) for table in self._tables]

    def _dots(self) -> list[np.ndarray]:
        dots = [table.dot_by_offset.astype(np.float64) for table in self._tables]
        if not self._is_relative.isChecked():
            return dots
        return [dot / dot[0] if len(dot) and dot[0] else np.full(len(dot), np.nan) for dot in dots]

    @Slot()
    def _redraw(self) -> None:
        for plot, curves in ((self._cosine, self._cosines()), (self._dot, self._dots())):
            plot.set_lines(
                tuple(
                    Line(
                        xs=np.arange(len(ys), dtype=np.float64),
                        ys=ys,
                        colour=colour,
                        label=title,
                        is_dashed=table.name in _DASHED,
                    )
                    for table, ys, title, colour in zip(
                        self._tables, curves, self._titles, self._colours, strict=True
                    )
                )
            )

    @Slot(float)
    def _on_cursor_moved(self, x: float) -> None:
        n_offsets = max((len(table.by_offset) for table in self._tables), default=0)
        if n_offsets:
            offset = int(min(max(round(x), 0), n_offsets - 1))
            self.show_offset(offset)
            self.offset_hovered.emit(offset)

    @Slot()
    def _on_cursor_left(self) -> None:
        self.clear_cursor()
        self.left.emit()
