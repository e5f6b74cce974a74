"""Places that the command palette finds by a word besides commands: tabs, views of encodings, recipes."""

from collections.abc import Callable, Iterable
from pathlib import Path

from attnscope.errors import LoadError, UserError
from attnscope.figures.views import VIEWS
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.states import States
from attnscope.viewmodels.training.recipe_text import (
    RecipeFile,
    offered_recipes,
    read_recipe_text,
    words_of_recipe,
)
from attnscope.viewmodels.view_state import Page, ViewState
from attnscope.widgets.form_parts import SideTabs
from attnscope.widgets.offers import Offer
from attnscope.widgets.training.cost_bar import COST_TABS
from attnscope.widgets.training.inspections_view import INSIDE_VIEWS
from attnscope.widgets.training.page import INSIDE
from attnscope.widgets.window.pages import Pages

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
    """Offers what is on the pages of one window; the recipes' texts are read once, when first asked for."""

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
