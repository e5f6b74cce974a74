"""How things are shown: page, heatmap or lines, colours, scale, theme, and what the cursor is on.

None of it goes to the worker. What can change has a name: page, view, style, theme, position,
enlarged, hovered_head, highlight, cell, pointer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from attnscope.records.sites import HeadRef, Stack
from attnscope.viewmodels.listeners import Listener, Listeners

Page = Literal["explore", "positions", "train"]
HeadViewKind = Literal["heatmap", "lines"]
Scale = Literal["fixed", "head", "row"]
Theme = Literal["system", "light", "dark"]
Side = Literal["source", "target"]

SCALES: dict[Scale, str] = {
    "fixed": "0 to 1",
    "head": "0 to the head's largest weight",
    "row": "0 to each row's largest weight",
}
THEMES: tuple[Theme, ...] = get_args(Theme)


@dataclass(frozen=True, slots=True, kw_only=True)
class Highlight:
    """The row (query) and the column (key) of the shown head that are lit; None: none."""

    query: int | None = None
    key: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The cell under the cursor: both pieces and the weight, None where the mask forbids it."""

    query: str
    key: str
    weight: float | None

    @property
    def sentence(self) -> str:
        """The cell in words, with four significant digits."""
        value = "not allowed by the mask" if self.weight is None else f"{self.weight:.4g}"
        return f"{self.query} → {self.key}  {value}"


NO_HIGHLIGHT = Highlight()


class ViewState:
    """What the person chose to see, and where the cursor is; setting what is already so does nothing."""

    page: Page = "explore"
    view: HeadViewKind = "heatmap"
    colour_map: str = "viridis"
    scale: Scale = "fixed"
    theme: Theme = "system"
    highlight: Highlight = NO_HIGHLIGHT
    cell: Cell | None = None
    pointer_text: str = ""
    position: int = 0
    is_enlarged: bool = False
    hovered_head: HeadRef | None = None

    def __init__(self) -> None:
        self._listeners = Listeners()

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` the name of what changed; the function given back ends it."""
        return self._listeners.add(callback)

    def show_page(self, page: Page) -> None:
        """Turn to another page; what was under the cursor on the old one is forgotten."""
        if page != self.page:
            self.set_cell(None)
            self.set_hovered_head(None)
            self.set_pointer_text("")
        self._set("page", page, "page")

    def show_view(self, view: HeadViewKind) -> None:
        """Show the selected heads as a heatmap or as lines."""
        self._set("view", view, "view")

    def set_colour_map(self, name: str) -> None:
        """Draw weights with another colour map."""
        self._set("colour_map", name, "style")

    def set_scale(self, scale: Scale) -> None:
        """Let the colours stand for weights in another way."""
        if scale in SCALES:
            self._set("scale", scale, "style")

    def set_theme(self, theme: Theme) -> None:
        """Light, dark, or what the system says."""
        if theme in THEMES:
            self._set("theme", theme, "theme")

    def choose_position(self, index: int) -> None:
        """Show another of several predictions."""
        self._set("position", max(index, 0), "position")

    def enlarge(self, is_enlarged: bool) -> None:
        """Give the large head the room of the grid, or give it back."""
        self._set("is_enlarged", is_enlarged, "enlarged")

    def set_hovered_head(self, head: HeadRef | None) -> None:
        """The cursor is on the small map of another head, or on none."""
        self._set("hovered_head", head, "hovered_head")

    def set_highlight(self, highlight: Highlight) -> None:
        """Light a row, a column or both."""
        self._set("highlight", highlight, "highlight")

    def set_cell(self, cell: Cell | None) -> None:
        """The cursor is on another cell, or on none."""
        self._set("cell", cell, "cell")

    def set_pointer_text(self, text: str) -> None:
        """What is under the cursor on another page, in words."""
        self._set("pointer_text", text, "pointer")

    def hover_token(self, side: Side, index: int | None, sides: tuple[Side, Side]) -> None:
        """Light the token `index` of one text; `sides` are the texts of the map's queries and keys."""
        query_side, key_side = sides
        self.set_highlight(
            Highlight(
                query=index if side == query_side else None,
                key=index if side == key_side else None,
            )
        )

    def lit_tokens(self, side: Side, sides: tuple[Side, Side]) -> Highlight:
        """Which tokens of one text are lit: as a query, as a key."""
        query_side, key_side = sides
        return Highlight(
            query=self.highlight.query if query_side == side else None,
            key=self.highlight.key if key_side == side else None,
        )

    def _set(self, field: str, value: object, name: str) -> None:
        if getattr(self, field) != value:
            setattr(self, field, value)
            self._listeners.tell(name)


def sides_of(stack: Stack | None, *, has_target: bool) -> tuple[Side, Side]:
    """Which text a stack's queries and its keys come from.

    A model with one text has it as its source, whatever the stack is called.
    """
    if not has_target or stack in (None, "encoder", "pool"):
        return ("source", "source")
    return ("target", "target") if stack == "decoder" else ("target", "source")
