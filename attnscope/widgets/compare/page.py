"""The Compare page: two sides on top, their maps with the difference, all heads and numbers below."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QMouseEvent, QPainter, QShowEvent
from PySide6.QtWidgets import QSplitter, QToolButton, QWidget

from attnscope.counting import plural
from attnscope.figures.changes_painting import (
    ChangedHead,
    ChangesLayout,
    changes_layout,
    paint_changes,
    top_mean,
)
from attnscope.figures.grid_painting import GridMarks
from attnscope.figures.map_painting import MapLayout, paint_note
from attnscope.figures.page import sized
from attnscope.figures.raster import ImageCache
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import MapStyle, plain_text, type_px
from attnscope.figures.views.difference import (
    DifferenceCodes,
    DifferenceFigure,
    DifferenceLayout,
    difference_codes,
    difference_layout,
    paint_difference,
)
from attnscope.last_made import LastMade
from attnscope.records.maps import DifferenceGrid, Which
from attnscope.records.sites import Gates, HeadRef
from attnscope.viewmodels.compare.difference import WAYS, ComparedMaps, cell_words
from attnscope.viewmodels.compare.sides import WHICH
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.session.changes import LIMITS, Order
from attnscope.viewmodels.session.opening import Placeholder, stage_of
from attnscope.viewmodels.session.scripts import (
    WIDTH_MM,
    Scripts,
    comparison_command,
    comparison_script,
    comparison_shown,
)
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.compare.side import CompareMeasures, CompareOutput, CompareSide, OfferModels
from attnscope.widgets.form_parts import ChoiceButton, column, one_of, row, split, stacked
from attnscope.widgets.labels import ElidedLabel, ground, rule, tool_button, when, when_seen
from attnscope.widgets.map_widget import ARROWS, CellMapWidget, MapWidget, StateCard, map_style
from attnscope.widgets.theme import Dressed

# The maps of both sides and their difference with one zoom, one cursor and one highlight for all three.


class CompareMaps(CellMapWidget[ComparedMaps]):
    """Shows a ComparedMaps; wheel zooms, drag pans, `0` fits, arrows walk the cells of all three at once."""

    cell_pointed = Signal(str)
    """The cell under the cursor in words; empty: none."""

    def __init__(self) -> None:
        super().__init__("Attention of A, of B, and B minus A")
        self._codes: LastMade[DifferenceCodes] = LastMade()
        self._cache = ImageCache()
        self._layout: LastMade[DifferenceLayout] = LastMade()
        self.left.connect(self._tell)
        self.setMinimumSize(360, 160)

    def set_maps(self, shown: ComparedMaps | None) -> None:
        """Set another comparison. The zoom stays if the axes keep their size."""
        if shown is self.shown:
            return
        self._codes.forget()
        self._layout.forget()
        self._cache.clear()
        self.show_cells(shown, (0, 0) if shown is None else shown.delta.shape)

    def set_style(self, style: MapStyle) -> None:
        """Draw the weights with this colour map and scale."""
        if style != self._style:
            self._style = style
            self._cache.clear()
            self.update()

    def dress(self) -> None:
        self._cache.clear()

    def layout_now(self) -> DifferenceLayout | None:
        """Current layout; None without maps."""
        shown = self.shown
        if shown is None:
            return None
        key = (self.width(), self.height(), self.theme.type_factor, self.view.getRect())
        return self._layout.of(key, lambda: difference_layout(QRectF(self.rect()), shown, view=self._view))

    def sizeHint(self) -> QSize:
        return QSize(1100, 360)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        shown, style, layout = self.shown, self._style, self.layout_now()
        if shown is None or layout is None or 0 in shown.delta.shape:
            return False
        paint_difference(
            painter,
            layout,
            shown,
            style=style,
            palette=self.theme,
            highlight=self._cell or (None, None),
            cache=self._cache,
            codes=self._codes.of(style, lambda: difference_codes(shown, style)),
        )
        if self._is_stale:
            self.veil(painter, *layout.cells)
        self.paint_pointed(painter, room)
        return True

    def paint_cell(self, painter: QPainter, room: QRectF, shown: ComparedMaps, cell: tuple[int, int]) -> None:
        value, names = (plain_text(words) for words in cell_words(shown, *cell))
        paint_note(painter, room, value, names, self._cursor, self.theme)

    def panel_at(self, position: QPointF | None = None) -> MapLayout | None:
        """The map under a position, else that of the difference."""
        layout = self.layout_now()
        if layout is None:
            return None
        found = layout.panel_at(position) if position is not None else None
        return found or layout.panels[2]

    def tell_cell(self, shown: ComparedMaps, cell: tuple[int, int]) -> None:
        value, names = cell_words(shown, *cell)
        self._tell(plain_text(f"{names}   {value}"))

    def _tell(self, words: str = "") -> None:
        self.setAccessibleDescription(words)
        self.cell_pointed.emit(words)


class CompareGrid(MapWidget):
    """Shows differences of heads; reports the head that is chosen."""

    head_selected = Signal(object)
    """HeadRef to look at large."""
    head_hovered = Signal(str)
    """The head under the cursor in words; empty: none."""

    def __init__(self) -> None:
        super().__init__("Differences of all heads")
        self._grids: tuple[DifferenceGrid, ...] = ()
        self._selected: HeadRef | None = None
        self._hovered: ChangedHead | None = None
        self._is_sorted = False
        self._end = 0.0
        self._off: frozenset[HeadRef] = frozenset()
        self._cache = ImageCache()
        self.setMinimumSize(160, 96)

    def set_grids(
        self,
        grids: tuple[DifferenceGrid, ...],
        *,
        is_sorted: bool,
        end: float,
        off: frozenset[HeadRef] = frozenset(),
    ) -> None:
        """Show these sites; `end` is the |Δ| at the ends of the colours, 0: each head's largest.

        Heads in `off` are off on a side, and struck through.
        """
        if len(grids) != len(self._grids) or any(a is not b for a, b in zip(grids, self._grids, strict=True)):
            self._cache.clear()
        self._grids, self._is_sorted, self._end, self._off = grids, is_sorted, end, off
        self._hovered = None
        self.update()

    def set_selected(self, head: HeadRef | None) -> None:
        """Frame this head; arrow keys start here."""
        self._selected = head
        self.setAccessibleDescription(self._sentence(head))
        self.update()

    def layout_now(self) -> ChangesLayout:
        """Current layout."""
        return changes_layout(QRectF(self.rect()), self._grids, is_sorted=self._is_sorted)

    def sizeHint(self) -> QSize:
        return QSize(480, 280)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        if not self._grids:
            return False
        layout = self.layout_now()
        marks = GridMarks(
            gates=Gates.of(dict.fromkeys(self._off, 0.0)),
            current=self._selected,
            hovered=self._hovered.head if self._hovered else None,
        )
        paint_changes(
            painter,
            layout,
            self._grids,
            palette=self.theme,
            colour_map=self._style.colour_map,
            end=self._end,
            marks=marks,
            cache=self._cache,
        )
        if self._is_stale:
            self.veil(painter, layout.area)
        return True

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self.layout_now().hit(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        found = self.layout_now().hit(event.position())
        if found is not None and event.button() == Qt.MouseButton.LeftButton:
            self.head_selected.emit(found.head)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in ARROWS and self._grids:
            self._walk(ARROWS[key])
        elif key == Qt.Key.Key_Home and self._grids:
            self.head_selected.emit(self.layout_now().rows[0][0].head)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._hover(None)

    def _walk(self, step: tuple[int, int]) -> None:
        layout = self.layout_now()
        place = layout.place(self._selected)
        if place is None:
            self.head_selected.emit(layout.rows[0][0].head)
            return
        row = min(max(place[0] + step[0], 0), len(layout.rows) - 1)
        column = min(max(place[1] + step[1], 0), len(layout.rows[row]) - 1)
        if (row, column) != place:
            self.head_selected.emit(layout.rows[row][column].head)

    def _hover(self, found: ChangedHead | None) -> None:
        if (found and found.head) != (self._hovered and self._hovered.head):
            self._hovered = found
            self.head_hovered.emit(self._told(found) if found else "")
            self.update()

    def _sentence(self, head: HeadRef | None) -> str:
        layout = self.layout_now()
        place = layout.place(head)
        return self._told(layout.rows[place[0]][place[1]]) if place is not None else ""

    def _told(self, changed: ChangedHead) -> str:
        return changed.sentence + (" · off on one side" if changed.head in self._off else "")


# What is said beside the small heads of a comparison: which are off, what the stripes mean.

ALIKE_BUT_OFF = (
    "These heads attend as before; only their output is gone, so weights change in later layers only."
)


def heads_off(state: CompareState) -> frozenset[HeadRef]:
    """The heads that are off in A or in B, as named in A."""
    first, second = (state.sides[which].shown for which in ("A", "B"))
    own = {aligned.second_stack: aligned.stack for aligned in state.differences.stacks}
    found = set(first.gates.off()) if first else set()
    for head in second.gates.off() if second else ():
        found.add(replace(head, stack=own.get(head.stack, head.stack)))
    return frozenset(found)


def alike_words(state: CompareState) -> str:
    """Why a head that is off on one side only has the same map on both; empty if it has not."""
    shown, sides = state.maps, [state.sides[which].shown for which in ("A", "B")]
    if shown is None or not shown.is_same or None in sides:
        return ""
    named = (state.head_of("A"), state.head_of("B"))
    is_off = [side is not None and head in side.gates.off() for side, head in zip(sides, named, strict=True)]
    return ALIKE_BUT_OFF if is_off[0] != is_off[1] else ""


def grid_words(state: CompareState, top: float) -> str:
    """Meaning of the stripes, up to `top`, and the heads that cannot be compared."""
    compared = state.differences.query.answer
    if compared is None:
        return ""
    parts = [
        f"stripe: mean change of a weight, up to {top:.2g}" if top else "the same weights everywhere here"
    ]
    parts = parts if state.grids else []
    for which, heads in (("A", compared.only_first), ("B", compared.only_second)):
        if heads:
            parts.append(f"{plural(len(heads), 'head')} only in {which}")
    if compared.too_long:
        parts.append(f"{len(compared.too_long)} too long")
    return " · ".join(parts)


_PATIENCE_MS, _ROOM_PX = 160, 860
_SAME = "A and B are the same: switch heads off in Explore, or change a text or a model here"
_ORDERS: dict[Order, tuple[str, str]] = {
    "layers": ("By layer", "Layers down, heads across"),
    "changed": ("Most changed", "The heads with the largest mean |Δ| first"),
}


class ComparePage(Dressed):
    """Shows a CompareState; `hover_text` describes the item under the cursor."""

    hover_text = Signal(str)

    def __init__(
        self,
        state: CompareState,
        session: Session,
        view: ViewState,
        *,
        offer_models: OfferModels = tuple,
    ) -> None:
        super().__init__()
        self._state, self._session, self._view = state, session, view
        ground(self, "page")
        self.sides = tuple(CompareSide(which, state, session, offer_models=offer_models) for which in WHICH)
        self.swap_button = tool_button("⇅ Swap", "Swap A and B", tip="A becomes B and B becomes A (S)")
        self.aligned = ElidedLabel(role="muted")
        self.way = ChoiceButton("Align", "How tokens are aligned", {str(k): v for k, v in WAYS.items()})
        limits = {str(k): v for k, v in LIMITS.items()}
        self.limit = ChoiceButton("Δ scale", "What the ends of the difference's colour scale mean", limits)
        self.maps = CompareMaps()
        self.grid = CompareGrid()
        self.measures = CompareMeasures(state)
        self.output = CompareOutput(state)
        self.card = StateCard()
        self.order_buttons = self._make_order_buttons()
        self.all_stacks = tool_button("All stacks", "Heads of all stacks", role="segment", is_checkable=True)
        self.grid_hint = ElidedLabel(role="muted")
        self._patience = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._lay_out()
        self._connect()
        self.dress()
        for show in (self._show_stage, self._check_stale, self._show_maps, self._show_grid, self._show_look):
            show()

    def dress(self) -> None:
        self.measures.setMinimumWidth(round(type_px(290)))
        self.output.setMinimumWidth(round(type_px(277)))
        self._take_style()

    def give_way(self, room_px: int) -> None:
        """Hide the measures if a panel leaves the page little room, or show them again."""
        self.measures.setHidden(room_px < type_px(_ROOM_PX) or self._view.hides("measures"))

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose positions are saved."""
        return (self._rows, self._columns)

    def figure_spec(self) -> FigureSpec | None:
        """The three maps as a figure; None if there are none."""
        shown = self._state.maps
        if shown is None:
            return None
        made = DifferenceFigure(compared=shown, style=map_style(self._view), caption=self._caption())
        return sized(made, width_mm=WIDTH_MM)

    def scripts(self) -> Scripts | None:
        """Scripts that make this comparison; None while there is none."""
        shown = comparison_shown(self._state, self._view.colour_map)
        if shown is None:
            return None
        return Scripts(
            python=comparison_script(shown),
            command=comparison_command(shown),
            is_command_whole=not shown.left_out,
        )

    def _caption(self) -> Caption:
        sides = [self._state.sides[which] for which in ("A", "B")]
        infos = [side.traced.info if side.traced else None for side in sides]
        texts = [side.traced.source.text if side.traced else "" for side in sides]
        targets = [side.traced.target.text if side.traced and side.traced.target else "" for side in sides]
        names = list(dict.fromkeys(info.name for info in infos if info))
        hashes = list(dict.fromkeys(info.sha256 for info in infos if info))
        target = " | ".join(dict.fromkeys(filter(None, targets)))
        return Caption(
            model=" | ".join(names),
            sha256=hashes[0] if len(hashes) == 1 else "",
            text=" | ".join(dict.fromkeys(texts)),
            target=target or None,
            note=f"Tokens aligned: {self._state.alignment_words}",
        )

    # Building

    def _make_order_buttons(self) -> dict[Order, QToolButton]:
        buttons: dict[Order, QToolButton] = {}
        for order, (text, tip) in _ORDERS.items():
            button = tool_button(text, tip, role="segment", is_checkable=True, tip=tip)
            button.clicked.connect(self._sorter(order))
            buttons[order] = button
        one_of(self, buttons.values())
        return buttons

    def _sorter(self, order: Order) -> Callable[[], None]:
        state = self._state
        return lambda: state.sort_by(order)

    def _lay_out(self) -> None:
        heading = row(margins=(16, 8, 16, 4), spacing=12)
        both = column(*self.sides, spacing=6)
        heading.addLayout(both, 1)
        heading.addWidget(self.swap_button)
        panels = (self._build_grid_panel(), ground(self.measures, "panel"), ground(self.output, "panel"))
        self._columns = split(Qt.Orientation.Horizontal, *panels, sizes=(620, 270, 320), stretches=(1,))
        below = (self.maps, self._columns)
        self._rows = split(Qt.Orientation.Vertical, *below, sizes=(376, 244), stretches=(3, 2))
        self._stages = stacked(self.card, self._rows)
        column(
            heading,
            row((self.aligned, 1), self.way, self.limit, margins=(16, 0, 16, 4)),
            rule(),
            (self._stages, 1),
            on=self,
            spacing=0,
        )

    def _build_grid_panel(self) -> QWidget:
        panel = QWidget()
        heading = row(
            *self.order_buttons.values(),
            8,
            self.all_stacks,
            8,
            (self.grid_hint, 1),
            margins=(8, 4, 8, 0),
            spacing=0,
        )
        column(heading, (self.grid, 1), on=panel, spacing=0)
        return panel

    def _connect(self) -> None:
        self.swap_button.clicked.connect(self._state.choosing.swap)
        self.way.chosen.connect(self._state.choosing.choose_way)
        self.limit.chosen.connect(self._state.choosing.choose_limit)
        self.all_stacks.clicked.connect(self._state.choosing.show_all_stacks)
        self.grid.head_selected.connect(self._state.select)
        self.grid.head_hovered.connect(self.hover_text)
        self.maps.cell_pointed.connect(self.hover_text)
        self._patience.timeout.connect(self._show_stale)
        told, session = self._state.changed, self._session.changed
        stages = (told.sides, told.traced, told.busy, told.compared, told.heads)
        when_seen(self, self._show_stage, *stages)
        when_seen(self, self._check_stale, *stages)
        grids = (told.traced, told.compared, told.look, told.head)
        when_seen(self, self._show_maps, told.heads, told.sides, *grids)
        when_seen(self, self._show_grid, *grids)
        when_seen(self, self._show_look, told.look)
        when_seen(self, self._show_stage, session.ready, session.model, session.busy, session.text)
        when(self, self._take_style, self._view.changed.style)

    # Showing

    def showEvent(self, event: QShowEvent) -> None:
        """Request what is missing from now on."""
        super().showEvent(event)
        self._state.open()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._state.close()

    def _take_style(self) -> None:
        self.maps.set_style(map_style(self._view))
        self.grid.set_style(map_style(self._view))

    def _show_look(self) -> None:
        self.way.show_choice(self._state.choosing.choices.way)
        self.limit.show_choice(self._state.choosing.choices.limit)
        self.all_stacks.setChecked(self._state.choosing.choices.has_all_stacks)
        for order, button in self.order_buttons.items():
            button.setChecked(order == self._state.choosing.choices.order)

    def _show_stage(self) -> None:
        stage = compare_stage(self._state, self._session)
        if stage.kind != "shown":
            self.card.show_stage(stage)
        self._stages.setCurrentWidget(self._rows if stage.kind == "shown" else self.card)

    def _show_maps(self) -> None:
        state = self._state
        missing = state.missing
        if state.traces.is_shown and state.head is None:
            missing = "A model without attention has no maps. The outputs of both sides are on the right."
        self.maps.set_empty_text(
            "Nothing to compare here" if missing else "Comparing…",
            missing or "The maps of both sides appear here.",
        )
        self.maps.set_maps(None if missing else state.maps)
        words = state.alignment_words
        head, other = state.head, state.head_of("B")
        name = f"{head.stack} {head.label}" if head else ""
        if head and other and other != head:
            name = f"A {head.stack}, B {other.stack} {head.label}"
        same = _SAME if state.traces.is_same_wish else alike_words(state)
        self.aligned.set_full_text("   ".join(part for part in (name, same or words) if part))

    def _show_grid(self) -> None:
        state = self._state
        grids = state.grids
        self.grid.set_empty_text(*empty_words(state))
        is_sorted = state.choosing.choices.order == "changed"
        self.grid.set_grids(grids, is_sorted=is_sorted, end=state.differences.end, off=heads_off(state))
        self.grid.set_selected(state.head)
        self.grid_hint.set_full_text(grid_words(state, top_mean(grids)))

    def _check_stale(self) -> None:
        if not self._state.is_waiting:
            self._patience.stop()
            self._show_stale()
        elif not self._patience.isActive():
            self._patience.start()

    def _show_stale(self) -> None:
        for part in (self.maps, self.grid):
            part.set_stale(self._state.is_waiting)


def empty_words(state: CompareState) -> tuple[str, str]:
    """Message if there are no differences of all heads."""
    query = state.differences.query
    if query.answer is not None and query.answer.too_long:
        return "Too long to compare", "Maps of this length are not compared cell by cell."
    title = "Comparing…" if query.answer is None else "No head in common"
    return title, query.error or "The differences of all heads appear here."


def compare_stage(state: CompareState, session: Session) -> Placeholder:
    """Placeholder for the pictures: what is missing, the progress, or the error."""
    explore = stage_of(session)
    wishes = [state.traces.wish(which) for which in WHICH]
    if explore.kind in ("starting", "loading") and None in wishes:
        return explore
    errors = [f"{which}: {state.sides[which].error}" for which in WHICH if state.sides[which].error]
    if errors:
        return Placeholder(kind="failed", title="One side cannot be shown", hint="\n".join(errors))
    if None in wishes:
        return Placeholder(
            kind="empty",
            title="Any two things, side by side",
            hint="Open a model and type a sentence in Explore, or choose a model and a text for A and for B.",
        )
    if state.traces.is_shown:
        return Placeholder(kind="shown")
    return Placeholder(kind="waiting", title=f"{state.traces.progress or 'Tracing'}…", is_working=True)


def compare_handlers(
    state: CompareState, session: Session, view: ViewState
) -> Mapping[str, Callable[[], None]]:
    """One handler for each action that belongs to comparing."""

    def keep(which: Which) -> Callable[[], None]:
        def run() -> None:
            kept = state.choosing.keep(which)
            if kept is None:
                session.notices.say("There is nothing to keep yet: open a model and type a sentence.")
            else:
                session.notices.say(f"Kept as {which}: {kept.label}. The Compare page shows it.")

        return run

    def swap() -> None:
        if view.page == "compare":
            state.choosing.swap()

    def turn() -> None:
        view.show_page("compare")

    def trace_again() -> None:
        session.notices.dismiss()
        session.tracing.again()
        state.again()

    return {
        "page-compare": turn,
        "swap-sides": swap,
        "keep-a": keep("A"),
        "keep-b": keep("B"),
        "trace-again": trace_again,
    }
