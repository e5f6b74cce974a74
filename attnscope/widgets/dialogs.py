"""Dialogs: one of a kind at a time, and asking for a folder, to open or to save to."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QWidget,
)

from attnscope.figures.style import type_px
from attnscope.viewmodels.training.status import FolderFound, Purpose, existing_folder, find_folder
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, push_button

_Dialog = TypeVar("_Dialog", bound=QDialog)


def dialog_of(window: QWidget, kind: type[_Dialog]) -> _Dialog | None:
    """The open dialog of this kind over a window."""
    dialogs = window.findChildren(kind, options=Qt.FindChildOption.FindDirectChildrenOnly)
    return next((dialog for dialog in dialogs if dialog.isVisible()), None)


def open_one(window: QWidget, kind: type[_Dialog], make: Callable[[], _Dialog]) -> _Dialog:
    """Bring the dialog of this kind to the front, or make one whose parent is `window`."""
    dialog = dialog_of(window, kind)
    if dialog is None:
        dialog = make()
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.show()
    dialog.raise_()
    return dialog


_WIDTH_PX = 560


def ask_folder(parent: QWidget, title: str, start: str) -> str:
    """Ask for an existing folder; empty if none was chosen.

    It opens on `start` or, where that is to be made yet, on the nearest folder above: of a folder that is not
    there Qt's own dialog greys out *Choose*.
    """
    return QFileDialog.getExistingDirectory(parent, title, str(existing_folder(start)))


def ask_new_folder(parent: QWidget, title: str, suggested: str, purpose: Purpose = "model") -> str:
    """Ask for a folder to save to, new or to be replaced or continued; empty if none was chosen."""
    dialog = FolderDialog(title, suggested, purpose, parent)
    is_chosen = dialog.exec() == QDialog.DialogCode.Accepted
    dialog.deleteLater()
    return dialog.found.path if is_chosen else ""


def ask_file(parent: QWidget, title: str, start: str, kinds: str, others: Iterable[str] = ()) -> str:
    """Ask for a file to write, with an extension of `kinds` or one of `others`; empty if cancelled.

    The system's dialog asks before it replaces a file of the name that was typed, not of the one with ending.
    """
    path = QFileDialog.getSaveFileName(parent, title, start, kinds)[0]
    endings = re.findall(r"\*(\.[\w.]+)", kinds)
    if not path or path.lower().endswith((*endings, *others)):
        return path
    whole = Path(path + endings[0])
    words = f"{whole.name} exists already in {whole.parent}."
    return "" if whole.exists() and not is_replaced(parent, "Replace the file?", words) else str(whole)


def is_replaced(parent: QWidget, title: str, words: str) -> bool:
    """Whether the user wants to replace the existing content; Esc and Enter keep it."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(words)
    replace = box.addButton("Replace", QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    box.exec()
    return box.clickedButton() is replace


class FolderDialog(QDialog):
    """Takes a name and a place, and shows at once the effect of saving there."""

    def __init__(self, title: str, suggested: str, purpose: Purpose, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setMinimumWidth(round(type_px(_WIDTH_PX)))
        self._purpose: Purpose = purpose
        start = Path(suggested)
        self.name, self.place = QLineEdit(start.name), QLineEdit(str(start.parent))
        self.name.setAccessibleName("Name of the folder")
        self.place.setAccessibleName("Folder in which it is made")
        self.place.setCursorPosition(0)
        self.told = PlainLabel(wraps=True)
        self.told.setMinimumHeight(round(type_px(54)))
        self.told.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.save_button = QPushButton("Save" if purpose == "model" else "Choose")
        self.found = FolderFound(path="", words="", is_possible=False)
        self._build()
        self._look()
        self.name.selectAll()
        self.name.setFocus()

    def accept(self) -> None:
        """Close with the folder, unless the user keeps its content."""
        self._look()  # something may have come there meanwhile
        if self.found.is_possible and (not self.found.is_replaced or self._is_to_be_replaced()):
            super().accept()

    def _build(self) -> None:
        browse = push_button("Browse…", clicked=self._on_browse)
        browse.setAutoDefault(False)
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(8)
        grid.addWidget(PlainLabel("Name", "muted"), 0, 0)
        grid.addWidget(self.name, 0, 1)
        grid.addWidget(PlainLabel("In", "muted"), 1, 0)
        place = row((self.place, 1), browse)
        grid.addLayout(place, 1, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton(self.save_button, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        for field in (self.name, self.place):
            field.textChanged.connect(self._look)
        column(grid, self.told, None, buttons, on=self, margins=(24, 24, 24, 16), spacing=12)
        self.save_button.setDefault(True)  # not before it is in the dialog, or Enter would press Cancel

    @Slot()
    def _look(self) -> None:
        self.found = find_folder(self.place.text(), self.name.text(), self._purpose)
        self.told.setText(self.found.words)
        self.told.set_role("hint" if self.found.is_possible else "error")
        self.save_button.setEnabled(self.found.is_possible)

    @Slot()
    def _on_browse(self) -> None:
        folder = ask_folder(self, "Folder in which it is made", self.place.text())
        if folder:
            self.place.setText(folder)

    def _is_to_be_replaced(self) -> bool:
        words = f"{self.found.path} holds a model that AttnScope saved. Saving replaces it."
        return is_replaced(self, "Replace the model?", words)
