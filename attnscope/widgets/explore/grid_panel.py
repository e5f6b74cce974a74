"""The tabs of the stacks, and under them every head of the chosen stack."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QColor,
    QIcon,
    QLinearGradient,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
)
from PySide6.QtWidgets import QButtonGroup, QMenu, QSizePolicy, QToolButton

from attnscope.counting import plural, short_number
from attnscope.figures.colours import ramp_colour
from attnscope.figures.plain import plain_piece, query_words
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import HeadRef, Stack, row_labels, written_after
from attnscope.viewmodels.heads.tinting import OFF, TintState
from attnscope.viewmodels.maps.aggregation import words_of_tokens
from attnscope.viewmodels.maps.shown_maps import sides_of_site, with_room
from attnscope.viewmodels.session.recorded import fixed_heads
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.explore.grid_view import GridView
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, plain_tooltip, tool_button, when
from attnscope.widgets.map_widget import map_style
from attnscope.widgets.theme import Dressed, Dressing

# The choice of what frames the heads of the grid, and the legend of the frames.

_ROW_PX, _BAR_PX, _RAMP_PX, _PAD_PX, _ICON_PX = 22, 8, 96, 8, 16


class TintButton(Dressing, QToolButton):
    """Offers every number there is for the heads; the menu is made when it is opened."""

    def __init__(self, state: TintState) -> None:
        super().__init__()
        self._state = state
        self.setIconSize(QSize(_ICON_PX, _ICON_PX))
        self.setAccessibleName("What frames the heads")
        self.setToolTip("Frame every head by a measure or its importance")
        self.setProperty("role", "flat")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self, toolTipsVisible=True)
        menu.aboutToShow.connect(self.fill)
        menu.triggered.connect(lambda action: state.choose(str(action.data())))
        self.setMenu(menu)
        self.dress()
        when(self, self._show, state.changed.tint)

    def dress(self) -> None:
        self._show()

    def _show(self) -> None:
        is_on = self._state.choice is not None
        self.setIcon(frame_icon(ramp_colour(self.theme, 1.0) if is_on else self.theme.muted))

    def fill(self) -> None:
        """Offer what there is now."""
        menu, group = self.menu(), ""
        menu.clear()
        actions = QActionGroup(menu)
        offered = [(OFF, "no frames", "")]
        chosen = self._state.choice
        for choice in self._state.choices:
            offered.append((choice.key, choice.name, f"{choice.unit}\n{choice.definition}"))
        groups = {choice.key: choice.group for choice in self._state.choices}
        for key, name, tip in offered:
            if groups.get(key, "") != group:
                group = groups[key]
                menu.addSection(group.replace("&", "&&"))
            action = menu.addAction(name.replace("&", "&&"))
            action.setCheckable(True)
            action.setData(key)
            action.setChecked(key == (chosen.key if chosen is not None else OFF))
            action.setToolTip(plain_tooltip(tip))
            actions.addAction(action)
        if self._state.choices and not any(key.startswith("table:") for key in groups):
            hint = menu.addAction("more after measuring on the Heads page")
            hint.setEnabled(False)


def frame_icon(colour: str) -> QIcon:
    """A frame around nothing."""
    pixmap = QPixmap(2 * _ICON_PX, 2 * _ICON_PX)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setPen(QPen(QColor(colour), 6.0))
        painter.drawRect(5, 5, 2 * _ICON_PX - 10, 2 * _ICON_PX - 10)
    return QIcon(pixmap)


class TintLegend(Dressed):
    """What the frames stand for: the name, a ramp between its ends, and the head under the cursor."""

    def __init__(self, state: TintState, view: ViewState) -> None:
        super().__init__()
        self._state, self._view = state, view
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        when(self, self._show, state.changed.tint)
        when(self, self.update, view.changed.hovered_head)
        self._show()

    def dress(self) -> None:
        self.setFixedHeight(self.sizeHint().height())

    def sizeHint(self) -> QSize:
        """One row."""
        return QSize(160, round(type_px(_ROW_PX)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint name, ends and ramp; a mark and a number for the head under the cursor."""
        choice = self._state.choice
        if choice is None:
            return
        palette, low_high = self.theme, [short_number(end) for end in self._state.ends]
        with QPainter(self) as painter:
            painter.setFont(font(SMALL_PX))
            low_px, high_px = (text_width(end) for end in low_high)
            ramp_px = type_px(_RAMP_PX)
            right = self.width() - _PAD_PX - high_px - 4
            ramp = QRectF(right - ramp_px, (self.height() - _BAR_PX) / 2, ramp_px, _BAR_PX)
            fill = QLinearGradient(ramp.topLeft(), ramp.topRight())
            for k in range(9):
                fill.setColorAt(k / 8, QColor(ramp_colour(palette, k / 8)))
            painter.fillRect(ramp, fill)
            painter.setPen(QColor(palette.muted))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(ramp.right() + 4, 0, high_px + 4, self.height()), middle, low_high[1])
            place = QRectF(ramp.left() - 4 - low_px, 0, low_px, self.height())
            painter.drawText(place, middle, low_high[0])
            self._paint_name(painter, ramp, place.left() - 8)

    def _paint_name(self, painter: QPainter, ramp: QRectF, right: float) -> None:
        choice, head = self._state.choice, self._view.hovered_head
        if choice is None:
            return
        words = f"frame: {choice.name}"
        share = self._state.share(head) if head is not None else None
        if head is not None and head in self._state.values:
            words = f"{head.label}  {choice.name} {self._state.words(head)}"
        painter.setPen(QColor(self.theme.text if head is not None else self.theme.muted))
        room = QRectF(_PAD_PX, 0, max(0.0, right - _PAD_PX), self.height())
        shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, int(room.width()))
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, shown)
        if share is not None:
            x = ramp.left() + share * ramp.width()
            painter.fillRect(QRectF(x - 1, ramp.top() - 3, 2, ramp.height() + 6), QColor(self.theme.text))

    def _show(self) -> None:
        choice = self._state.choice
        self.setVisible(choice is not None)
        about = f"{choice.name}, {choice.unit}\n{choice.definition}" if choice is not None else ""
        self.setToolTip(plain_tooltip(about))
        self.setAccessibleName(f"Frames: {choice.name}" if choice is not None else "No frames")
        self.setFixedHeight(self.sizeHint().height())
        self.update()


class GridPanel(Dressed):
    """Shows the session's grids of one stack; clicks become the session's intents."""

    def __init__(
        self, session: Session, view: ViewState, tints: TintState, head_actions: Sequence[QAction] = ()
    ) -> None:
        super().__init__()
        self._session, self._view, self._tints = session, view, tints
        self._head_actions = tuple(head_actions)
        self.grid = GridView(has_switches=True)
        self.grid.set_style(map_style(view))
        self.grid.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._grids: tuple[SiteGrid, ...] = ()
        self._sizes: dict[Stack, tuple[int, int]] = {}  # rows and columns of the maps that were whole last
        self._tabs: dict[Stack, QToolButton] = {}
        self._group = QButtonGroup(self)
        self._hint = ElidedLabel(role="muted")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._tab_row = row((self._hint, 1), margins=(8, 4, 8, 0), spacing=0)
        layout = column(self._tab_row, (self.grid, 1), on=self, spacing=0)
        self.legend, self.frames_button = TintLegend(tints, view), TintButton(tints)
        self._tab_row.addWidget(self.frames_button)
        layout.addWidget(self.legend)
        self._connect()
        for show in (self._make_tabs, self._show_stack, self._show_selection, self._show_gates):
            show()
        self._show_frames()

    def dress(self) -> None:
        self._show_frames()

    def _show_frames(self) -> None:
        """Frame the heads by a number; off at first."""
        state = self._tints
        shares = {head: state.share(head) for head in state.values} if state.choice is not None else {}
        self.grid.set_frames(
            {head: ramp_colour(self.theme, s) for head, s in shares.items() if s is not None}
        )

    def tab(self, stack: Stack) -> QToolButton:
        return self._tabs[stack]

    def _connect(self) -> None:
        when(self, self._show_frames, self._tints.changed.tint)
        self.grid.head_selected.connect(self._on_head_selected)
        self.grid.head_toggled.connect(self._session.head_changes.toggle_gate)
        self.grid.selection_toggled.connect(self._on_selection_toggled)
        self.grid.head_activated.connect(self._on_head_activated)
        self.grid.head_hovered.connect(self._on_head_hovered)
        self.grid.cell_hovered.connect(self._on_cell_hovered)
        self.grid.customContextMenuRequested.connect(self._on_menu_requested)
        self._group.buttonClicked.connect(self._on_tab_clicked)
        told, style = self._session.changed, self._view.changed.style
        when(self, self._make_tabs, told.model)
        when(self, self._show_style, style)
        when(self, self._show_stack, told.traced, told.grids, told.selection, told.model, told.aspect, style)
        when(self, self._show_selection, told.selection, told.model)
        when(self, self._show_roles, told.roles)
        when(self, self._show_gates, told.gates, told.model)

    def _on_selection_toggled(self) -> None:
        self._session.head_changes.toggle_gates(self._session.selection)

    def _show_selection(self) -> None:
        self.grid.set_selection(self._session.selection)

    def _show_roles(self) -> None:
        self.grid.set_roles(self._session.roles)

    def _show_gates(self) -> None:
        self.grid.set_gates(self._session.gates)
        self.grid.set_switches(not fixed_heads(self._session.model))

    def _show_style(self) -> None:
        self.grid.set_style(map_style(self._view))

    def _make_tabs(self) -> None:
        for button in self._tabs.values():
            self._group.removeButton(button)
            self._tab_row.removeWidget(button)
            button.deleteLater()
        self._tabs.clear()
        for k, stack in enumerate(self._session.stacks):
            button = tool_button(stack, f"Stack {stack}", role="tab", is_checkable=True)
            button.setToolTip(f"{_STACK_HINTS[stack]} ({k + 1})")
            self._tabs[stack] = button
            self._group.addButton(button)
            self._tab_row.insertWidget(k, button)

    def _show_stack(self) -> None:
        session = self._session
        stack = session.stack
        for name, button in self._tabs.items():
            button.setChecked(name == stack)
        traced = session.traced_text
        grids = tuple(session.maps.grid(g) for g in traced.grids if g.site.stack == stack) if traced else ()
        if traced and not traced.is_target_whole:
            grids = tuple(with_room(grid, *self._sizes.get(grid.site.stack, (0, 0))) for grid in grids)
        elif grids:
            self._sizes[grids[0].site.stack] = (grids[0].n_queries, grids[0].n_keys)
        if len(grids) != len(self._grids) or any(a is not b for a, b in zip(grids, self._grids, strict=True)):
            self._grids = grids
            self.grid.set_grids(grids)
        n_heads = sum(grid.site.n_heads for grid in grids)
        layers, heads = plural(len(grids), "layer"), plural(n_heads, "head")
        rough = " · rough" if any(grid.is_sampled for grid in grids) else ""
        scaled, about = _SCALED.get(self._view.scale, ("", ""))
        words = f"{scaled}{rough}" if scaled else f"{layers} · {heads}{rough}"
        self._hint.set_full_text(words if grids else "", about)

    def _on_tab_clicked(self, button: QToolButton) -> None:
        stack = next(name for name, tab in self._tabs.items() if tab is button)
        self._session.select_stack(stack)
        self._show_stack()

    def _on_head_selected(self, head: HeadRef, is_additive: bool) -> None:
        self._session.select_heads((head,), is_additive)

    def _on_head_activated(self, head: HeadRef) -> None:
        self._session.select_heads((head,))
        self._view.enlarge(not self._view.is_enlarged)

    def _on_head_hovered(self, head: HeadRef | None) -> None:
        self._view.set_hovered_head(head)
        if head is None:
            self._view.set_pointer_text("")

    def _on_cell_hovered(self, head: HeadRef, down: float, across: float) -> None:
        """Name the row and the column, where they are tokens or words of the text."""
        grid, traced = next((g for g in self._grids if head in g.site.heads), None), self._session.traced
        words = ""
        if grid is not None and traced is not None:
            aspect = self._session.aspect
            tokens = sides_of_site(grid.site, traced)
            by_word = tuple(map(words_of_tokens, tokens)) if aspect.is_by_word else tokens
            for queries, keys in (by_word, tokens):
                if (len(queries), len(keys)) == (grid.n_queries, grid.n_keys):
                    rows = row_labels(queries, written_after(head.stack, traced.target), aspect.rows)
                    row = rows[min(int(down * len(rows)), len(rows) - 1)]
                    name = query_words(row, is_isolated=False) if row.read else plain_piece(row.label)
                    key = keys[min(int(across * len(keys)), len(keys) - 1)]
                    words = f"{name} → {plain_piece(key.label)}"
                    break
        self._view.set_pointer_text(words)

    def _on_menu_requested(self, place: QPoint) -> None:
        head = self.grid.layout_now().hit(QPointF(place))
        if head is None:
            return
        if head not in self._session.selection:
            self._session.select_heads((head,))
        menu = QMenu(self, toolTipsVisible=True)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(self._head_actions)
        menu.popup(self.grid.mapToGlobal(place))


_SCALED = {
    "head": ("scaled per head", "Each small map is scaled to its own largest weight."),
    "row": ("scaled per row", "Each row of a small map is scaled to its own largest weight."),
}
"""What colours stand for where it is not the weight itself, 0 to 1: above the maps, and in full."""
_STACK_HINTS: dict[Stack, str] = {
    "encoder": "Self-attention of the encoder: source tokens look at source tokens",
    "decoder": "Self-attention of the decoder: each token looks at those before it",
    "cross": "Cross-attention: target tokens look at source tokens",
    "pool": "Pooling: one learned query, the summary, looks at the whole text",
    "second": "The encoder reading the second text: its tokens look at each other",
    "back": "Matching: tokens of the first text look for similar ones in the second",
    "second-pool": "Pooling: the summary looks at the second text",
    "sentence": "Pooling: each sentence looks at its own words",
    "read-in": "Into the bottleneck: learned points, or latents, look at the source tokens",
    "latents": "Inside the bottleneck: latents look at one another",
}
