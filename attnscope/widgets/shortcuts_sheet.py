"""The sheet of shortcuts: everything in the menus, and what mouse and keys do in the views."""

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from attnscope.widgets.actions import ACTIONS, HANDS
from attnscope.widgets.labels import PlainLabel


class ShortcutsSheet(QDialog):
    """Made from the same table as the menus."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Shortcuts")
        left: list[tuple[str, str]] = []
        right: list[tuple[str, str]] = []
        for menu in ("File", "Model", "Edit", "View", "Help"):
            rows = [(s.text.rstrip("…"), " or ".join(s.shortcuts[:2])) for s in ACTIONS if s.menu == menu]
            (right if menu == "View" else left).extend([(menu, ""), *rows])
        right.extend([("In the views", ""), *HANDS])
        columns = QHBoxLayout()
        columns.setSpacing(40)
        for rows in (left, right):
            columns.addLayout(_column(rows))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 16)
        layout.setSpacing(16)
        layout.addLayout(columns)
        layout.addWidget(buttons)


def _column(rows: list[tuple[str, str]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(24)
    grid.setVerticalSpacing(4)
    for k, (text, keys) in enumerate(rows):
        is_heading = not keys
        label = PlainLabel(text, "section" if is_heading else "")
        if is_heading and k:
            label.setContentsMargins(0, 12, 0, 0)
        grid.addWidget(label, k, 0)
        grid.addWidget(PlainLabel(keys, "muted"), k, 1)
    grid.setRowStretch(len(rows), 1)
    return grid
