"""The line at the bottom: can this be believed, how long did it take, what is under the cursor."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QWidget

from attnscope.counting import counted
from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.records.maps import SelfCheck
from attnscope.viewmodels.session.intervening import changes_counted
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.viewmodels.work import WorkState
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, tool_button, when
from attnscope.widgets.window.work_list import WorkLine

_WITHOUT_MAPS = ("labs", "learn")


class StatusBar(QWidget):
    """Shows the self-check, the tracing time, the exact value under the cursor, and undo."""

    def __init__(
        self,
        session: Session,
        view: ViewState,
        palette: Palette,
        *,
        undo: QAction,
        redo: QAction,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._view = session, view
        self.setProperty("role", "bar")
        self.setProperty("edge", "top")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.badge = PlainLabel(role="good")
        self.duration = PlainLabel(role="muted")
        self.cell = ElidedLabel(role="value")
        self.work = WorkLine(WorkState())
        self.heads_off = PlainLabel(role="muted")
        self._undo = tool_button("", "Undo", role="status")
        self._redo = tool_button("", "Redo", role="status")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 0, 8, 0)
        layout.setSpacing(8)
        layout.addWidget(self.badge)
        layout.addSpacing(8)
        layout.addWidget(self.duration)
        layout.addWidget(self.work)
        layout.addSpacing(8)
        layout.addWidget(self.cell, 1)
        layout.addWidget(self.heads_off)
        layout.addWidget(self._undo)
        layout.addWidget(self._redo)
        for button, action in ((self._undo, undo), (self._redo, redo)):
            button.setDefaultAction(action)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.set_theme(palette)
        told, seen = session.changed, view.changed
        when(self, self._show_trace, told.traced)
        when(self, self._show_gates, told.gates, told.interventions, told.model)
        when(self, self._show_page, seen.page)
        when(self, self._show_pointed, seen.cell, seen.pointer, seen.hovered_head)
        self._show_trace()
        self._show_gates()
        self._show_page()

    def add_place(self, place: QWidget) -> None:
        """Show before what is under the cursor where the person is in something, such as a lecture."""
        layout = self.layout()
        if isinstance(layout, QHBoxLayout):
            layout.insertWidget(layout.indexOf(self.cell), place, 1)

    def set_theme(self, palette: Palette) -> None:
        """Draw the arrows in another colour."""
        self.setFixedHeight(round(type_px(24)))
        self.work.set_theme(palette)
        for button, name in ((self._undo, "undo"), (self._redo, "redo")):
            button.defaultAction().setIcon(icon(name, palette.text, side_px=16))

    def _show_pointed(self) -> None:
        self.cell.set_full_text(plain_text(self._under_cursor()))

    def _show_page(self) -> None:
        """On pages that show nothing of the open model nothing is said about its maps."""
        is_about_maps = self._view.page not in _WITHOUT_MAPS
        for label in (self.badge, self.duration, self.heads_off):
            label.setVisible(is_about_maps)

    def _under_cursor(self) -> str:
        cell, head = self._view.cell, self._view.hovered_head
        if cell:
            return cell.sentence
        session = self._session
        pointed = self._view.pointer_text
        if head is None:
            return pointed
        does = session.line_about(head)
        return " · ".join(filter(None, (pointed, f"{head.label} {does}" if does else "")))

    def _show_trace(self) -> None:
        traced = self._session.traced
        if traced is None or not self._session.text.strip():
            self.badge.setText("")
            self.duration.setText("")
            return
        check = traced.check
        self.badge.set_role("muted" if check.is_empty else "good" if check.is_good else "alarm")
        is_quiet = check.is_good or check.is_empty
        self.badge.setText(check.badge if is_quiet else f"⚠ {check.sentence}")
        self.badge.setToolTip(plain_tooltip(_check_tooltip(check)))
        is_whole = traced.known is None
        self.duration.setText(f"traced in {_time(traced.duration_ms)}" if is_whole else "")

    def _show_gates(self) -> None:
        gates = self._session.gates
        n_off, n_partly = len(gates.off()), len(gates.values) - len(gates.off())
        parts = [f"{counted(n_off, 'head')} off"] if n_off else []
        parts += [f"{n_partly} turned down"] if n_partly else []
        changes = changes_counted(self._session.interventions)
        self.heads_off.setText(" · ".join([*parts, *filter(None, [changes])]) or "all heads on")


def _check_tooltip(check: SelfCheck) -> str:
    return (
        f"{check.sentence}\n\nEvery picture is checked against the model.\n"
        f"largest |row sum − 1|: {check.row_sum_error:.1e}\n"
        f"largest weight where the mask forbids: {check.forbidden_weight:.1e}\n"
        f"largest |weights · v − the model's own head output|: {check.output_error:.1e}\n"
        f"tolerance: {check.tolerance:.0e}"
    )


def _time(duration_ms: float) -> str:
    return f"{duration_ms:.0f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"
