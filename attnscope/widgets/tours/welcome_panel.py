"""The welcome of the Learn page: tours, examples, a tiny model to train, and what was opened lately."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text, shorten
from attnscope.figures.style import type_px
from attnscope.viewmodels.session.recents import Recents
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.tours.touring import TourState
from attnscope.viewmodels.tours.tours import Tour
from attnscope.widgets.card_button import CardButton
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, listen, plain_tooltip

_WIDTH_PX, _MAX_EACH = 1120, 3
EXAMPLES = {
    "english-french": "A translator of a small grammar. Its cross-attention draws the alignment of the two"
    " sentences, backwards where French turns the words round.",
    "shakespeare": "Predicts the next piece of text. One head finds what followed the same word before, and"
    " another looks at the word just read.",
    "shakespeare-masked": "Fills in `<mask>` from both sides of it. Watch which words a hidden one looks at.",
}
"""What one sees in each of the models that come with the program."""
LESSONS = {
    "copy": ("Copy a row of letters", "1,000 steps. The cross-attention grows into a diagonal."),
    "reverse": (
        "Write a row of letters backwards",
        "1,500 steps. The cross-attention grows into the other diagonal.",
    ),
}
"""The recipes that train in about a minute, by name: what they learn, and what is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What the cards of the welcome do."""

    open_model: Callable[[str], None]
    open_path: Callable[[str], None]
    train: Callable[[str], None]
    start_tour: Callable[[str], None]


class WelcomePanel(QScrollArea):
    """Two columns of cards; what was opened lately appears when there is something."""

    def __init__(
        self,
        session: Session,
        tours: TourState | None,
        recents: Recents,
        doors: Doors,
        palette: Palette,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._tours, self._recents, self._doors = session, tours, recents, doors
        self.tour_cards: dict[str, CardButton] = {}
        self.example_cards: dict[str, CardButton] = {}
        self.lesson_cards: dict[str, CardButton] = {}
        self.recent_cards: dict[str, CardButton] = {}
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._lay_out()
        if tours is not None:
            listen(self, tours, self._on_tours)
        listen(self, recents, lambda _name: self._show_recent())
        listen(self, session, self._on_session)
        self.set_theme(palette)
        self._on_tours("progress")
        self._show_recent()

    def set_theme(self, palette: Palette) -> None:
        """Take the size of type of another theme."""
        self._inner.setMaximumWidth(round(type_px(_WIDTH_PX)))

    def _lay_out(self) -> None:
        outer, self._inner = QWidget(), QWidget()
        centre = QVBoxLayout(outer)
        centre.setContentsMargins(24, 16, 24, 24)
        centre.addWidget(self._inner, 0)
        centre.addStretch(1)
        grid = QGridLayout(self._inner)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(32)
        grid.setVerticalSpacing(4)
        title = PlainLabel("See what attention does", "large")
        hint = PlainLabel(
            "Each tour works on the live window, ten short steps with the formula in numbers. "
            "Leave whenever you like: what you had open comes back.",
            "hint",
        )
        hint.setWordWrap(True)
        grid.addWidget(title, 0, 0, 1, 2)
        grid.addWidget(hint, 1, 0, 1, 2)
        grid.addWidget(self._tour_list(), 2, 0)
        right = QWidget()
        cards = column(right, spacing=4)
        self._add_examples(cards)
        self._add_lessons(cards)
        self._recent_title = _section("Recent")
        self._recent = QWidget()
        self._recent_column = column(self._recent, spacing=4)
        cards.addWidget(self._recent_title)
        cards.addWidget(self._recent)
        cards.addStretch(1)
        grid.addWidget(right, 2, 1)
        grid.setColumnStretch(0, 1)
        grid.setColumnStretch(1, 1)
        self.setWidget(outer)
        outer.setAutoFillBackground(False)

    def _tour_list(self) -> QWidget:
        parent = QWidget()
        cards = column(parent, spacing=4)
        cards.addWidget(_section("Tours"))
        for tour in self._tours.tours if self._tours is not None else ():
            card = CardButton(tour.title, tour.theme)
            card.clicked.connect(lambda _on=False, name=tour.name: self._doors.start_tour(name))
            cards.addWidget(card)
            self.tour_cards[tour.name] = card
        cards.addStretch(1)
        return parent

    def _add_examples(self, column: QVBoxLayout) -> None:
        column.addWidget(_section("Examples"))
        for name, words in EXAMPLES.items():
            card = CardButton(name, words.replace("`", ""))
            card.clicked.connect(lambda _on=False, name=name: self._doors.open_model(name))
            column.addWidget(card)
            self.example_cards[name] = card

    def _add_lessons(self, column: QVBoxLayout) -> None:
        column.addWidget(_section("Train a tiny model in one minute"))
        for name, (title, words) in LESSONS.items():
            card = CardButton(title, words)
            card.clicked.connect(lambda _on=False, name=name: self._doors.train(name))
            column.addWidget(card)
            self.lesson_cards[name] = card

    def _show_recent(self) -> None:
        while (item := self._recent_column.takeAt(0)) is not None:
            card = item.widget()
            if card is not None:
                card.deleteLater()
        self.recent_cards = {}
        recents, demos = self._recents, (*self._session.demo_models, *EXAMPLES)
        models = [path for path in recents.models if Path(path).name not in demos]
        for kind, paths in (("session", recents.sessions), ("run", recents.runs), ("model", models)):
            for path in paths[:_MAX_EACH]:
                shown = CardButton(shorten(plain_text(Path(path).name or path), 48), side=kind)
                shown.setToolTip(plain_tooltip(path))
                shown.clicked.connect(lambda _on=False, path=path: self._doors.open_path(path))
                self._recent_column.addWidget(shown)
                self.recent_cards[path] = shown
        self._recent_title.setVisible(bool(self.recent_cards))
        self._recent.setVisible(bool(self.recent_cards))

    def _on_session(self, name: str) -> None:
        if name == "ready":
            self._show_recent()

    def _on_tours(self, name: str) -> None:
        tours = self._tours
        if tours is not None and name in ("progress", "tour"):
            for tour in tours.tours:
                self.tour_cards[tour.name].set_side(progress_words(tour, tours.steps_seen(tour)))


def progress_words(tour: Tour, n_seen: int) -> str:
    """How far somebody is in a tour."""
    n_steps = len(tour.steps)
    if n_seen >= n_steps:
        return "✓ seen"
    return f"{n_seen} of {n_steps}" if n_seen else f"{n_steps} steps"


def _section(title: str) -> PlainLabel:
    label = PlainLabel(title, "section")
    label.setContentsMargins(0, 14, 0, 2)
    return label
