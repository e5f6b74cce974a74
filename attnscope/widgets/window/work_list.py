"""What is under way: a line in the status bar, and a list with progress and Stop that it opens."""

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.viewmodels.work import Task, WorkState
from attnscope.widgets.labels import ElidedLabel, PlainLabel, tool_button, when

_BAR_PX = 72
_PATIENCE_MS = 400
_WIDTH_PX = 360


class WorkRow(QWidget):
    """One job: its name, what is being done, how far it is, and Stop."""

    def __init__(self, work: WorkState, job: Task) -> None:
        super().__init__()
        self._work, self._name = work, job.name
        self.name = PlainLabel(job.name, "name")
        self.what = ElidedLabel(role="muted")
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(f"Progress of {job.name}")
        self.percent = PlainLabel(role="value")
        self.stop_button = QPushButton("Stop")
        self.stop_button.setAccessibleName(f"Stop: {job.name}")
        self.stop_button.clicked.connect(self._on_stop)
        words = QVBoxLayout()
        words.setSpacing(4)
        heading = QHBoxLayout()
        heading.addWidget(self.name, 1)
        heading.addWidget(self.percent)
        words.addLayout(heading)
        words.addWidget(self.progress)
        words.addWidget(self.what)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(12)
        row.addLayout(words, 1)
        row.addWidget(self.stop_button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.show_job(job)

    def show_job(self, job: Task) -> None:
        """Show how far the job is now."""
        self.what.set_full_text(plain_text(job.what))
        self.what.setVisible(bool(job.what))
        self.percent.setText(job.percent)
        self.progress.setRange(0, 0 if job.fraction is None else 1000)
        if job.fraction is not None:
            self.progress.setValue(round(1000 * job.fraction))
        self.stop_button.setEnabled(job.stop is not None)
        tip = "Esc stops it as well" if job.is_waited_for else ""
        tip = tip if job.stop else "This ends by itself in a moment."
        self.stop_button.setToolTip(tip)

    def _on_stop(self) -> None:
        self._work.stop(self._name)


class WorkList(QFrame):
    """The jobs under way, above the line that opened it; Esc or a click elsewhere closes it."""

    def __init__(self, work: WorkState, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._work = work
        self.setProperty("role", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName("What is under way")
        self.empty = PlainLabel("Nothing is under way. Long work is listed here, with Stop.", "muted")
        self.empty.setWordWrap(True)
        self.empty.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.rows: dict[str, WorkRow] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(16, 12, 16, 12)
        self._column.setSpacing(12)
        self._column.addWidget(PlainLabel("Under way", "large"))
        self._column.addWidget(self.empty)
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


class WorkLine(QWidget):
    """Says in the status bar what is under way, once it takes longer than a moment; a click lists it."""

    def __init__(self, work: WorkState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state = work
        self.button = tool_button("", "What is under way", role="status")
        self.button.clicked.connect(self.open_list)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.setFixedWidth(_BAR_PX)
        self.bar.setAccessibleName("How far it is")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.bar)
        row.addWidget(self.button)
        self.list = WorkList(work, self)
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_PATIENCE_MS)
        self._patience.timeout.connect(self._show)
        self.hide()
        when(self, self._on_work, work.changed)

    def set_theme(self, _palette: Palette) -> None:
        """Take the present size of type."""
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
        stops = "; Esc stops what is waited for" if self.state.waited_for else ""
        self.button.setAccessibleName(f"Under way: {plain_text(summary)}")
        self.button.setToolTip("Everything under way, with Stop" + stops)
