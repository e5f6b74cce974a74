"""The line at the bottom: can this be believed, how long did it take, what is under the cursor."""

from collections.abc import Mapping

from PySide6.QtCore import QElapsedTimer, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QSizePolicy, QWidget

from attnscope.counting import plural
from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.records.maps import SelfCheck
from attnscope.viewmodels.session.gating import changes_counted
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.viewmodels.work import BackgroundTask, WorkState
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    ground,
    named,
    plain_tooltip,
    push_button,
    tool_button,
    when,
)
from attnscope.widgets.theme import Dressed, Dressing

# A message in a row of its own below the page, covering nothing: what went wrong, or what was done.


_NOTE_MS, _LEAST_MS = 6000, 1500
"""How long a note stays when nothing is done, and at least, whatever is done."""


class Banner(Dressing, QFrame):
    """Shows the session's notice; errors and questions stay until dismissed.

    A note goes after some seconds, and before with the next thing that a person does. A notice that
    names one of `actions` gets a button for it.
    """

    def __init__(
        self,
        session: Session,
        view: ViewState,
        actions: Mapping[str, QAction] | None = None,
    ) -> None:
        super().__init__()
        self._session, self._actions = session, dict(actions or {})
        self._age = QElapsedTimer()
        self._help = push_button(clicked=self._on_help_clicked)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._sign, self._label = PlainLabel(), PlainLabel()
        self._label.setWordWrap(True)
        self._close = tool_button("", "Dismiss the message", role="flat", tip="Dismiss (Esc)")
        self._timer = QTimer(self, singleShot=True, interval=_NOTE_MS)
        row(self._sign, (self._label, 1), self._help, self._close, on=self, margins=(16, 4, 8, 4), spacing=-1)
        self._close.clicked.connect(session.notices.dismiss)
        self._timer.timeout.connect(session.notices.dismiss)
        self.dress()
        when(self, self._show, session.changed.notice)
        when(self, self._leave, session.changed.history, view.changed.page)
        self._show()

    def dress(self) -> None:
        self._close.setIcon(icon("close", self.theme.muted, side_px=16))
        self._show_sign()

    def _show_sign(self) -> None:
        """A sign besides the colour: not everybody can tell red from blue."""
        notice, side = self._session.notices.shown, round(type_px(16))
        is_error = notice is not None and notice.is_error
        name, colour = ("error", self.theme.error) if is_error else ("note", self.theme.accent)
        self._sign.setPixmap(icon(name, colour, side_px=16).pixmap(QSize(side, side)))

    @property
    def message(self) -> str:
        """What the banner says."""
        return self._label.text()

    def _on_help_clicked(self) -> None:
        notice = self._session.notices.shown
        action = self._actions.get(notice.action) if notice is not None else None
        self._session.notices.dismiss()
        if action is not None:
            action.trigger()

    def _leave(self) -> None:
        """The person does the next thing: a note that could be read goes."""
        notice = self._session.notices.shown
        if notice is not None and not notice.is_lasting and self._age.hasExpired(_LEAST_MS):
            self._session.notices.dismiss()

    def _show(self) -> None:
        notice = self._session.notices.shown
        self._timer.stop()
        self.setVisible(notice is not None)
        if notice is None:
            return
        log = f"  The log is {notice.crash_log}." if notice.crash_log else ""
        self._label.setText(plain_text(notice.message + log))
        self.setProperty("role", "banner-error" if notice.is_error else "banner-note")
        self.style().unpolish(self)
        self.style().polish(self)
        self._show_sign()
        self.setAccessibleName(f"{'Error' if notice.is_error else 'Note'}: {notice.message}")
        helping = self._actions.get(notice.action)
        self._help.setVisible(helping is not None)
        self._help.setText(helping.text() if helping is not None else "")
        self._age.start()
        if not notice.is_lasting:
            self._timer.start()


# What is under way: a line in the status bar, and a list with progress and Stop that it opens.

_BAR_PX = 72
_PATIENCE_MS = 400
_WIDTH_PX = 360


class WorkRow(QWidget):
    """One job: its name, what is being done, how far it is, and Stop."""

    def __init__(self, work: WorkState, job: BackgroundTask) -> None:
        super().__init__()
        self._work, self._name = work, job.name
        self.name = PlainLabel(job.name, "name")
        self.what = ElidedLabel(role="muted")
        self.progress = named(QProgressBar(textVisible=False), f"Progress of {job.name}")
        self.percent = PlainLabel(role="value")
        self.stop_button = push_button("Stop", name=f"Stop: {job.name}", clicked=self._on_stop)
        words = column(spacing=4)
        heading = row((self.name, 1), self.percent, spacing=-1)
        words.addLayout(heading)
        words.addWidget(self.progress)
        words.addWidget(self.what)
        row((words, 1), (self.stop_button, 0, Qt.AlignmentFlag.AlignVCenter), on=self, spacing=12)
        self.show_job(job)

    def show_job(self, job: BackgroundTask) -> None:
        """Show how far the job is now."""
        self.what.set_full_text(plain_text(job.what))
        self.what.setVisible(bool(job.what))
        self.percent.setText(job.percent)
        self.progress.setRange(0, 0 if job.fraction is None else 1000)
        if job.fraction is not None:
            self.progress.setValue(round(1000 * job.fraction))
        self.stop_button.setEnabled(job.stop is not None)
        tip = "Esc stops it too" if job.is_waited_for else ""
        tip = tip if job.stop else "This will finish in a moment."
        self.stop_button.setToolTip(tip)

    def _on_stop(self) -> None:
        self._work.stop(self._name)


class WorkList(QFrame):
    """The jobs under way, above the line that opened it; Esc or a click elsewhere closes it."""

    def __init__(self, work: WorkState, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._work = work
        ground(self, "panel")
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName("Background tasks")
        self.empty = PlainLabel(
            "No background tasks. Long-running work is listed here and can be stopped.", "muted", wraps=True
        )
        self.empty.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.rows: dict[str, WorkRow] = {}
        self._column = column(
            PlainLabel("Background tasks", "large"), self.empty, on=self, margins=(16, 12, 16, 12), spacing=12
        )
        when(self, self._on_work, work.changed)

    def open_above(self, widget: QWidget) -> None:
        """Show the list above `widget`, with the focus on its first Stop."""
        self._show_jobs()
        self._place(widget)
        self.show()
        stops = [row.stop_button for row in self.rows.values() if row.stop_button.isEnabled()]
        (stops[0] if stops else self.empty).setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc closes the list."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def _place(self, widget: QWidget) -> None:
        self.setFixedWidth(round(type_px(_WIDTH_PX)))
        self.adjustSize()
        corner = widget.mapToGlobal(QPoint(0, 0))
        self.move(corner.x(), corner.y() - self.height() - 4)

    def _on_work(self) -> None:
        if self.isVisible():
            bottom = self.geometry().bottom()
            self._show_jobs()
            self.adjustSize()
            self.move(self.x(), bottom - self.height() + 1)

    def _show_jobs(self) -> None:
        jobs = {job.name: job for job in self._work.jobs}
        for name in [name for name in self.rows if name not in jobs]:
            row = self.rows.pop(name)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        for name, job in jobs.items():
            if name in self.rows:
                self.rows[name].show_job(job)
            else:
                self.rows[name] = WorkRow(self._work, job)
                self._column.addWidget(self.rows[name])
        self.empty.setVisible(not jobs)


class WorkLine(Dressed):
    """Says in the status bar what is under way, once it takes longer than a moment; a click lists it."""

    def __init__(self, work: WorkState) -> None:
        super().__init__()
        self.state = work
        self.button = tool_button("", "Background tasks", role="status", clicked=self.open_list)
        self.bar = named(QProgressBar(textVisible=False, minimum=0, maximum=1000), "Progress")
        self.bar.setFixedWidth(_BAR_PX)
        row(self.bar, self.button, on=self, spacing=-1)
        self.list = WorkList(work, self)
        self._patience = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._patience.timeout.connect(self._show)
        self.hide()
        when(self, self._on_work, work.changed)

    def dress(self) -> None:
        self.bar.setFixedWidth(round(type_px(_BAR_PX)))
        self.setMaximumWidth(round(type_px(_WIDTH_PX + _BAR_PX)))

    def open_list(self) -> None:
        """List what is under way."""
        self.list.open_above(self if self.isVisible() else self.parentWidget() or self)

    def _on_work(self) -> None:
        if not self.state.jobs:
            self._patience.stop()
            self.hide()
        elif self.isVisible():
            self._show()
        elif not self._patience.isActive():
            self._patience.start()

    def _show(self) -> None:
        summary = self.state.summary
        fraction = self.state.jobs[0].fraction if self.state.jobs else None
        self.bar.setVisible(fraction is not None)
        self.bar.setValue(round(1000 * (fraction or 0.0)))
        self.setVisible(bool(summary))
        self.button.setText(f"{plain_text(summary)} ▴".replace("&", "&&"))
        stops = "; Esc stops the current one" if self.state.waited_for else ""
        self.button.setAccessibleName(f"Background tasks: {plain_text(summary)}")
        self.button.setToolTip("Show background tasks" + stops)


_WITHOUT_MAPS = ("labs", "learn")


class StatusBar(Dressed):
    """Shows the self-check, the tracing time, the exact value under the cursor, and undo."""

    def __init__(self, session: Session, view: ViewState, *, undo: QAction, redo: QAction) -> None:
        super().__init__()
        self._session, self._view = session, view
        ground(self, "bar", edge="top")
        self.badge = PlainLabel(role="good")
        self.duration = PlainLabel(role="muted")
        self.cell = ElidedLabel(role="value")
        self.work = WorkLine(WorkState())
        self.heads_off = PlainLabel(role="muted")
        self._undo = tool_button("", "Undo", role="status")
        self._redo = tool_button("", "Redo", role="status")
        row(
            self.badge,
            8,
            self.duration,
            self.work,
            8,
            (self.cell, 1),
            self.heads_off,
            self._undo,
            self._redo,
            on=self,
            margins=(16, 0, 8, 0),
        )
        for button, action in ((self._undo, undo), (self._redo, redo)):
            button.setDefaultAction(action)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.dress()
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

    def dress(self) -> None:
        self.setFixedHeight(round(type_px(24)))
        for button, name in ((self._undo, "undo"), (self._redo, "redo")):
            button.defaultAction().setIcon(icon(name, self.theme.text, side_px=16))

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
        ms = traced.duration_ms
        took = f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
        said = f"traced in {took}" if traced.is_whole else ""
        self.duration.setText(said if traced.is_target_whole else "translating…")

    def _show_gates(self) -> None:
        gates = self._session.gates
        n_off, n_partly = len(gates.off()), len(gates.values) - len(gates.off())
        parts = [f"{plural(n_off, 'head')} off"] if n_off else []
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
