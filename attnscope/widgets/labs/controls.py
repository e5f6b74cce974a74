"""The controls of a lab: what each reads from the frozen choice, and the choice it asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QPushButton, QWidget

from attnscope.figures.style import type_px
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.formula_label import FormulaLabel
from attnscope.widgets.jump_slider import JumpSlider
from attnscope.widgets.labels import PlainLabel, plain_tooltip

C = TypeVar("C")
_NAME_PX, _VALUE_PX = 64, 44
_MOST_LETTERS = 120


def _always(_choice: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide(Generic[C]):
    """A slider over `values`; `text` writes the present one."""

    name: str
    tip: str
    values: tuple[float, ...]
    get: Callable[[C], float]
    change: Callable[[C, float], C]
    text: Callable[[float], str]
    is_used: Callable[[C], bool] = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick(Generic[C]):
    """One of several; `options` are keys and what is read for them."""

    name: str
    tip: str
    options: Mapping[str, str]
    get: Callable[[C], str]
    change: Callable[[C, str], C]
    is_used: Callable[[C], bool] = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Generic[C]):
    """On or off."""

    name: str
    tip: str
    get: Callable[[C], bool]
    change: Callable[[C, bool], C]
    is_used: Callable[[C], bool] = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Generic[C]):
    """A button that asks for another choice."""

    name: str
    tip: str
    change: Callable[[C], C]
    is_used: Callable[[C], bool] = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Generic[C]):
    """A line of text."""

    name: str
    tip: str
    get: Callable[[C], str]
    change: Callable[[C, str], C]


Control = Slide[C] | Pick[C] | Switch[C] | Push[C] | Write[C]


def could_set(control: Control[C], choice: C) -> bool:
    """Whether a choice holds what this control could have set."""
    match control:
        case Slide():
            return min(control.values) <= control.get(choice) <= max(control.values)
        case Pick():
            return control.get(choice) in control.options
        case Write():
            return len(control.get(choice)) <= _MOST_LETTERS
        case _:
            return True


class ControlRow(QWidget, Generic[C]):
    """One control: shows a choice; `asked` carries the choice that the person asks for.

    `settled` tells that the hand lets go; `group` names what is slid or typed: its changes in a row are one.
    """

    asked = Signal(object)
    settled = Signal()

    def __init__(self, control: Control[C], choice: C) -> None:
        super().__init__()
        self._control, self._choice = control, choice
        self.group = control.name if isinstance(control, Slide | Write) else ""
        self._index = -1
        self.name = PlainLabel(control.name, "small")
        self.value = PlainLabel("", "value")
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.field = self._make_field()
        self.field.setAccessibleName(control.name)
        tip = plain_tooltip(control.tip)
        for part in (self.field, self.name):
            part.setToolTip(tip)
        layout = column(self, spacing=0)
        match control:
            case Slide():
                layout.addLayout(row(self.name, self.field, self.value, spacing=6))
            case Pick() | Write():
                layout.addLayout(row(self.name, self.field, spacing=6))
            case _:
                layout.addWidget(self.field)
        self.set_size()
        self.show_choice(choice)

    def show_choice(self, choice: C) -> None:
        """Show what holds now."""
        self._choice = choice
        control, field = self._control, self.field
        if isinstance(control, Slide) and isinstance(field, JumpSlider):
            value = control.get(choice)
            self._index = min(range(len(control.values)), key=lambda k: abs(control.values[k] - value))
            field.setValue(self._index)
            self.value.setText(control.text(value))
        elif isinstance(control, Pick) and isinstance(field, QComboBox):
            field.setCurrentIndex(field.findData(control.get(choice)))
        elif isinstance(control, Switch) and isinstance(field, QCheckBox):
            field.setChecked(control.get(choice))
        elif isinstance(control, Write) and isinstance(field, QLineEdit):
            is_typed = field.hasFocus() and control.change(choice, field.text()) == choice
            if not is_typed:  # what is being typed stays as it is typed
                field.setText(control.get(choice))
        if isinstance(control, Switch | Pick):
            for part in (self.field, self.name):
                part.setEnabled(control.is_used(choice))
        elif isinstance(control, Slide | Push) and self.parentWidget() is not None:
            self.setVisible(control.is_used(choice))

    def set_size(self) -> None:
        """Make room for the present size of type."""
        self.name.setFixedWidth(round(type_px(_NAME_PX)))
        self.value.setFixedWidth(round(type_px(_VALUE_PX)))

    def _make_field(self) -> QWidget:
        match self._control:
            case Slide():
                slider = JumpSlider(Qt.Orientation.Horizontal)
                slider.setRange(0, len(self._control.values) - 1)
                slider.setPageStep(max(1, len(self._control.values) // 10))
                slider.valueChanged.connect(self._on_slid)
                slider.sliderReleased.connect(self.settled)
                return slider
            case Pick():
                combo = QComboBox()
                for key, text in self._control.options.items():
                    combo.addItem(text, key)
                combo.setMinimumContentsLength(8)
                combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
                combo.activated.connect(self._on_picked)
                return combo
            case Switch():
                box = QCheckBox(self._control.name)
                box.clicked.connect(self._on_switched)
                return box
            case Push():
                button = QPushButton(self._control.name)
                button.clicked.connect(self._on_pushed)
                return button
            case _:
                edit = QLineEdit()
                edit.setMaxLength(_MOST_LETTERS)
                edit.textEdited.connect(self._on_written)
                edit.editingFinished.connect(self.settled)
                return edit

    # What the person does

    def _on_slid(self, index: int) -> None:
        # QSlider has no signal for the person alone that covers keys and the wheel.
        if index != self._index and isinstance(self._control, Slide):
            self.asked.emit(self._control.change(self._choice, self._control.values[index]))

    def _on_picked(self, index: int) -> None:
        if isinstance(self._control, Pick) and isinstance(self.field, QComboBox):
            self.asked.emit(self._control.change(self._choice, str(self.field.itemData(index))))

    def _on_switched(self, is_on: bool) -> None:
        if isinstance(self._control, Switch):
            self.asked.emit(self._control.change(self._choice, is_on))

    def _on_pushed(self) -> None:
        if isinstance(self._control, Push):
            self.asked.emit(self._control.change(self._choice))

    def _on_written(self, text: str) -> None:
        if isinstance(self._control, Write):
            self.asked.emit(self._control.change(self._choice, text))


class WordsPanel(QWidget):
    """The formula, and the live numbers in it."""

    def __init__(self) -> None:
        super().__init__()
        self._formula = FormulaLabel()
        self._rows: list[tuple[PlainLabel, PlainLabel]] = []
        self._layout = column(self, spacing=2)
        self._layout.addWidget(PlainLabel("Formula", "section"))
        self._layout.addWidget(self._formula)
        self._layout.addSpacing(8)
        self._layout.addWidget(PlainLabel("Now", "section"))

    def show_words(self, formula: tuple[str, ...], numbers: tuple[tuple[str, str], ...]) -> None:
        """Show other words; rows are kept so that nothing jumps."""
        self._formula.set_formulas(*formula)
        while len(self._rows) < len(numbers):
            pair = (PlainLabel("", "muted"), PlainLabel("", "small"))
            pair[1].setAlignment(Qt.AlignmentFlag.AlignRight)
            pair[0].setWordWrap(True)  # a long name takes two lines, rather than the value its room
            self._layout.addLayout(line := row(*pair))
            line.setStretch(0, 1)
            self._rows.append(pair)
        for k, (name, value) in enumerate(self._rows):
            is_there = k < len(numbers)
            name.setText(numbers[k][0] if is_there else "")
            value.setText(numbers[k][1] if is_there else "")
