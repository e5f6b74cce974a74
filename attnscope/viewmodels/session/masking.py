"""Drawing a mask for the open text: the current cells, strokes, presets, edge lists.

The mask itself is one of the session's interventions, so that history, sessions, scripts and captions
have it; nothing of it is kept here but the stroke in progress.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from psygnal import Signal, SignalInstance

from attnscope.counting import few_listed, number_text, plural
from attnscope.errors import UserError
from attnscope.records.interventions import (
    DRAWN,
    Cells,
    UseMask,
    blind_rows,
    cells_from_edges,
    edges_from_text,
)
from attnscope.records.sites import HeadRef, Stack
from attnscope.records.tokens import Token
from attnscope.viewmodels.session.changes import (
    mask_in,
    stack_to_mask,
    tokens_to_mask,
    why_no_mask,
    with_mask,
)
from attnscope.viewmodels.session.state import Session

Preset = Literal["full", "causal", "window", "sentences", "words", "same", "others", "itself"]
PRESETS: dict[Preset, tuple[str, str]] = {
    "full": ("Everything", "Every token sees every token"),
    "causal": ("Causal", "A token sees itself and what comes before it"),
    "window": ("Window", "A token sees this many positions on each side, and itself"),
    "sentences": ("Sentences", "A token sees the tokens of its own sentence"),
    "words": ("Words", "A token sees the pieces of its own word"),
    "same": ("Same token", "A token sees every position with the same piece as its own"),
    "others": ("All but itself", "A token sees every token but itself"),
    "itself": ("Only itself", "Nothing passes from one token to another"),
}
"""Name and meaning of each."""
_ENDS = (".", "!", "?", "…", "。", "！", "？")


def preset_cells(preset: Preset, tokens: Sequence[Token], window: int = 2) -> Cells:
    """The cells of a preset, bool [n_tokens, n_tokens]."""
    n = len(tokens)
    place = np.arange(n)
    match preset:
        case "full":
            return np.ones((n, n), np.bool_)
        case "causal":
            return np.asarray(place[:, None] >= place[None, :])
        case "window":
            return np.asarray(np.abs(place[:, None] - place[None, :]) <= window)
        case "sentences":
            return _same(sentences_of(tokens))
        case "words":
            return _same(list(np.cumsum([not token.joins_previous for token in tokens])))
        case "same":
            return _same([token.piece.casefold() for token in tokens])
        case "others":
            return ~np.eye(n, dtype=np.bool_)
        case "itself":
            return np.eye(n, dtype=np.bool_)
        case _:
            raise TypeError(f"no preset {preset}")


def preset_name(preset: Preset, window: int) -> str:
    """Name of a mask from a preset, in lists and captions."""
    name = PRESETS[preset][0].lower()
    return f"{name} {window}" if preset == "window" else name


def sentences_of(tokens: Sequence[Token]) -> list[int]:
    """The number of each token's sentence; special tokens at the ends belong to the nearest one."""
    numbers: list[int] = []
    number, is_ended = 0, False
    for token in tokens:
        is_sign = token.piece.strip() in _ENDS or token.is_special
        if is_ended and not is_sign and not token.joins_previous:
            number, is_ended = number + 1, False
        numbers.append(number)
        is_ended = is_ended or (bool(numbers) and token.piece.strip().endswith(_ENDS))
    return numbers


def _same(keys: Sequence[object]) -> Cells:
    numbered = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    codes = np.array([numbered[key] for key in keys], np.int64)
    return np.asarray(codes[:, None] == codes[None, :])


Graph = Literal["chain", "ring", "star", "tree"]
GRAPHS: dict[Graph, str] = {
    "chain": "Chain: each and the one before",
    "ring": "Ring: a chain that is closed",
    "star": "Star: all and the first",
    "tree": "Tree: each and its parent, two children a parent",
}
"""Graphs to begin with, in words."""


def graph_text(kind: Graph, n_tokens: int) -> str:
    """The edge list of a graph over so many tokens."""
    match kind:
        case "chain":
            return "\n".join(f"{i} {i - 1}" for i in range(1, n_tokens))
        case "ring":
            return "\n".join(f"{i} {(i - 1) % n_tokens}" for i in range(n_tokens))
        case "star":
            return "\n".join(f"{i} 0" for i in range(1, n_tokens))
        case "tree":
            return "\n".join(f"{i} {(i - 1) // 2}" for i in range(1, n_tokens))
        case _:
            raise TypeError(f"no graph {kind}")


Cell = tuple[int, int]
_UNKNOWN: Cells = np.zeros((0, 0), dtype=np.bool_)
"""The cells of no text: what a model allows by itself is not known of this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedCells:
    """Allowed pairs of tokens, bool [n_tokens, n_tokens], in words; `name` is that of a mask in use."""

    cells: Cells
    tokens: tuple[Token, ...]
    is_causal: bool
    name: str

    @property
    def blind(self) -> tuple[int, ...]:
        """The queries that see nothing."""
        return blind_rows(self.cells, is_causal=self.is_causal)

    @property
    def count_sentence(self) -> str:
        """Number of cells allowed, of all that can be."""
        cells = self.cells
        n = len(cells)
        seen = np.tril(cells) if self.is_causal else cells
        n_most = n * (n + 1) // 2 if self.is_causal else n * n
        whose = self.name or "the model's own mask"
        return f"{int(seen.sum()):,} of {n_most:,} cells allowed · {whose}"

    @property
    def blind_sentence(self) -> str:
        """Note on tokens that see nothing, and its meaning; empty if there are none."""
        blind, tokens = self.blind, self.tokens
        if not blind:
            return ""
        named = few_listed([f"{row} “{tokens[row].piece}”" for row in blind], 4)
        verb = "sees" if len(blind) == 1 else "see"
        return (
            f"{named} {verb} nothing: such a row has no distribution. Its weights are NaN, its "
            f"heads output 0, and the token keeps only its residual stream."
        )

    def cell_sentence(self, query: int, key: int) -> str:
        tokens = self.tokens
        if not (0 <= query < len(tokens) and 0 <= key < len(tokens)):
            return ""
        if self.is_causal and key > query:
            said = "not allowed by causality, whatever you draw"
        else:
            said = "allowed" if self.cells[query, key] else "not allowed"
        return f"query {query} “{tokens[query].piece}” → key {key} “{tokens[key].piece}”: {said}"


class EdgeLists:
    """Masks from edge lists, typed or in files; `error` is the fault of the last one.

    `use` takes the edges and the name of their mask. `file_text` is what a file said, until it is shown.
    """

    def __init__(
        self,
        session: Session,
        tokens: Callable[[], tuple[Token, ...]],
        use: Callable[[Sequence[Cell], str], None],
        tell: Callable[[], None],
    ) -> None:
        self._session, self._tokens, self._use, self._tell = session, tokens, use, tell
        self.has_loops = True
        self.error = self.file_text = ""
        self._asked: tuple[str, tuple[Token, ...]] = ("", ())

    def set_loops(self, has_loops: bool) -> None:
        """Let an edge list allow each token to see itself."""
        self.has_loops = has_loops
        self._tell()

    def use(self, text: str, name: str = "edge list") -> bool:
        """Take the cells of an edge list; False, and `error`, if it is invalid."""
        try:
            edges = edges_from_text(text, self._tokens())
            if not edges:
                raise UserError(
                    "The edge list has no edge.",
                    expected="a query and a key in each line",
                    action="Add at least one.",
                )
        except UserError as error:
            self.error = str(error)
            self._tell()
            return False
        self._take(edges, name)
        return True

    def read_file(self, path: str) -> None:
        """Take the cells of the edge list in a file; the worker reads it."""
        tokens = self._tokens()
        self._asked = (self._session.text, tokens)
        self._session.texts.read_edges(path, tokens)

    def take_file(self) -> None:
        """Handle a file that the worker has read."""
        read, here = self._session.texts.edges, (self._session.text, self._tokens())
        if read is None or not here[1] or self._asked != here:
            return  # another editor asked, or the text has changed
        self._asked = ("", ())
        self.error = read.fault
        if read.edges:
            self.file_text = read.text
            self._take(read.edges, f"of {read.name}")
        elif not read.fault:
            self.error = f"{read.name} has no edge. Expected: a query and a key in each line."
        self._tell()

    def _take(self, edges: Sequence[Cell], name: str) -> None:
        self.error = ""
        self._use(edges, name)
        self._tell()


class Brush:
    """Paints cells of a mask, and their mirror images if `is_symmetric`; a stroke is one step."""

    def __init__(self, session: Session, masking: "MaskState") -> None:
        self._session, self._masking = session, masking
        self._n_strokes = 0
        self._stroke: set[Cell] = set()
        self._is_down = self._allows = False
        self._last: Cell = (0, 0)
        self.is_symmetric = False

    def set_symmetric(self, is_symmetric: bool) -> None:
        """Paint mirror images too, from now on."""
        self.is_symmetric = is_symmetric
        self._masking.changed.emit()

    def begin(self) -> None:
        """Begin a stroke: the next cells painted are one step for undo."""
        self._n_strokes += 1
        self._stroke.clear()

    def paint(self, cells: Sequence[Cell], is_allowed: bool) -> None:
        after = self._masking.cells.copy()
        for query, key in cells:
            after[query, key] = is_allowed
            if self.is_symmetric:
                after[key, query] = is_allowed
        verb = "allow" if is_allowed else "forbid"
        self._stroke.update(cells)
        n = len(self._stroke)
        label = (
            f"mask: {verb} {n} cells" if n > 1 else f"mask: {verb} query {cells[0][0]} → key {cells[0][1]}"
        )
        self._masking.use(after, DRAWN, label, group=f"mask stroke {self._n_strokes}", is_drag=True)

    def end(self) -> None:
        """End a stroke."""
        self._session.history.close_group()

    def press(self, cell: Cell) -> None:
        """Press on a cell, which is inverted; cells dragged over get the same value."""
        self._is_down, self._last, self._allows = True, cell, not bool(self._masking.cells[cell])
        self.begin()
        self.paint([cell], self._allows)

    def drag(self, cell: Cell) -> None:
        """Drag to a cell; no effect unless pressed."""
        if self._is_down and cell != self._last:
            wanted = [c for c in _between(self._last, cell) if not self._masking.is_locked(*c)]
            self._last = cell
            if wanted:
                self.paint(wanted, self._allows)

    def release(self) -> None:
        if self._is_down:
            self._is_down = False
            self.end()


def _between(first: Cell, last: Cell) -> list[Cell]:
    """The cells from one to another, without the first."""
    n = max(abs(last[0] - first[0]), abs(last[1] - first[1]))
    return [
        (
            first[0] + round((last[0] - first[0]) * k / n),
            first[1] + round((last[1] - first[1]) * k / n),
        )
        for k in range(1, n + 1)
    ]


class MaskState:
    """State of the mask editor: painted with the `brush`, or taken from a preset or from `edges`."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        self._session = session
        self.window = 2
        self.edges = EdgeLists(session, lambda: self.tokens, self._use_edges, self._tell)
        self.brush = Brush(session, self)
        self._own: Cells = _UNKNOWN
        self._left: tuple[HeadRef, ...] = ()
        self._shown: tuple[object, tuple[HeadRef, ...]] = ((), ())
        """The model and the heads of it that were shown in their place."""
        told = session.changed
        self._followed: tuple[tuple[SignalInstance, Callable[[], None]], ...] = (
            (told.model, self._on_text),
            (told.text, self._on_text),
            (told.traced, self._on_traced),
            (told.edges, self.edges.take_file),
            (told.interventions, self._tell),
            (told.history, self._tell),
            (told.output, self._tell),
        )
        for signal, react in self._followed:
            signal.connect(react, max_args=0)
        self._learn_own()

    def show_stack(self) -> None:
        """Show heads of the stack that the mask is for, until the editor is closed."""
        session, stack = self._session, self.stack
        if stack is not None and stack != session.stack:
            session.notices.say(f"Masks are drawn for the {stack}: its heads are shown now.")
            self._left = session.selection
            session.select_stack(stack)
            self._shown = session.model, session.selection

    def close(self) -> None:
        """Stop following the session; if no other head was chosen, show those shown before."""
        session = self._session
        if self._left and (session.model, session.selection) == self._shown:
            session.select_heads(self._left)
        for signal, react in self._followed:
            signal.disconnect(react, missing_ok=True)

    # What is shown

    @property
    def stack(self) -> Stack | None:
        return stack_to_mask(self._session.model)

    @property
    def tokens(self) -> tuple[Token, ...]:
        return tokens_to_mask(self._session)

    @property
    def refusal(self) -> str:
        """Why no mask can be drawn; empty if one can."""
        return why_no_mask(self._session)

    @property
    def is_causal(self) -> bool:
        """Whether later tokens are never allowed, whatever is drawn."""
        return self.stack == "decoder"

    @property
    def mask(self) -> UseMask | None:
        return mask_in(self._session.interventions)

    @property
    def name(self) -> str:
        """Name of the mask in use; empty for the model's own."""
        mask = self.mask
        return mask.name if mask is not None else ""

    @property
    def cells(self) -> Cells:
        """The current cells: those of the mask, or those the model itself allows."""
        n = len(self.tokens)
        mask = self.mask
        if mask is not None and mask.n_tokens == n:
            return mask.cells
        return self._own_cells()

    @property
    def drawn(self) -> MaskedCells:
        """The current cells, to be put in words."""
        return MaskedCells(
            cells=self.cells,
            tokens=self.tokens,
            is_causal=self.is_causal,
            name=self.name,
        )

    @property
    def effect_sentence(self) -> str:
        """Effect of the mask on the output, before against after; empty without a mask or while waiting."""
        traced = self._session.traced
        if self.mask is None or traced is None or self.mask not in traced.interventions:
            return ""
        kl = [value for value in traced.comparison.kl_nats if value == value]
        if not kl:
            return ""
        texts = traced.comparison.before.generated, traced.comparison.after.generated
        mean = number_text(sum(kl) / len(kl), 3)
        told = f"Output against that under the model's own mask: mean KL {mean} nats"
        if not all(texts):
            return told
        return f"{told}; it writes {'the same' if texts[0] == texts[1] else f'“{texts[1]}”'}"

    def is_locked(self, query: int, key: int) -> bool:
        """Whether a cell cannot be changed."""
        return self.is_causal and key > query

    # User actions

    def use_preset(self, preset: Preset) -> None:
        """Take the cells of a preset."""
        name = preset_name(preset, self.window)
        self.use(preset_cells(preset, self.tokens, self.window), name, f"mask: {name}")

    def invert(self) -> None:
        """Swap the cells that are allowed and those that are not."""
        self.use(~self.cells, DRAWN, "mask: invert")

    def _use_edges(self, edges: Sequence[Cell], name: str) -> None:
        cells = cells_from_edges(
            edges, len(self.tokens), is_symmetric=self.brush.is_symmetric, has_loops=self.edges.has_loops
        )
        self.use(cells, name, f"mask: {plural(len(edges), 'edge')}")

    def drop(self) -> None:
        """Return to the model's own mask."""
        self._change("the model's own mask", None)

    def set_window(self, window: int) -> None:
        """Set the positions on each side for the preset `window`; applied at once if in use."""
        is_used = self.name == preset_name("window", self.window)
        self.window = max(0, window)
        if is_used:
            self.use_preset("window")
        self._tell()

    # Inside

    def _tell(self) -> None:
        self.changed.emit()

    def _own_cells(self) -> Cells:
        """Cells allowed by the model itself, according to one of its maps, or else all it could allow."""
        n, traced = len(self.tokens), self._session.traced
        if traced is not None and self.mask is None and not traced.interventions:
            for head_map in traced.maps:
                if head_map.head.stack == self.stack and head_map.weights.shape == (n, n):
                    seen = ~np.isnan(head_map.weights)
                    return np.tril(seen) if self.is_causal else np.asarray(seen)
        return preset_cells("causal" if self.is_causal else "full", self.tokens)

    def use(self, cells: Cells, name: str, label: str, *, group: str = "", is_drag: bool = False) -> None:
        """Use cells as the mask, as a step called `label` or as part of the stroke `group`."""
        if self.refusal or self.stack is None:
            return
        cells = np.tril(cells) if self.is_causal else cells
        is_own = np.array_equal(cells, self._own)
        mask = None if is_own else UseMask.of_cells(self.stack, cells, name)
        self._change(label, mask, group=group, is_drag=is_drag)
        if is_own:
            self._tell()

    def _change(self, label: str, mask: UseMask | None, *, group: str = "", is_drag: bool = False) -> None:
        """Replace the current mask, as a step or as part of the stroke `group`."""
        setting = self._session.setting
        after = replace(setting, interventions=with_mask(setting.interventions, mask))
        self._session.change(label, after, group=group, is_drag=is_drag)
        self._tell()

    def _learn_own(self) -> None:
        """Record what the model itself allows on this text, if all heads of the stack allow the same."""
        n, traced = len(self.tokens), self._session.traced
        if traced is None or self.mask is not None or traced.interventions:
            return
        grids = [grid for grid in traced.grids if grid.site.stack == self.stack]
        if not grids or any(grid.levels.shape[1:] != (n, n) for grid in grids):
            return
        levels = np.concatenate([grid.levels for grid in grids]) > 0
        if (levels == levels[0]).all():
            self._own = np.tril(levels[0]) if self.is_causal else levels[0]

    def _on_text(self) -> None:
        self.edges.error, self._own = "", _UNKNOWN
        self._tell()

    def _on_traced(self) -> None:
        self._learn_own()
        self._tell()
