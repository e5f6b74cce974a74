"""Places of the window by name: the targets of tours, and the places found by the palette."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent, QTextDocument
from PySide6.QtWidgets import QAbstractButton, QFrame, QPushButton, QSizePolicy, QTextBrowser, QWidget

from attnscope.errors import LoadError, UserError
from attnscope.figures.style import LARGE_PX, font, isolated, plain_text, type_px
from attnscope.figures.views import VIEWS
from attnscope.labs.lab import LabWords
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.session.file import LookSaved
from attnscope.viewmodels.states import States
from attnscope.viewmodels.tours.touring import TourState
from attnscope.viewmodels.tours.tours import PLACEHOLDER, Point
from attnscope.viewmodels.training.recipe_text import (
    RecipeFile,
    offered_recipes,
    read_recipe_text,
    words_of_recipe,
)
from attnscope.viewmodels.view_state import Page, PagePart, ViewState
from attnscope.widgets.command_palette import Offer
from attnscope.widgets.form_parts import FormulaLabel, SideTabs, column, row
from attnscope.widgets.labels import PlainLabel, ground, named, tool_button, when
from attnscope.widgets.theme import Dressed, icon
from attnscope.widgets.training.charts import INSIDE_VIEWS
from attnscope.widgets.training.page import INSIDE
from attnscope.widgets.training.recipe_editor import COST_TABS, RecipeEditor
from attnscope.widgets.training.run_panel import RunPanel
from attnscope.widgets.training.watch_panel import WatchPanel
from attnscope.widgets.window.pages import Pages

LEAST_PX, _AROUND_PX, _SLACK_PX, _TWO_HALVES_PX = 300, 80, 16, 800
"""The height that what is pointed at has at least; what stands around a picture in its panel; how much higher
the tour's bar may become for its words; from which the curves and the maps of Train have room both."""
_HALVES: Mapping[Point | None, PagePart] = {"watch": "curves", "run-curves": "watch"}
"""Parts folded on Train to show the target."""
_HEADS: frozenset[Point] = frozenset({"head", "steps", "query"})
_TEXTS: frozenset[Point] = frozenset({"text", "tokens"})
Find = Callable[[], QWidget | None]


class WindowPlaces:
    """Knows the pages of one window; every place is looked up anew, since parts are created on first use."""

    def __init__(self, pages: Pages, page_bar: QWidget, view: ViewState) -> None:
        self._pages, self._page_bar, self._view = pages, page_bar, view

    def show_tab(self, page: str, tab: str) -> None:
        """Bring a tab of a page to the front; raises KeyError for an unknown one."""
        self._tabs()[page].show_panel(tab)

    def shown_tab(self, page: str) -> str:
        """The tab in front, empty for a page without tabs."""
        tabs = self._tabs().get(page)
        found = (name for name, tab in tabs.tabs.items() if tab.isChecked()) if tabs else iter(())
        return next(found, "")

    def show_lab(self, name: str) -> None:
        """Switch to a lab; raises KeyError for an unknown one."""
        self._pages.labs.show_lab(name)

    @property
    def look(self) -> LookSaved:
        """The current look, with the tab in front, the lab with its settings, and the inside of a head."""
        look = replace(self._view.look, tab=self.shown_tab(self._view.page))
        labs, inside = self._pages.labs, self._pages.explore.head_panel.inside
        if look.page == "labs":
            return replace(look, lab=labs.shown, lab_values=labs.values())
        if look.view == "inside":
            return replace(look, step=inside.state.step, query=inside.state.query)
        return look

    def show_look(self, look: LookSaved) -> None:
        """Restore the tab, the lab and the inside of a head; missing ones are ignored."""
        tabs = self._tabs().get(look.page)
        if tabs is not None and look.tab in tabs.tabs:
            tabs.show_panel(look.tab)
        labs = self._pages.labs
        if look.page == "labs" and look.lab in {entry.name for entry in labs.entries}:
            labs.show_lab(look.lab)
            labs.take_values(look.lab_values)
        inside = self._pages.explore.head_panel.inside
        if look.view == "inside" and look.step:
            inside.state.bring_back(look.step, look.query)

    def lab_words(self) -> LabWords | None:
        """Words of the lab shown; None if it has none."""
        lab = self._lab()
        words = getattr(getattr(getattr(lab, "lab", None), "shown", None), "words", None)
        return words if isinstance(words, LabWords) else None

    def widget(self, point: Point) -> QWidget | None:
        """The part of the window with a name; None if there is none."""
        return self._found()[point]()

    def make_room(self, point: Point | None) -> None:
        """In a low window, fold other parts of Explore and Train than the target; None: restore them."""
        match self._view.page:
            case "explore" if point is not None:
                self._view.fold(self._folded(point))
            case "train" if point in _HALVES and self._pages.training.height() < type_px(_TWO_HALVES_PX):
                self._view.fold(frozenset({_HALVES[point]}))
            case _:
                self._view.fold(frozenset())

    def _folded(self, point: Point) -> frozenset[PagePart]:
        """Parts to fold so that the part pointed at has `LEAST_PX` of height."""
        explore, centre = self._pages.explore, self._pages.parentWidget()
        layout = centre.layout() if centre is not None else None
        if layout is not None:
            layout.activate()  # the tour's bar may have come just now
        room, folded = explore.height(), set[PagePart]()
        bars = explore.text_bar.sizeHint().height() + explore.aspect_bar.sizeHint().height()
        if point not in _TEXTS and room - bars - round(type_px(_AROUND_PX)) < LEAST_PX:
            folded |= {"texts", "looks", "grid"} if point in _HEADS else {"texts", "looks"}
        if any(part.parentWidget() is not explore.side for part in (explore.inspector, explore.answers)):
            return frozenset(folded)  # one of them has a window of its own
        answers = max(explore.answers.minimumHeight(), explore.answers.minimumSizeHint().height())
        answers = max(answers, LEAST_PX + _SLACK_PX) if point == "answers" else answers
        inspector = explore.inspector
        if room < inspector.least_height(has_measures=True) + answers and point != "inspector":
            folded.add("measures")
        if room < inspector.least_height(has_measures=point == "inspector") + answers:
            folded.add("inspector" if point == "answers" else "answers")
        return frozenset(folded)

    def _tabs(self) -> Mapping[str, SideTabs]:
        return {"heads": self._pages.heads_tabs.tabs, "explore": self._pages.explore.answers}

    def _lab(self) -> QWidget | None:
        labs = self._pages.labs
        return labs.labs.get(labs.shown)

    def _found(self) -> Mapping[Point, Find]:
        pages = self._pages
        explore, heads = pages.explore, pages.heads
        return {
            "page": self._page,
            "text": lambda: explore.text_bar,
            "tokens": lambda: explore.text_bar.source_strip,
            "grid": lambda: explore.grid_panel,
            "head": lambda: explore.head_panel,
            "inspector": lambda: explore.inspector,
            "gate": lambda: explore.inspector.gate,
            "answers": lambda: explore.answers,
            "steps": lambda: explore.head_panel.inside,
            "query": lambda: explore.head_panel.inside.chooser,
            "table": lambda: heads.table,
            "measure": lambda: heads.run_button,
            "card": lambda: heads.card,
            "curves": lambda: pages.heads_tabs.pruning,
            "run-curves": self._run_curves,
            "recipe": lambda: pages.training.findChild(RecipeEditor),
            "start": self._start_button,
            "watch": lambda: pages.training.findChild(WatchPanel),
            "run": lambda: pages.training.findChild(RunPanel),
            "schemes": lambda: pages.positions,
            "positions": lambda: pages.positions,
            "offsets": self._offsets,
            "lab": self._lab,
            "lab-side": lambda: getattr(self._lab(), "words", None),
            "lab-list": lambda: pages.labs.side,
            "page-bar": lambda: self._page_bar,
        }

    def _page(self) -> QWidget | None:
        return self._pages.currentWidget()

    def _run_curves(self) -> QWidget | None:
        from attnscope.widgets.training.curves_view import CurvesView

        return self._pages.training.findChild(CurvesView)

    def _offsets(self) -> QWidget | None:
        from attnscope.widgets.charts import OffsetPlots

        return self._pages.positions.findChild(OffsetPlots)

    def _start_button(self) -> QWidget | None:
        panel = self._pages.training.findChild(RunPanel)
        buttons = panel.findChildren(QPushButton) if panel is not None else []
        return next((button for button in buttons if button.isDefault()), None)


# Text of the program's own files with a little emphasis, never what a stranger wrote read as markup.

WAITING, LACKING = "…", "–"
_STRONG, _CODE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`(.+?)`")
_STRESSED = re.compile(r"\*(.+?)\*")


def with_numbers(text: str, numbers: Mapping[str, str | None], *, is_waiting: bool = False) -> str:
    """The text with its numbers, plain; `…` for pending ones, `–` for missing ones.

    Numbers of several lines stay in lines.
    """
    empty = WAITING if is_waiting else LACKING

    def value(found: re.Match[str]) -> str:
        shown = numbers.get(found[1])
        return (
            "\n".join(isolated(plain_text(line)) for line in shown.split("\n"))
            if shown is not None
            else empty
        )

    return PLACEHOLDER.sub(value, text)


def html_of(text: str, numbers: Mapping[str, str | None], *, is_waiting: bool = False) -> str:
    """The text as HTML, its numbers strong."""
    empty = WAITING if is_waiting else LACKING
    shown = html.escape(text)
    shown = _STRONG.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", shown))
    shown = _STRESSED.sub(r"<i>\1</i>", shown)

    def value(found: re.Match[str]) -> str:
        value = numbers.get(found[1])
        return f"<b>{html.escape(isolated(plain_text(value)))}</b>" if value is not None else empty

    shown = PLACEHOLDER.sub(value, shown)
    return "".join(f"<p style='margin:0 0 6px 0'>{p}</p>" for p in re.split(r"\n\s*\n", shown))


class RichText(QTextBrowser):
    """A text without a frame, as high as its content."""

    def __init__(self, size_px: int) -> None:
        super().__init__()
        self._size_px, self._html = size_px, ""
        self._measured = QTextDocument(self)  # PySide never frees a clone of the document
        self._measured.setDefaultTextOption(self.document().defaultTextOption())
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setProperty("role", "reading")
        for document in (self.document(), self._measured):
            document.setDocumentMargin(0)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_size()

    def set_size(self) -> None:
        """Use the theme's size of type."""
        for document in (self.document(), self._measured):
            document.setDefaultFont(font(self._size_px))
        self._fit()

    def set_html(self, text: str) -> None:
        """Show another text."""
        if text != self._html:
            self._html = text
            self.setHtml(text)
            self._measured.setHtml(text)
            self._fit()

    def sizeHint(self) -> QSize:
        return QSize(320, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self._height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._fit()

    def _fit(self) -> None:
        if self.height() != self._height():
            self.setFixedHeight(self._height())

    def _height(self) -> int:
        self._measured.setTextWidth(max(self.viewport().width(), 120))
        return round(self._measured.size().height()) + 2


_TEXT_PX, _SIDE_PX, _LEAST_PX = 680, 520, 146


class TourPanel(Dressed):
    """Shows a TourState.

    Right and Enter go on, Left goes back, Esc leaves, while the panel has the focus.
    """

    def __init__(self, state: TourState, view: ViewState) -> None:
        super().__init__()
        self._state, self._view = state, view
        ground(self, "panel", edge="top")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.place = PlainLabel(role="section")
        self.title = PlainLabel(role="large")
        self.text = RichText(13)
        self.formula = FormulaLabel(LARGE_PX - 3)
        self.task = PlainLabel(wraps=True)
        self.do_button = named(QPushButton("Do it for me"), "Do this step for me")
        self.doing = PlainLabel(role="muted")
        self.back_button = named(QPushButton("Back"), tip="Previous step (←)")
        self.next_button = QPushButton("Next")
        self.keep_button = tool_button(
            "Stop here and keep this view", "Stop the tour here and keep what is shown", role="flat"
        )
        self.leave_button = tool_button("", "Leave the tour", role="flat")
        self._lay_out()
        self._connect()
        self.dress()
        self._show_tour()
        self._show_step()

    def dress(self) -> None:
        self.leave_button.setIcon(icon("close", self.theme.muted, side_px=16))
        self.text.set_size()
        self.setMinimumHeight(round(type_px(_LEAST_PX)))
        self._left.setMaximumWidth(round(type_px(_TEXT_PX)))
        self._middle.setMaximumWidth(round(type_px(_SIDE_PX)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Right | Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._state.next()
            case Qt.Key.Key_Left:
                self._state.back()
            case Qt.Key.Key_Escape:
                self._state.leave()
            case _:
                super().keyPressEvent(event)

    # Building

    def _lay_out(self) -> None:
        self._left, self._middle, self._asked = QWidget(), QWidget(), QWidget()
        column(self.title, self.text, None, on=self._left, spacing=4)
        row((self.task, 1), self.do_button, on=self._asked, margins=(0, 4, 0, 0), spacing=-1)
        column(self.doing, self.formula, self._asked, None, on=self._middle, spacing=4)
        low = Qt.AlignmentFlag.AlignBottom
        top = row((self.place, 1), self.keep_button, self.leave_button)
        way = row((self.back_button, 0, low), (self.next_button, 0, low))
        body = row((self._left, 5), (self._middle, 4), way, spacing=32)
        column(top, (body, 1), on=self, margins=(16, 4, 12, 12), spacing=2)

    def _connect(self) -> None:
        state = self._state
        self.back_button.clicked.connect(state.back)
        self.next_button.clicked.connect(state.next)
        self.do_button.clicked.connect(state.do_task)
        self.leave_button.clicked.connect(lambda: state.leave())
        self.keep_button.clicked.connect(lambda: state.leave(is_keeping=True))
        self.next_button.setDefault(True)
        self.leave_button.setToolTip("Leave the tour and restore what was open before (Esc)")
        self.keep_button.setToolTip("Leave the tour and keep what is shown now")
        for button in self.findChildren(QAbstractButton):
            button.installEventFilter(self)
        when(self, self._show_tour, state.changed.tour)
        when(self, self._show_step, state.changed.tour, state.changed.step, state.changed.numbers)

    def eventFilter(self, watched: object, event: object) -> bool:
        """The arrow keys walk the tour from its buttons too."""
        if not isinstance(event, QKeyEvent):
            return False
        if event.type() == QKeyEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape:
            if not self._view.is_presenting:
                event.accept()  # here Esc leaves the tour, whatever else it would stop or dismiss
            return True
        if event.type() != QKeyEvent.Type.KeyPress:
            return False
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and isinstance(watched, QAbstractButton):
            watched.click()
            return True
        if event.key() in (Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Escape):
            self.keyPressEvent(event)
            return True
        return False

    # Showing

    def _show_tour(self) -> None:
        self.setVisible(self._state.is_on)
        if self._state.is_on:
            self.next_button.setFocus()

    def _show_step(self) -> None:
        state = self._state
        tour, step = state.tour, state.step
        if step is None:
            return
        numbers, is_waiting = state.numbers, state.phase == "moving"
        self.place.setText(f"{tour.title}  ·  step {state.index + 1} of {len(tour.steps)}")
        self.title.setText(step.title)
        self.text.set_html(html_of(step.text, numbers, is_waiting=is_waiting))
        self.formula.set_formulas(*with_numbers(step.formula, numbers, is_waiting=is_waiting).split("\n"))
        self.formula.setVisible(bool(step.formula))
        self._asked.setVisible(step.ask is not None)
        tick = "✓ " if state.is_task_done else ""
        self.task.setText(f"{tick}{with_numbers(step.task, numbers, is_waiting=is_waiting)}")
        self.task.set_role("good" if state.is_task_done else "name")
        self.do_button.setVisible(not state.is_task_done)
        self.do_button.setEnabled(state.phase == "shown")
        self.doing.set_role("error" if state.error else "muted")
        self.doing.setText(state.error or (f"{state.doing}…" if state.doing else ""))
        self.doing.setWordWrap(bool(state.error))
        self.back_button.setEnabled(state.index > 0)
        self.next_button.setText("Finish" if state.is_last else "Next")
        self.next_button.setToolTip(
            "Finish the tour and restore what was open before" if state.is_last else "Next step (→, Enter)"
        )
        self._say(with_numbers(step.text, numbers, is_waiting=is_waiting))

    def _say(self, text: str) -> None:
        """Announce it to screen readers."""
        self.setAccessibleName(f"{self.place.text()}: {self.title.text()}")
        spoken = text.replace("*", "").replace("`", "")
        self.setAccessibleDescription(f"{spoken} {self.formula.text()} {self.task.text()}".strip())
        self.next_button.setAccessibleDescription(self.accessibleDescription())


_TAB_SEARCH: dict[tuple[Page, str], str] = {
    ("heads", "Weights"): "rank of heads redundancy low rank Cordonnier 2020 singular values QK OV",
    ("heads", "Alike"): "redundancy redundant heads Clark 2019 Jensen-Shannon",
    (
        "heads",
        "Table",
    ): "roles of heads syntactic positional induction alignment error rate AER Voita 2019 Clark 2019",
    (
        "heads",
        "Pruning",
    ): "prune heads importance of heads Michel 2019 Voita 2019 are sixteen heads better than one",
    (
        "explore",
        "Write",
    ): "decoding greedy beam search sampling temperature top-k top-p nucleus Holtzman 2020",
    ("explore", "Across"): "attention flow graph relevance Abnar 2020 Chefer 2021 Jain 2019 Wiegreffe 2019",
    ("explore", "Causes"): "causal intervention activation patching ablation logit attribution saliency",
    ("train", "Curves"): "training loss curve validation loss accuracy learning curve perplexity",
}
"""Further words of lectures that find a tab."""


class PlacesOffered:
    """Offers the contents of one window's pages; the recipes' texts are read once, on first use."""

    def __init__(self, pages: Pages, states: States, view: ViewState) -> None:
        self._pages, self._states, self._view = pages, states, view
        self._recipes: dict[str, tuple[str, str]] = {}

    def offers(self) -> Iterable[Offer]:
        """Every tab, view of *Positions*, tab of *Cost* and recipe."""
        pages, training = self._pages, self._pages.training
        yield from self._tabs("explore", pages.explore.answers)
        yield from self._tabs("heads", pages.heads_tabs.tabs)
        yield from self._tabs("train", training.upper_tabs, left_out=INSIDE)
        yield from self._tabs("train", training.lower_tabs)
        for choice, (name, words) in INSIDE_VIEWS.items():
            yield self._offer("train", "Train", name, words, lambda c=choice: training.open_inside(c))  # type: ignore[misc]
        for name, words in COST_TABS.items():
            yield self._offer("train", "Cost", name, words, lambda name=name: training.open_cost(name))  # type: ignore[misc]
        positions = self._states.positions
        for name, kind in VIEWS.items():
            if kind.reads_positions:
                has_checks = kind.reads_checks

                def show(name: str = name, has_checks: bool = has_checks) -> None:
                    positions.show(name, has_checks=has_checks)

                yield self._offer(
                    "positions", "Positions", name.capitalize(), kind.words, show, search=kind.search
                )
        for recipe in offered_recipes():
            yield self._recipe(recipe)

    def _tabs(self, page: Page, tabs: SideTabs, *, left_out: str = "") -> Iterable[Offer]:
        for name, tab in tabs.tabs.items():
            if name == left_out:
                continue
            tip = tab.toolTip() if tab.toolTip() != tab.text() else ""
            yield self._offer(
                page,
                page.capitalize(),
                tab.text(),
                tip,
                lambda name=name: tabs.show_panel(name),  # type: ignore[misc]
                search=_TAB_SEARCH.get((page, name), ""),
                is_enabled=not tab.isHidden() or len(tabs.tabs) == 1,
            )

    def _offer(
        self,
        page: Page,
        place: str,
        name: str,
        words: str,
        show: Callable[[], None],
        *,
        search: str = "",
        is_enabled: bool = True,
    ) -> Offer:
        def run() -> None:
            self._view.show_page(page)
            show()

        title = f"{place}: {name}"
        item = Item(
            key=f"place:{title}",
            kind="page",
            title=title,
            detail=words,
            search=search,
            is_enabled=is_enabled,
        )
        return Offer(item=item, run=run)

    def _recipe(self, recipe: RecipeFile) -> Offer:
        about, whole = self._recipes.get(recipe.path) or self._read(recipe)
        item = Item(
            key=f"recipe:{recipe.name}",
            kind="recipe",
            title=f"Recipe: {recipe.name}",
            detail=about,
            search=whole,
            is_enabled=not self._states.training.run.is_active,
        )
        return Offer(item=item, run=lambda: self._open(recipe))

    def _read(self, recipe: RecipeFile) -> tuple[str, str]:
        try:
            words = words_of_recipe(read_recipe_text(Path(recipe.path)))
        except LoadError:
            words = ""
        self._recipes[recipe.path] = found = (words.partition(". ")[0].rstrip("."), words)
        return found

    def _open(self, recipe: RecipeFile) -> None:
        self._view.show_page("train")
        try:
            self._states.training.open_recipe(recipe.path)
        except UserError as error:
            self._states.session.notices.say(str(error), is_error=True)
