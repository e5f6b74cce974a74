"""The welcome of the Learn page: tours, examples, a tiny model to train, and recently opened items."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QGridLayout,
    QScrollArea,
    QSizePolicy,
    QStyle,
    QStyleOption,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from attnscope import labs
from attnscope.figures.style import plain_text, shorten, type_px
from attnscope.kept_models import kept_model, kept_names
from attnscope.viewmodels.session.opening import Recents
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.tours.touring import TourState
from attnscope.viewmodels.tours.tours import Tour
from attnscope.viewmodels.training.planning import seconds_text
from attnscope.viewmodels.training.recipe_text import offered_recipes
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, ground, plain_tooltip, tool_button, when

# A row or card that can be chosen: a title, a line or two below it, and a word at its right.


class CardButton(QAbstractButton):
    """Styled by its role `card` in the style sheet; Enter and Space choose it too."""

    def __init__(self, title: str, detail: str = "", side: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        ground(self, "card")
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.title, self.detail, self.side = (
            PlainLabel(title, "name"),
            PlainLabel(detail, "muted"),
            PlainLabel(),
        )
        self.side.set_role("muted")
        self.detail.setWordWrap(True)
        self._words = column(self.title, self.detail, spacing=2)
        side_part = (self.side, 0, Qt.AlignmentFlag.AlignTop)
        self._row = row((self._words, 1), side_part, on=self, margins=(12, 8, 12, 8), spacing=12)
        self.detail.setVisible(bool(detail))  # it has a parent now: shown earlier it were a window
        for label in (self.title, self.detail, self.side):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.set_side(side)

    def add_below(self, part: QWidget) -> None:
        """Put something below the words."""
        self._words.addWidget(part)
        self._words.addStretch(1)

    def set_side(self, text: str) -> None:
        """Set the text at the right."""
        self.side.say(text)
        parts = (self.title.text(), self.detail.text(), text)
        self.setAccessibleName(". ".join(part.rstrip(".") for part in parts if part))

    def sizeHint(self) -> QSize:
        return self._row.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self._row.minimumSize()

    def hasHeightForWidth(self) -> bool:
        """A card's height depends on its width where words wrap; one of a single line needs it too, or would
        get no height.
        """
        return self._row.hasHeightForWidth()

    def heightForWidth(self, width: int) -> int:
        return self._row.heightForWidth(width)

    def keyPressEvent(self, event: object) -> None:
        key = event.key()  # type: ignore[attr-defined]
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)  # type: ignore[arg-type]

    def paintEvent(self, event: QPaintEvent) -> None:
        option = QStyleOption()
        option.initFrom(self)
        with QPainter(self) as painter:
            self.style().drawPrimitive(QStyle.PrimitiveElement.PE_Widget, option, painter, self)


# One tour as a card: what it is about, how far somebody is, and where there is room, its steps.


class TourCard(CardButton):
    """A click begins the tour or continues it; `step_wanted` carries the step clicked, from 0."""

    step_wanted = Signal(int)

    def __init__(self, tour: Tour, parent: QWidget | None = None) -> None:
        super().__init__(tour.title, tour.theme, parent=parent)
        self._tour = tour
        self._n_seen, self._n_columns = 0, 0
        self.steps: list[QToolButton] = []
        self._list = QWidget()
        self._grid = QGridLayout(self._list)
        self._grid.setContentsMargins(0, 4, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(0)
        self._list.hide()
        self.add_below(self._list)

    def show_seen(self, n_seen: int) -> None:
        """Show the progress."""
        self._n_seen = n_seen
        self.set_side(tour_progress(self._tour, n_seen))
        for k, step in enumerate(self.steps):
            step.setText(self._line(k))

    def show_steps(self, n_columns: int) -> None:
        """List the steps in so many columns; 0 lists none."""
        if n_columns == self._n_columns:
            return
        self._n_columns = n_columns
        if n_columns and not self.steps:
            self._make_steps()
        n_rows = -(-len(self.steps) // max(n_columns, 1))
        for k, step in enumerate(self.steps):
            self._grid.addWidget(step, k % n_rows, k // n_rows, Qt.AlignmentFlag.AlignLeft)
        for k in range(2):
            self._grid.setColumnStretch(k, int(k < n_columns))
        self._list.setVisible(n_columns > 0)
        self.updateGeometry()

    def _make_steps(self) -> None:
        for k, step in enumerate(self._tour.steps):
            button = tool_button(
                self._line(k), f"{self._tour.title}, step {k + 1}: {step.title}", role="line"
            )
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # by key, the arrows walk the tour
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(lambda _on=False, k=k: self.step_wanted.emit(k))
            self.steps.append(button)

    def _line(self, k: int) -> str:
        mark = "✓" if k < self._n_seen else f"{k + 1}"
        return f"{mark:\u2007>2}  {self._tour.steps[k].title}"  # padded as wide as a digit


def tour_progress(tour: Tour, n_seen: int) -> str:
    """Progress in a tour, in words."""
    n_steps = len(tour.steps)
    if n_seen >= n_steps:
        return "✓ seen"
    return f"{n_seen} of {n_steps}" if n_seen else f"{n_steps} steps"


_COLUMN_PX, _WIDEST_PX, _BETWEEN_PX, _MAX_EACH = 480, 580, 32, 3
_TWO_PX = 690
"""The width below which cards in two columns would be cut off."""
_AROUND_PX, _LABS_PX = 170, 880
"""The height of what stands above the tours and below them; from which the labs are listed too."""
_LAB_COLUMNS = 3
_STEPS_PX = {1: 270, 2: 160}
"""The height of a tour's card with its steps in so many columns."""
LESSONS = {
    "copy": ("Copy a row of letters", "1,000 steps. The cross-attention grows into a diagonal."),
    "reverse": (
        "Reverse a row of letters",
        "1,500 steps. The cross-attention grows into the anti-diagonal.",
    ),
    "pictures": (
        "Recognise drawn shapes",
        "360 steps. A small Vision Transformer; its attention lies over the picture.",
    ),
}
"""Some of the smallest recipes, by name: what they learn, and what is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Actions of the welcome cards."""

    open_model: Callable[[str], None]
    open_path: Callable[[str], None]
    train: Callable[[str], None]
    start_tour: Callable[[str, int | None], None]
    show_lab: Callable[[str], None]


class WelcomePanel(QScrollArea):
    """One to four columns of cards; recently opened items appear if there are any.

    In a high window the tours list their steps; in a high and wide one the labs are listed too.
    """

    def __init__(
        self,
        session: Session,
        training: TrainingState,
        tours: TourState,
        recents: Recents,
        doors: Doors,
    ) -> None:
        super().__init__()
        self._session, self._tours, self._recents, self._doors = session, tours, recents, doors
        self._training = training
        self.tour_cards: dict[str, TourCard] = {}
        self.lab_cards: dict[str, CardButton] = {}
        self.example_cards: dict[str, CardButton] = {}
        self.lesson_cards: dict[str, CardButton] = {}
        self.recent_cards: dict[str, CardButton] = {}
        self._n_columns, self._has_labs = 0, False
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its cards have it, and are scrolled to
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._lay_out()
        when(self, self._show_seen, tours.changed.progress, tours.changed.tour)
        when(self, self._show_recent, recents.changed, session.changed.ready)
        when(self, self._show_times, training.planning.times.changed)
        self._fit()
        self._show_seen()
        self._show_recent()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._order()  # coming into the window changed it
        lessons = [recipe for recipe in offered_recipes() if recipe.name in self.lesson_cards]
        training = self._training
        training.planning.times.ask(lessons, training.place.device, training.place.folder)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._arrange()
            self._fit()

    def _lay_out(self) -> None:
        outer, self._inner = QWidget(), QWidget()
        column(self._inner, None, on=outer, margins=(24, 16, 24, 24), spacing=-1)
        self._grid = QGridLayout(self._inner)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(_BETWEEN_PX)
        self._grid.setVerticalSpacing(4)
        self._title = PlainLabel("See what attention does", "large")
        self._hint = PlainLabel(
            "Each tour runs in the live window: about ten short steps with the formula in numbers. "
            "When you leave, you get back what you had open.",
            "hint",
        )
        self._hint.setWordWrap(True)
        self._tour_box, self._right, self._last, self._labs = QWidget(), QWidget(), QWidget(), QWidget()
        self._lab_grid = QGridLayout(self._labs)
        self._add_labs()
        self._labs.hide()
        self._tour_grid = QGridLayout(self._tour_box)
        self._tour_grid.setContentsMargins(0, 0, 0, 0)
        self._tour_grid.setHorizontalSpacing(_BETWEEN_PX)
        self._tour_grid.setVerticalSpacing(4)
        self._make_tour_cards()
        cards, self._last_column = column(on=self._right, spacing=4), column(on=self._last, spacing=4)
        self._add_examples(cards)
        cards.addStretch(1)
        self._add_lessons(self._last_column)
        self._recent_title = _section("Recent")
        self._recent = QWidget()
        self._recent_column = column(on=self._recent, spacing=4)
        self._last_column.addWidget(self._recent_title)
        self._last_column.addWidget(self._recent)
        self._last_column.addStretch(1)
        self._arrange()
        self.setWidget(outer)
        outer.setAutoFillBackground(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Use as many columns of cards as fit; lines stay readable."""
        fitting = (self.viewport().width() - 48 + _BETWEEN_PX) // (round(type_px(_COLUMN_PX)) + _BETWEEN_PX)
        n_columns = min(max(fitting, 2), 4) if self.viewport().width() >= type_px(_TWO_PX) else 1
        n_tours = max(n_columns - 1 - (n_columns > 3), 1)
        self._show_steps(n_tours)
        has_labs = n_columns > 2 and self.viewport().height() >= type_px(_LABS_PX)
        if (n_columns, has_labs) == (self._n_columns, self._has_labs):
            return
        self._n_columns, self._has_labs = n_columns, has_labs
        for part in (self._title, self._hint, self._tour_box, self._right, self._last, self._labs):
            self._grid.removeWidget(part)
        self._tour_grid.removeWidget(self._labs)
        self._grid.addWidget(self._title, 0, 0, 1, n_columns)
        self._grid.addWidget(self._hint, 1, 0, 1, n_columns)
        is_apart, is_single, is_double = n_columns > 3 and not has_labs, n_columns == 1, n_columns == 2
        self._labs.setVisible(has_labs)
        if has_labs and n_columns > 3:
            self._grid.addWidget(self._labs, 2, n_tours + 1, 3, 1)
        if has_labs:
            self._place_labs(1 if n_columns > 3 else _LAB_COLUMNS)
        is_short = is_apart or is_single or is_double
        self._grid.addWidget(self._tour_box, 2, 0, 1 if is_short else 3, n_tours)
        beside = 0 if is_single else n_tours
        self._grid.addWidget(self._right, 2 + is_single, beside, 3 if is_double else 1, 1)
        below = 0 if is_double else beside + is_apart
        self._grid.addWidget(self._last, (2 if is_apart else 3) + is_single, below)
        self._grid.setRowStretch(4, 1)
        for k in range(4):
            self._grid.setColumnStretch(k, int(k < n_columns))
        cards = list(self.tour_cards.values())
        n_rows = -(-len(cards) // n_tours) if cards else 0
        for k, card in enumerate(cards):
            self._tour_grid.addWidget(card, 1 + k % n_rows, k // n_rows)
        for k in range(2):
            self._tour_grid.setColumnStretch(k, int(k < n_tours))
        if has_labs and n_columns == 3:
            self._tour_grid.addWidget(self._labs, n_rows + 1, 0, 1, n_tours)
        self._tour_grid.setRowStretch(len(cards) + 1, 1)
        self._order()
        self._fit()

    def _order(self) -> None:
        """Set the Tab order to the reading order: the tours first."""
        of_last = (self.lesson_cards, self.recent_cards)
        is_double = self._n_columns == 2  # what is under the tours comes before what is beside them
        beside = (*of_last, self.example_cards) if is_double else (self.example_cards, *of_last)
        rest = (self.lab_cards, *beside) if self._n_columns == 3 else (*beside, self.lab_cards)
        groups = (self.tour_cards, *rest)
        cards = [card for group in groups for card in group.values() if card.window() is self.window()]
        for before, after in pairwise(cards):
            self.setTabOrder(before, after)

    def _show_steps(self, n_tours: int) -> None:
        """List the steps of each tour if there is room."""
        room = self.viewport().height() - type_px(_AROUND_PX)
        n_rows = -(-len(self.tour_cards) // n_tours)
        fitting = (n for n, height in _STEPS_PX.items() if n_rows * type_px(height) <= room)
        n_columns = next(fitting, 0)
        for card in self.tour_cards.values():
            card.show_steps(n_columns)

    def _fit(self) -> None:
        widest = round(type_px(_WIDEST_PX)) + _BETWEEN_PX
        self._inner.setMaximumWidth(self._n_columns * widest - _BETWEEN_PX)

    def _make_tour_cards(self) -> None:
        self._tour_grid.addWidget(_section("Tours"), 0, 0)
        for tour in self._tours.tours:
            card = TourCard(tour)
            card.clicked.connect(lambda _on=False, name=tour.name: self._doors.start_tour(name, None))
            card.step_wanted.connect(partial(self._doors.start_tour, tour.name))
            self.tour_cards[tour.name] = card

    def _add_examples(self, column: QVBoxLayout) -> None:
        column.addWidget(_section("Examples"))
        for kept in map(kept_model, kept_names()):
            card = CardButton(kept.name, kept.shows.replace("`", ""))
            card.set_side("" if not kept.lacks else kept.lacks.split(",")[0])
            card.setToolTip(plain_tooltip(kept.lacks))
            card.clicked.connect(lambda _on=False, name=kept.name: self._doors.open_model(name))
            column.addWidget(card)
            self.example_cards[kept.name] = card

    def _add_lessons(self, column: QVBoxLayout) -> None:
        column.addWidget(_section("Train a tiny model"))
        for name, (title, words) in LESSONS.items():
            card = CardButton(title, words)
            card.clicked.connect(lambda _on=False, name=name: self._doors.train(name))
            column.addWidget(card)
            self.lesson_cards[name] = card

    def _add_labs(self) -> None:
        """Add every lab; `_place_labs` arranges them."""
        grid = self._lab_grid
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        grid.addWidget(_section("Labs"), 0, 0, 1, _LAB_COLUMNS)
        for entry in labs.LABS.values():
            card = CardButton(entry.name, entry.shows)
            card.setToolTip(plain_tooltip(entry.shows))
            card.clicked.connect(lambda _on=False, name=entry.name: self._doors.show_lab(name))
            self.lab_cards[entry.name] = card

    def _place_labs(self, n_columns: int) -> None:
        """Place the labs in one column with descriptions, or in several without."""
        cards = list(self.lab_cards.values())
        n_rows = -(-len(cards) // n_columns)
        for k, card in enumerate(cards):
            self._lab_grid.addWidget(card, 1 + k % n_rows, k // n_rows)
            card.detail.setVisible(n_columns == 1)
        for k in range(_LAB_COLUMNS):
            self._lab_grid.setColumnStretch(k, int(k < n_columns))
        self._lab_grid.setRowStretch(len(cards) + 1, 1)

    def _show_times(self) -> None:
        """Show the expected time of the lessons here, as on the Train page."""
        for name, plan in self._training.planning.times.plans.items():
            if name in self.lesson_cards:
                self.lesson_cards[name].set_side(seconds_text(plan))
                self.lesson_cards[name].setToolTip(plain_tooltip(plan.pace.words if plan.pace else ""))

    def _show_recent(self) -> None:
        while (item := self._recent_column.takeAt(0)) is not None:
            card = item.widget()
            if card is not None:
                card.deleteLater()
        self.recent_cards = {}
        recents, demos = self._recents, (*self._session.demo_models, *self.example_cards)
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
        self._order()

    def _show_seen(self) -> None:
        for tour in self._tours.tours:
            self.tour_cards[tour.name].show_seen(self._tours.steps_seen(tour))


def _section(title: str) -> PlainLabel:
    label = PlainLabel(title, "section")
    label.setContentsMargins(0, 14, 0, 2)
    return label
