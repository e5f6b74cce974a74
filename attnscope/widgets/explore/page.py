"""The Explore page: text and tokens on top, grid and large head below, inspector and output beside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from attnscope.fields import Value
from attnscope.figures.style import type_at, type_px
from attnscope.records.messages import Traced
from attnscope.records.sites import ROWS, Blend, Block, Hidden, Over, Rows
from attnscope.records.tiles import is_long
from attnscope.viewmodels.maps.aspect import BLENDS, BLOCKS, HIDDEN, OVERS, ROW_WORDS, Aspect, even_words
from attnscope.viewmodels.session.opening import stage_of
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.states import States
from attnscope.viewmodels.view_state import LINES, ViewState
from attnscope.widgets.actions import has_two_texts, has_words, writes
from attnscope.widgets.causes.across_view import AcrossPanel
from attnscope.widgets.causes.causes_view import CausesPanel
from attnscope.widgets.causes.lens_view import LensPanel
from attnscope.widgets.explore.ask_panel import AskPanel
from attnscope.widgets.explore.generation_panel import GenerationPanel
from attnscope.widgets.explore.grid import GridPanel
from attnscope.widgets.explore.head_panel import HeadPanel
from attnscope.widgets.explore.inspector import HeadInspector
from attnscope.widgets.explore.output_panel import OutputPanel
from attnscope.widgets.explore.text_bar import TextBar
from attnscope.widgets.form_parts import ChoiceButton, FoldedSizes, SideTabs, column
from attnscope.widgets.labels import ElidedLabel, ground, plain_tooltip, rule, tool_button, when
from attnscope.widgets.map_widget import StaleWatch, StateCard
from attnscope.widgets.theme import Dressed

# How the pictures are made, in one line above them: heads blended, keys left out, words, which lines.

T = TypeVar("T")


class AspectBar(QWidget):
    """Shows and changes the session's aspect; what it hides is noted at the right."""

    def __init__(self, session: Session, view: ViewState) -> None:
        super().__init__()
        self._session, self._view = session, view
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("role", "panel")
        self.blend = ChoiceButton("Heads", "Blend heads into one map", _texts(BLENDS))
        self.over = ChoiceButton("of", "Which heads are blended", _texts(OVERS))
        keys_name = "Leave out keys that take weight without meaning much"
        self.hidden = ChoiceButton("Keys", keys_name, _texts(HIDDEN))
        texts_name = "Queries and keys of which of the two texts, A and B"
        self.block = ChoiceButton("Texts", texts_name, _texts(BLOCKS))
        self.renormalise = _switch("Rows to 1", "Renormalise what is left of each row (N)")
        self.words = _switch("Words", "Merge subwords: keys summed, queries averaged (W)")
        rows_name = "What the rows of cross-attention are named after"
        self.rows = ChoiceButton("Rows", rows_name, _texts(ROW_WORDS))
        self.lines = ChoiceButton("Lines", "Which lines are drawn", LINES)
        self.note = ElidedLabel(role="muted")
        self.note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = self._row = QHBoxLayout(self)
        layout.setContentsMargins(8, 2, 16, 2)
        layout.setSpacing(4)
        left_out = (self.hidden, self.block, self.renormalise)
        for widget in (self.rows, self.blend, self.over, *left_out, self.words, self.lines):
            layout.addWidget(widget)
        layout.addWidget(self.note, 1)
        self._connect()
        self._show()

    def add_switch(self, switch: QToolButton) -> None:
        """Add another choice of how the pictures are made, after the others."""
        self._row.insertWidget(self._row.indexOf(self.note), switch)

    def _connect(self) -> None:
        blends: dict[str, Blend] = {name: name for name in BLENDS}
        overs: dict[str, Over] = {name: name for name in OVERS}
        keys: dict[str, Hidden] = {name: name for name in HIDDEN}
        blocks: dict[str, Block] = {name: name for name in BLOCKS}
        rows: dict[str, Rows] = {name: name for name in ROWS}
        self.block.chosen.connect(lambda name: self._look(lambda a: replace(a, block=blocks[name])))
        self.blend.chosen.connect(lambda name: self._look(lambda a: replace(a, blend=blends[name])))
        self.over.chosen.connect(lambda name: self._look(lambda a: replace(a, over=overs[name])))
        self.hidden.chosen.connect(lambda name: self._look(lambda a: replace(a, hidden=keys[name])))
        self.renormalise.clicked.connect(
            lambda is_on: self._look(lambda a: replace(a, is_renormalised=is_on))
        )
        self.words.clicked.connect(lambda is_on: self._look(lambda a: replace(a, is_by_word=is_on)))
        self.rows.chosen.connect(lambda name: self._look(lambda a: replace(a, rows=rows[name])))
        self.lines.chosen.connect(self._view.choose_lines)
        told, view = self._session.changed, self._view.changed
        when(self, self._show, told.aspect, told.heads, told.selection, told.traced, told.model)
        when(self, self._show, view.style, view.view)

    def _look(self, change: Callable[[Aspect], Aspect]) -> None:
        self._session.set_aspect(change(self._session.aspect))
        self._show()

    def _show(self) -> None:
        aspect, view = self._session.aspect, self._view
        self.rows.setVisible(writes(self._session))
        self.rows.show_choice(aspect.rows)
        self.blend.show_choice(aspect.blend)
        self.over.show_choice(aspect.over)
        self.over.setVisible(aspect.blend != "none")
        self.hidden.show_choice(aspect.hidden)
        is_pair = has_two_texts(self._session)
        self.block.setVisible(is_pair)
        self.block.show_choice(aspect.block)
        self.renormalise.setVisible(aspect.hidden != "nothing" or (is_pair and aspect.block != "all"))
        self.renormalise.setChecked(aspect.is_renormalised)
        self.words.setVisible(aspect.is_by_word or has_words(self._session))
        self.words.setChecked(aspect.is_by_word)
        self.lines.setVisible(view.view == "lines")
        self.lines.show_choice(view.lines)
        words = self._words()
        self.note.set_full_text(words)
        self.note.setToolTip(plain_tooltip(words))

    def _words(self) -> str:
        """Note on what the maps lack, and which scale would show it."""
        session = self._session
        traced = session.traced
        if traced is not None and session.aspect.changes_maps and _is_long(traced):
            return "the map of a text this long is shown as it is"
        shown = session.maps.of(session.primary)
        wanted = session.aspect.blend != "none" and session.aspect.over != "selection"
        if wanted and len(session.maps.blended) == 1:
            return "this text is too long to blend so many heads at once"
        if shown is None:
            return ""
        is_picture = session.model is not None and session.model.reads == "picture"
        is_map = self._view.view == "heatmap" or (self._view.view == "picture" and not is_picture)
        even = even_words(shown) if self._view.scale == "fixed" and is_map else ""
        return " · ".join(filter(None, (shown.note, even and f"{even}; try Scale: per head")))


def _is_long(traced: Traced) -> bool:
    """Whether the maps of a trace are too long for an aspect."""
    n_tokens = max(len(traced.source), len(traced.target or ()))
    return is_long(n_tokens, n_tokens)


def _switch(text: str, name: str) -> QToolButton:
    button = tool_button(text, name, role="segment", is_checkable=True, tip=name)
    return button


def _texts(choices: Mapping[T, str]) -> dict[str, str]:
    return {str(key): text for key, text in choices.items()}


# Explore on a stage, or in large type: texts on top, the head large, the grid above what the model says.

_AROUND_HEAD_PX = (176, 112)
"""What stands beside and above the square of a map: labels and the bar of colours; labels and the name."""
_ANSWERS_PX = 332
_MOST_SHARE, _MOST_ANSWERS = 0.5, 0.42


class Presented:
    """Moves `bars` above all, `grid` to the top of `side`, `side` to the left of `columns`; and back."""

    def __init__(
        self,
        bars: QWidget,
        columns: QSplitter,
        pictures: QSplitter,
        side: QSplitter,
        grid: QWidget,
    ) -> None:
        self._bars, self._columns, self._pictures, self._side, self._grid = (
            bars,
            columns,
            pictures,
            side,
            grid,
        )
        self.is_on = False

    def switch(self, is_on: bool, page: QVBoxLayout, column: QVBoxLayout) -> bool:
        """Switch between the stage and the usual layout; returns whether anything moved.

        The bars go from the top of `column` to that of `page`. A grid in a window of its own stays there,
        and everything else where it was.
        """
        if is_on == self.is_on or (is_on and self._grid.parentWidget() is not self._pictures):
            return False
        self.is_on = is_on
        (page if is_on else column).insertWidget(0, self._bars)
        self._bars.show()  # at once: what goes to another parent is hidden until the next event
        if is_on:
            self._side.insertWidget(0, self._grid)
            self._columns.insertWidget(0, self._side)
        else:
            self._pictures.insertWidget(0, self._grid)
            self._columns.addWidget(self._side)
        return True

    def fit(self, heading: QSize) -> None:
        """Give the head the width that it can use at this height, and the grid and the answers the rest.

        `heading` is what stands above it, in one line.
        """
        if not self.is_on:
            return
        columns = self._columns
        width, height = columns.width() - columns.handleWidth(), columns.height()
        beside, above = (type_px(px) for px in _AROUND_HEAD_PX)
        head = max(height - heading.height() - above + beside, heading.width())
        left = max(width - head, self._side.minimumWidth())
        left = min(left, _MOST_SHARE * width)
        columns.setSizes([int(left), width - int(left)])
        answers = min(type_px(_ANSWERS_PX), _MOST_ANSWERS * height)
        rest = [0] * (self._side.count() - 2)
        self._side.setSizes([round(height - answers), *rest, round(answers)])


DEFAULT_SIZES = {
    "explore.columns": [1000, 280],
    "explore.pictures": [400, 560],
    "explore.side": [288, 420],
}
"""Where the splitters are at first; the room that is there is shared out by their stretch."""
_SIDE_PX = 280
"""The names of all tabs beside each other."""
_GRID_PX, _GRID_SHARE = 440, 0.4
"""The grid beside an answer that has the place of the head, and its share of the page at most."""
_NARROW_PX = 560
"""A column narrower than this shows no two maps beside each other: its answers take the place of the head."""
_WIDE_TABS = ("Ask", "Layers", "Across", "Causes")
"""The answers that are tables and pictures, those to questions first."""
_ROOM_PX = 1180
"""Beside a panel that leaves less than this the side goes: the maps keep their size."""


class ExplorePage(Dressed):
    """Arranges the parts; shows a state card instead of pictures if there are none."""

    def __init__(self, states: States, view: ViewState, head_actions: Sequence[QAction] = ()) -> None:
        super().__init__()
        self._session, self._view = states.session, view
        session = states.session
        ground(self, "page")
        self.text_bar = TextBar(session, view)
        self.grid_panel = GridPanel(session, view, states.tints, head_actions)
        self.text_bar.left.connect(self.grid_panel.grid.setFocus)
        self.head_panel = HeadPanel(states, view)
        self.inspector = HeadInspector(session)
        self.output = OutputPanel(session, view)
        self.generation = GenerationPanel(states.generation, session, view)
        self.lens = LensPanel(states.lens)
        self.across = AcrossPanel(session, states.across, states.graph)
        self.causes = CausesPanel(session, states.attributing, states.patching)
        self.ask = AskPanel(session, states.asking)
        self.answers = SideTabs(is_narrow=True)
        self._add_answers()
        self.aspect_bar = AspectBar(session, view)
        self.aspect_bar.add_switch(self.head_panel.alignment.switch)
        self.card = StateCard()
        self._stages = QStackedWidget()
        self.pictures = QSplitter(Qt.Orientation.Horizontal)
        self.side = QSplitter(Qt.Orientation.Vertical)
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self._sizes = FoldedSizes((self.pictures, self.side, self.columns))
        self.bars = QWidget()
        self._presented = Presented(self.bars, self.columns, self.pictures, self.side, self.grid_panel)
        self._is_touring = self._gives_way = self._is_tight = self._was_stage = False
        self._is_answer_large, self._keeps_head = False, False
        self._had_heads = True
        self._fitted_heading = QSize()
        self._columns_before = DEFAULT_SIZES["explore.columns"]
        self._lay_out()
        for part in (self.columns, self.head_panel):
            part.installEventFilter(self)
        bar, choose = self.text_bar, states.inside.choose_token
        bar.source_strip.token_clicked.connect(lambda place: choose("source", place))
        bar.target_strip.token_clicked.connect(lambda place: choose("target", place))
        tracing = session.tracing
        self._stale = StaleWatch(lambda: tracing.is_stale and not tracing.is_growing, self._show_stale, self)
        told = session.changed
        when(self, self._stale.check, told.traced, told.stale)
        when(self, self._show_mixer, told.model)
        when(self, self._show_stage, told.ready, told.model, told.text, told.traced, told.busy, told.notice)
        when(self, self._show_pictures, view.changed.enlarged, view.changed.folded)
        when(self, self._fold, view.changed.folded)
        self.ask.enlarged.connect(self._on_enlarged)
        self.head_panel.inside.layer_asked.connect(self._on_layer_asked)
        self.answers.shown.connect(self._on_tab_shown)
        self._show_stage()

    def dress(self) -> None:
        self.side.setMinimumWidth(round(type_px(_SIDE_PX)))
        self.fit_room()

    def show_question(self, name: str, values: Mapping[str, Value] = MappingProxyType({})) -> None:
        """Turn to a question, with some of its options set."""
        self._view.show_page("explore")
        self.ask.choose(name, values)
        self.answers.show_panel("Ask")

    def give_way(self, room_px: int) -> None:
        """Hide the side if a panel leaves the page little room, or show it again."""
        is_wanted = room_px < type_px(_ROOM_PX)
        if is_wanted != self._gives_way:
            self._gives_way = is_wanted
            self._fold()

    def set_touring(self, is_touring: bool) -> None:
        """Keep the usual layout during a tour, whose targets are there, even while presenting."""
        self._is_touring = is_touring
        self._fold()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Refit the stage whenever the bars above change its height, or its heading grows."""
        is_resized = watched is self.columns and event.type() == QEvent.Type.Resize
        is_laid_out = watched is self.head_panel and event.type() == QEvent.Type.LayoutRequest
        if is_resized or (is_laid_out and self.head_panel.heading.sizeHint() != self._fitted_heading):
            self._fit_stage()
        return super().eventFilter(watched, event)

    def fit_room(self) -> None:
        """In large type, keep the size of the maps and let the rest scroll."""
        is_tight = type_px(1.0) > 1.0 and self.width() < type_px(_ROOM_PX)
        if is_tight != self._is_tight:
            self._is_tight = is_tight
            self._fold()
            self._on_tab_shown()

    def _fit_stage(self) -> None:
        heading, map_view = self.head_panel.heading.sizeHint(), self.head_panel.heatmap
        self._fitted_heading = heading
        with type_at(map_view.type_factor()):
            self._presented.fit(QSize(0, 0) if self._view.hides("looks") else heading)

    def splitters(self) -> dict[str, QSplitter]:
        """The splitters whose positions are saved, by name."""
        return {"explore.columns": self.columns, "explore.pictures": self.pictures, "explore.side": self.side}

    def _lay_out(self) -> None:
        self.pictures.addWidget(self.grid_panel)
        self.pictures.addWidget(self.head_panel)
        self.pictures.setStretchFactor(0, 2)
        self.pictures.setStretchFactor(1, 3)
        self._stages.addWidget(self.card)
        self._stages.addWidget(self.pictures)
        self._left = QWidget()
        self._layout = column(on=self, spacing=0)
        self._bars = (self.text_bar, rule(), self.aspect_bar, rule())
        column(*self._bars, on=self.bars, spacing=0)
        self._column = column(self.bars, (self._stages, 1), on=self._left, spacing=0)
        for panel in (self.inspector, self.answers):
            ground(panel, "panel")
            self.side.addWidget(panel)
        self.side.setStretchFactor(1, 1)
        self.columns.addWidget(self._left)
        self.columns.addWidget(self.side)
        self.columns.setStretchFactor(0, 1)
        for splitter in (self.pictures, self.side, self.columns):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
        for name, splitter in self.splitters().items():
            splitter.setSizes(DEFAULT_SIZES[name])
        self._layout.addWidget(self.columns, 1)

    def _add_answers(self) -> None:
        """Add a tab for each kind of answer: the output, and its causes."""
        self.answers.add("Output", self.output)
        self.output.title.setVisible(False)
        tip = "Generate: let the model continue the text, greedily, by sampling or by beam search"
        self.answers.add("Write", self.generation, label="Generate", tip=tip)
        tip = "Logit lens: what the model would predict after each layer"
        self.answers.add("Layers", self.lens, label="Lens", tip=tip)
        tip = "Rollout and flow: how much each input contributes to an output token through all layers"
        self.answers.add("Across", self.across, label="Rollout", tip=tip)
        tip = "Attribution and patching: which parts of the model produced an output"
        self.answers.add("Causes", self.causes, label="Attribution", tip=tip)
        self.answers.add("Ask", self.ask, tip="Ask a question about the model and this text")
        for panel in (self.across, self.causes, self.ask):
            panel.pointed.connect(self._view.set_pointer_text)
        self.causes.patching.token_chosen.connect(self._on_token_chosen)

    def _on_layer_asked(self, values: Mapping[str, Value]) -> None:
        self.show_question("layer-steps", values)

    def _on_token_chosen(self, side: str, place: int) -> None:
        """Handle a token chosen in another panel, as if it had been clicked above."""
        strip = self.text_bar.target_strip if side == "target" else self.text_bar.source_strip
        strip.token_clicked.emit(place)

    def _show_pictures(self) -> None:
        """Show grid and head, unless one has the place of the other or an answer that of the head."""
        is_hidden = self._view.is_enlarged or self._view.hides("grid")
        for panel, gives_way in (
            (self.grid_panel, is_hidden and not self._is_answer_large),
            (self.head_panel, self._is_answer_large),
        ):
            panel.setVisible(not (gives_way and panel.window() is self.window()))

    def enlarge_answer(self, is_large: bool) -> None:
        """Enlarge the answer to a question over the head, beside the grid, or restore it."""
        is_large = is_large and self.answers.parentWidget() is self.side
        self.ask.enlarge_button.setChecked(is_large)
        if is_large != self._is_answer_large:
            self._is_answer_large = is_large
            self._show_pictures()
            self._fold()

    def _on_enlarged(self, is_large: bool) -> None:
        """Keep the user's choice about an answer for later ones."""
        self._keeps_head = not is_large
        self.enlarge_answer(is_large)

    def _on_tab_shown(self) -> None:
        """Answers to questions open in place of the head if the column is too narrow for them.

        In large type those of the other tabs with a table or a picture do so too.
        """
        is_narrow = self._is_answer_large or self.answers.width() < type_px(_NARROW_PX)
        is_free = not (self._keeps_head or self._is_touring or _is_of_mixer(self._session))
        is_wide = any(map(self.answers.is_shown, _WIDE_TABS if self._is_tight else _WIDE_TABS[:1]))
        self.enlarge_answer(is_wide and is_narrow and is_free)

    def _fold(self) -> None:
        """Hide folded parts; when all are back the splitters return to their positions."""
        hides, is_stage = self._view.hides, self._view.is_presenting and not self._is_touring
        is_large = self._is_answer_large
        is_arranged = (is_stage or (self._is_tight and not self._is_touring)) and not is_large
        is_folded = self._view.is_presenting or bool(self._view.folded) or self._is_tight or is_large
        if is_folded:
            self._sizes.keep()
        for bar in self._bars:
            bar.setVisible(not hides("texts"))
        self.text_bar.setVisible("texts" not in self._view.folded)  # to be typed in, on a stage too
        self.text_bar.set_room("fields" if is_stage else "low" if is_arranged else "all")
        has_moved = self._presented.switch(is_arranged, self._layout, self._column)
        head, heads = self.head_panel, self.grid_panel.grid
        for picture in (head.heatmap, head.lines):
            picture.set_on_stage(is_stage)
        if is_stage and not self._was_stage and self.isVisible():
            heads.setFocus()  # the keys of a lecture are the grid's
        self._was_stage = is_stage
        is_low = is_arranged and not is_stage
        self.inspector.set_low(is_low)
        self.inspector.fold_measures(hides("measures") or is_low or is_large)
        self._fold_side(is_stage)
        has_answers = self.answers.parentWidget() is self.side and not self.answers.isHidden()
        self._leave_to_answers(_is_of_mixer(self._session) and has_answers)
        if self._presented.is_on:
            self._fit_stage()
        elif hides("measures") or is_large:
            self.side.setSizes([1, self.side.height()])  # as little as it needs for the inspector
        if is_large:
            grid = min(round(type_px(_GRID_PX)), round(_GRID_SHARE * self.columns.width()))
            self.columns.setSizes([grid, self.columns.width() - grid])
        if not is_folded and not self._sizes.give_back() and has_moved:
            self.share_out()

    def _leave_to_answers(self, is_all: bool) -> None:
        """Without maps the answers have the page below the texts; otherwise the maps return."""
        if is_all and not self._left.isHidden():
            self._columns_before = self.columns.sizes()
        was_all = self._left.isHidden()
        self._left.setVisible(not is_all)
        self.ask.enlarge_button.setVisible(not is_all)
        self.aspect_bar.setVisible(not is_all and not self._view.hides("texts"))
        is_wide_answer = self._is_answer_large and self._view.is_presenting
        top = self._layout if is_all or self._presented.is_on or is_wide_answer else self._column
        if top.indexOf(self.bars) < 0:
            top.insertWidget(0, self.bars)
            self.bars.show()
        if was_all and not is_all:
            self.columns.setSizes(self._columns_before)

    def share_out(self) -> None:
        """The splitters' initial positions, in the available room."""
        side, height = max(DEFAULT_SIZES["explore.columns"][1], self.side.minimumWidth()), self.height()
        inspector = max(DEFAULT_SIZES["explore.side"][0], self.inspector.minimumHeight())
        self.columns.setSizes([self.width() - side, side])
        self.side.setSizes([inspector, height - inspector])
        self.pictures.setSizes(DEFAULT_SIZES["explore.pictures"])

    def _fold_side(self, is_stage: bool) -> None:
        """Hide the hidden parts of the inspector and the answers, and the side with them."""
        hides, gives_way = self._view.hides, self._gives_way and not is_stage
        is_of_answer = is_stage or (self._is_answer_large and self._is_tight)
        for panel, is_hidden in (
            (self.inspector, hides("inspector") or is_of_answer or gives_way or not self._has_heads()),
            (self.answers, hides("answers") or gives_way),
        ):
            panel.setVisible(panel.parentWidget() is not self.side or not is_hidden)
        shown = (self.side.widget(k) for k in range(self.side.count()))
        self.side.setVisible(any(part is not None and not part.isHidden() for part in shown))

    def _show_mixer(self) -> None:
        """Show the hidden map of a mixer in place of attention."""
        if _is_of_mixer(self._session) and not self.ask.isVisible():
            self.ask.choose("hidden-attention")
            self.answers.show_panel("Ask")
        self._fold()

    def _show_stage(self) -> None:
        stage = stage_of(self._session)
        is_shown = stage.kind == "shown"
        if not is_shown:
            self.card.show_stage(stage)
        self._stages.setCurrentWidget(self.pictures if is_shown else self.card)
        if self._has_heads() != self._had_heads:
            self._had_heads = self._has_heads()
            self._fold_side(self._was_stage)

    def _has_heads(self) -> bool:
        """Whether there are heads, or no model: without attention the answers have the side."""
        model = self._session.model
        return model is None or bool(model.sites)

    def _show_stale(self, is_stale: bool) -> None:
        self.grid_panel.grid.set_stale(is_stale)
        self.head_panel.set_stale(is_stale)
        self.text_bar.set_stale(is_stale)


def _is_of_mixer(session: Session) -> bool:
    return session.model is not None and bool(session.model.mixer)
