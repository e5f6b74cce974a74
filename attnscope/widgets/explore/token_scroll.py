"""A token strip of at most a few rows; longer texts scroll inside it, and lit tokens come into view."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from attnscope.figures.style import type_px
from attnscope.viewmodels.view_state import Highlight
from attnscope.widgets.token_strip import ROW_PX, TokenStrip

MAX_ROWS = 3


class TokenScroll(QScrollArea):
    """Holds one strip; as high as its rows, up to MAX_ROWS."""

    def __init__(self, strip: TokenStrip, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._strip = strip
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self.setWidget(strip)
        strip.setAutoFillBackground(False)  # setWidget turns it on
        self.setFixedHeight(round(type_px(ROW_PX)))
        strip.rows_changed.connect(self._on_rows_changed)
        strip.token_hovered.connect(self._on_token_hovered)

    def show_lit(self, lit: Highlight) -> None:
        """Light tokens, and bring them into view when another view lights them."""
        self._strip.set_lit(lit)
        index = lit.query if lit.query is not None else lit.key
        if index is not None and not self._strip.underMouse():
            self._bring_into_view(index)

    def _on_rows_changed(self, n_rows: int) -> None:
        self.setFixedHeight(min(n_rows, MAX_ROWS) * round(type_px(ROW_PX)))

    def _on_token_hovered(self, index: int) -> None:
        if self._strip.hasFocus():
            self._bring_into_view(index)

    def _bring_into_view(self, index: int) -> None:
        chip = self._strip.chip_of(index)
        if self._strip.height() > self.height() and chip is not None:
            centre = chip.rect.center().toPoint()
            self.ensureVisible(centre.x(), centre.y(), 0, round(type_px(ROW_PX)) // 2)
