"""The slider over saved checkpoints: play, drag, and open one in Explore."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QPushButton, QSlider, QToolButton, QWidget

from attnscope.figures.colours import Palette
from attnscope.viewmodels.training.watch import WatchState
from attnscope.widgets.form_parts import play_icon, row
from attnscope.widgets.labels import PlainLabel

_OPEN = "Open this checkpoint as the model of the Explore page"
_NO_MODEL = "Of this step the attention of the watched sentence was kept, not the model"


class ReplayBar(QWidget):
    """Shows where the watched sentence is looked at, and reports where the person wants to look."""

    def __init__(
        self,
        state: WatchState,
        palette: Palette,
        open_checkpoint: Callable[[str], None] | None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._state = state
        self._palette = palette
        self._open_checkpoint = open_checkpoint
        self._play = QToolButton()
        self._play.setAccessibleName("Play the checkpoints")
        self._play.setToolTip("Play the checkpoints in order")
        self._play.clicked.connect(self._on_play)
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setAccessibleName("Checkpoint")
        self._slider.actionTriggered.connect(self._on_slider_moved)
        self._place = PlainLabel(role="value")
        self._place.setMinimumWidth(150)
        self._open = QPushButton("Open in Explore")
        self._open.setVisible(open_checkpoint is not None)
        self._open.clicked.connect(self._on_open)
        layout = row(self._play, self._slider, self._place, self._open)
        layout.setStretch(1, 1)
        self.setLayout(layout)
        self.show_state()

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        self._palette = palette
        self.show_state()

    def show_state(self) -> None:
        """Show the checkpoints and the place."""
        state = self._state
        has_any = bool(state.checkpoints)
        place = state.slider_place
        self._slider.setEnabled(has_any)
        self._slider.setRange(0, max(0, state.n_places - 1))
        self._slider.setSliderPosition(place)
        self._play.setEnabled(has_any)
        colour = self._palette.text if has_any else self._palette.no_data
        self._play.setIcon(play_icon(colour, is_playing=state.is_playing))
        found = state.checkpoint
        self._open.setEnabled(found is not None and found.has_model)
        is_model_kept = found is None or found.has_model
        self._open.setToolTip(_OPEN if is_model_kept else _NO_MODEL)
        self._place.setText(self._place_text())

    def _place_text(self) -> str:
        state = self._state
        checkpoint = state.checkpoint
        if checkpoint is not None:
            return f"step {checkpoint.step:,}  ({state.slider_place + 1} of {len(state.checkpoints)})"
        if state.is_live:
            return "live"
        return "no checkpoints yet"

    @Slot()
    def _on_play(self) -> None:
        self._state.play()

    @Slot(int)
    def _on_slider_moved(self, _action: int) -> None:
        place = self._slider.sliderPosition()
        if place != self._state.slider_place:
            self._state.go_to(place)

    @Slot()
    def _on_open(self) -> None:
        checkpoint = self._state.checkpoint
        if checkpoint is not None and self._open_checkpoint is not None:
            self._open_checkpoint(checkpoint.folder)
