"""Getting a model: the dialog of the shelf, and what opens from it."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QWidget

from attnscope.records.shelf import ShelfRequest
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.shelf import ShelfState


class GetModels(QObject):
    """Opens the dialog over `window`; `open_model` opens what is chosen in it."""

    def __init__(self, window: QWidget, open_model: Callable[[str], None]) -> None:
        super().__init__(window)
        self._window, self._open_model = window, open_model
        self.state = ShelfState(_post_nothing, Numbers())

    def attach(self, state: ShelfState) -> None:
        """Show this state from now on, which has somebody to ask."""
        self.state = state

    def open(self, name: str = "") -> None:
        """Show the shelf, with a model chosen on it where one is named."""
        from attnscope.widgets.shelf.dialog import ShelfDialog  # not before the first paint

        dialog = self._window.findChild(ShelfDialog)
        if dialog is None:
            dialog = ShelfDialog(self.state, self._window)
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.open_wanted.connect(self._open_model)
        self.state.show(name)
        dialog.show()
        dialog.raise_()
        dialog.activateWindow()


def _post_nothing(_request: ShelfRequest) -> None:
    """For a window without a download thread."""
