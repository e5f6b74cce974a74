"""What goes while pages are presented or a tour needs the room, beyond the parts of the Explore page."""

from PySide6.QtWidgets import QWidget

from attnscope.viewmodels.view_state import Part, ViewState
from attnscope.widgets.folded_sizes import FoldedSizes
from attnscope.widgets.labels import when
from attnscope.widgets.window.pages import Pages


def fold_with_view(view: ViewState, bars: tuple[QWidget, ...], pages: Pages) -> None:
    """Let bars and parts of Compare, of Labs and of Train hide themselves as the view says."""
    compare = pages.compare
    parts: dict[Part, tuple[QWidget, ...]] = {
        "bars": bars,
        "texts": (*compare.sides, compare.swap_button),
        "looks": (compare.way, compare.limit, *compare.order_buttons.values(), compare.all_stacks),
        "measures": (compare.measures,),
        "list": (pages.labs.side,),
        "curves": (pages.training.curves_half,),
        "watch": (pages.training.watch_half,),
    }

    sizes = FoldedSizes(compare.splitters())

    def show() -> None:
        if view.is_presenting:
            sizes.keep()
        for part, widgets in parts.items():
            for widget in widgets:
                widget.setVisible(not view.hides(part))
        if not view.is_presenting:
            sizes.give_back()

    when(pages, show, view.changed.folded)
