"""The selected heads as lines beside the heatmap: a second view that follows the same session."""

from PySide6.QtWidgets import QWidget

from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import Highlight, ViewState
from attnscope.widgets.explore.lines_view import LinesView
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import when
from attnscope.widgets.map_style import map_style


class LinesPanel(QWidget):
    """One lines view, kept up to date."""

    def __init__(self, session: Session, view: ViewState) -> None:
        super().__init__()
        self._session, self._view = session, view
        self.lines = LinesView()
        column(self.lines, on=self, spacing=-1)
        self.lines.token_hovered.connect(self._on_token_hovered)
        told = session.changed
        when(self, self._show_maps, told.heads, told.selection, told.traced, told.model)
        when(self, self._show_style, view.changed.style)
        when(self, self._show_highlight, view.changed.highlight)
        self._show_style()
        self._show_maps()

    def _show_maps(self) -> None:
        maps = self._session.shown_maps if self._session.text.strip() else ()
        if maps or not self._session.text.strip() or self._session.traced is None:
            self.lines.set_maps(maps)

    def _show_style(self) -> None:
        self.lines.set_style(map_style(self._view))

    def _show_highlight(self) -> None:
        self.lines.set_highlight(self._view.highlight.query, self._view.highlight.key)

    def _on_token_hovered(self, query: int | None, key: int | None) -> None:
        self._view.set_highlight(Highlight(query=query, key=key))
