"""How things are shown: page, view, colours, scale, theme, and the item under the cursor.

None of it goes to the worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from psygnal import Signal, SignalGroup, SignalInstance

from attnscope.counting import number_text
from attnscope.records.sites import Axis, HeadRef, Scale, Site, Stack, axes_of
from attnscope.viewmodels.session.file import LookSaved

Page = Literal["explore", "compare", "heads", "positions", "train", "labs", "learn"]
_FORMER_PAGES = {"kernels": "labs"}
"""Former names of pages in sessions and settings."""
HeadViewKind = Literal["heatmap", "lines", "picture", "inside"]
Theme = Literal["system", "light", "dark", "projector"]
Side = Literal["source", "target"]
PagePart = Literal[
    "bars", "texts", "looks", "measures", "grid", "inspector", "answers", "list", "curves", "watch"
]
PRESENTED_WITHOUT: frozenset[PagePart] = frozenset({"bars", "texts", "looks", "measures", "list"})
"""Everything but the data, hidden while presenting."""

SCALES: dict[Scale, str] = {
    "fixed": "0 to 1",
    "head": "0 to the head's largest weight",
    "row": "0 to each row's largest weight",
}
THEMES: tuple[Theme, ...] = get_args(Theme)
THEME_NAMES: dict[Theme, str] = {
    "system": "like the system",
    "light": "light",
    "dark": "dark",
    "projector": "projector: large type, high contrast",
}
COLOUR_MAP_NAMES: dict[str, str] = {
    "viridis": "viridis",
    "cividis": "cividis, colour-blind friendly",
    "magma": "magma",
    "greys": "greys, for print",
    "diverging": "diverging",
}
SIZES: tuple[int, ...] = (80, 90, 100, 110, 125, 150, 175, 200, 250)
"""Sizes of type in percent."""
LEAST_WEIGHTS: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5)
STRONGEST: tuple[int, ...] = (0, 1, 2, 3, 5, 10)
LINES: dict[str, str] = {
    **{f"weight:{w:g}": f"weights from {w:g}" if w else "all visible ones" for w in LEAST_WEIGHTS},
    "strongest:1": "the strongest of each query",
    **{f"strongest:{n}": f"the {n} strongest of each query" for n in STRONGEST if n > 1},
}
"""Which lines are drawn, by `ViewState.lines`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Highlight:
    """The highlighted row (query) and column (key) of the shown head; None: none."""

    query: int | None = None
    key: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The cell under the cursor: both pieces and the weight, None if the mask or the user forbids it."""

    query: str
    key: str
    weight: float | None
    is_knocked_out: bool = False

    @property
    def sentence(self) -> str:
        """The cell in words, with four significant digits."""
        not_allowed = "knocked out" if self.is_knocked_out else "not allowed by the mask"
        value = not_allowed if self.weight is None else number_text(self.weight)
        return f"{self.query} → {self.key}  {value}"


NO_HIGHLIGHT = Highlight()


class ViewChanges(SignalGroup):
    """Signals of ViewState."""

    page = Signal()
    view = Signal()
    style = Signal()
    theme = Signal()
    position = Signal()
    enlarged = Signal()
    folded = Signal()
    hovered_head = Signal()
    highlight = Signal()
    cell = Signal()
    pointer = Signal()


class ViewState:
    """The user's choice of view, and the cursor; setting an unchanged value does nothing."""

    page: Page = "explore"
    view: HeadViewKind = "picture"
    """Of a model of text a picture is its heatmap; one that reads pictures is looked at over them first."""
    colour_map: str = "viridis"
    scale: Scale = "fixed"
    least_weight: float = 0.0
    n_strongest: int = 0
    theme: Theme = "system"
    size_percent: int = 100
    highlight: Highlight = NO_HIGHLIGHT
    cell: Cell | None = None
    pointer_text: str = ""
    position: int = 0
    is_enlarged: bool = False
    is_presenting: bool = False
    folded: frozenset[PagePart] = frozenset()
    """Parts folded by a tour; see `hides`."""
    hovered_head: HeadRef | None = None
    picture_query: int = 0
    """The token whose weights are laid over a picture; told by the view of it, for scripts."""

    def __init__(self) -> None:
        self.changed = ViewChanges()

    def show_page(self, page: Page) -> None:
        """Switch to another page; the cell under the cursor on the old one is cleared."""
        if page != self.page:
            self.set_cell(None)
            self.set_hovered_head(None)
            self.set_pointer_text("")
        self._set("page", page, self.changed.page)

    def show_view(self, view: HeadViewKind) -> None:
        """Show the selected heads as a heatmap or as lines, one over a picture, or the inside of one."""
        self._set("view", view, self.changed.view)

    def set_colour_map(self, name: str) -> None:
        """Draw weights with another colour map."""
        self._set("colour_map", name, self.changed.style)

    def set_scale(self, scale: str) -> None:
        """Scale the colours by another rule; unknown ones are ignored."""
        if scale in SCALES:
            self._set("scale", scale, self.changed.style)

    def set_size(self, percent: int) -> None:
        """Show all type at another size."""
        self._set("size_percent", min(max(percent, SIZES[0]), SIZES[-1]), self.changed.theme)

    def set_least_weight(self, weight: float) -> None:
        """Hide lines of a smaller weight."""
        self._set("least_weight", min(max(weight, 0.0), 1.0), self.changed.style)

    def set_strongest(self, n_lines: int) -> None:
        """Draw the strongest lines of each query of a head only; 0 draws all."""
        self._set("n_strongest", min(max(n_lines, 0), 1000), self.changed.style)

    @property
    def lines(self) -> str:
        """Set of lines drawn, a key of LINES if it is one of these."""
        return f"strongest:{self.n_strongest}" if self.n_strongest else f"weight:{self.least_weight:g}"

    def choose_lines(self, key: str) -> None:
        """Draw the lines of a key of LINES."""
        kind, value = key.split(":")
        self.set_strongest(int(value) if kind == "strongest" else 0)
        self.set_least_weight(float(value) if kind == "weight" else 0.0)

    def set_theme(self, theme: Theme) -> None:
        """Light, dark, for a projector, or the system's theme."""
        if theme in THEMES:
            self._set("theme", theme, self.changed.theme)

    def show_saved(self, look: LookSaved) -> None:
        """Restore the look of a session file; unknown parts are ignored."""
        views: dict[str, HeadViewKind] = {name: name for name in get_args(HeadViewKind)}
        self.show_page(page_named(look.page) or self.page)
        self.show_view(views.get(look.view, self.view))
        if look.colour_map in COLOUR_MAP_NAMES:
            self.set_colour_map(look.colour_map)
        self.set_scale(look.scale)
        self.set_least_weight(look.least_weight)
        self.set_strongest(look.n_strongest)
        self.choose_position(look.position)
        self.enlarge(look.is_enlarged)

    @property
    def look(self) -> LookSaved:
        """The look, to be restored later; without tabs and labs."""
        return LookSaved(
            page=self.page,
            view=self.view,
            colour_map=self.colour_map,
            scale=self.scale,
            least_weight=self.least_weight,
            n_strongest=self.n_strongest,
            position=self.position,
            is_enlarged=self.is_enlarged,
        )

    def choose_position(self, index: int) -> None:
        """Show another of several predictions."""
        self._set("position", max(index, 0), self.changed.position)

    def enlarge(self, is_enlarged: bool) -> None:
        """Enlarge the large head over the grid, or restore it."""
        self._set("is_enlarged", is_enlarged, self.changed.enlarged)

    def present(self, is_presenting: bool) -> None:
        """Present only the essential, or everything again; not saved."""
        self._set("is_presenting", is_presenting, self.changed.folded)

    def fold(self, parts: frozenset[PagePart]) -> None:
        """Fold these parts away to make room for others; none: bring all of them back."""
        self._set("folded", parts, self.changed.folded)

    def hides(self, part: PagePart) -> bool:
        """Whether a part of a page must be hidden now."""
        return part in self.folded or (self.is_presenting and part in PRESENTED_WITHOUT)

    def set_hovered_head(self, head: HeadRef | None) -> None:
        """Set the head whose thumbnail is under the cursor, or none."""
        self._set("hovered_head", head, self.changed.hovered_head)

    def set_highlight(self, highlight: Highlight) -> None:
        """Highlight a row, a column or both."""
        self._set("highlight", highlight, self.changed.highlight)

    def set_cell(self, cell: Cell | None) -> None:
        """Set the cell under the cursor, or none."""
        self._set("cell", cell, self.changed.cell)

    def set_pointer_text(self, text: str) -> None:
        """Set the description of the item under the cursor on another page."""
        self._set("pointer_text", text, self.changed.pointer)

    def hover_token(self, side: Side, index: int | None, sides: tuple[Axis, Axis], n_ahead: int = 0) -> None:
        """Highlight the token `index` of one text; `sides` are the texts of the map's queries and keys.

        Rows are called after the token that stands `n_ahead` places behind their query.
        """
        query_side, key_side = sides
        row = None if index is None or index < n_ahead else index - n_ahead
        self.set_highlight(
            Highlight(
                query=row if side == query_side else None,
                key=index if side == key_side else None,
            )
        )

    def lit_tokens(self, side: Side, sides: tuple[Axis, Axis], n_ahead: int = 0) -> Highlight:
        """Highlighted tokens of one text: as a query, as a key; see `hover_token`."""
        query_side, key_side = sides
        row = self.highlight.query
        return Highlight(
            query=row + n_ahead if query_side == side and row is not None else None,
            key=self.highlight.key if key_side == side else None,
        )

    def _set(self, field: str, value: object, changed: SignalInstance) -> None:
        if getattr(self, field) != value:
            setattr(self, field, value)
            changed.emit()


def page_named(name: str) -> Page | None:
    """The page named in a file, under its current name; None if there is no such page."""
    pages: dict[str, Page] = {page: page for page in get_args(Page)}
    return pages.get(_FORMER_PAGES.get(name, name))


def sides_of(stack: Stack | None, sites: Iterable[Site] = (), *, has_target: bool) -> tuple[Axis, Axis]:
    """Texts of a stack's queries and keys; anything else is named by its axis."""
    return ("source", "source") if stack is None else axes_of(stack, sites, has_target=has_target)
