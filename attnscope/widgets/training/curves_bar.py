"""What is chosen above the curves: the axis, which losses, how smooth, and a logarithmic axis."""

from typing import cast

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QSlider, QWidget

from attnscope.viewmodels.training.overlaid_curves import Drawing, Losses
from attnscope.viewmodels.training.run_axes import AXES, Axis
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import PlainLabel

SMOOTHING_STEPS = 99
DEFAULT_SMOOTHING = 33
_AXIS_CHOICES = {
    "step": "step",
    "tokens": "tokens read",
    "time": "seconds of training",
    "compute": "operations",
}
_LOSS_CHOICES = {"loss:both": "both", "loss:validation": "validation", "loss:training": "training"}
_UNITS: dict[Axis, str] = {"step": "", "tokens": "", "time": " s", "compute": ""}


class CurvesBar(QWidget):
    """Holds how curves are drawn; `changed` when any of it does."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._axis: Axis = "step"
        self._losses: Losses = "both"
        self._axes = ChoiceButton("against", "What the curves are drawn against", _AXIS_CHOICES)
        self._axes.show_choice("step")
        self._axes.chosen.connect(self._on_axis)
        self._loss_choice = ChoiceButton("losses", "Which losses are drawn", _LOSS_CHOICES)
        self._loss_choice.show_choice("loss:both")
        self._loss_choice.chosen.connect(self._on_losses)
        self._place = PlainLabel(role="small")
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, SMOOTHING_STEPS)
        self._slider.setValue(DEFAULT_SMOOTHING)
        self._slider.setFixedWidth(120)
        self._slider.setAccessibleName("Smoothing")
        self._slider.setToolTip("Exponential running mean with bias correction; the raw values stay, pale.")
        self._slider.valueChanged.connect(self._on_smoothing)
        self._smoothing_text = PlainLabel(role="value")
        self._smoothing_text.setMinimumWidth(40)
        self._log = QCheckBox("Log axis")
        self._log.toggled.connect(self.changed)
        self.setLayout(
            row(
                PlainLabel("Curves", "section"),
                self._axes,
                self._loss_choice,
                self._place,
                None,
                PlainLabel("Smoothing", "muted"),
                self._slider,
                self._smoothing_text,
                self._log,
            )
        )
        self._show_smoothing()
        self.show_runs(1)

    @property
    def drawing(self) -> Drawing:
        """How the curves are drawn."""
        share = self._slider.value() / SMOOTHING_STEPS
        smoothing = 0.0 if share == 0 else float(1.0 - 10.0 ** (-3.0 * share))
        return Drawing(axis=self._axis, smoothing=smoothing, losses=self._losses)

    @property
    def is_log(self) -> bool:
        """Whether values are drawn by their logarithms."""
        return self._log.isChecked()

    def show_runs(self, n_runs: int) -> None:
        """Which losses are drawn is a question only where several runs are."""
        self._loss_choice.setVisible(n_runs > 1 or self._losses != "both")

    def show_place(self, place: float | None) -> None:
        """Say where the cursor is."""
        name = AXES[self._axis] if self._axis == "step" else ""
        unit = _UNITS[self._axis]
        number = "" if place is None else f"{place:.4g}" if self._axis == "compute" else f"{place:,.0f}"
        self._place.setText("" if place is None else f"at {name} {number}{unit}".replace("  ", " "))

    def _show_smoothing(self) -> None:
        smoothing = self.drawing.smoothing
        self._smoothing_text.setText(f"{smoothing:.3f}" if smoothing else "off")

    @Slot(int)
    def _on_smoothing(self, _value: int) -> None:
        self._show_smoothing()
        self.changed.emit()

    @Slot(str)
    def _on_axis(self, axis: str) -> None:
        self._axis = cast("Axis", axis)
        self._axes.show_choice(axis)
        self.changed.emit()

    @Slot(str)
    def _on_losses(self, losses: str) -> None:
        self._losses = cast("Losses", losses.partition(":")[2])
        self._loss_choice.show_choice(losses)
        self.changed.emit()
