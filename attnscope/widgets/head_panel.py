"""One head large, or the selected heads as lines, with the choices of how they are drawn."""

import math

from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from attnscope.figures.colours import COLOUR_MAPS, Palette
from attnscope.figures.plain import plain_piece
from attnscope.viewmodels.session import Session
from attnscope.viewmodels.view_state import SCALES, Cell, Highlight, Scale, ViewState
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.head_view import HeadView
from attnscope.widgets.labels import listen, tool_button
from attnscope.widgets.lines_view import LinesView
from attnscope.widgets.map_style import map_style


class HeadPanel(QWidget):
    """Shows the session's primary head as a heatmap or the selection as lines."""

    def __init__(
        self, session: Session, view: ViewState, palette: Palette, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._view = session, view
        self.heatmap, self.lines = HeadView(), LinesView()
        self._pages = QStackedWidget()
        self._pages.addWidget(self.heatmap)
        self._pages.addWidget(self.lines)
        self.heatmap_button = tool_button("Heatmap", "Show a heatmap", role="segment", is_checkable=True)
        self.lines_button = tool_button("Lines", "Show lines", role="segment", is_checkable=True)
        self.heatmap_button.setToolTip("The selected head as a heatmap (H)")
        self.lines_button.setToolTip("The selected heads as lines from queries to keys (L)")
        self.scale = ChoiceButton(
            "Scale", "How colours stand for weights", {str(name): text for name, text in SCALES.items()}
        )
        self.colours = ChoiceButton("Colours", "Colour map", {name: name for name in COLOUR_MAPS})
        self.back = tool_button("Show grid", "Show the grid again", role="flat")
        self.back.setToolTip("Show the grid again (Esc)")
        self._lay_out()
        self._connect()
        self.set_theme(palette)
        for name in ("style", "view", "enlarged"):
            self._on_view(name)
        self._on_session("heads")

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self.heatmap.set_theme(palette)
        self.lines.set_theme(palette)

    def set_stale(self, is_stale: bool) -> None:
        """Dim the pictures while newer ones are on their way."""
        self.heatmap.set_stale(is_stale)
        self.lines.set_stale(is_stale)

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(8, 4, 8, 0)
        row.setSpacing(8)
        group = QButtonGroup(self)
        switch = QHBoxLayout()
        switch.setSpacing(0)
        for button in (self.heatmap_button, self.lines_button):
            group.addButton(button)
            switch.addWidget(button)
        row.addWidget(self.back)
        row.addLayout(switch)
        row.addStretch(1)
        row.addWidget(self.scale)
        row.addWidget(self.colours)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self._pages, 1)

    def _connect(self) -> None:
        self.heatmap_button.clicked.connect(self._on_heatmap_clicked)
        self.lines_button.clicked.connect(self._on_lines_clicked)
        self.scale.chosen.connect(self._on_scale_chosen)
        self.colours.chosen.connect(self._view.set_colour_map)
        self.back.clicked.connect(self._on_back_clicked)
        self.heatmap.cell_hovered.connect(self._on_cell_hovered)
        self.heatmap.left.connect(self._on_left)
        self.lines.token_hovered.connect(self._on_line_token_hovered)
        listen(self, self._session, self._on_session)
        listen(self, self._view, self._on_view)

    def _on_session(self, name: str) -> None:
        if name in ("heads", "selection", "traced", "model"):
            session = self._session
            has_text = bool(session.text.strip())
            head_map = session.map_of(session.primary) if has_text else None
            if head_map is not None or not has_text or session.traced is None:
                self.heatmap.set_map(head_map)
            maps = tuple(m for m in map(session.map_of, session.selection) if m and has_text)
            if maps or not has_text or session.traced is None:
                self.lines.set_maps(maps)
        if name in ("gates", "selection", "heads") and self._session.primary:
            self.heatmap.set_gate(self._session.gates.value(self._session.primary))

    def _on_view(self, name: str) -> None:
        view = self._view
        if name == "style":
            for picture in (self.heatmap, self.lines):
                picture.set_style(map_style(view))
            self.scale.show_choice(view.scale)
            self.colours.show_choice(view.colour_map)
        elif name == "view":
            is_heatmap = view.view == "heatmap"
            self.heatmap_button.setChecked(is_heatmap)
            self.lines_button.setChecked(not is_heatmap)
            self._pages.setCurrentWidget(self.heatmap if is_heatmap else self.lines)
            for button in (self.scale, self.colours):
                button.setVisible(is_heatmap)
        elif name == "highlight":
            self.heatmap.set_highlight(view.highlight.query, view.highlight.key)
            self.lines.set_highlight(view.highlight.query, view.highlight.key)
        elif name == "enlarged":
            self.back.setVisible(view.is_enlarged)

    def _on_heatmap_clicked(self) -> None:
        self._view.show_view("heatmap")

    def _on_lines_clicked(self) -> None:
        self._view.show_view("lines")

    def _on_back_clicked(self) -> None:
        self._view.enlarge(False)

    def _on_scale_chosen(self, name: str) -> None:
        scales: dict[str, Scale] = {scale: scale for scale in SCALES}
        self._view.set_scale(scales[name])

    def _on_cell_hovered(self, query: int, key: int, weight: float) -> None:
        shown = self._session.map_of(self._session.primary)
        if shown is None or query >= len(shown.queries) or key >= len(shown.keys):
            return
        self._view.set_highlight(Highlight(query=query, key=key))
        self._view.set_cell(
            Cell(
                query=plain_piece(shown.queries[query].piece),
                key=plain_piece(shown.keys[key].piece),
                weight=weight if math.isfinite(weight) else None,
            )
        )

    def _on_left(self) -> None:
        self._view.set_highlight(Highlight())
        self._view.set_cell(None)

    def _on_line_token_hovered(self, query: int | None, key: int | None) -> None:
        self._view.set_highlight(Highlight(query=query, key=key))
