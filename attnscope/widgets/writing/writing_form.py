"""How the model is to write: greedily, by drawing, or with beams, and the numbers of each way."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QButtonGroup,
    QDoubleSpinBox,
    QGridLayout,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from attnscope.counting import fixed, plural
from attnscope.records.generation import MAX_BEAMS, BeamTree, WriteMode, WrittenToken
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.writing.state import GenerationState
from attnscope.widgets.form_parts import column, inset_text, row
from attnscope.widgets.labels import PlainLabel, plain_tooltip, tool_button, when

# A GenerationState in words: how it stands, which token is looked at, how large the tree is.


def writing_summary(state: GenerationState, session: Session) -> str:
    """What is happening, or what came of it."""
    n_tokens = len(state.tokens)
    words = plural(n_tokens, "token")
    match state.phase:
        case "failed":
            return state.error
        case "writing":
            return f"generating… {n_tokens} of at most {state.n_most}"
        case "stopped":
            return f"stopped after {words}; their attention was not kept"
        case "written" if state.written is not None:
            ends = "ended" if state.written.has_ended else "cut"
            old = " · text or gates have changed since" if state.is_outdated else ""
            return f"{words}, {ends} · log p {fixed(state.written.log_probability)} nats{old}"
        case _:
            return invitation(state, session)


def invitation(state: GenerationState, session: Session) -> str:
    """What will stand here, or what is missing."""
    model = session.model
    if model is None:
        return "Open a model first."
    if model.is_recorded:
        return "Recorded attention has no model to generate text with."
    if model.form == "encoder":
        fills = "fills in words; it " if model.objective == "masked" else ""
        return f"This model {fills}does not generate text."
    if not state.can_write:
        return "Type a text first; the model continues it."
    if model.takes_target:
        return "The model writes its translation, each token with its probability and its attention."
    return "The model continues the text, each token with its probability and its attention."


def tokens_as_read(state: GenerationState) -> tuple[WrittenToken, ...]:
    """The written tokens with their pieces as they read in the text, where that is known."""
    written = state.written
    if written is None:
        return state.tokens
    text = (written.target or written.source).tokens
    return tuple(
        replace(token, token=text[token.position + 1]) if token.position + 1 < len(text) else token
        for token in state.tokens
    )


def place_of_chosen(state: GenerationState) -> str:
    """Which token is looked at, and in which row its attention stands."""
    chosen, written = state.chosen, state.written
    if chosen is None:
        return ""
    number = f"token {(state.step or 0) + 1} of {len(state.tokens)}"
    text = (written.target or written.source).tokens if written else ()
    if chosen.position >= len(text):
        return number
    return f"{number}, predicted from the row of “{text[chosen.position].piece}”"


def tree_sentence(tree: BeamTree) -> str:
    """The tree in numbers."""
    n_ended = sum(node.state == "finished" for node in tree.nodes)
    return (
        f"{plural(len(tree.nodes), 'node')}, {plural(tree.depth, 'token')} deep, {n_ended} "
        "ended; best at the left"
    )


_MODES: dict[WriteMode, tuple[str, str]] = {
    "greedy": ("Greedy", "Always the most probable token."),
    "sample": ("Sample", "Draw each token by its probability."),
    "beams": ("Beams", "Follow the best texts in parallel and keep the one with the best score."),
}
_TIPS = {
    "temperature": "Logits are divided by this: below 1 more predictable, above 1 more varied, 0 greedy.",
    "top_k": "Only the k most probable tokens are drawn from; 0: all.\n(Fan et al. 2018)",
    "top_p": "Only the fewest tokens whose total probability reaches this share.\n(Holtzman et al. 2020)",
    "seed": "The same seed draws the same text.",
    "n_beams": "Number of texts followed at a time.",
    "length_penalty": "α of score = Σ log p / ((5 + n) / 6)^α; 0: none.\n(Wu et al. 2016, equation 14)",
    "max_tokens": "Maximum number of tokens to generate.",
}


class WritingForm(QWidget):
    """Shows and changes the settings of a GenerationState."""

    def __init__(self, state: GenerationState) -> None:
        super().__init__()
        self._state = state
        self.modes = {
            mode: tool_button(text, f"Generate: {text}", role="segment", is_checkable=True)
            for mode, (text, _) in _MODES.items()
        }
        self.boxes: dict[str, QSpinBox | QDoubleSpinBox] = {
            "temperature": _decimal(0.0, 10.0, 0.1),
            "top_k": _whole(0, 1_000_000, "all"),
            "top_p": _decimal(0.01, 1.0, 0.05),
            "seed": _whole(0, 2**31 - 1),
            "n_beams": _whole(1, MAX_BEAMS),
            "length_penalty": _decimal(0.0, 5.0, 0.1),
            "max_tokens": _whole(1, 10_000),
        }
        self._of_mode: dict[WriteMode, list[QWidget]] = {"greedy": [], "sample": [], "beams": []}
        self._lay_out()
        for mode, button in self.modes.items():
            button.setToolTip(_MODES[mode][1])
            button.clicked.connect(_chooser(state, mode))
        for name, box in self.boxes.items():
            box.setToolTip(plain_tooltip(_TIPS[name]))
            box.valueChanged.connect(_setter(state, name))
        when(self, self._show, state.changed.settings, state.changed.writing)
        self._show()

    def _lay_out(self) -> None:
        switch = row(spacing=0)
        group = QButtonGroup(self)
        for button in self.modes.values():
            group.addButton(button)
            switch.addWidget(button)
        switch.addStretch(1)
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        grid.setColumnStretch(3, 1)
        self._add(grid, 0, "sample", ("temperature", "temp."), ("seed", "seed"))
        self._add(grid, 1, "sample", ("top_k", "top-k"), ("top_p", "top-p"))
        self._add(grid, 2, "beams", ("n_beams", "beams"), ("length_penalty", "length α"))
        grid.addWidget(PlainLabel("at most", "muted"), 3, 0)
        grid.addWidget(self.boxes["max_tokens"], 3, 1, 1, 2)  # as much room for the boxes on either side
        grid.addWidget(PlainLabel("tokens", "muted"), 3, 3)
        self.boxes["max_tokens"].setAccessibleName(_TIPS["max_tokens"])
        column(switch, grid, on=self)

    def _add(self, grid: QGridLayout, row: int, mode: WriteMode, *fields: tuple[str, str]) -> None:
        for k, (name, text) in enumerate(fields):
            label = PlainLabel(text, "muted")
            self.boxes[name].setAccessibleName(_TIPS[name].partition("\n")[0])
            grid.addWidget(label, row, 2 * k)
            grid.addWidget(self.boxes[name], row, 2 * k + 1)
            self._of_mode[mode] += [label, self.boxes[name]]

    def _show(self) -> None:
        settings = self._state.settings
        for mode, button in self.modes.items():
            button.setChecked(mode == settings.mode)
            for widget in self._of_mode[mode]:
                widget.setVisible(mode == settings.mode)
        for name, box in self.boxes.items():
            box.setValue(getattr(settings, name))
        self.setEnabled(not self._state.is_writing)


def _chooser(state: GenerationState, mode: WriteMode) -> Callable[[], None]:
    def choose() -> None:
        state.set_mode(mode)

    return choose


def _setter(state: GenerationState, name: str) -> Callable[[object], None]:
    """Showing a value does not set it: the state ignores what it already holds."""

    def set_value(value: object) -> None:
        state.set_settings(replace(state.settings, **{name: value}))  # type: ignore[arg-type]

    return set_value


def _whole(least: int, most: int, zero: str = "") -> QSpinBox:
    box = QSpinBox(minimum=least, maximum=most)
    if zero:
        box.setSpecialValueText(zero)
    _dress(box)
    return box


def _decimal(least: float, most: float, step: float) -> QDoubleSpinBox:
    box = QDoubleSpinBox(minimum=least, maximum=most, singleStep=step, decimals=2)
    _dress(box)
    return box


def _dress(box: QAbstractSpinBox) -> None:
    box.setKeyboardTracking(False)
    inset_text(box)
    box.setSizePolicy(QSizePolicy.Policy.Ignored, box.sizePolicy().verticalPolicy())
