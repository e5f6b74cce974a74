"""Exporting a figure: which view, what format and size, with a preview of exactly that."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QSizePolicy,
    QWidget,
)

from attnscope.errors import UserError
from attnscope.figures.export import image, save, suggested_name
from attnscope.figures.file_names import ENDINGS, Format
from attnscope.figures.html_page import check_page
from attnscope.figures.numbers import first_lines
from attnscope.figures.spec import MM_PER_INCH, FigureSpec, check_dots, check_spec
from attnscope.figures.style import type_px
from attnscope.widgets.export.choices import ExportChoices
from attnscope.widgets.export.kept_choices import KeptChoices
from attnscope.widgets.form_parts import column, monospaced_font, row
from attnscope.widgets.labels import PlainLabel, push_button

# A picture of a figure as it will be written, on its own white page; of numbers the first lines.

_MAX_SIDE_PX = 1400
_N_LINES = 24


class FigurePreview(QWidget):
    """Shows one figure, fitted into the room there is."""

    def __init__(self) -> None:
        super().__init__()
        self._picture = QImage()
        self._lines: tuple[str, ...] = ()
        self.setAccessibleName("Preview of the figure")
        self.setMinimumSize(320, 280)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_figure(self, spec: FigureSpec, format: Format) -> str:
        """Show the figure; gives the reason when it cannot be written like this, else an empty text."""
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
        """Room to judge a figure."""
        return QSize(560, 460)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the page with a thin edge."""
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
        """The first lines of a table, as they will stand in the file."""
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
    """Chooses how figures are written; it stays open, and says which file was written or why none was.

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
        self.message.set_role("error")
        self.message.setText(problem)
        self.save_button.setEnabled(not problem)

    def suggested_path(self) -> str:
        """Where and under which name the figure would go."""
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
        path, _ = QFileDialog.getSaveFileName(
            self, "Export figure", self.suggested_path(), f"{format.upper()} (*{ENDINGS[format]})"
        )
        if path:
            self.save_to(path if Path(path).suffix else f"{path}{ENDINGS[format]}")
