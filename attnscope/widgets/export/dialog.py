"""Exporting a figure: view, format and size, with an exact preview."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QColor, QFontDatabase, QFontMetricsF, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QLineEdit,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from attnscope.codec import Codec
from attnscope.errors import UserError
from attnscope.figures.colours import COLOUR_MAPS, ColourMap
from attnscope.figures.export import image, save, suggested_name
from attnscope.figures.file_names import ENDINGS, FORMATS, Format
from attnscope.figures.html_page import check_page
from attnscope.figures.page import PRESETS, fitted, is_fitted, preset_named, preset_of, values_hint
from attnscope.figures.spec import (
    MAX_DPI,
    MAX_MM,
    MAX_PT,
    MIN_DPI,
    MIN_MM,
    MIN_PT,
    MM_PER_INCH,
    FigureSpec,
    check_dots,
    check_spec,
)
from attnscope.figures.style import TURNS, MapStyle, Turn, type_px
from attnscope.figures.token_axis import axis_names
from attnscope.figures.views.panels import MAX_COLUMNS, PanelsFigure
from attnscope.figures.words_and_numbers import first_lines
from attnscope.records.sites import Scale
from attnscope.viewmodels.view_state import SCALES
from attnscope.widgets.dialogs import ask_file
from attnscope.widgets.form_parts import column, inset_text, monospaced_font, row
from attnscope.widgets.labels import PlainLabel, named, push_button

# What was chosen for the last figure, to be offered for the next one.

_CODEC = Codec(is_strict=True, is_sparse=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeptChoices:
    """The user's choices for the last figure; `page` is width, height and type, if they are custom.

    A page that `is_fitted` ends where the next figure does; another has the height that was chosen.
    """

    format: Format
    page: tuple[float, float, float]
    is_page_own: bool
    dpi: int
    style: MapStyle
    has_caption: bool
    has_role: bool = False
    is_fitted: bool = True

    @classmethod
    def from_text(cls, text: str) -> "KeptChoices | None":
        """Parse `text` from an earlier start; None if it is incomplete or impossible."""
        try:
            kept = _CODEC.read(cls, json.loads(text))
        except (ValueError, RecursionError):
            return None
        return kept if all(0.0 < number < MAX_MM for number in kept.page) and kept.dpi > 0 else None

    @property
    def text(self) -> str:
        return json.dumps(_CODEC.write(self))

    def on(self, spec: FigureSpec) -> FigureSpec:
        """Another figure with these choices; colours and scale are those of the window."""
        style = dataclasses.replace(
            self.style,
            colour_map=spec.style.colour_map,
            scale=spec.style.scale,
            least_weight=spec.style.least_weight,
            n_strongest=spec.style.n_strongest,
        )
        made = dataclasses.replace(spec, style=style, dpi=self.dpi)
        if not self.is_page_own:
            return made
        width_mm, height_mm, font_pt = self.page
        made = dataclasses.replace(made, width_mm=width_mm, font_pt=font_pt)
        if self.is_fitted and spec.follows_width:
            return fitted(made)
        return dataclasses.replace(made, height_mm=height_mm)


class LastExport(QObject):
    """The target and settings of a window's last figure: the next dialog begins there."""

    def __init__(self, window: QWidget, *, folder: str = "", choices: str = "") -> None:
        super().__init__(window)
        self.folder, self.choices = folder, KeptChoices.from_text(choices)

    @Slot(str)
    def take_path(self, path: str) -> None:
        self.folder = str(Path(path).parent)

    @Slot(object)
    def take_choices(self, choices: KeptChoices) -> None:
        self.choices = choices


# The fields of the export dialog, each with a name for those who cannot see it.

_MOST_BETWEEN_LABELS = 64


def choice(name: str, choices: Iterable[tuple[str, str]], chosen: str) -> QComboBox:
    """A list of (key, text) with one chosen; an unknown key chooses the first."""
    combo = named(QComboBox(), name)
    for key, text in choices:
        combo.addItem(text, key)
    combo.setCurrentIndex(max(combo.findData(chosen), 0))
    return combo


def length(name: str, value: float) -> QDoubleSpinBox:
    """A side of the page in millimetres."""
    spin = named(QDoubleSpinBox(decimals=1, singleStep=5.0, suffix=" mm"), name)
    spin.setRange(MIN_MM, MAX_MM)
    spin.setValue(value)
    inset_text(spin)
    return spin


def type_size(value: float) -> QDoubleSpinBox:
    spin = QDoubleSpinBox(minimum=MIN_PT, maximum=MAX_PT, decimals=2, singleStep=0.5, suffix=" pt")
    spin.setValue(value)
    spin.setAccessibleName("Size of type in points")
    inset_text(spin)
    return spin


def resolution(value: int) -> QSpinBox:
    """Dots per inch."""
    spin = QSpinBox(minimum=MIN_DPI, maximum=MAX_DPI, singleStep=50, suffix=" dpi", value=value)
    spin.setAccessibleName("Dots per inch of the PNG")
    inset_text(spin)
    return spin


def thinning(value: int) -> QSpinBox:
    """Spacing of the token labels; 0 means as many as there is room for."""
    spin = QSpinBox(minimum=0, maximum=_MOST_BETWEEN_LABELS, prefix="1 label in ", value=value)
    spin.setSpecialValueText("labels that fit")
    spin.setAccessibleName("How many tokens lie between labels")
    inset_text(spin)
    return spin


_FORMAT_NAMES = {"figure": "figure file, to draw again", "html": "HTML page, to hover over"}
_WIDTH_PX = 340


class ExportChoices(QWidget):
    """Holds the user's choices; `changed` when any of them does."""

    changed = Signal()

    def __init__(
        self,
        offered: Mapping[str, FigureSpec],
        shown: str,
        *,
        keeps_panels: bool = False,
        kept: KeptChoices | None = None,
    ) -> None:
        super().__init__()
        self._offered = {name: kept.on(one) if kept is not None else one for name, one in offered.items()}
        spec = self._offered[shown]
        self._page = offered[shown].width_mm, offered[shown].font_pt
        self._shown, self._was_fitted = shown, kept is None or kept.is_fitted
        self.views = choice("View", ((name, one.words) for name, one in offered.items()), shown)
        formats = ((name, _FORMAT_NAMES.get(name, name.upper())) for name in FORMATS)
        self.formats = choice("Format", formats, kept.format if kept is not None else "svg")
        self.has_lines = _box("their lines", is_checked=keeps_panels)
        self.has_grid = _box("the grid", is_checked=keeps_panels)
        columns = (("0", "as they fit"), *((str(n), f"{n}") for n in range(1, MAX_COLUMNS)))
        self.columns = choice(
            "Panels beside each other", columns, str(spec.columns if isinstance(spec, PanelsFigure) else 0)
        )
        self._build_size(spec)
        self._build_look(spec)
        has_caption = spec.caption is not None and (kept is None or kept.has_caption)
        self.has_caption = _box("model, sentence, head and gates", is_checked=has_caption)
        self.has_role = _box("what the head does", is_checked=kept is not None and kept.has_role)
        self.has_role.setToolTip("Its role, as measuring over texts found it")
        self.title = named(QLineEdit(spec.title), "Title")
        self.note = named(QLineEdit(placeholderText="your own words"), "Caption text")
        self.setMinimumWidth(round(type_px(_WIDTH_PX)))
        self._lay_out()
        self._fit_height()
        self._connect()
        self._enable()

    def view(self) -> str:
        """The figure chosen."""
        return cast("str", self.views.currentData())

    def format(self) -> Format:
        return cast("Format", self.formats.currentData())

    def apply(self, spec: FigureSpec) -> FigureSpec:
        """`spec` with all choices applied."""
        turn = self.turn.currentData()
        style = dataclasses.replace(
            spec.style,
            colour_map=cast("ColourMap", self.colours.currentData()),
            scale=cast("Scale", self.scale.currentData()),
            show_values=self.values.isChecked(),
            turn=cast("Turn", int(turn)) if turn else None,
            label_every=self.every.value(),
            has_bar=self.has_bar.isChecked(),
            is_plain=self.is_plain.isChecked(),
            has_special=not self.leaves_special.isChecked(),
            has_badge=self.has_badge.isChecked(),
            key_name=self.key_name.text().strip(),
            query_name=self.query_name.text().strip(),
            font=self.font_name.currentData(),
        )
        caption = spec.caption if self.has_caption.isChecked() else None
        if caption is not None:
            note = " ".join(text for text in (caption.note, self.note.text().strip()) if text)
            role = caption.role if self.has_role.isChecked() else ""
            caption = dataclasses.replace(caption, note=note, role=role)
        if isinstance(spec, PanelsFigure):
            panels = tuple(panel for panel in spec.panels if self._is_wanted(panel))
            spec = dataclasses.replace(spec, panels=panels, columns=int(self.columns.currentData()))
        made = dataclasses.replace(
            spec.with_style(style),
            caption=caption,
            title=self.title.text().strip(),
            width_mm=self.width_mm.value(),
            height_mm=self.height_mm.value(),
            font_pt=self.font_pt.value(),
            dpi=self.dpi.value(),
        )
        return fitted(made) if self.fits.isChecked() else made

    def kept(self) -> KeptChoices:
        """Choices to offer next time."""
        has_choice = self._offered[self.view()].follows_width
        is_fit = self.fits.isChecked() if has_choice else self._was_fitted
        return KeptChoices(
            format=self.format(),
            page=(self.width_mm.value(), self.height_mm.value(), self.font_pt.value()),
            is_page_own=not is_fit or self._page != (self.width_mm.value(), self.font_pt.value()),
            dpi=self.dpi.value(),
            style=self.apply(self._offered[self.view()]).style,
            has_caption=self.has_caption.isChecked(),
            has_role=self.has_role.isChecked(),
            is_fitted=is_fit,
        )

    def _is_wanted(self, panel: FigureSpec) -> bool:
        boxes = {"lines": self.has_lines, "grid": self.has_grid}
        return panel.view not in boxes or boxes[panel.view].isChecked()

    def _build_size(self, spec: FigureSpec) -> None:
        presets = [(preset.name, preset.title) for preset in PRESETS]
        found = preset_of(spec)
        name = found.name if found is not None else "custom"
        self.presets = choice("Size", [*presets, ("custom", "custom")], name)
        self.width_mm = length("Width in millimetres", spec.width_mm)
        self.height_mm = length("Height in millimetres", spec.height_mm)
        self.fits = _box("fit height", is_checked=is_fitted(spec))
        self.fits.setToolTip("The page ends where the figure does")
        stays = self.fits.sizePolicy()
        stays.setRetainSizeWhenHidden(True)  # or everything would move when a view has no choice here
        self.fits.setSizePolicy(stays)
        self.font_pt = type_size(spec.font_pt)
        self.dpi = resolution(spec.dpi)

    def _build_look(self, spec: FigureSpec) -> None:
        style = spec.style
        turns = [("", "turned as they fit"), *((str(t), f"turned by {t}°") for t in TURNS)]
        self.turn = choice("Turn of token labels", turns, "" if style.turn is None else str(style.turn))
        self.every = thinning(style.label_every)
        self.colours = choice("Colour map", ((name, name) for name in COLOUR_MAPS), style.colour_map)
        self.scale = choice("Scale", SCALES.items(), style.scale)
        self.values = _box("weights in cells", is_checked=style.show_values)
        self.has_bar = _box("colour bar", is_checked=style.has_bar)
        self.is_plain = _box("plain", is_checked=style.is_plain)
        self.is_plain.setToolTip("Without the head's name above the map")
        self.leaves_special = _box("no special tokens", is_checked=not style.has_special)
        self.leaves_special.setToolTip("Without their rows and columns; the weight they take is shown")
        self.has_badge = _box("self-check", is_checked=style.has_badge)
        self.has_badge.setToolTip("State that the weights are exact; if they are not, that is always stated")
        self.key_name, self.query_name = QLineEdit(style.key_name), QLineEdit(style.query_name)
        for edit, name in ((self.key_name, "columns"), (self.query_name, "rows")):
            edit.setAccessibleName(f"Title of the {name}")
        fonts = (("", "the system's font"), *((name, name) for name in QFontDatabase.families()))
        self.font_name = choice("Font", fonts, style.font)
        self.font_name.setMaximumWidth(round(type_px(180)))

    def _lay_out(self) -> None:
        self._form = form = QFormLayout()
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        across, times = QWidget(), PlainLabel("×")
        row(self.width_mm, times, self.height_mm, self.fits, None, on=across, spacing=6)
        letters, shown, panels, more, axes = (QWidget() for _ in range(5))
        row(self.font_pt, self.dpi, None, on=letters, spacing=6)
        row(self.has_bar, self.values, None, on=shown, spacing=16)
        row(self.is_plain, self.leaves_special, self.has_badge, None, on=more, spacing=16)
        row(self.key_name, self.query_name, on=axes, spacing=6)
        row(self.has_lines, self.has_grid, None, on=panels, spacing=16)
        self._fields = (
            ("View", self.views),
            ("with", panels),
            ("Columns", self.columns),
            ("Format", self.formats),
            ("Size", self.presets),
            ("", across),
            ("Type", letters),
            ("", self.font_name),
            ("Labels", self.turn),
            ("", self.every),
            ("Colours", self.colours),
            ("Scale", self.scale),
            ("Show", shown),
            ("", more),
            ("Axes", axes),
            ("Title", self.title),
            ("Caption", self.has_caption),
            ("", self.has_role),
            ("", self.note),
        )
        for name, field in self._fields:
            form.addRow(name, field)
        self._panels_row = panels
        column(form, on=self)

    def _connect(self) -> None:
        self.presets.activated.connect(self._on_preset_chosen)
        self.views.activated.connect(self._on_view_chosen)
        for combo in (*(self.columns, self.formats, self.colours, self.scale, self.turn), self.font_name):
            combo.activated.connect(self._on_changed)
        for spin in (self.width_mm, self.height_mm, self.font_pt):
            spin.valueChanged.connect(self._on_size_changed)
        for number in (self.dpi, self.every):
            number.valueChanged.connect(self._on_changed)
        boxes = (self.fits, self.values, self.has_bar, self.has_lines, self.has_grid, self.has_caption)
        for box in (*boxes, self.has_role, self.is_plain, self.leaves_special, self.has_badge):
            box.clicked.connect(self._on_changed)
        for edit in (self.note, self.title, self.key_name, self.query_name):
            edit.textEdited.connect(self._on_changed)

    def _on_preset_chosen(self) -> None:
        preset = preset_named(self.presets.currentData())
        if preset is not None:
            self.fits.setChecked(not preset.is_whole and self._offered[self.view()].follows_width)
            self.width_mm.setValue(preset.width_mm)
            self.height_mm.setValue(preset.height_mm)
            self.font_pt.setValue(preset.font_pt)
        self._on_changed()

    def _on_view_chosen(self) -> None:
        """Take the page of the new view, if that of the last one was unchanged."""
        before, after = self._offered[self._shown], self._offered[self.view()]
        self._shown = self.view()
        if (self.width_mm.value(), self.font_pt.value()) == (before.width_mm, before.font_pt):
            self.fits.setChecked(is_fitted(after))
            self.width_mm.setValue(after.width_mm)
            self.height_mm.setValue(after.height_mm)
            self.font_pt.setValue(after.font_pt)
        self._on_changed()

    def _on_size_changed(self) -> None:
        """Name the preset of the size, if it is one."""
        found = preset_of(self.apply(self._offered[self.view()]))
        name = found.name if found is not None else "custom"
        self.presets.setCurrentIndex(self.presets.findData(name))
        self._on_changed()

    def _on_changed(self) -> None:
        self._enable()
        self._fit_height()
        self.changed.emit()

    def _fit_height(self) -> None:
        """Show the height of the page, if it ends with the figure."""
        if self.fits.isChecked():
            self.height_mm.setValue(self.apply(self._offered[self.view()]).height_mm)

    def _enable(self) -> None:
        format, view = self.format(), self.view()
        is_picture = format in ("svg", "pdf", "png", "figure")
        spec = self._offered[view]
        choices = spec.choices
        is_coloured = is_picture or format == "html"
        for field in (self.presets, self.width_mm, self.fits, self.font_pt):
            field.setEnabled(is_picture)
        self.fits.setVisible(spec.follows_width)
        self.fits.setChecked(self.fits.isChecked() and spec.follows_width)
        self.height_mm.setEnabled(is_picture and not self.fits.isChecked())
        self.has_caption.setEnabled(is_picture or format == "html")
        self.title.setEnabled(is_picture or format == "html")
        self._form.setRowVisible(self.has_role, spec.caption is not None and bool(spec.caption.role))
        self.has_role.setEnabled(self.has_caption.isEnabled() and self.has_caption.isChecked())
        self.note.setEnabled(self.has_caption.isEnabled() and self.has_caption.isChecked())
        self.dpi.setEnabled(format in ("png", "figure"))
        self.colours.setEnabled(is_coloured and "colours" in choices)
        self.scale.setEnabled(is_coloured and "scale" in choices)
        self.values.setEnabled(is_picture and "values" in choices)
        self.has_bar.setEnabled(is_picture and "bar" in choices)
        self.turn.setEnabled(is_picture and "turn" in choices)
        self.font_name.setEnabled(is_picture)
        self.is_plain.setEnabled(is_picture and "plain" in choices)
        self.has_badge.setEnabled(is_picture and "badge" in choices and not self.is_plain.isChecked())
        self.leaves_special.setEnabled("special" in choices)
        own_names = axis_names(spec.row_tokens(), MapStyle())
        for edit, words in zip((self.key_name, self.query_name), own_names, strict=True):
            edit.setPlaceholderText(words)
            edit.setEnabled(format not in ("csv", "npz") and "axes" in choices)
        self.every.setEnabled(is_picture and "every" in choices)
        kinds = {panel.view for panel in spec.parts()}
        self._form.setRowVisible(self._panels_row, bool(kinds & {"lines", "grid"}))
        self._form.setRowVisible(self.columns, isinstance(spec, PanelsFigure))
        self.has_lines.setVisible("lines" in kinds)
        self.has_grid.setVisible("grid" in kinds)
        for name, widget in self._fields:
            label = self._form.labelForField(widget)
            if name and label is not None:
                label.setEnabled(widget.isEnabled())


def _box(words: str, *, is_checked: bool) -> QCheckBox:
    box = QCheckBox(words)
    box.setChecked(is_checked)
    return box


# A picture of a figure as it will be written, on its own white page; of numbers the first lines.

_MAX_SIDE_PX = 1400
_N_LINES = 24


class FigurePreview(QWidget):
    """Shows one figure, fitted into the available room."""

    def __init__(self) -> None:
        super().__init__()
        self._picture = QImage()
        self._lines: tuple[str, ...] = ()
        self.setAccessibleName("Preview of the figure")
        self.setMinimumSize(320, 280)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_figure(self, spec: FigureSpec, format: Format) -> str:
        """Show the figure; returns the reason if it cannot be written so, else an empty text."""
        try:
            check_spec(spec)
            self._lines = first_lines(spec, format, _N_LINES) if format in ("csv", "npz") else ()
            if format == "png":
                check_dots(spec)
            elif format == "html":
                check_page(spec)
            longest_inch = max(spec.width_mm, spec.height_mm) / MM_PER_INCH
            dpi = max(36, min(144, int(_MAX_SIDE_PX / longest_inch)))
            self._picture = image(dataclasses.replace(spec, dpi=dpi))
        except UserError as error:
            return str(error)
        self.update()
        return ""

    def sizeHint(self) -> QSize:
        return QSize(560, 460)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._lines:
            self._paint_lines()
            return
        if self._picture.isNull():
            return
        size = self._picture.size().scaled(self.size() - QSize(2, 2), Qt.AspectRatioMode.KeepAspectRatio)
        place = QRectF((self.width() - size.width()) / 2, 0, size.width(), size.height())
        place.translate(0, (self.height() - size.height()) / 2)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawImage(place, self._picture)
            painter.setPen(QColor("#8a9099"))
            painter.drawRect(place)

    def _paint_lines(self) -> None:
        """Paint the first lines of a table, as in the file."""
        face = monospaced_font(12)
        metrics = QFontMetricsF(face)
        with QPainter(self) as painter:
            page = QRectF(self.rect()).adjusted(0, 0, -1, -1)
            painter.fillRect(page, QColor("#ffffff"))
            painter.setPen(QColor("#8a9099"))
            painter.drawRect(page)
            painter.setClipRect(page.adjusted(8, 8, -8, -8))
            painter.setFont(face)
            painter.setPen(QColor("#1b1f24"))
            for k, line in enumerate(self._lines):
                painter.drawText(QPointF(16, 16 + metrics.ascent() + k * metrics.lineSpacing() * 1.2), line)


_PAUSE_MS = 120


class ExportDialog(QDialog):
    """Chooses how figures are written; stays open, and reports the file or the error.

    `kept` are the choices of the last time. `keeps_panels` has lines and grid among the panels from the
    start, as a figure that is opened has them.
    """

    exported = Signal(str)
    chosen = Signal(object)
    """The choices (KeptChoices) when the dialog closes, for the next one."""

    def __init__(
        self,
        offered: Mapping[str, FigureSpec],
        shown: str,
        *,
        folder: str = "",
        keeps_panels: bool = False,
        kept: KeptChoices | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Export figure")
        self._offered, self._folder = dict(offered), folder
        self.choices = ExportChoices(self._offered, shown, keeps_panels=keeps_panels, kept=kept)
        self.preview = FigurePreview()
        self.message = PlainLabel(role="error", wraps=True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.save_button = push_button("Save as…", clicked=self._on_save_clicked)
        self.buttons.addButton(self.save_button, QDialogButtonBox.ButtonRole.ActionRole)
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._lay_out()
        self.save_button.setDefault(True)  # not before it is in the dialog, or Enter would press the other
        self.choices.changed.connect(self._on_changed)
        self._timer.timeout.connect(self.show_preview)
        self.buttons.rejected.connect(self.reject)
        self.show_preview()

    def done(self, result: int) -> None:
        self.chosen.emit(self.choices.kept())
        super().done(result)

    def take_numbers(self, found: Mapping[str, FigureSpec]) -> None:
        """Update the figures with new numbers."""
        self._offered |= found
        if self.choices.format() in ("csv", "npz"):
            self._on_changed()

    def spec(self) -> FigureSpec:
        """The figure as it will be written."""
        return self.choices.apply(self._offered[self.choices.view()])

    def save_to(self, path: str) -> bool:
        """Write the figure; on failure the reason is shown and nothing is lost."""
        try:
            written = save(self.spec(), Path(path))
        except UserError as error:
            self.message.set_role("error")
            self.message.setText(str(error))
            return False
        self.exported.emit(str(written))
        self._folder = str(written.parent)
        self.message.set_role("hint")
        self.message.setText(f"Saved as {written.name}.")
        return True

    def show_preview(self) -> None:
        """Draw the figure as chosen, or say why it cannot be made."""
        problem = self.preview.show_figure(self.spec(), self.choices.format())
        self.message.set_role("error" if problem else "hint")
        self.message.setText(problem or values_hint(self.spec(), wider="a width of {:.0f} mm"))
        self.save_button.setEnabled(not problem)

    def suggested_path(self) -> str:
        """Suggested folder and name of the figure."""
        format: Format = self.choices.format()
        folder = Path(self._folder) if self._folder and Path(self._folder).is_dir() else Path.home()
        return str(folder / suggested_name(self.spec(), format))

    def _lay_out(self) -> None:
        column(
            (row((self.preview, 1), column(self.choices, None, self.message, spacing=16), spacing=24), 1),
            self.buttons,
            on=self,
            margins=(24, 24, 24, 16),
            spacing=16,
        )
        parent = self.parentWidget()
        most = parent.width() - 48 if parent is not None else 960
        self.resize(max(960, min(round(type_px(960)), most)), 620)

    def _on_changed(self) -> None:
        self._timer.start()

    def _on_save_clicked(self) -> None:
        format = self.choices.format()
        kinds = f"{_FORMAT_NAMES.get(format, format.upper())} (*{ENDINGS[format]})"
        path = ask_file(self, "Export figure", self.suggested_path(), kinds, ENDINGS.values())
        if path:
            self.save_to(path)


def open_export(offered: Mapping[str, FigureSpec], shown: str, parent: QWidget) -> ExportDialog:
    """Open the dialog with the choices of this window's last figure, from any part of it."""
    last = parent.window().findChild(LastExport) or LastExport(parent)
    dialog = ExportDialog(offered, shown, folder=last.folder, kept=last.choices, parent=parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.exported.connect(last.take_path)
    dialog.chosen.connect(last.take_choices)
    dialog.open()
    return dialog
