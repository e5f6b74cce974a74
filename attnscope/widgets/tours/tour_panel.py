"""The bar of a guided tour below the page: what is said, the formula with its numbers, and the way on."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from attnscope.figures.style import LARGE_PX, type_px
from attnscope.viewmodels.tours.touring import TourState
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.form_parts import column
from attnscope.widgets.formula_label import FormulaLabel
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, tool_button, when
from attnscope.widgets.theme import Dressed
from attnscope.widgets.tours.rich_text import RichText, filled, html_of

_TEXT_PX, _SIDE_PX, _LEAST_PX = 680, 520, 146


class TourPanel(Dressed):
    """Shows a TourState.

    Right and Enter go on, Left goes back, Esc leaves, while the panel has the focus.
    """

    def __init__(self, state: TourState, view: ViewState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state, self._view = state, view
        self.setProperty("role", "panel")
        self.setProperty("edge", "top")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.place = PlainLabel(role="section")
        self.title = PlainLabel(role="large")
        self.text = RichText(13)
        self.formula = FormulaLabel(LARGE_PX - 3)
        self.task = PlainLabel()
        self.task.setWordWrap(True)
        self.do_button = QPushButton("Do it for me")
        self.doing = PlainLabel(role="muted")
        self.back_button = QPushButton("Back")
        self.next_button = QPushButton("Next")
        self.keep_button = tool_button(
            "Stop here and keep this view", "Stop the tour here and keep what is shown", role="flat"
        )
        self.leave_button = tool_button("", "Leave the tour", role="flat")
        self._lay_out()
        self._connect()
        self.dress()
        self._show_tour()
        self._show_step()

    def dress(self) -> None:
        self.leave_button.setIcon(icon("close", self.theme.muted, side_px=16))
        self.text.set_size()
        self.setMinimumHeight(round(type_px(_LEAST_PX)))
        self._left.setMaximumWidth(round(type_px(_TEXT_PX)))
        self._middle.setMaximumWidth(round(type_px(_SIDE_PX)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Right | Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._state.next()
            case Qt.Key.Key_Left:
                self._state.back()
            case Qt.Key.Key_Escape:
                self._state.leave()
            case _:
                super().keyPressEvent(event)

    # Building

    def _lay_out(self) -> None:
        self._left, self._middle, self._asked = QWidget(), QWidget(), QWidget()
        left, middle = column(self._left, spacing=4), column(self._middle, spacing=4)
        for widget in (self.title, self.text):
            left.addWidget(widget)
        left.addStretch(1)
        asked = QHBoxLayout(self._asked)
        asked.setContentsMargins(0, 4, 0, 0)
        asked.addWidget(self.task, 1)
        asked.addWidget(self.do_button)
        for part in (self.doing, self.formula, self._asked):
            middle.addWidget(part)
        middle.addStretch(1)
        top, way, body = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        for line in (top, way):
            line.setSpacing(8)
        top.addWidget(self.place, 1)
        for button in (self.keep_button, self.leave_button):
            top.addWidget(button)
        for push in (self.back_button, self.next_button):
            way.addWidget(push, 0, Qt.AlignmentFlag.AlignBottom)
        body.setSpacing(32)
        body.addWidget(self._left, 5)
        body.addWidget(self._middle, 4)
        body.addStretch(0)
        body.addLayout(way)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(16, 4, 12, 12)
        whole.setSpacing(2)
        whole.addLayout(top)
        whole.addLayout(body, 1)

    def _connect(self) -> None:
        state = self._state
        self.back_button.clicked.connect(state.back)
        self.next_button.clicked.connect(state.next)
        self.do_button.clicked.connect(state.do_task)
        self.leave_button.clicked.connect(lambda: state.leave())
        self.keep_button.clicked.connect(lambda: state.leave(is_keeping=True))
        self.next_button.setDefault(True)
        self.back_button.setToolTip("The step before (←)")
        self.leave_button.setToolTip("Leave the tour; what was open before comes back (Esc)")
        self.keep_button.setToolTip("Leave the tour and go on with what is shown now")
        self.do_button.setAccessibleName("Do what is asked here")
        for button in self.findChildren(QAbstractButton):
            button.installEventFilter(self)
        when(self, self._show_tour, state.changed.tour)
        when(self, self._show_step, state.changed.tour, state.changed.step, state.changed.numbers)

    def eventFilter(self, watched: object, event: object) -> bool:
        """The arrow keys walk the tour from its buttons too."""
        if not isinstance(event, QKeyEvent):
            return False
        if event.type() == QKeyEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape:
            if not self._view.is_presenting:
                event.accept()  # here Esc leaves the tour, whatever else it would stop or dismiss
            return True
        if event.type() != QKeyEvent.Type.KeyPress:
            return False
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and isinstance(watched, QAbstractButton):
            watched.click()
            return True
        if event.key() in (Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Escape):
            self.keyPressEvent(event)
            return True
        return False

    # Showing

    def _show_tour(self) -> None:
        self.setVisible(self._state.tour is not None)
        if self._state.tour is not None:
            self.next_button.setFocus()

    def _show_step(self) -> None:
        state = self._state
        tour, step = state.tour, state.step
        if tour is None or step is None:
            return
        numbers, is_waiting = state.numbers, state.phase == "moving"
        self.place.setText(f"{tour.title}  ·  step {state.index + 1} of {len(tour.steps)}")
        self.title.setText(step.title)
        self.text.set_html(html_of(step.text, numbers, is_waiting=is_waiting))
        self.formula.set_formulas(*filled(step.formula, numbers, is_waiting=is_waiting).split("\n"))
        self.formula.setVisible(bool(step.formula))
        self._asked.setVisible(step.ask is not None)
        tick = "✓ " if state.is_task_done else ""
        self.task.setText(f"{tick}{filled(step.task, numbers, is_waiting=is_waiting)}")
        self.task.set_role("good" if state.is_task_done else "name")
        self.do_button.setVisible(not state.is_task_done)
        self.do_button.setEnabled(state.phase == "shown")
        self.doing.set_role("error" if state.error else "muted")
        self.doing.setText(state.error or (f"{state.doing}…" if state.doing else ""))
        self.doing.setWordWrap(bool(state.error))
        self.back_button.setEnabled(state.index > 0)
        self.next_button.setText("Finish" if state.is_last else "Next")
        self.next_button.setToolTip(
            "The tour is over; what was open before comes back"
            if state.is_last
            else "The next step (→, Enter)"
        )
        self._say(filled(step.text, numbers, is_waiting=is_waiting))

    def _say(self, text: str) -> None:
        """Tell those who cannot see the panel."""
        self.setAccessibleName(f"{self.place.text()}: {self.title.text()}")
        spoken = text.replace("*", "").replace("`", "")
        self.setAccessibleDescription(f"{spoken} {self.formula.text()} {self.task.text()}".strip())
        self.next_button.setAccessibleDescription(self.accessibleDescription())
