"""One head large, or the selected heads as lines, with the choices of how they are drawn."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QAction, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QMenu, QToolButton, QWidget

from attnscope.figures.colours import COLOUR_MAPS
from attnscope.figures.style import plain_piece, query_words
from attnscope.figures.tiles_painting import MapPart
from attnscope.figures.views.head import paint_gold_mark
from attnscope.records.findings import OWN_LINKS, GoldCell, GoldFiles
from attnscope.records.interventions import CopyPattern, Intervention, MakeMean, MakeUniform, RemoveEdge
from attnscope.records.maps import HeadMap
from attnscope.records.tiles import LongMap
from attnscope.viewmodels.heads.marks import ROWS, AligningState
from attnscope.viewmodels.maps.aspect import labelled, long_map_of
from attnscope.viewmodels.maps.map_tiles import MapTiles
from attnscope.viewmodels.maps.picturing import PictureState
from attnscope.viewmodels.session.changes import (
    fixed_heads,
    knocked_out,
    of_head,
    why_no_inside,
    with_or_without,
)
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.states import States
from attnscope.viewmodels.view_state import SCALES, Cell, HeadViewKind, Highlight, ViewState
from attnscope.widgets.actions import allow, writes
from attnscope.widgets.causes.inside_panel import InsidePanel
from attnscope.widgets.explore.head_view import FINDING, NO_HEADS, HeadView, LinesView, PictureView
from attnscope.widgets.explore.street_map import StreetMap
from attnscope.widgets.form_parts import ChoiceButton, FlowRow, column, one_of, row, stacked, together
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, tool_button, when
from attnscope.widgets.map_widget import map_style

# The context menu of the large map: what can be done to the head, and to the edge under the cursor.


def head_menu(
    session: Session,
    shown: HeadMap,
    cell: tuple[int, int] | None,
    head_actions: Sequence[QAction],
    parent: QWidget,
) -> QMenu:
    """A menu for the head of `shown`; `cell` is the query and key under the cursor."""
    menu = QMenu(parent, toolTipsVisible=True)
    head = shown.head
    done = of_head(session.interventions, head)
    if cell is not None and cell[0] < len(shown.queries) and cell[1] < len(shown.keys):
        edge = RemoveEdge(head=head, query=cell[0], key=cell[1])
        names = f"{_name(shown.queries[cell[0]].piece)} → {_name(shown.keys[cell[1]].piece)}"
        verb = "Put back the edge" if edge in done else "Knock out the edge"
        _add(menu, session, f"{verb} {names}\tDel", edge, "Its weight is shared among the row's other keys")
    uniform, mean = MakeUniform(head=head), MakeMean(head=head)
    _add(menu, session, _ticked("Uniform weights", uniform in done), uniform, "The same weight on every key")
    _add(menu, session, _ticked("Its mean output", mean in done), mean, "The same output at every query")
    menu.addSeparator()
    _add_plain(menu, f"Copy the pattern of {head.label}", lambda: session.head_changes.copy_pattern(head))
    clip = session.head_changes.pattern_clip
    if clip is not None:
        copied = clip.onto(head)
        is_own = clip.head == head and (clip.text, clip.target) == (session.text, session.target)
        where = "" if clip.text == session.text else " of the other text"
        action = _add(
            menu,
            session,
            _ticked(f"Use the pattern of {clip.head.label}{where}", copied in done),
            copied,
            "Needs a text with the same number of tokens",
        )
        if is_own:
            allow(action, "The pattern was copied from this head and text")
    if any(isinstance(change, CopyPattern) for change in done) and clip is None:
        change = next(change for change in done if isinstance(change, CopyPattern))
        _add(menu, session, f"Remove the pattern of {change.from_head.label}", change, "")
    if session.interventions:
        menu.addSeparator()
        _add_plain(menu, "Undo all head changes", lambda: session.head_changes.intervene(()))
    menu.addSeparator()
    menu.addActions(list(head_actions))
    return menu


def knock_out(session: Session, shown: HeadMap, cell: tuple[int, int]) -> None:
    """Remove the edge at `cell` from the shown head, or restore it."""
    edge = RemoveEdge(head=shown.head, query=cell[0], key=cell[1])
    session.head_changes.intervene(with_or_without(session.interventions, edge))


def _add(menu: QMenu, session: Session, text: str, change: Intervention, tip: str) -> QAction:
    action = _add_plain(
        menu, text, lambda: session.head_changes.intervene(with_or_without(session.interventions, change))
    )
    action.setToolTip(tip)
    allow(action, fixed_heads(session.model))
    return action


def _add_plain(menu: QMenu, text: str, run: Callable[[], None]) -> QAction:
    action = QAction(text.replace("&", "&&"), menu)
    action.triggered.connect(lambda _checked=False: run())
    menu.addAction(action)
    return action


def _ticked(text: str, is_on: bool) -> str:
    return f"✓ {text}" if is_on else text


def _name(piece: str) -> str:
    plain = plain_piece(piece)
    return f"“{plain if len(plain) <= 16 else plain[:15] + '…'}”"


# Below a map of cross-attention: gold links on or off, whose, and how well the head agrees with them.

AskPath = Callable[[QWidget, str], str]
_MARK_PX, _LONGEST_NAME = 12, 16
_NUMBERS = (
    "Against the gold links, on this text alone. A word is aligned with the source word that gets most of its"
    " weight.\nAER  alignment error rate 1 − (|A∩S| + |A∩P|) / (|A| + |S|), 0 is perfect\n"
    "P  precision |A∩P| / |A|     R  recall |A∩S| / |S|\nA: the head's links, S: sure, P: possible ones."
    " (Och & Ney 2003)\nOver a corpus, with intervals: the Heads page."
)


def ask_path(parent: QWidget, title: str) -> str:
    """Ask for a file to read; empty if none was chosen."""
    return QFileDialog.getOpenFileName(parent, title, str(Path.home()))[0]


class GoldMark(QWidget):
    """An icon of how sure, or possible, links are drawn."""

    def __init__(self, *, is_sure: bool) -> None:
        super().__init__()
        self._is_sure = is_sure
        self.setFixedSize(QSize(_MARK_PX + 4, _MARK_PX + 4))

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            paint_gold_mark(painter, QRectF(2.5, 2.5, _MARK_PX - 1, _MARK_PX - 1), is_sure=self._is_sure)


class AlignmentBar(QWidget):
    """Shows an AligningState while it is on; `switch` is elsewhere, shown when there are links."""

    def __init__(self, state: AligningState, session: Session, *, ask: AskPath = ask_path) -> None:
        super().__init__()
        self._state, self._session, self._ask = state, session, ask
        self.switch = tool_button("Gold links", "Show gold word links", role="segment", is_checkable=True)
        self.switch.setToolTip("Gold word links over this map, and how well its heads agree with them")
        self.rows = ChoiceButton(
            "Row", "Which row of the map represents a word", {str(k): v for k, v in ROWS.items()}
        )
        self.files = ChoiceButton(
            "Links",
            "Whose gold links",
            {
                "task": "of the model's own task",
                "0": "files of pairs and links, words counted from 0…",
                "1": "files of pairs and links, words counted from 1…",
            },
        )
        self.read = tool_button("", "Read a pair whose links are known", role="flat")
        self.shown, self.mean = PlainLabel(role="name", tip=plain_tooltip(_NUMBERS)), ElidedLabel()
        self.best = tool_button("", "Select the head that aligns best", clicked=state.select_best)
        self.origin = ElidedLabel(role="muted")
        self._lay_out()
        self.switch.clicked.connect(state.show)
        self.rows.chosen.connect(state.choose_rows)
        self.files.chosen.connect(self._on_files_chosen)
        self.read.clicked.connect(state.read_offered)
        when(self, self._show, state.changed.alignment)
        self._show()

    def _lay_out(self) -> None:
        self.switch.setParent(self)  # until it gets its place
        self.shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._legend, self._numbers, self._about = QWidget(), QWidget(), QWidget()
        legend = row(on=self._legend, margins=(0, 0, 8, 0), spacing=4)
        for is_sure, word in ((True, "sure"), (False, "possible")):
            legend.addWidget(GoldMark(is_sure=is_sure))
            legend.addWidget(PlainLabel(word, "muted"))
        margins = (4, 0, 4, 0)
        row(self.shown, (self.mean, 1), self.best, on=self._numbers, margins=margins, spacing=16)
        row(self._legend, (self.origin, 1), on=self._about, margins=margins, spacing=4)
        first = row(self.rows, self.files, None, self.read, spacing=4)
        column(first, self._numbers, self._about, on=self, margins=(8, 0, 8, 4), spacing=2)

    def _show(self) -> None:
        state, head = self._state, self._session.primary
        self.switch.setVisible(state.is_offered)
        self.setVisible(state.is_offered and state.query.is_watched)
        if not state.is_offered:
            return
        self.switch.setChecked(state.query.is_watched)
        for button in (self.rows, self.files):
            button.setVisible(state.query.is_watched)
        self.rows.show_choice(state.rows)
        self.rows.setText("Row: predicts ▾" if state.rows == "predicting" else "Row: has read ▾")
        counted = str(state.files.counts_from) if state.files is not None else "task"
        self.files.show_choice(counted)
        name = state.files_name or "the task"
        self.files.setText(
            f"Links: {name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + '…'} ▾"
        )
        self.files.setToolTip(plain_tooltip(f"Whose gold links: {name}"))
        self._show_pair()
        has_numbers = state.table is not None
        self._numbers.setVisible(has_numbers)
        self.shown.setText(state.numbers_of(head))
        self.mean.set_full_text(state.mean_of(head))
        best = state.best
        self.best.setVisible(best is not None)
        if best is not None:
            self.best.setText(f"Best: {best.label}" if best != head else f"{best.label} is best")
            self.best.setToolTip(plain_tooltip(f"Select it.\n{state.numbers_of(best)}"))
            self.best.setEnabled(best != head)
        self._about.setVisible(state.query.is_watched)
        self._legend.setVisible(has_numbers)
        self.origin.set_role("error" if state.query.error else "muted")
        self.origin.set_full_text(state.origin)
        self.setAccessibleName(f"Gold word links: {state.numbers_of(head) or state.origin or 'off'}")

    def _show_pair(self) -> None:
        state, pair = self._state, self._state.offered
        self.read.setVisible(pair is not None)
        if pair is not None:
            self.read.setText("Next pair" if state.table is not None else "Read it")
            self.read.setToolTip(plain_tooltip(f"Read {pair.name}:\n{pair.source}\n{pair.target}"))

    @Slot(str)
    def _on_files_chosen(self, key: str) -> None:
        if key == "task":
            self._state.open_files(OWN_LINKS)
            return
        links = self._ask(self, "Gold links: one line for each pair, such as 0-0 1-2 2p1")
        pairs = self._ask(self, "Their pairs: source, tab, target in each line") if links else ""
        if pairs:
            self._state.open_files(GoldFiles(pairs=pairs, links=links, counts_from=int(key)))
        else:
            self._show()


_INSIDE = "The selected head on one query, step by step (I)"


class HeadHeading(FlowRow):
    """Above the picture of a head: back to the grid, the choice of picture, the meaning of its colours."""

    def __init__(
        self, session: Session, view: ViewState, picturing: PictureState, inside_chooser: QWidget
    ) -> None:
        self.back = tool_button(
            "Show grid", "Show the grid again", role="flat", tip="Show the grid again (Esc)"
        )
        self.heatmap_button = _switch_button(
            "Heatmap", "Show a heatmap", "The selected head as a heatmap (H)"
        )
        self.lines_button = _switch_button(
            "Lines", "Show lines", "The selected heads as lines from queries to keys (L)"
        )
        self.picture_button = _switch_button(
            "Picture",
            "Show the picture",
            "Where one patch of the picture looks, overlaid on it (P)",
        )
        self.inside_button = _switch_button("Step by step", "Show the head step by step", _INSIDE)
        self._views: dict[QAbstractButton, HeadViewKind] = {
            self.heatmap_button: "heatmap",
            self.lines_button: "lines",
            self.picture_button: "picture",
            self.inside_button: "inside",
        }
        self._switch = together(*self._views, spacing=0)
        super().__init__(self.back, self._switch)
        self._session, self._view, self._picturing = session, view, picturing
        self._inside_chooser = inside_chooser
        group = one_of(self, self._views)
        self.picture_button.setVisible(False)
        self.scale = ChoiceButton(
            "Scale", "How colours represent weights", {str(name): text for name, text in SCALES.items()}
        )
        self.colours = ChoiceButton("Colours", "Colour map", {name: name for name in COLOUR_MAPS})
        self.setContentsMargins(8, 4, 8, 0)
        self.add_stretch()
        self._looks = together(self.scale, self.colours, spacing=8)
        self.addWidget(self._looks)
        self.addWidget(inside_chooser)
        group.buttonClicked.connect(self._on_view_chosen)
        self.scale.chosen.connect(self._on_scale_chosen)
        self.colours.chosen.connect(view.set_colour_map)
        self.back.clicked.connect(self._on_back_clicked)
        when(self, self._show_style, view.changed.style)
        when(self, self._offer_inside, session.changed.model)
        when(self, self._show_back, view.changed.enlarged)
        self._show_style()
        self._show_back()

    @property
    def is_picture_shown(self) -> bool:
        """Whether the picture is shown; models of text have none, and show their heatmap."""
        return self._view.view == "picture" and self._picturing.is_offered

    @property
    def is_map_shown(self) -> bool:
        """Whether the heatmap is shown, or the map of a long text in its place."""
        return self._view.view in ("heatmap", "picture") and not self.is_picture_shown

    def show_view(self) -> None:
        """Choose another way of drawing the head."""
        view = self._view.view
        self.picture_button.setChecked(self.is_picture_shown)
        self.heatmap_button.setChecked(self.is_map_shown)
        self.lines_button.setChecked(view == "lines")
        self.inside_button.setChecked(view == "inside")
        self.scale.setVisible(self.is_map_shown)
        self.colours.setVisible(self.is_map_shown or self.is_picture_shown)
        self._inside_chooser.setVisible(view == "inside")

    def fold(self, is_shown: bool) -> None:
        """Show or hide the choices of how the head is drawn."""
        self._switch.setVisible(is_shown)
        self._looks.setVisible(is_shown and (self.is_map_shown or self.is_picture_shown))

    def _offer_inside(self) -> None:
        """Offer to step through the head, if its model supports it."""
        reason = why_no_inside(self._session.model)
        self.inside_button.setEnabled(not reason)
        self.inside_button.setToolTip(reason or _INSIDE)

    def offer_picture(self) -> bool:
        """Offer the picture if there is one; returns whether that has changed."""
        is_offered = self._picturing.is_offered
        is_new = self.picture_button.isHidden() == is_offered
        self.picture_button.setVisible(is_offered)
        return is_new

    def _show_style(self) -> None:
        self.scale.show_choice(self._view.scale)
        self.colours.show_choice(self._view.colour_map)

    def _show_back(self) -> None:
        self.back.setVisible(self._view.is_enlarged)

    @Slot(QAbstractButton)
    def _on_view_chosen(self, button: QAbstractButton) -> None:
        self._view.show_view(self._views[button])

    @Slot(str)
    def _on_scale_chosen(self, name: str) -> None:
        self._view.set_scale(name)

    @Slot()
    def _on_back_clicked(self) -> None:
        self._view.enlarge(False)


def _switch_button(text: str, name: str, tip: str) -> QToolButton:
    return tool_button(text, name, role="segment", is_checkable=True, tip=tip)


class CellPointing(QObject):
    """Reports to the view the query and key under the cursor, on any picture of the head."""

    def __init__(self, session: Session, view: ViewState, long: MapTiles, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._view, self._long = session, view, long

    @Slot(int, int, float)
    def on_cell(self, query: int, key: int, weight: float) -> None:
        shown = self._session.maps.of(self._session.primary)
        if shown is not None and query < len(shown.queries) and key < len(shown.keys):
            self._tell(shown, (query, key), weight)

    @Slot(int, int, float)
    def on_long_cell(self, query: int, key: int, weight: float) -> None:
        """The cursor is on a cell of the map of a long text."""
        shown = self._long.shown
        if shown is not None:
            self._tell(shown, (query, key), weight)

    @Slot(object, object)
    def on_line_token(self, query: int | None, key: int | None) -> None:
        lines = self._long.lines
        if lines.shown:
            query, key = lines.token(query, key)
        self._view.set_highlight(Highlight(query=query, key=key))

    @Slot()
    def on_left(self) -> None:
        """The cursor has left."""
        self._view.set_highlight(Highlight())
        self._view.set_cell(None)

    def _tell(self, shown: HeadMap | LongMap, cell: tuple[int, int], weight: float) -> None:
        query, key = cell
        row = shown.queries[query]
        self._view.set_highlight(Highlight(query=query, key=key))
        self._view.set_cell(
            Cell(
                query=query_words(row, is_isolated=False) if row.read else plain_piece(row.label),
                key=plain_piece(shown.keys[key].label),
                weight=weight if math.isfinite(weight) else None,
                is_knocked_out=isinstance(shown, HeadMap) and cell in knocked_out_now(self._session),
            )
        )


def knocked_out_now(session: Session) -> frozenset[tuple[int, int]]:
    """The edges removed from the shown head, if its cells are tokens."""
    shown = session.maps.of(session.primary)
    if shown is None or not is_whole(session, shown):
        return frozenset()
    return knocked_out(session.interventions, shown.head)


def is_whole(session: Session, shown: HeadMap) -> bool:
    """Whether the shown map is of a single head, token by token."""
    own = next((m for m in session.maps.raw if m.head == shown.head), None)
    return own is not None and shown.queries == labelled(own, session.aspect.rows).queries


class HeadPanel(QWidget):
    """Shows the session's primary head as a heatmap or the selection as lines."""

    def __init__(self, states: States, view: ViewState) -> None:
        super().__init__()
        self._session, self._view = states.session, view
        self._gold: tuple[GoldCell, ...] = ()
        self._picturing, self._aligning, self._long = states.picturing, states.aligning, states.map_tiles
        self.heatmap, self.lines = HeadView(), LinesView()
        self.street_map = StreetMap(states.map_tiles)
        self.inside = InsidePanel(states.inside, states.session, view)
        self.picture = PictureView(states.picturing)
        self.alignment = AlignmentBar(states.aligning, states.session)
        self._pointing = CellPointing(states.session, view, states.map_tiles, self)
        self._pages = stacked(self.heatmap, self.lines, self.inside, self.picture, self.street_map)
        self.heading = HeadHeading(self._session, view, self._picturing, self.inside.chooser)
        self._lay_out()
        self._connect()
        for show in (self._show_style, self._show_view, self._show_maps, self._show_gate):
            show()

    def gold_cells(self) -> tuple[GoldCell, ...]:
        """The gold links marked on the map, for a figure."""
        if self._long.shown is not None:
            return self._aligning.cells_on_long(self._long.shown)
        return self._aligning.cells_on(self._session.maps.of(self._session.primary))

    def set_stale(self, is_stale: bool) -> None:
        """Dim the pictures while newer ones are pending."""
        for picture in (self.heatmap, self.lines, self.picture, self.street_map):
            picture.set_stale(is_stale)

    def _lay_out(self) -> None:
        self._below = QWidget()
        column(self.alignment, on=self._below)
        column(self.heading, (self._pages, 1), self._below, on=self, spacing=0)

    def _connect(self) -> None:
        pointing = self._pointing
        self.heatmap.cell_hovered.connect(pointing.on_cell)
        self.heatmap.menu_wanted.connect(self._on_menu_wanted)
        self.heatmap.edge_toggled.connect(self._on_edge_toggled)
        self.heatmap.rows_clicked.connect(self._on_rows_clicked)
        for picture in (self.heatmap, self.picture, self.street_map):
            picture.left.connect(pointing.on_left)
        self.picture.cell_hovered.connect(pointing.on_cell)
        self.street_map.cell_hovered.connect(pointing.on_long_cell)
        self.lines.token_hovered.connect(pointing.on_line_token)
        told, view = self._session.changed, self._view.changed
        when(self, self._show_maps, told.heads, told.selection, told.traced, told.model)
        when(self, self._show_gate, told.gates, told.selection, told.heads)
        when(self, self._show_style, view.style)
        when(self, self._show_view, view.view)
        when(self, self._show_highlight, view.highlight)
        when(self, self._fold_looks, view.folded)
        picturing = self._picturing.changed
        when(self, self._tell_query, picturing.picture, picturing.query)
        when(self, self._offer_picture, picturing.picture)
        when(self, self._show_gold, self._aligning.changed.alignment)
        when(self, self._show_long_lines, self._long.lines.changed)

    def _show_maps(self) -> None:
        session = self._session
        has_text = bool(session.text.strip())
        head_map = session.maps.of(session.primary) if has_text else None
        if head_map is not None or not has_text or session.traced is None:
            self.heatmap.set_map(head_map)
        self.heatmap.set_renaming(writes(session))
        self.heatmap.set_knocked_out(knocked_out_now(session))
        maps = tuple(m for m in map(session.maps.of, session.selection) if m and has_text)
        if maps or not has_text:
            self.lines.set_empty_text(*NO_HEADS)
        if maps or not has_text or session.traced is None:
            self.lines.set_maps(maps)
        traced = session.traced if has_text else None
        self._long.show(long_map_of(traced, session.primary, session.aspect.rows))
        self._ask_long_lines()
        self._show_picture()

    def _show_gate(self) -> None:
        if self._session.primary:
            gate = self._session.gates.value(self._session.primary)
            self.heatmap.set_gate(gate)
            self.street_map.set_gate(gate)

    def _show_gold(self) -> None:
        cells = self.gold_cells()
        if cells != self._gold:
            self._gold = cells
            self.heatmap.set_gold(cells)
            self.street_map.set_gold(cells)

    def _show_style(self) -> None:
        for picture in (self.heatmap, self.lines, self.street_map, self.picture):
            picture.set_style(map_style(self._view))

    def _show_view(self) -> None:
        if self._view.view == "inside":
            self.inside.begin_with_lit_query()
        self._ask_long_lines()
        self._show_picture()
        self.heading.show_view()
        self._fold_looks()

    def _show_highlight(self) -> None:
        lit = self._view.highlight
        self.heatmap.set_highlight(lit.query, lit.key)
        self.lines.set_highlight(*self._line_rows(lit.query, lit.key))
        self.street_map.set_highlight(lit.query, lit.key)

    def _fold_looks(self) -> None:
        """Hide the choices of how the head is drawn while they should be folded."""
        is_shown = not self._view.hides("looks")
        self.heading.fold(is_shown)
        self._below.setVisible(is_shown and self.heading.is_map_shown)  # gold stands on maps only

    def long_part(self) -> MapPart | None:
        """The visible part of a long map, for a figure; None while it is not exact."""
        shown = self._long.shown
        tile = self._long.seen_tile() if shown is not None else None
        if shown is None or tile is None:
            return None
        return MapPart(tile=tile, queries=shown.queries, keys=shown.keys)

    def long_lines(self) -> tuple[HeadMap, ...]:
        """The visible lines of long maps."""
        return self._long.lines.maps

    def _ask_long_lines(self) -> None:
        """Request the strongest edges of long maps while lines are shown."""
        session = self._session
        if self._view.view != "lines" or not session.text.strip():
            self._long.lines.show(())
            return
        found = (long_map_of(session.traced, head, session.aspect.rows) for head in session.selection)
        self._long.lines.show(tuple(long_map for long_map in found if long_map is not None))

    def _show_long_lines(self) -> None:
        long_lines = self._long.lines
        if long_lines.shown:
            self.lines.set_empty_text(*(FINDING if long_lines.is_waiting else NO_HEADS))
            self.lines.set_maps(long_lines.maps)
            lit = self._view.highlight
            self.lines.set_highlight(*self._line_rows(lit.query, lit.key))

    def _line_rows(self, query: int | None, key: int | None) -> tuple[int | None, int | None]:
        """Rows of a query and a key of the text among the lines."""
        lines = self._long.lines
        return lines.row(query, key) if lines.shown else (query, key)

    def _show_picture(self) -> None:
        """Show the heatmap, the long map in its place, the lines, or the inside."""
        if self._view.view == "lines":
            self._pages.setCurrentWidget(self.lines)
        elif self._view.view == "inside":
            self._pages.setCurrentWidget(self.inside)
        elif self.heading.is_picture_shown:
            self._pages.setCurrentWidget(self.picture)
        else:
            self._pages.setCurrentWidget(self.street_map if self._long.shown else self.heatmap)

    def _tell_query(self) -> None:
        self._view.picture_query = self._picturing.query

    def _offer_picture(self) -> None:
        if self.heading.offer_picture():
            self._show_view()

    def _on_rows_clicked(self) -> None:
        aspect = self._session.aspect
        self._session.set_aspect(replace(aspect, rows="read" if aspect.rows == "written" else "written"))

    def _on_menu_wanted(self, place: QPoint, cell: tuple[int, int] | None) -> None:
        shown = self._session.maps.of(self._session.primary)
        if shown is not None:
            menu = head_menu(self._session, shown, cell if is_whole(self._session, shown) else None, (), self)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.heatmap.mapToGlobal(place))

    def _on_edge_toggled(self, query: int, key: int) -> None:
        shown = self._session.maps.of(self._session.primary)
        if shown is not None and is_whole(self._session, shown):
            knock_out(self._session, shown, (query, key))
