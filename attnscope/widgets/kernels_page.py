"""The Kernels page: a tab for each lab, made when it is first looked at."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QButtonGroup, QStackedWidget, QToolButton, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.spec import FigureSpec
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import tool_button

if TYPE_CHECKING:
    from attnscope.widgets.labs.lab_view import LabView

MakeLab = Callable[[Palette], "LabView[Any, Any]"]


def _regression(palette: Palette) -> "LabView[Any, Any]":
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.regression_plan import regression_plan

    return LabView(regression_plan(), palette)


def _saturation(palette: Palette) -> "LabView[Any, Any]":
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.saturation_plan import saturation_plan

    return LabView(saturation_plan(), palette)


def _masks(palette: Palette) -> "LabView[Any, Any]":
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.mask_plan import mask_plan

    return LabView(mask_plan(), palette)


def _cost(palette: Palette) -> "LabView[Any, Any]":
    from attnscope.widgets.labs.cost_view import make_cost_view

    return make_cost_view(palette)


def _order(palette: Palette) -> "LabView[Any, Any]":
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.order_plan import order_plan

    return LabView(order_plan(), palette)


LABS: dict[str, MakeLab] = {
    "Kernel regression": _regression,
    "Scaling by √d": _saturation,
    "Masks": _masks,
    "Cost by length": _cost,
    "Order": _order,
}
"""Every lab by the name of its tab; the plotting library is slow to import, so nothing is made before."""


class KernelsPage(QWidget):
    """Labs that show what attention computes, without any model."""

    hover_text = Signal(str)
    export_wanted = Signal()

    def __init__(self, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.labs: dict[str, LabView[Any, Any]] = {}
        self.tabs: dict[str, QToolButton] = {}
        self._stack = QStackedWidget()
        self._group = QButtonGroup(self)
        bar = row(spacing=0)
        bar.setContentsMargins(8, 4, 8, 0)
        for name in LABS:
            tab = tool_button(name, f"Lab {name}", role="tab", is_checkable=True)
            tab.clicked.connect(self._on_tab_clicked)
            self._group.addButton(tab)
            bar.addWidget(tab)
            self.tabs[name] = tab
        bar.addStretch(1)
        self.shown = next(iter(LABS))
        self.tabs[self.shown].setChecked(True)
        layout = column(self, spacing=0)
        layout.addLayout(bar)
        layout.addWidget(self._stack, 1)

    def show_lab(self, name: str) -> None:
        """Turn to a lab; the first time it is made."""
        self.shown = name
        self.tabs[name].setChecked(True)
        if name not in self.labs:
            lab = LABS[name](self._palette)
            lab.hover_text.connect(self.hover_text)
            lab.export_wanted.connect(self.export_wanted)
            self._stack.addWidget(lab)
            self.labs[name] = lab
        if self.focusWidget() in self.tabs.values():
            self.tabs[name].setFocus()
        self._stack.setCurrentWidget(self.labs[name])

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        self._palette = palette
        for lab in self.labs.values():
            lab.set_theme(palette)

    def figure_spec(self) -> FigureSpec | None:
        """The lab that is looked at, as a figure; None while the page is not."""
        lab = self.labs.get(self.shown)
        return lab.figure_spec() if lab is not None and self.isVisible() else None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.show_lab(self.shown)

    def _on_tab_clicked(self) -> None:
        for name, tab in self.tabs.items():
            if tab is self.sender():
                self.show_lab(name)
