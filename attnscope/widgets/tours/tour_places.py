"""The parts of the window that a tour points at, and the tabs and labs it turns to, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from PySide6.QtWidgets import QPushButton, QWidget

from attnscope.figures.style import type_px
from attnscope.labs.lab import LabWords
from attnscope.viewmodels.session.file import LookSaved
from attnscope.viewmodels.tours.tours import Point
from attnscope.viewmodels.view_state import Part, ViewState
from attnscope.widgets.side_tabs import SideTabs
from attnscope.widgets.training.recipe_editor import RecipeEditor
from attnscope.widgets.training.run_panel import RunPanel
from attnscope.widgets.training.watch_panel import WatchPanel
from attnscope.widgets.window.pages import Pages

LEAST_PX, _AROUND_PX, _SLACK_PX, _TWO_HALVES_PX = 300, 80, 16, 800
"""The height that what is pointed at has at least; what stands around a picture in its panel; how much higher
the tour's bar may become for its words; from which the curves and the maps of Train have room both."""
_HALVES: Mapping[Point | None, Part] = {"watch": "curves", "run-curves": "watch"}
"""What goes on Train for what is pointed at."""
_HEADS: frozenset[Point] = frozenset({"head", "steps", "query"})
_TEXTS: frozenset[Point] = frozenset({"text", "tokens"})
Find = Callable[[], QWidget | None]


class WindowPlaces:
    """Knows the pages of one window; every place is looked for anew, since parts are made when first seen."""

    def __init__(self, pages: Pages, page_bar: QWidget, view: ViewState) -> None:
        self._pages, self._page_bar, self._view = pages, page_bar, view

    def show_tab(self, page: str, tab: str) -> None:
        """Bring a tab of a page to the front; raises KeyError for one there is not."""
        self._tabs()[page].show_panel(tab)

    def shown_tab(self, page: str) -> str:
        """The tab in front, empty for a page without tabs."""
        tabs = self._tabs().get(page)
        found = (name for name, tab in tabs.tabs.items() if tab.isChecked()) if tabs else iter(())
        return next(found, "")

    def show_lab(self, name: str) -> None:
        """Turn to a lab; raises KeyError for one there is not."""
        self._pages.labs.show_lab(name)

    @property
    def look(self) -> LookSaved:
        """How things are shown now: also the tab in front, the lab with what is set in it, inside a head."""
        look = replace(self._view.look, tab=self.shown_tab(self._view.page))
        labs, inside = self._pages.labs, self._pages.explore.head_panel.inside
        if look.page == "labs":
            return replace(look, lab=labs.shown, lab_values=labs.values())
        if look.view == "inside":
            return replace(look, step=inside.state.step, query=inside.state.query)
        return look

    def show_look(self, look: LookSaved) -> None:
        """Bring the tab, the lab and the inside of a head back; what there is not any more is left."""
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
        """What the lab that is shown says; None when it says nothing."""
        lab = self._lab()
        words = getattr(getattr(getattr(lab, "lab", None), "shown", None), "words", None)
        return words if isinstance(words, LabWords) else None

    def widget(self, point: Point) -> QWidget | None:
        """The part of the window with a name; None while there is none."""
        return self._found()[point]()

    def make_room(self, point: Point | None) -> None:
        """In a low window fold what is not pointed at on Explore and Train; None: bring all of it back."""
        match self._view.page:
            case "explore" if point is not None:
                self._view.fold(self._folded(point))
            case "train" if point in _HALVES and self._pages.training.height() < type_px(_TWO_HALVES_PX):
                self._view.fold(frozenset({_HALVES[point]}))
            case _:
                self._view.fold(frozenset())

    def _folded(self, point: Point) -> frozenset[Part]:
        """What must go so that the part pointed at has `LEAST_PX` of height."""
        explore, centre = self._pages.explore, self._pages.parentWidget()
        layout = centre.layout() if centre is not None else None
        if layout is not None:
            layout.activate()  # the tour's bar may have come just now
        room, folded = explore.height(), set[Part]()
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
        from attnscope.widgets.positions.offset_plots import OffsetPlots

        return self._pages.positions.findChild(OffsetPlots)

    def _start_button(self) -> QWidget | None:
        panel = self._pages.training.findChild(RunPanel)
        buttons = panel.findChildren(QPushButton) if panel is not None else []
        return next((button for button in buttons if button.isDefault()), None)
