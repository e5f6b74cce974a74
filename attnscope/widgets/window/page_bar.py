"""The bar at the left: one button for each page there is."""

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QToolButton

from attnscope.figures.style import type_px
from attnscope.viewmodels.view_state import Page, ViewState
from attnscope.widgets.form_parts import column
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import tool_button, when
from attnscope.widgets.theme import Dressed

WIDTH_PX = 64


class PageBar(Dressed):
    """Shows which page is open; `pages` are the actions that turn to each."""

    def __init__(
        self,
        view: ViewState,
        pages: Mapping[Page, QAction],
        help_action: QAction | None = None,
    ) -> None:
        super().__init__()
        self._view = view
        self.setProperty("role", "bar")
        self.setProperty("edge", "right")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumHeight(1)  # so that the buttons follow the height, and never the height the buttons
        self.buttons: dict[Page, QToolButton] = {}
        layout = column(on=self, margins=(0, 8, 1, 8), spacing=0)
        group = QButtonGroup(self)
        for page, action in pages.items():
            button = tool_button(action.text(), f"Page {action.text()}", role="page", is_checkable=True)
            button.setToolTip(action.toolTip())
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
            button.clicked.connect(action.trigger)
            group.addButton(button)
            layout.addWidget(button)
            self.buttons[page] = button
        layout.addStretch(1)
        self.help_button = tool_button("?", "Help on this page", role="page")
        self.help_button.setVisible(help_action is not None)
        if help_action is not None:
            self.help_button.setToolTip(help_action.toolTip())
            self.help_button.clicked.connect(help_action.trigger)
        layout.addWidget(self.help_button)
        when(self, self._show_page, view.changed.page)
        self.dress()
        self._show_page()

    def dress(self) -> None:
        side, width = round(type_px(22)), round(type_px(WIDTH_PX))
        self.setFixedWidth(width)
        for page, button in self.buttons.items():
            button.setIconSize(QSize(side, side))
            button.setIcon(icon(page, self.theme.text, side_px=22))
        self.help_button.setFixedSize(width - 1, round(type_px(40)))
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """In a low window the buttons keep their names and do without icons."""
        room = self.height() - 16 - (0 if self.help_button.isHidden() else self.help_button.height())
        height = min(max(room // len(self.buttons), round(type_px(24))), round(type_px(56)))
        styles = Qt.ToolButtonStyle
        has_icons = height >= round(type_px(50))
        for button in self.buttons.values():
            button.setFixedSize(self.width() - 1, height)
            button.setToolButtonStyle(
                styles.ToolButtonTextUnderIcon if has_icons else styles.ToolButtonTextOnly
            )

    def _show_page(self) -> None:
        for page, button in self.buttons.items():
            button.setChecked(page == self._view.page)
