"""The gate of the selected head: a slider from 0 to 1, its value, and a switch."""

from PySide6.QtCore import Qt

from attnscope.figures.style import type_px
from attnscope.viewmodels.session.recorded import is_recorded
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.form_parts import row
from attnscope.widgets.jump_slider import JumpSlider
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, tool_button, when
from attnscope.widgets.theme import Dressed

_STEPS = 100
_FIXED = "This is recorded attention: only the heads of a model can be turned down."


class GateControl(Dressed):
    """Shows and changes the gate of the primary head; the switch works on every selected head."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.slider = named(JumpSlider(Qt.Orientation.Horizontal), "Gate of the selected head")
        self.slider.setRange(0, _STEPS)
        self.slider.setPageStep(10)
        self.slider.setToolTip(
            plain_tooltip(
                "The head's output is multiplied by this before the output projection.\n"
                "0 removes the head, 1 leaves it unchanged."
            )
        )
        self.value = PlainLabel()
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.switch = tool_button(
            "on", "Switch the selected heads on or off", role="segment", is_checkable=True
        )
        self.switch.setToolTip("Switch the selected heads off or on (Ctrl+G)")
        row(PlainLabel("gate"), (self.slider, 1), self.value, self.switch, on=self)
        self.slider.valueChanged.connect(self._on_slider_moved)
        self.slider.sliderReleased.connect(session.head_changes.end_drag)
        self.switch.clicked.connect(self._on_switch_clicked)
        told = session.changed
        when(self, self._show, told.gates, told.selection, told.model)
        self.dress()
        self._show()

    def dress(self) -> None:
        self.value.setFixedWidth(round(type_px(36)))
        self.switch.setFixedWidth(round(type_px(40)))

    def _show(self) -> None:
        head = self._session.primary
        value = self._session.gates.value(head) if head else 1.0
        is_fixed = is_recorded(self._session.model)
        self.setEnabled(head is not None and not is_fixed)
        self.setToolTip(plain_tooltip(_FIXED if is_fixed else ""))
        self.value.setText(f"{value:.2f}")
        self.switch.setChecked(value > 0.0)
        self.switch.setText("on" if value > 0.0 else "off")
        self.slider.setValue(round(value * _STEPS))

    def _on_slider_moved(self, step: int) -> None:
        # QSlider has no signal for the person alone that covers keys and the wheel: what the session
        # already holds is left alone, so showing a value does not set it.
        head = self._session.primary
        if head and step != round(self._session.gates.value(head) * _STEPS):
            self._session.head_changes.set_gate(head, step / _STEPS)

    def _on_switch_clicked(self) -> None:
        self._session.head_changes.toggle_gates(self._session.selection)
        self._show()
