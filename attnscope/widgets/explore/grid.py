"""All heads of the chosen stack as thumbnails under the stacks' tabs: hover, select, switch off, zoom."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QColor,
    QIcon,
    QKeyEvent,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QWheelEvent,
)
from PySide6.QtWidgets import QButtonGroup, QMenu, QSizePolicy, QToolButton, QWidget

from attnscope.counting import plural, significant
from attnscope.figures.colours import Palette, ramp_colour
from attnscope.figures.grid_painting import MAX_ZOOM, GridLayout, GridMarks, grid_layout, paint_grid
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import SMALL_PX, font, plain_piece, query_words, text_width, type_px
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import Gates, HeadRef, Stack, row_labels, written_after
from attnscope.viewmodels.heads.marks import OFF, TintState
from attnscope.viewmodels.maps.aspect import sides_of_site, with_room, words_of_tokens
from attnscope.viewmodels.session.changes import fixed_heads
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, plain_tooltip, tool_button, when
from attnscope.widgets.map_widget import ARROWS, ZOOM_KEYS, MapWidget, map_style, zoom_factor
from attnscope.widgets.theme import Dressed, Dressing

# The choice of what frames the heads of the grid, and the legend of the frames.

_ROW_PX, _BAR_PX, _RAMP_PX, _PAD_PX, _ICON_PX = 22, 8, 96, 8, 16


class TintButton(Dressing, QToolButton):
    """Offers every number available for the heads; the menu is made when opened."""

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
        """Fill it with the numbers available now."""
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
    """An empty frame."""
    pixmap = QPixmap(2 * _ICON_PX, 2 * _ICON_PX)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setPen(QPen(QColor(colour), 6.0))
        painter.drawRect(5, 5, 2 * _ICON_PX - 10, 2 * _ICON_PX - 10)
    return QIcon(pixmap)


class TintLegend(Dressed):
    """Legend of the frames: the name, a colour ramp between its ends, and the head under the cursor."""

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
        return QSize(160, round(type_px(_ROW_PX)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint name, ends and ramp; a mark and a number for the head under the cursor."""
        choice = self._state.choice
        if choice is None:
            return
        palette, low_high = self.theme, [significant(end, 3) for end in self._state.ends]
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
    """Shows the session's grids of one stack; clicks call the session's methods."""

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
        """Describe the row and the column, if they are tokens or words of the text."""
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


# The small switch on a head's thumbnail: one click turns the head off, another turns it on again.

_SIDE_PX = 18.0
_MOST_OF_BOX = 0.34
_LEAST_BOX_PX = 40.0
_INSET_PX = 2.0


def switch_rect(box: QRectF) -> QRectF | None:
    """Rectangle of the switch in a thumbnail; None if the thumbnail is too small for one.

    It stays in its corner: a click in the middle of a thumbnail of any size is a click on the head.
    """
    shorter = min(box.width(), box.height())
    if shorter < _LEAST_BOX_PX:
        return None
    side = min(_SIDE_PX, _MOST_OF_BOX * shorter)
    return QRectF(box.right() - side - _INSET_PX, box.top() + _INSET_PX, side, side)


def paint_switch(painter: QPainter, rect: QRectF, *, is_off: bool, is_hot: bool, palette: Palette) -> None:
    """Paint a power switch; `is_hot` if the cursor is on it."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(palette.accent if is_hot else palette.line), 1.0))
    painter.setBrush(QColor(palette.accent if is_hot else palette.raised))
    painter.drawRoundedRect(rect, 4, 4)
    sign = QColor(palette.accent_text if is_hot else palette.muted if is_off else palette.accent)
    pen = QPen(sign, 1.6)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.translate(rect.center())
    painter.scale(rect.width() / _SIDE_PX, rect.height() / _SIDE_PX)
    painter.drawArc(QRectF(-4.5, -3.5, 9, 9), 125 * 16, 290 * 16)
    painter.drawLine(QPointF(0, -5.5), QPointF(0, -0.5))
    painter.restore()


_SETTLE_MS = 80

_NO_TEXT = (
    "No attention yet",
    "Type a sentence above: every layer and head appears here as a small map.",
)


class GridZoom(QObject):
    """The visible part of a grid: its zoom relative to the fitted size, and its offset.

    It is never moved past its edges. `layout` lays the grid out at a zoom, unmoved.
    """

    changed = Signal()
    zoomed = Signal()

    def __init__(self, layout: Callable[[float], GridLayout], parent: QObject) -> None:
        super().__init__(parent)
        self._layout = layout
        self.zoom, self.offset = 1.0, QPointF(0, 0)

    def fit(self) -> None:
        """Show everything."""
        self.zoom, self.offset = 1.0, QPointF(0, 0)
        self.changed.emit()

    def zoom_at(self, position: QPointF, factor: float) -> None:
        """Zoom about `position`."""
        zoom = min(max(self.zoom * factor, 1.0), MAX_ZOOM)
        if zoom == 1.0:
            self.fit()
            return
        before, after = self._layout(self.zoom), self._layout(zoom)
        old, new = before.origin + self.offset, after.origin
        self.zoom = zoom
        self.offset = QPointF(
            _keep(position.x(), old.x(), before.pitch_x, new.x(), after.pitch_x),
            _keep(position.y(), old.y(), before.layer_pitch, new.y(), after.layer_pitch),
        )
        self.limit()
        self.zoomed.emit()
        self.changed.emit()

    def pan(self, step: QPointF) -> None:
        """Move the zoomed grid by `step` pixels."""
        self.offset += step
        self.limit()
        self.changed.emit()

    def bring_into_view(self, box: QRectF, area: QRectF) -> None:
        """Move the zoomed grid as little as needed for `box` to be in `area`."""
        if self.zoom > 1.0:
            dx = max(0.0, area.left() - box.left()) - max(0.0, box.right() - area.right())
            dy = max(0.0, area.top() - box.top()) - max(0.0, box.bottom() - area.bottom())
            self.offset += QPointF(dx, dy)
            self.limit()

    def limit(self) -> None:
        """Keep the grid's edges from leaving the widget's."""
        if self.zoom == 1.0:
            return
        layout = self._layout(self.zoom)
        spare_x = min(0.0, layout.area.width() - layout.n_columns * layout.pitch_x)
        spare_y = min(0.0, layout.area.height() - layout.height)
        self.offset = QPointF(
            min(0.0, max(self.offset.x(), spare_x)), min(0.0, max(self.offset.y(), spare_y))
        )


class GridView(MapWidget):
    """Shows the grids of one stack; reports the chosen head, and never changes anything itself.

    Click selects, Ctrl+click adds, double click opens, wheel zooms, drag pans, `0` fits, arrows walk,
    Space asks to toggle the selected gates, Enter opens. With `has_switches` the thumbnail under the
    pointer has a switch: a click on it asks to toggle that head's gate.
    """

    head_selected = Signal(object, bool)
    """HeadRef, and whether to add it to the selection."""
    head_toggled = Signal(object)
    """HeadRef whose gate is to be toggled."""
    selection_toggled = Signal()
    """The gates of all selected heads are to be toggled."""
    head_activated = Signal(object)
    """HeadRef to open large."""
    head_hovered = Signal(object)
    """HeadRef under the cursor, or None."""
    cell_hovered = Signal(object, float, float)
    """HeadRef under the cursor, and how far down and across its map, 0 to 1."""

    def __init__(self, parent: QWidget | None = None, *, has_switches: bool = False) -> None:
        super().__init__("Heads by layer", parent=parent, empty=_NO_TEXT)
        self._has_switches = has_switches
        self._is_on_switch = False
        self._grids: tuple[SiteGrid, ...] = ()
        self._marks = GridMarks()
        self._cache = ImageCache()
        self._settling = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settling.timeout.connect(self.update)
        self.seen = GridZoom(self._layout, self)
        self.seen.zoomed.connect(self._settling.start)
        self.seen.changed.connect(self.update)
        self._most_px = 0.0
        self.setMinimumSize(160, 120)

    def set_grids(self, grids: tuple[SiteGrid, ...]) -> None:
        """Set these sites, one below the other. The zoom stays if the grid keeps its shape."""
        if _shape(grids) != _shape(self._grids):
            self.seen.fit()
        self._grids = grids
        self._cache.clear()
        self._is_stale = False
        self.update()

    def set_switches(self, has_switches: bool) -> None:
        """Show a switch on the thumbnail under the cursor, or none."""
        self._has_switches = has_switches
        self.update()

    def set_gates(self, gates: Gates) -> None:
        """Show these gates."""
        self._marks = replace(self._marks, gates=gates)
        self.update()

    def set_selection(self, heads: tuple[HeadRef, ...]) -> None:
        """Frame these heads; the last one is where arrow keys start."""
        self._marks = replace(self._marks, selection=tuple(heads))
        self.update()

    def set_frames(self, frames: Mapping[HeadRef, str]) -> None:
        """Frame heads in colours that represent a number."""
        self._marks = replace(self._marks, frames=dict(frames))
        self.update()

    def set_roles(self, roles: Mapping[HeadRef, str]) -> None:
        """Show roles beside the heads' labels, if there is room."""
        self._marks = replace(self._marks, roles=dict(roles))
        self.update()

    def set_most(self, width_px: float) -> None:
        """Limit the width of thumbnails at zoom 1; 0: as wide as there is room."""
        self._most_px = width_px
        self.update()

    def layout_now(self) -> GridLayout:
        """Current layout."""
        return self._layout(self.seen.zoom, self.seen.offset)

    def _layout(self, zoom: float, offset: QPointF | None = None) -> GridLayout:
        room = _room(QRectF(self.rect()), self._grids, self._most_px)
        return grid_layout(room, self._grids, zoom=zoom, offset=offset)

    def sizeHint(self) -> QSize:
        return QSize(480, 420)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        if not self._grids:
            return False
        layout = paint_grid(
            painter,
            _room(room, self._grids, self._most_px),
            self._grids,
            style=self._style,
            palette=self.theme,
            marks=self._marks,
            zoom=self.seen.zoom,
            offset=None if self.seen.zoom == 1.0 else self.seen.offset,
            cache=self._cache,
            is_rough=self._settling.isActive(),
        )
        self._paint_switch(painter, layout)
        if self._is_stale:
            self.veil(painter, layout.area)
        return True

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag.is_down:
            step = self._drag.move(event.position())
            if self._drag.is_moving and self.seen.zoom > 1.0:
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
                self.seen.pan(step)
            return
        layout, position = self.layout_now(), event.position()
        head = layout.hit(position)
        self._hover(head, is_on_switch=self._is_switch(layout, position))
        place = layout.place(head) if head is not None else None
        if place is not None:
            box = layout.box(*place)
            down, across = position.y() - box.top(), position.x() - box.left()
            self.cell_hovered.emit(head, down / box.height(), across / box.width())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        was_click = self._drag.release()
        self.unsetCursor()
        if not was_click or event.button() != Qt.MouseButton.LeftButton:
            return
        layout = self.layout_now()
        head = layout.hit(event.position())
        if head is not None and self._is_switch(layout, event.position()):
            self.head_toggled.emit(head)
        elif head is not None:
            self.head_selected.emit(head, _is_additive(event.modifiers()))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        layout = self.layout_now()
        head = layout.hit(event.position())
        if head is None or event.button() != Qt.MouseButton.LeftButton:
            return
        if self._is_switch(layout, event.position()):
            self._drag.press(event)  # the second click of a quick pair is a click too
        else:
            self.head_activated.emit(head)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y() and self._grids:
            self.seen.zoom_at(event.position(), zoom_factor(event.angleDelta().y()))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        current = self._marks.selection[-1] if self._marks.selection else None
        if key in ARROWS and self._grids:
            self._walk(current, ARROWS[key], is_additive=_is_additive(event.modifiers()))
        elif key == Qt.Key.Key_0:
            self.seen.fit()
        elif key in ZOOM_KEYS:
            self.seen.zoom_at(QRectF(self.rect()).center(), ZOOM_KEYS[key])
        elif key == Qt.Key.Key_Space and current is not None:
            self.selection_toggled.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and current is not None:
            self.head_activated.emit(current)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._hover(None)

    def fit_room(self) -> None:
        self.seen.limit()

    def _hover(self, head: HeadRef | None, *, is_on_switch: bool = False) -> None:
        is_new, roles = head != self._marks.hovered, self._marks.roles
        if is_new or is_on_switch != self._is_on_switch:
            self._marks, self._is_on_switch = replace(self._marks, hovered=head), is_on_switch
            role = f"{head.label} · {roles[head]}" if head is not None and head in roles else ""
            self.setToolTip("Turn this head off or on (Space)" if is_on_switch else plain_tooltip(role))
            self.update()
        if is_new:
            self.head_hovered.emit(head)

    def _is_switch(self, layout: GridLayout, position: QPointF) -> bool:
        """Whether the switch of a thumbnail is under a position."""
        head = layout.hit(position) if self._has_switches else None
        place = layout.place(head) if head is not None else None
        rect = switch_rect(layout.box(*place)) if place is not None else None
        return rect is not None and rect.contains(position)

    def _paint_switch(self, painter: QPainter, layout: GridLayout) -> None:
        head = self._marks.hovered if self._has_switches else None
        place = layout.place(head) if head is not None else None
        rect = switch_rect(layout.box(*place)) if place is not None else None
        if rect is not None and head is not None and layout.area.contains(rect):
            is_off = self._marks.gates.value(head) == 0.0
            paint_switch(painter, rect, is_off=is_off, is_hot=self._is_on_switch, palette=self.theme)

    def _walk(self, current: HeadRef | None, step: tuple[int, int], *, is_additive: bool) -> None:
        layout = self.layout_now()
        place = layout.place(current) if current is not None else None
        row, column = (0, 0) if place is None else layout.step(place, step)
        if (row, column) != place:
            self.seen.bring_into_view(layout.box(row, column), layout.area)
            self.head_selected.emit(layout.rows[row][column], is_additive)


def _room(room: QRectF, grids: tuple[SiteGrid, ...], most_px: float) -> QRectF:
    """Area for a grid: less than `room` if thumbnails would be wider than `most_px`."""
    whole = grid_layout(room, grids) if most_px and grids else None
    if whole is None or whole.box_width <= most_px:
        return room
    share, area = most_px / whole.box_width, whole.area
    right = area.left() + share * area.width() + room.right() - area.right()
    bottom = area.top() + share * area.height() + room.bottom() - area.bottom()
    return QRectF(room.topLeft(), QPointF(right, bottom))


def _keep(position: float, origin: float, pitch: float, new_origin: float, new_pitch: float) -> float:
    """The offset that keeps the point under `position` in place after the pitch has changed."""
    return position - new_origin - (position - origin) / pitch * new_pitch


def _shape(grids: tuple[SiteGrid, ...]) -> tuple[object, ...]:
    return tuple(grid.site for grid in grids)


def _is_additive(modifiers: Qt.KeyboardModifier) -> bool:
    return bool(modifiers & Qt.KeyboardModifier.ControlModifier)
