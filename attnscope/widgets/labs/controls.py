"""The controls of a lab, one for each setting of its choice: each shows a choice and asks for another."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QFileDialog, QLineEdit, QWidget

from attnscope.errors import UserError
from attnscope.fields import Field, FileName, Number, OneOf, Seed, Switch, Text, Value
from attnscope.figures.style import type_px
from attnscope.widgets.form_parts import JumpSlider, column, row
from attnscope.widgets.formulas import FormulaLabel
from attnscope.widgets.labels import PlainLabel, plain_tooltip, push_button, tool_button

C = TypeVar("C")
_NAME_PX, _VALUE_PX = 64, 44
ChooseFile = Callable[[QWidget, str], str]


def _ask_file(parent: QWidget, kinds: str) -> str:
    return QFileDialog.getOpenFileName(parent, "Open", str(Path.home()), f"{kinds};;All files (*)")[0]


class ControlRow(QWidget, Generic[C]):
    """One setting: shows what it is in a choice; `asked` carries the choice that the person asks for.

    `settled` tells that the hand lets go; `group` names what is slid or typed: its changes in a row are one.
    """

    asked = Signal(object)
    settled = Signal()

    def __init__(self, setting: Field, choice: C, *, choose_file: ChooseFile = _ask_file) -> None:
        super().__init__()
        self.choose_file = choose_file
        self._setting, self._choice = setting, choice
        self.group = setting.title if isinstance(setting, Number | Text) else ""
        self._index = -1
        self.name = PlainLabel(setting.title, "small")
        self.value = PlainLabel("", "value")
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.error = PlainLabel("", "error", wraps=True)
        self.error.hide()
        self.field = self._make_field()
        self.field.setAccessibleName(setting.title)
        tip = plain_tooltip(setting.tip)
        for part in (self.field, self.name):
            part.setToolTip(tip)
        layout = column(on=self, spacing=0)
        match setting:
            case Number():
                layout.addLayout(row(self.name, self.field, self.value, spacing=6))
            case FileName():
                self.opener = tool_button("…", f"Open a file: {setting.title}", clicked=self._on_file_wanted)
                layout.addLayout(row(self.name, self.field, self.opener, spacing=6))
            case OneOf() | Text():
                layout.addLayout(row(self.name, self.field, spacing=6))
            case _:
                layout.addWidget(self.field)
        layout.addWidget(self.error)
        self.set_size()
        self.show_choice(choice)

    def show_choice(self, choice: C) -> None:
        """Show what holds now."""
        self._choice = choice
        setting, field, value = self._setting, self.field, self._setting.of(choice)
        if isinstance(setting, Number) and isinstance(field, JumpSlider):
            at = float(value)
            self._index = min(range(len(setting.values)), key=lambda k: abs(setting.values[k] - at))
            field.setValue(self._index)
            self.value.setText(setting.words(value))
        elif isinstance(setting, OneOf) and isinstance(field, QComboBox):
            field.setCurrentIndex(field.findData(value))
        elif isinstance(setting, Switch) and isinstance(field, QCheckBox):
            field.setChecked(bool(value))
        elif isinstance(setting, Text) and isinstance(field, QLineEdit):
            self.error.hide()
            is_typed = field.hasFocus() and field.text() == value
            if not is_typed:  # what is being typed stays as it is typed
                field.setText(str(value))
                field.setCursorPosition(0)
        if isinstance(setting, Switch | OneOf):
            for part in (self.field, self.name):
                part.setEnabled(setting.is_used(choice))
        elif isinstance(setting, Number | Seed) and self.parentWidget() is not None:
            self.setVisible(setting.is_used(choice))

    def set_size(self) -> None:
        """Make room for the present size of type."""
        self.name.setFixedWidth(round(type_px(_NAME_PX)))
        self.value.setFixedWidth(round(type_px(_VALUE_PX)))

    def _make_field(self) -> QWidget:
        match self._setting:
            case Number() as number:
                slider = JumpSlider(Qt.Orientation.Horizontal)
                slider.setRange(0, len(number.values) - 1)
                slider.setPageStep(max(1, len(number.values) // 10))
                slider.valueChanged.connect(self._on_slid)
                slider.sliderReleased.connect(self.settled)
                return slider
            case OneOf() as one:
                combo = QComboBox()
                for key, text in one.options.items():
                    combo.addItem(text, key)
                combo.setMinimumContentsLength(8)
                combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
                combo.activated.connect(self._on_picked)
                return combo
            case Switch():
                box = QCheckBox(self._setting.title)
                box.clicked.connect(self._ask)
                return box
            case Seed():
                button = push_button(self._setting.title, clicked=self._on_pushed)
                return button
            case Text() as text:
                edit = QLineEdit(maxLength=text.most, placeholderText=text.example)
                if isinstance(text, FileName):  # it is read, and so only when it is whole
                    edit.editingFinished.connect(self._on_file_named)
                else:
                    edit.textEdited.connect(self._on_written)
                edit.editingFinished.connect(self.settled)
                return edit
            case _:
                raise TypeError(f"no control for {type(self._setting).__name__}")

    # What the person does

    def _ask(self, value: Value) -> None:
        self.asked.emit(self._setting.put(self._choice, value))

    def _on_slid(self, index: int) -> None:
        # QSlider has no signal for the person alone that covers keys and the wheel.
        if index != self._index and isinstance(self._setting, Number):
            self._ask(self._setting.values[index])

    def _on_picked(self, index: int) -> None:
        if isinstance(self.field, QComboBox):
            self._ask(str(self.field.itemData(index)))

    def _on_pushed(self) -> None:
        if isinstance(self._setting, Seed):
            self._ask(int(self._setting.of(self._choice)) + self._setting.step)

    def _on_file_wanted(self) -> None:
        if isinstance(self._setting, FileName) and (path := self.choose_file(self, self._setting.kinds)):
            self._open(path)

    def _on_file_named(self) -> None:
        if isinstance(self.field, QLineEdit) and self.field.text().strip() != self._setting.of(self._choice):
            self._open(self.field.text().strip())

    def _open(self, path: str) -> None:
        try:
            self._ask(self._setting.checked(path))
        except UserError as error:
            self.error.setText(str(error))
            self.error.show()

    def _on_written(self, text: str) -> None:
        if self._setting.fits(text):
            self._ask(text)


class WordsPanel(QWidget):
    """The formula, where it comes from, and the live numbers in it."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._formula = FormulaLabel()
        self._rows: list[tuple[PlainLabel, PlainLabel]] = []
        self._layout = column(
            PlainLabel("Formula", "section"),
            self._formula,
            PlainLabel(source, "muted", wraps=True),
            8,
            PlainLabel("Now", "section"),
            on=self,
            spacing=2,
        )

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
