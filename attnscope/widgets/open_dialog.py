"""Dialogs of which a window has one at a time; they are not modal, and go when they are closed."""

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QWidget

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
