"""Generating text: settings, the generated tokens, the candidates for each, the beam tree."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QKeyEvent,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QDoubleSpinBox,
    QGridLayout,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from attnscope.counting import fixed, plural, probability_text
from attnscope.figures.colours import contrast, lut
from attnscope.figures.style import (
    NORMAL_PX,
    SMALL_PX,
    drawn_piece,
    font,
    isolated,
    plain_piece,
    plain_text,
    text_width,
    type_px,
)
from attnscope.records.outputs import MAX_BEAMS, BeamTree, Candidate, WriteMode, WrittenToken
from attnscope.records.tokens import told_apart
from attnscope.viewmodels.generation import GenerationState
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import NO_HIGHLIGHT, Highlight, ViewState
from attnscope.widgets.explore.beam_view import BeamView
from attnscope.widgets.form_parts import (
    FormulaButton,
    NamedFormula,
    column,
    inset_text,
    one_of,
    row,
    scrolled_column,
)
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, rule, tool_button, when, when_seen
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_chips import Chip, ChipRows

# Written tokens as chips, coloured by the probability that the model gave them.


_INKS = ("#ffffff", "#0d1420")


def probability_colour(name: str, probability: float) -> str:
    """The colour of a probability (0…1) in a colour map, as `#rrggbb`."""
    rgb = lut("viridis" if name == "diverging" else name)[round(255 * min(max(probability, 0.0), 1.0))]
    return "#" + "".join(f"{int(part):02x}" for part in rgb)


class WrittenStrip(ChipRows):
    """Shows generated tokens; click and arrow keys choose one, Esc none (−1)."""

    step_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__("Generated tokens")
        self._colour_map = "viridis"
        self._written: tuple[WrittenToken, ...] = ()
        self._chosen: int | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_tokens(self, tokens: tuple[WrittenToken, ...]) -> None:
        if tokens != self._written:
            self._written, self._tokens = tokens, tuple(token.token for token in tokens)
            self.setAccessibleDescription(" ".join(token.token.piece for token in tokens[:100]))
            self.fit_room()

    def show_chosen(self, step: int | None) -> None:
        """Mark the selected token."""
        if step != self._chosen:
            self._chosen = step
            self.update()

    def set_colour_map(self, name: str) -> None:
        """Colour probabilities as in the maps."""
        self._colour_map = name
        self.update()

    def chip_rect(self, step: int) -> QRectF:
        """Rectangle of one token."""
        return self._chips[step].rect

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(NORMAL_PX))
            for step, chip in enumerate(self._chips):
                self._paint_chip(painter, step, chip)
            if self.hasFocus() and self._chosen is None and self._chips:
                painter.setPen(QPen(QColor(self.theme.accent), 1.0))
                painter.drawLine(QPointF(0, self.height() - 0.5), QPointF(self.width(), self.height() - 0.5))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self.index_at(event.position())
        if at is not None:
            self.step_chosen.emit(at)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._chips) - 1
        at = -1 if self._chosen is None else self._chosen
        places = {
            Qt.Key.Key_Right: min(at + 1, last),
            Qt.Key.Key_Left: max(at - 1, 0) if at >= 0 else last,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        key = Qt.Key(event.key())
        if key == Qt.Key.Key_Escape and self._chosen is not None:
            self.step_chosen.emit(-1)
        elif key in places and last >= 0:
            self.step_chosen.emit(places[key])
        else:
            super().keyPressEvent(event)

    def tip_at(self, place: QPointF) -> str:
        at = self.index_at(place)
        return "" if at is None else self.tooltip_of(at)

    def tooltip_of(self, step: int) -> str:
        """Tooltip of one token, as plain text."""
        token = self._written[step]
        drawn = "" if token.chance == 1.0 else f"\ndrawn with {probability_text(token.chance)}"
        return (
            f"{isolated(plain_piece(token.token.piece, max_characters=200))}   id {token.token.id}\n"
            f"generated token {step + 1} of {len(self._tokens)}\n"
            f"probability {probability_text(token.probability)}{drawn}"
        )

    def _paint_chip(self, painter: QPainter, step: int, chip: Chip) -> None:
        fill = probability_colour(self._colour_map, self._written[step].probability)
        rect = chip.rect.adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(rect, 4, 4)
        if step == self._chosen:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(self.theme.background), 4.0))
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), 4, 4)
            painter.setPen(QPen(QColor(self.theme.accent), 2.0))
            painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.setPen(QColor(max(_INKS, key=lambda ink: contrast(ink, fill))))
        painter.drawText(chip.rect, Qt.AlignmentFlag.AlignCenter, isolated(chip.text))


class ProbabilityKey(Dressed):
    """The colour scale of probabilities from 0 to 1, in one line."""

    def __init__(self) -> None:
        super().__init__()
        self._colour_map = "viridis"
        self.setAccessibleName("Colours of probabilities")
        self.setToolTip("Probability that the model gave each token, from 0 to 1.")
        self.fit_room()

    def set_colour_map(self, name: str) -> None:
        """Show another colour map."""
        self._colour_map = name
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        width = text_width("0") + 4
        bar = QRectF(width, self.height() / 2 - 4, self.width() - 2 * width, 8)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for k in range(9):
            gradient.setColorAt(k / 8, QColor(probability_colour(self._colour_map, k / 8)))
        with QPainter(self) as painter:
            painter.fillRect(bar, gradient)
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(0, 0, width, self.height()), middle, "0")
            painter.drawText(
                QRectF(bar.right(), 0, width, self.height()), middle | Qt.AlignmentFlag.AlignRight, "1"
            )

    def fit_room(self) -> None:
        self.setFixedSize(round(type_px(72)), round(type_px(16)))
        self.update()


# A GenerationState in words: how it stands, which token is looked at, how large the tree is.


def writing_summary(state: GenerationState, session: Session) -> str:
    """Progress, or the result."""
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
    """Description of the panel's future content, or of what is missing."""
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
    """The generated tokens with their pieces as in the text, if known."""
    written = state.written
    if written is None:
        return state.tokens
    text = (written.target or written.source).tokens
    return tuple(
        replace(token, token=text[token.position + 1]) if token.position + 1 < len(text) else token
        for token in state.tokens
    )


def place_of_chosen(state: GenerationState) -> str:
    """Index of the selected token, and the row of its attention."""
    chosen, written = state.chosen, state.written
    if chosen is None:
        return ""
    number = f"token {(state.step or 0) + 1} of {len(state.tokens)}"
    text = (written.target or written.source).tokens if written else ()
    if chosen.position >= len(text):
        return number
    return f"{number}, predicted from the row of “{text[chosen.position].piece}”"


def tree_sentence(tree: BeamTree) -> str:
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


_SAID: dict[WriteMode, tuple[NamedFormula, ...]] = {
    "greedy": (
        NamedFormula(name="Greedy", formulas=("y_t = argmax_i p_i", "p = softmax(z)"), symbols="z: logits"),
    ),
    "sample": (
        NamedFormula(
            name="Temperature", formulas=("p_i = e^(z_i/T) / (Σ_j e^(z_j/T))",), symbols="z: logits"
        ),
        NamedFormula(name="Top-k", formulas=("V = the k most probable tokens",), source="Fan et al. 2018"),
        NamedFormula(
            name="Top-p, nucleus sampling",
            formulas=("V = the fewest tokens with Σ_(i∈V) p_i ≥ p",),
            source="Holtzman et al. 2020",
        ),
        NamedFormula(name="Drawn with", formulas=("p_i / (Σ_(j∈V) p_j)   for i ∈ V",)),
    ),
    "beams": (
        NamedFormula(
            name="Score of a beam with its length penalty",
            formulas=(
                "s(y) = log p(y) / lp(n)",
                "lp(n) = (5 + n)^α / (5 + 1)^α",
                "log p(y) = Σ_t log p(y_t)",
            ),
            symbols="n: tokens of the beam; the penalty without its coverage term",
            source="Wu et al. 2016, equation 14",
        ),
    ),
}
"""The computation of each method of generation."""


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
        one_of(self, self.modes.values())
        switch = row(*self.modes.values(), None, spacing=0)
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
    """Showing a value does not set it: the state ignores a value it already has."""

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


# What there was to choose from where a token was written: pieces, bars, probabilities.

_ROW_PX = 22
_DRAWN_TIP = (
    "model: the model's own probability, softmax of the logits. drawn: its probability after temperature,"
    " top-k and top-p; cut: it could not be drawn."
)


class AlternativeTable(Dressed):
    """One row a candidate, the chosen one in the accent colour; with its sampling probability, if any."""

    def __init__(self, n_rows: int = 8) -> None:
        super().__init__()
        self._n_rows = n_rows
        self._rows: tuple[Candidate, ...] = ()
        self._written_id = -1
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Alternatives at this token")
        self.fit_room()

    def show_rows(self, rows: tuple[Candidate, ...], written_id: int) -> None:
        """Show other candidates; `written_id` is the generated one."""
        if (rows, written_id) != (self._rows, self._written_id):
            self._rows, self._written_id = rows[: self._n_rows], written_id
            self.setAccessibleDescription("; ".join(map(_told, self._rows)))
            self.fit_room()

    def sizeHint(self) -> QSize:
        return QSize(240, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        height, top = type_px(_ROW_PX), type_px(_ROW_PX) if self._is_drawn else 0.0
        with QPainter(self) as painter:
            if self._is_drawn:
                painter.setFont(font(SMALL_PX))
                painter.setPen(QColor(self.theme.muted))
                side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
                painter.drawText(QRectF(0, 0, self.width() - self._number_px, height), side, "model")
                painter.drawText(QRectF(0, 0, self.width(), height), side, "drawn")
            names = told_apart([row.token for row in self._rows])
            for k, (row, name) in enumerate(zip(self._rows, names, strict=True)):
                self._paint_row(painter, QRectF(0, top + k * height, self.width(), height), row, name)

    @property
    def _is_drawn(self) -> bool:
        return any(row.chance is not None for row in self._rows)

    @property
    def _number_px(self) -> float:
        return type_px(40)

    def _paint_row(self, painter: QPainter, place: QRectF, row: Candidate, name: str) -> None:
        """Paint the piece, a bar for each number, and the numbers; excluded ones are faint."""
        palette, is_written = self.theme, row.token.id == self._written_id
        n_numbers = self._number_px * (2 if self._is_drawn else 1)
        n_piece, is_cut = (
            min(0.4 * (place.width() - n_numbers + self._number_px), type_px(140)),
            row.chance == 0,
        )
        type_ = font(NORMAL_PX, is_bold=is_written)
        text = drawn_piece(name)
        text = QFontMetricsF(type_).elidedText(text, Qt.TextElideMode.ElideMiddle, n_piece)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(type_)
        quiet = row.token.is_special or is_cut
        painter.setPen(QColor(palette.accent if is_written else palette.muted if quiet else palette.text))
        piece = QRectF(place.left(), place.top(), n_piece, place.height())
        painter.drawText(piece, middle, isolated(text))
        bar = QRectF(piece.right() + 8, place.center().y() - 4, place.width() - n_piece - n_numbers - 8, 8)
        values = (row.probability,) if row.chance is None else (row.probability, row.chance)
        for k, value in enumerate(values):
            high = bar.height() / len(values)
            line = QRectF(bar.left(), bar.top() + k * high, bar.width(), high)
            painter.fillRect(line, QColor(palette.grid))
            line.setWidth(bar.width() * min(max(value, 0.0), 1.0))
            painter.fillRect(line, QColor(palette.accent if is_written or k else palette.muted))
        painter.setFont(font(SMALL_PX))
        side = middle | Qt.AlignmentFlag.AlignRight
        for k, value in enumerate(values):
            painter.setPen(QColor(palette.muted if k and is_cut else palette.text))
            right = place.right() - self._number_px * (len(values) - 1 - k)
            number = QRectF(right - self._number_px, place.top(), self._number_px, place.height())
            painter.drawText(number, side, "cut" if k and is_cut else probability_text(value))

    def fit_room(self) -> None:
        n_lines = max(len(self._rows), 1) + self._is_drawn
        self.setFixedHeight(round(type_px(n_lines * _ROW_PX)))
        self.setToolTip(plain_tooltip(_DRAWN_TIP) if self._is_drawn else "")
        self.update()


def _told(row: Candidate) -> str:
    words = f"{row.token.piece}: {probability_text(row.probability)}"
    if row.chance is None:
        return words
    return words + (", cut off" if row.chance == 0 else f", drawn with {probability_text(row.chance)}")


class GenerationPanel(Dressed):
    """Shows a GenerationState; the chosen token's row is highlighted in the maps of the page."""

    def __init__(self, state: GenerationState, session: Session, view: ViewState) -> None:
        super().__init__()
        self._state, self._session, self._view = state, session, view
        self._is_lighting = False
        self.form = WritingForm(state)
        self.write = QPushButton("Generate")
        self.use = QPushButton("Use as text")
        self.progress = named(QProgressBar(textVisible=False), "Tokens generated")
        self.summary = PlainLabel(role="muted", wraps=True)
        self.key = ProbabilityKey()
        self.strip = WrittenStrip()
        self.where = PlainLabel(role="name", wraps=True)
        self.alternatives = AlternativeTable()
        self.tree_title = PlainLabel("Beam tree", "name")
        self.tree_hint = PlainLabel(role="muted", wraps=True)
        self.has_dropped = QCheckBox("dropped")
        self.tree = BeamView()
        self._tree_scroll = QScrollArea()
        self._lay_out()
        self._connect()
        self._show()

    def _lay_out(self) -> None:
        column = scrolled_column(self)
        column.addWidget(self.form)
        self.formula_button = FormulaButton(lambda: _SAID[self._state.settings.mode])
        column.addLayout(row(self.write, self.use, None, self.formula_button))
        column.addWidget(self.progress)
        told = row(self.summary, self.key)
        told.setStretch(0, 1)
        column.addLayout(told)
        column.addWidget(self.strip)
        self._rules = (rule(), rule())
        column.addWidget(self._rules[0])
        column.addWidget(self.where)
        column.addWidget(self.alternatives)
        column.addWidget(self._rules[1])
        column.addLayout(row(self.tree_title, None, self.has_dropped))
        column.addWidget(self.tree_hint)
        column.addWidget(self._tree_scroll)
        column.addStretch(1)
        self.has_dropped.setChecked(True)
        policy = self.progress.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.progress.setSizePolicy(policy)
        self._tree_scroll.setWidget(self.tree)
        self._tree_scroll.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def _connect(self) -> None:
        self.write.clicked.connect(self._on_write_clicked)
        self.use.clicked.connect(self._state.use_as_text)
        self.strip.step_chosen.connect(self._on_step_chosen)
        self.tree.step_chosen.connect(self._on_step_chosen)
        self.has_dropped.clicked.connect(self._on_dropped_clicked)
        state, session, view = self._state.changed, self._session.changed, self._view.changed
        when_seen(
            self, self._show, state.writing, state.outdated, state.settings, session.model, session.text
        )
        when_seen(self, self._show_step, state.step)
        when_seen(self, self._light, session.selection)
        when(self, self._light_again, view.highlight)
        when(self, self._take_colours, view.style)

    # Intents

    def _on_write_clicked(self) -> None:
        if self._state.is_writing:
            self._state.stop()
        else:
            self._state.write()

    def _on_step_chosen(self, step: int) -> None:
        self._state.choose_step(step if step >= 0 else None)

    def _on_dropped_clicked(self, is_checked: bool) -> None:
        self.tree.show_dropped(is_checked)
        self.fit_room()

    # Showing

    def _take_colours(self) -> None:
        self.strip.set_colour_map(self._view.colour_map)
        self.key.set_colour_map(self._view.colour_map)

    def _light_again(self) -> None:
        if self._view.highlight == NO_HIGHLIGHT:
            self._light()

    def _show(self) -> None:
        state = self._state
        self.write.setText("Stop" if state.is_writing else "Generate")
        self.write.setEnabled(state.is_writing or state.can_write)
        self.use.setEnabled(state.can_be_used)
        self.use.setVisible(bool(state.tokens))
        takes_target = self._session.model is not None and self._session.model.takes_target
        self.use.setText("Use as target" if takes_target else "Use as text")
        self.progress.setVisible(state.is_writing)
        self.progress.setRange(0, max(state.n_most, 1))
        self.progress.setValue(len(state.tokens))
        self.summary.setText(plain_text(writing_summary(state, self._session)))
        self.summary.set_role("error" if state.phase == "failed" else "muted")
        self.strip.show_tokens(tokens_as_read(state))
        self.strip.setVisible(bool(state.tokens))
        self.key.setVisible(bool(state.tokens))
        tree = state.tree
        self.tree.show_tree(tree)
        for part in (self.tree_title, self.tree_hint, self.has_dropped, self._tree_scroll, self._rules[1]):
            part.setVisible(tree is not None)
        if tree is not None:
            self.tree_hint.setText(tree_sentence(tree))
            self.tree_hint.setToolTip(plain_tooltip(_TREE_TOOLTIP))
            self.fit_room()
        self._show_step()

    def _show_step(self) -> None:
        state, chosen = self._state, self._state.chosen
        self.strip.show_chosen(state.step if chosen else None)
        self.tree.show_chosen(state.step if chosen else None)
        for part in (self.where, self.alternatives, self._rules[0]):
            part.setVisible(chosen is not None)
        if chosen is not None:
            self.where.setText(plain_text(place_of_chosen(state)))
            self.alternatives.show_rows(state.candidates, chosen.token.id)
        self._light()

    def _light(self) -> None:
        """Highlight the row that generated the chosen token, unless the cursor highlights another."""
        row = self._state.row(self._session.stack)
        if row is not None and self._view.highlight.key is None:
            self._is_lighting = True
            self._view.set_highlight(Highlight(query=row))
        elif self._is_lighting and row is None:
            self._is_lighting = False
            self._view.set_highlight(NO_HIGHLIGHT)

    def fit_room(self) -> None:
        bar = self._tree_scroll.horizontalScrollBar().sizeHint().height()
        self._tree_scroll.setFixedHeight(self.tree.height() + bar + 2)


_TREE_TOOLTIP = (
    "Each row is one token; each node a text that ends with it.\n"
    "score = Σ log p / ((5 + n) / 6)^α (Wu et al. 2016, equation 14), in nats.\n"
    "Boxes were kept, double boxes end their text, the blue path is the text that was taken."
)
