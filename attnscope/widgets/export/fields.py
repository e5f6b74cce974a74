"""The fields of the export dialog, each with a name for those who cannot see it."""

from collections.abc import Iterable

from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QSpinBox

from attnscope.figures.spec import MAX_DPI, MAX_MM, MAX_PT, MIN_DPI, MIN_MM, MIN_PT
from attnscope.widgets.form_parts import inset_text

_MOST_BETWEEN_LABELS = 64


def choice(name: str, choices: Iterable[tuple[str, str]], chosen: str) -> QComboBox:
    """A list of (key, text) with one chosen; an unknown key chooses the first."""
    combo = QComboBox()
    combo.setAccessibleName(name)
    for key, text in choices:
        combo.addItem(text, key)
    combo.setCurrentIndex(max(combo.findData(chosen), 0))
    return combo


def length(name: str, value: float) -> QDoubleSpinBox:
    """A side of the page in millimetres."""
    spin = QDoubleSpinBox()
    spin.setRange(MIN_MM, MAX_MM)
    spin.setDecimals(1)
    spin.setSingleStep(5.0)
    spin.setSuffix(" mm")
    spin.setValue(value)
    spin.setAccessibleName(name)
    inset_text(spin)
    return spin


def type_size(value: float) -> QDoubleSpinBox:
    """The size of type in points."""
    spin = QDoubleSpinBox()
    spin.setRange(MIN_PT, MAX_PT)
    spin.setDecimals(2)
    spin.setSingleStep(0.5)
    spin.setSuffix(" pt")
    spin.setValue(value)
    spin.setAccessibleName("Size of type in points")
    inset_text(spin)
    return spin


def resolution(value: int) -> QSpinBox:
    """Dots per inch."""
    spin = QSpinBox()
    spin.setRange(MIN_DPI, MAX_DPI)
    spin.setSingleStep(50)
    spin.setSuffix(" dpi")
    spin.setValue(value)
    spin.setAccessibleName("Dots per inch of the PNG")
    inset_text(spin)
    return spin


def thinning(value: int) -> QSpinBox:
    """Which of the token labels are written; 0 stands for as many as there is room for."""
    spin = QSpinBox()
    spin.setRange(0, _MOST_BETWEEN_LABELS)
    spin.setPrefix("1 label in ")
    spin.setSpecialValueText("labels that fit")
    spin.setValue(value)
    spin.setAccessibleName("How many tokens lie between labels")
    inset_text(spin)
    return spin
