"""The lower part of the training page: the attention on one sentence as the model learns."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QSlider, QSplitter, QToolButton, QWidget

from attnscope.counting import number_text, percent
from attnscope.figures.style import MapStyle, query_words
from attnscope.records.outputs import Comparison
from attnscope.records.sites import STACKS, HeadRef
from attnscope.records.tokens import Token
from attnscope.viewmodels.compare.difference import labels_text, next_verdict
from attnscope.viewmodels.maps.picturing import WatchedPicture
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.viewmodels.training.recipe_text import recipe_value
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.watch import Replay
from attnscope.widgets.explore.grid import GridView
from attnscope.widgets.explore.head_view import HeadView, PictureView
from attnscope.widgets.form_parts import column, in_one, one_of, play_icon, row, split, stacked
from attnscope.widgets.labels import ElidedLabel, PlainLabel, named, push_button, tool_button
from attnscope.widgets.map_widget import StateCard
from attnscope.widgets.theme import Dressed

_NO_ATTENTION = Placeholder(
    kind="empty",
    title="This model has no attention",
    hint="A recurrence or a convolution stands in its place. Open in Explore: there it shows its Hidden "
    "attention, the map that it would be.",
)

# The slider over saved checkpoints: play, drag, and open one in Explore.

_OPEN = "Open this checkpoint as the model of the Explore page"
_NO_MODEL = "For this step only the attention of the watched sentence was kept, not the model"


class ReplayBar(Dressed):
    """Shows the position in the replay of the watched sentence, and reports the user's choice."""

    def __init__(
        self,
        replay: Replay,
        open_checkpoint: Callable[[str], None] | None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._replay = replay
        self._open_checkpoint = open_checkpoint
        self._play = named(QToolButton(), "Play the checkpoints", "Play the checkpoints in order")
        self._play.clicked.connect(self._on_play)
        self._slider = named(QSlider(Qt.Orientation.Horizontal), "Checkpoint")
        self._slider.actionTriggered.connect(self._on_slider_moved)
        self._place = PlainLabel(role="value")
        self._place.setMinimumWidth(150)
        self._open = push_button("Open in Explore", clicked=self._on_open)
        self._open.setVisible(open_checkpoint is not None)
        row(self._play, (self._slider, 1), self._place, self._open, on=self)
        self.show_state()

    def dress(self) -> None:
        self.show_state()

    def show_state(self) -> None:
        """Show the checkpoints and the position."""
        replay = self._replay
        has_any = bool(replay.checkpoints)
        place = replay.slider_place
        self._slider.setEnabled(has_any)
        self._slider.setRange(0, max(0, replay.n_places - 1))
        self._slider.setSliderPosition(place)
        self._play.setEnabled(has_any)
        colour = self.theme.text if has_any else self.theme.no_data
        self._play.setIcon(play_icon(colour, is_playing=replay.is_playing))
        found = replay.checkpoint
        self._open.setEnabled(found is not None and found.has_model)
        is_model_kept = found is None or found.has_model
        self._open.setToolTip(_OPEN if is_model_kept else _NO_MODEL)
        self._place.setText(self._place_text())

    def _place_text(self) -> str:
        replay = self._replay
        checkpoint = replay.checkpoint
        if checkpoint is not None:
            return f"step {checkpoint.step:,}  ({replay.slider_place + 1} of {len(replay.checkpoints)})"
        if replay.is_live:
            return "live"
        return "no checkpoints yet"

    @Slot()
    def _on_play(self) -> None:
        self._replay.play()

    @Slot(int)
    def _on_slider_moved(self, _action: int) -> None:
        place = self._slider.sliderPosition()
        if place != self._replay.slider_place:
            self._replay.go_to(place)

    @Slot()
    def _on_open(self) -> None:
        checkpoint = self._replay.checkpoint
        if checkpoint is not None and self._open_checkpoint is not None:
            self._open_checkpoint(checkpoint.folder)


_SMALL_SHARE = 0.6
"""Width of a small map, at most, as a share of that of the large one's cells."""


class WatchPanel(QWidget):
    """A sentence, thumbnails of one stack, one head large, and the slider over checkpoints."""

    hover_text = Signal(str)

    def __init__(
        self,
        state: TrainingState,
        open_checkpoint: Callable[[str], None] | None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._state = state
        self._watch = state.watch
        self._shown: object = None
        self.texts = in_one(self._build_texts())
        layout = column(self.texts, self._build_tabs(), on=self, spacing=6)
        self._card = StateCard()
        self._grid = GridView()
        self._head = HeadView()
        self._head.set_empty_text("Not worked out yet", "Its weights come from the checkpoint of this step.")
        self._pictured = WatchedPicture(state.watch)
        self._picture = PictureView(self._pictured)
        self._views = stacked(self._head, self._picture)
        self._maps = split(Qt.Orientation.Horizontal, self._grid, self._views, sizes=(420, 580))
        self._pages = stacked(self._card, self._maps)
        layout.addWidget(self._pages, 1)
        self._replay = ReplayBar(self._watch.replay, open_checkpoint)
        layout.addWidget(self._replay)
        self._head.set_compact(True)  # the line above names the head; the cells need the height
        self._head.installEventFilter(self)
        self._grid.head_selected.connect(self._on_head_selected)
        for view in (self._head, self._picture):
            view.cell_hovered.connect(self._on_cell_hovered)
            view.left.connect(self._on_left)
        self.show_state()

    def set_style(self, style: MapStyle) -> None:
        """Draw the maps in another way."""
        self._grid.set_style(style)
        self._head.set_style(style)
        self._picture.set_style(style)

    def splitter(self) -> QSplitter:
        """The splitter between the heads and the large map."""
        return self._maps

    def _build_texts(self) -> QHBoxLayout:
        self._text = QLineEdit(placeholderText="A sentence to watch while the model learns")
        self._text.setAccessibleName("Sentence to watch")
        self._text.textEdited.connect(self._on_text_edited)
        self._target = QLineEdit(placeholderText="Target; empty: the model writes its own")
        self._target.setAccessibleName("Target of the sentence")
        self._target.textEdited.connect(self._on_target_edited)
        layout = row(PlainLabel("Watch", "section"), (self._text, 3), (self._target, 2))
        return layout

    def _build_tabs(self) -> QHBoxLayout:
        self._tabs: dict[str, QToolButton] = {}
        for stack in STACKS:
            button = tool_button(stack, f"Show the {stack} stack", role="tab", is_checkable=True)
            self._tabs[stack] = button
        one_of(self, self._tabs.values()).buttonClicked.connect(self._on_tab_clicked)
        self._note = ElidedLabel(role="muted")
        self._note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = row(*self._tabs.values(), self._note, spacing=0)
        layout.setStretch(len(self._tabs), 1)
        return layout

    # --- showing ----------------------------------------------------------------------------------

    def show_state(self) -> None:
        """Show what the state watches, redrawing only changes."""
        watch = self._watch
        for field, text in ((self._text, watch.text), (self._target, watch.target or "")):
            if field.text() != text:
                field.setText(text)
        self._target.setVisible(self._takes_target())
        for stack, button in self._tabs.items():
            button.setVisible(stack in watch.stacks)
            button.setChecked(stack == watch.stack)
        self._note.set_role("warning" if watch.note else "muted")
        is_told = watch.traced is None  # in the middle of the page
        self._note.set_full_text("" if is_told else watch.note or self._caption())
        self._replay.show_state()
        self._show_maps()

    def _show_maps(self) -> None:
        watch = self._watch
        if watch.traced is None or not watch.traced.grids:
            self._card.show_stage(self._stage())
            self._pages.setCurrentWidget(self._card)
            return
        self._pages.setCurrentWidget(self._maps)
        shown = (watch.traced, watch.stack)
        if self._shown != shown:
            self._shown = shown
            self._grid.set_grids(watch.grids)
            self._grid.setVisible(sum(grid.site.n_heads for grid in watch.grids) > 1)
        self._grid.set_selection((watch.head,) if watch.head else ())
        self._head.set_map(watch.head_map)
        self._views.setCurrentWidget(self._picture if self._pictured.is_offered else self._head)
        self._fit_grid()
        self._grid.set_stale(watch.is_stale)
        for view in (self._head, self._picture):
            view.set_stale(watch.is_stale or watch.head_map is None)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Adapt the thumbnails to the size of the large map."""
        if watched is self._head and event.type() == QEvent.Type.Resize:
            self._fit_grid()
        return super().eventFilter(watched, event)

    def _fit_grid(self) -> None:
        """Keep the thumbnails smaller than the large map."""
        layout = self._head.layout_now()
        self._grid.set_most(_SMALL_SHARE * layout.cells.width() if layout is not None else 0.0)

    def _stage(self) -> Placeholder:
        watch = self._watch
        if watch.note:
            return Placeholder(kind="failed", title="This sentence cannot be drawn", hint=watch.note)
        if watch.traced is not None:
            return _NO_ATTENTION
        if not watch.text.strip():
            return Placeholder(
                kind="empty",
                title="No sentence to watch",
                hint="Type one above: its attention is redrawn here while the model learns.",
            )
        if watch.replay.is_live or watch.replay.checkpoint:
            return Placeholder(kind="waiting", title="Tracing…", is_working=True)
        return Placeholder(
            kind="empty",
            title="Attention appears here",
            hint="Every head of the model is drawn for this sentence as soon as training starts, and "
            "afterwards for every saved checkpoint.",
        )

    def _caption(self) -> str:
        watch = self._watch
        if watch.traced is None:
            return ""
        step = watch.traced.step
        parts = [_answer_words(watch.traced.comparison, watch.traced.source.tokens)]
        parts.append(f"{watch.head.label} {watch.head.stack}" if watch.head else "")
        parts.append(f"at step {step:,}" if step is not None else "")
        parts.append("" if watch.traced.check.is_good else watch.traced.check.sentence)
        return " · ".join(part for part in parts if part)

    def _takes_target(self) -> bool:
        traced = self._watch.traced
        kind = recipe_value(self._state.recipe.text, "objective", "kind")
        has_target = self._watch.target is not None or (traced is not None and traced.target is not None)
        return has_target or kind == "translation"

    # --- user actions ----------------------------------------------------------------------------

    @Slot(str)
    def _on_text_edited(self, text: str) -> None:
        self._watch.set_text(text)

    @Slot(str)
    def _on_target_edited(self, text: str) -> None:
        self._watch.set_target(text)

    @Slot(object)
    def _on_tab_clicked(self, button: QToolButton) -> None:
        for stack in STACKS:
            if self._tabs[stack] is button:
                self._watch.choose_stack(stack)

    @Slot(object, bool)
    def _on_head_selected(self, head: HeadRef, _is_additive: bool) -> None:
        self._watch.choose_head(head)

    @Slot(int, int, float)
    def _on_cell_hovered(self, query: int, key: int, weight: float) -> None:
        head_map = self._watch.head_map
        if head_map is None:
            return
        row = head_map.queries[query]
        read = query_words(row, is_isolated=False) if row.read else row.piece
        pieces = f"{read} → {head_map.keys[key].piece}"
        self.hover_text.emit(f"{head_map.head.label} · {pieces} · weight {number_text(weight)}")

    @Slot()
    def _on_left(self) -> None:
        self.hover_text.emit("")


def _answer_words(comparison: Comparison, tokens: Sequence[Token]) -> str:
    """The model's output for the sentence: its verdict, its generated text, or its prediction."""
    output = comparison.after
    if output.follows is not None:
        return f"says “{next_verdict(output.follows)}” {percent(max(output.follows, 1.0 - output.follows))}"
    if output.kind == "translation":
        is_known = output.predictions and not (comparison.is_writing or comparison.refused)
        return f"writes “{output.generated}”" if output.generated else "writes no word" if is_known else ""
    if labels := labels_text(output, tokens):
        return labels
    first = next(iter(output.predictions[-1].candidates), None) if output.predictions else None
    return f"says “{first.token.piece}” {percent(first.probability)}" if first is not None else ""
