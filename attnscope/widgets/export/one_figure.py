"""The export dialog on what one panel shows."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from attnscope.figures.spec import FigureSpec


def export_one(spec: FigureSpec | None, parent: QWidget) -> None:
    """Open the dialog on a figure; nothing where there is none."""
    if spec is None:
        return
    from attnscope.widgets.export.dialog import ExportDialog  # not before the first paint

    dialog = ExportDialog({spec.view: spec}, spec.view, parent=parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()
