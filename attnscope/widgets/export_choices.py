"""The choices of the export dialog: view, format, size, resolution, colours, scale, caption."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QFormLayout, QLineEdit, QSpinBox, QWidget

from attnscope.figures.colours import COLOUR_MAPS, ColourMap
from attnscope.figures.export import FORMATS, Format
from attnscope.figures.spec import MAX_DPI, MAX_MM, MIN_DPI, MIN_MM, FigureSpec, View
from attnscope.figures.style import MapStyle, Scale
from attnscope.viewmodels.view_state import SCALES

_VIEW_NAMES: dict[View, str] = {
    "grid": "grid of all heads",
    "head": "one head",
    "lines": "lines of the selected heads",
    "positions": "positional encodings",
    "curves": "training curves",
}
_HAS_WEIGHTS: tuple[View, ...] = ("grid", "head")
_WIDTH_PX = 280


class ExportChoices(QWidget):
    """Holds what the person chose; `changed` when any of it does."""

    changed = Signal()

    def __init__(
        self, offered: Mapping[View, FigureSpec], shown: View, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        spec = offered[shown]
        self.views = _choice("View", ((name, _VIEW_NAMES[name]) for name in offered), shown)
        self.formats = _choice("Format", ((name, name.upper()) for name in FORMATS), "svg")
        self.width_mm = _length("Width in millimetres", spec.width_mm)
        self.height_mm = _length("Height in millimetres", spec.height_mm)
        self.dpi = QSpinBox()
        self.dpi.setRange(MIN_DPI, MAX_DPI)
        self.dpi.setSingleStep(50)
        self.dpi.setSuffix(" dpi")
        self.dpi.setValue(spec.dpi)
        self.dpi.setAccessibleName("Dots per inch of the PNG")
        self.colours = _choice("Colour map", ((name, name) for name in COLOUR_MAPS), spec.style.colour_map)
        self.scale = _choice("Scale", SCALES.items(), spec.style.scale)
        self.values = QCheckBox("write weights into cells")
        self.values.setChecked(spec.style.show_values)
        self.has_caption = QCheckBox("model, sentence, head and gates")
        self.has_caption.setChecked(spec.caption is not None)
        self.title = QLineEdit(spec.title)
        self.title.setAccessibleName("Title")
        self.note = QLineEdit()
        self.note.setPlaceholderText("your own words")
        self.note.setAccessibleName("Caption text")
        self.setFixedWidth(_WIDTH_PX + 80)
        self._lay_out()
        self._connect()
        self._enable()

    def view(self) -> View:
        """The figure chosen."""
        return cast("View", self.views.currentData())

    def format(self) -> Format:
        """The format chosen."""
        return cast("Format", self.formats.currentData())

    def apply(self, spec: FigureSpec) -> FigureSpec:
        """`spec` with everything chosen."""
        style = MapStyle(
            colour_map=cast("ColourMap", self.colours.currentData()),
            scale=cast("Scale", self.scale.currentData()),
            show_values=self.values.isChecked(),
        )
        caption = spec.caption if self.has_caption.isChecked() else None
        if caption is not None:
            note = " ".join(text for text in (caption.note, self.note.text().strip()) if text)
            caption = dataclasses.replace(caption, note=note)
        return dataclasses.replace(
            spec,
            style=style,
            caption=caption,
            title=self.title.text().strip(),
            width_mm=self.width_mm.value(),
            height_mm=self.height_mm.value(),
            dpi=self.dpi.value(),
        )

    def _lay_out(self) -> None:
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        for name, field in (
            ("View", self.views),
            ("Format", self.formats),
            ("Width", self.width_mm),
            ("Height", self.height_mm),
            ("Resolution", self.dpi),
            ("Colours", self.colours),
            ("Scale", self.scale),
            ("", self.values),
            ("Title", self.title),
            ("Caption", self.has_caption),
            ("", self.note),
        ):
            form.addRow(name, field)

    def _connect(self) -> None:
        for combo in (self.views, self.formats, self.colours, self.scale):
            combo.activated.connect(self._on_changed)
        for spin in (self.width_mm, self.height_mm, self.dpi):
            spin.valueChanged.connect(self._on_changed)
        for box in (self.values, self.has_caption):
            box.clicked.connect(self._on_changed)
        for edit in (self.note, self.title):
            edit.textEdited.connect(self._on_changed)

    def _on_changed(self) -> None:
        self._enable()
        self.changed.emit()

    def _enable(self) -> None:
        is_picture = self.format() in ("svg", "pdf", "png")
        has_weights = is_picture and self.view() in _HAS_WEIGHTS
        for field in (self.width_mm, self.height_mm, self.has_caption, self.title):
            field.setEnabled(is_picture)
        self.note.setEnabled(is_picture and self.has_caption.isChecked())
        self.dpi.setEnabled(self.format() == "png")
        self.colours.setEnabled(has_weights)
        self.scale.setEnabled(has_weights)
        self.values.setEnabled(is_picture and self.view() == "head")


def _choice(name: str, choices: Iterable[tuple[str, str]], chosen: str) -> QComboBox:
    combo = QComboBox()
    combo.setAccessibleName(name)
    for key, text in choices:
        combo.addItem(text, key)
    combo.setCurrentIndex(max(combo.findData(chosen), 0))
    return combo


def _length(name: str, value: float) -> QDoubleSpinBox:
    spin = QDoubleSpinBox()
    spin.setRange(MIN_MM, MAX_MM)
    spin.setDecimals(1)
    spin.setSingleStep(5.0)
    spin.setSuffix(" mm")
    spin.setValue(value)
    spin.setAccessibleName(name)
    return spin
