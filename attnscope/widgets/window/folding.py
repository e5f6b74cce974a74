"""What goes while pages are presented or a tour needs the room, beyond the parts of the Explore page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnscope.viewmodels.view_state import Part
from attnscope.widgets.folded_sizes import FoldedSizes
from attnscope.widgets.labels import listen

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from attnscope.widgets.window.main_window import MainWindow


def fold_with_view(window: MainWindow) -> None:
    """Let bars, the sides and choices of Compare and the list of labs hide themselves as the view says."""
    compare = window.pages.compare
    parts: dict[Part, tuple[QWidget, ...]] = {
        "bars": (window.top_bar, window.page_bar),
        "texts": (*compare.sides, compare.swap_button),
        "looks": (compare.way, compare.limit, *compare.order_buttons.values(), compare.all_stacks),
        "measures": (compare.measures,),
        "list": (window.pages.labs.side,),
    }

    sizes = FoldedSizes(compare.splitters())

    def show(name: str) -> None:
        if name != "folded":
            return
        if window.view.is_presenting:
            sizes.keep()
        for part, widgets in parts.items():
            for widget in widgets:
                widget.setVisible(not window.view.hides(part))
        if not window.view.is_presenting:
            sizes.give_back()

    listen(window, window.view, show)
