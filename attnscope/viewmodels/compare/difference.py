"""Two texts token by token, and one head of two sides on shared axes: both maps and the difference B − A."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.records.arrays import frozen_array
from attnscope.records.maps import (
    NO_TOKEN,
    HeadMap,
    StackAlignment,
    TokenAlignment,
    Which,
    difference,
    mean_abs_of,
    moved_of,
    on_slots,
    peak_of,
)
from attnscope.records.messages import Traced
from attnscope.records.sites import HeadRef, Rows, Stack
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.aspect import labelled, stack_tokens

Way = Literal["pairs", "pieces", "position"]
WAYS: dict[Way, str] = {
    "pairs": "same pieces, and as many replaced ones in pairs",
    "pieces": "same pieces only",
    "position": "first with first, second with second",
}
_POPULAR_FROM = 500
"""Texts with more tokens than this are matched by their rarer pieces first, which is quick."""
_N_NAMED = 3
_LONGEST_NAME = 16


def align_tokens(first: Sequence[Token], second: Sequence[Token], way: Way = "pairs") -> TokenAlignment:
    """Both texts on one axis; tokens without a partner stand in a slot of their own."""
    if way == "position":
        n = max(len(first), len(second))
        return _alignment([(_at(i, first), _at(i, second)) for i in range(n)])
    slots: list[tuple[int, int]] = []
    for kind, i, i_end, j, j_end in _blocks([t.piece for t in first], [t.piece for t in second]):
        is_pair = kind == "replace" and i_end - i == j_end - j and way == "pairs"
        if kind == "equal" or is_pair:
            slots += zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            slots += [(index, NO_TOKEN) for index in range(i, i_end)]
            slots += [(NO_TOKEN, index) for index in range(j, j_end)]
    return _alignment(slots)


def align_stacks(
    first: Traced, second: Traced, way: Way = "pairs", rows: Rows = "read"
) -> tuple[StackAlignment, ...]:
    """The axes of every stack that both traces have; where there is none, of the first of each.

    Rows are matched by what they are called after.
    """
    made: dict[tuple[int, int], TokenAlignment] = {}

    def aligned(own: Sequence[Token], other: Sequence[Token]) -> TokenAlignment:
        key = (id(own), id(other))
        if key not in made:
            made[key] = align_tokens(own, other, way)
        return made[key]

    found = []
    sides = [
        (pair, stack_tokens(first, pair[0], rows), stack_tokens(second, pair[1], rows))
        for pair in stack_pairs(first, second)
    ]
    for (stack, other), (own_queries, own_keys), (queries, keys) in sides:
        found.append(
            StackAlignment(
                stack=stack,
                second_stack=other,
                queries=aligned(own_queries, queries),
                keys=aligned(own_keys, keys),
            )
        )
    return tuple(found)


def stack_pairs(first: Traced, second: Traced) -> tuple[tuple[Stack, Stack], ...]:
    """Which stack of A is compared with which of B: those of one name, else the first with the first."""
    own, other = (tuple(dict.fromkeys(g.site.stack for g in traced.grids)) for traced in (first, second))
    common = tuple((stack, stack) for stack in own if stack in other)
    return common or tuple(zip(own[:1], other[:1], strict=False))


def alignment_words(alignment: TokenAlignment, first: Sequence[Token], second: Sequence[Token]) -> str:
    """How two texts were aligned, in words; nothing that has no partner is left out."""
    pairs = [(i, j) for i, j in _slots(alignment) if NO_TOKEN not in (i, j)]
    replaced = [(i, j) for i, j in pairs if first[i].piece != second[j].piece]
    only_first = [first[i].piece for i, j in _slots(alignment) if j == NO_TOKEN]
    only_second = [second[j].piece for i, j in _slots(alignment) if i == NO_TOKEN]
    if not replaced and not only_first and not only_second:
        return f"same {plural(len(alignment), 'token')}"
    n_common = len(pairs) - len(replaced)
    parts = [f"{plural(n_common, 'token')} in common"]
    if replaced:
        names = [f"{_short(first[i].piece)} → {_short(second[j].piece)}" for i, j in replaced]
        parts.append(f"{len(replaced)} paired: {_listed(names)}")
    for side, pieces in (("A", only_first), ("B", only_second)):
        if pieces:
            parts.append(f"{len(pieces)} only in {side}: {_listed([_short(piece) for piece in pieces])}")
    return " · ".join(parts)


def _blocks(first: list[str], second: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """The blocks of `difflib`, with what both texts begin and end with taken off before."""
    n_both = min(len(first), len(second))
    start = next((k for k in range(n_both) if first[k] != second[k]), n_both)
    n_rest = n_both - start
    end = next((k for k in range(n_rest) if first[-1 - k] != second[-1 - k]), n_rest)
    middle, other = first[start : len(first) - end], second[start : len(second) - end]
    if start:
        yield ("equal", 0, start, 0, start)
    is_long = max(len(middle), len(other)) > _POPULAR_FROM
    matcher = difflib.SequenceMatcher(None, middle, other, autojunk=is_long)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        yield (kind, start + i, start + i_end, start + j, start + j_end)
    if end:
        yield ("equal", len(first) - end, len(first), len(second) - end, len(second))


def _slots(alignment: TokenAlignment) -> Iterator[tuple[int, int]]:
    return zip(alignment.first, alignment.second, strict=True)


def _alignment(slots: list[tuple[int, int]]) -> TokenAlignment:
    return TokenAlignment(first=tuple(i for i, _ in slots), second=tuple(j for _, j in slots))


def _at(index: int, tokens: Sequence[Token]) -> int:
    return index if index < len(tokens) else NO_TOKEN


def _short(piece: str) -> str:
    piece = " ".join(piece.split()) or repr(piece)
    return piece if len(piece) <= _LONGEST_NAME else piece[: _LONGEST_NAME - 1] + "…"


def _listed(names: list[str]) -> str:
    more = len(names) - _N_NAMED
    return ", ".join(names[:_N_NAMED]) + (f" and {more} more" if more > 0 else "")


GAP = Token(id=NO_TOKEN, piece="–", is_special=True)
"""Stands on an axis where a side has no token."""
_LEAST_LIMIT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMaps:
    """One head of A and of B on shared axes. `limit` is the |Δ| at the ends of the colours; 0: the largest.

    `queries` and `keys` name each slot for both sides (`cat → dog`); `names` say what A and B are.
    """

    head: HeadRef
    rows: TokenAlignment
    cols: TokenAlignment
    first: NDArray[np.float32]
    second: NDArray[np.float32]
    delta: NDArray[np.float32]
    kinds: NDArray[np.uint8]
    side_queries: tuple[tuple[Token, ...], tuple[Token, ...]]
    side_keys: tuple[tuple[Token, ...], tuple[Token, ...]]
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    names: tuple[str, str] = ("A", "B")
    limit: float = 0.0
    badges: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.cols))
        for name, dtype in (("first", np.float32), ("second", np.float32), ("delta", np.float32)):
            array = frozen_array(getattr(self, name), dtype=dtype, rank=2, name=name)
            if array.shape != shape:
                raise ValueError(f"{name} is {array.shape}, the axes have {shape} slots")
            object.__setattr__(self, name, array)
        object.__setattr__(self, "kinds", frozen_array(self.kinds, dtype=np.uint8, rank=2, name="kinds"))

    @property
    def peak(self) -> float:
        """The largest |Δ|."""
        return peak_of(self.delta)

    @property
    def end(self) -> float:
        """The |Δ| at the ends of the colours; 1 where nothing differs."""
        return max(self.limit or self.peak, _LEAST_LIMIT) if self.limit or self.peak else 1.0

    @property
    def mean_abs(self) -> float:
        """The mean |Δ| over the cells that both sides allow; NaN when there is none."""
        return mean_abs_of(self.delta)

    @property
    def moved(self) -> float:
        """The mean share of its weight that a query moves, 0…1."""
        return moved_of(self.delta)

    @property
    def too_little_in_common(self) -> str:
        """What is said instead of numbers where less than a quarter of an axis is there on both sides."""
        for axis in (self.rows, self.cols):
            pairs = zip(axis.first, axis.second, strict=True)
            n_both = sum(NO_TOKEN not in pair for pair in pairs)
            if 4 * n_both < len(axis):
                words = f"{plural(n_both, 'token')} in common"
                return f"{words}: too little to compare"
        return ""

    @property
    def is_same(self) -> bool:
        """Whether both sides are the same, cell by cell."""
        return self.peak == 0.0 and bool((np.isfinite(self.first) == np.isfinite(self.second)).all())

    def weights(self, which: Which) -> NDArray[np.float32]:
        """The weights of one side on the shared axes."""
        return self.first if which == "A" else self.second


def compare_maps(
    first: HeadMap,
    second: HeadMap,
    rows: TokenAlignment,
    cols: TokenAlignment,
    *,
    names: tuple[str, str] = ("A", "B"),
    limit: float = 0.0,
    row_names: Rows = "written",
) -> ComparedMaps:
    """Both maps of one head on shared axes, from their exact weights; rows are called after `row_names`."""
    first, second = labelled(first, row_names), labelled(second, row_names)
    placed = on_slots(first.weights, rows, cols, "A"), on_slots(second.weights, rows, cols, "B")
    delta, kinds = difference(*placed)
    side_queries = _placed(first.queries, rows.first), _placed(second.queries, rows.second)
    side_keys = _placed(first.keys, cols.first), _placed(second.keys, cols.second)
    badges = (first.check.badge if first.check else "", second.check.badge if second.check else "")
    return ComparedMaps(
        head=first.head,
        rows=rows,
        cols=cols,
        first=placed[0],
        second=placed[1],
        delta=delta,
        kinds=kinds,
        side_queries=side_queries,
        side_keys=side_keys,
        queries=_merged(*side_queries),
        keys=_merged(*side_keys),
        names=names,
        limit=limit,
        badges=badges,
    )


def cell_words(shown: ComparedMaps, query: int, key: int) -> tuple[str, str]:
    """A cell in two lines: both weights with Δ, and the tokens it lies between."""
    sides = [_weight_words(shown.weights(which)[query, key]) for which in ("A", "B")]
    delta = shown.delta[query, key]
    values = f"A {sides[0]}   B {sides[1]}"
    if np.isfinite(delta):
        values += f"   Δ {signed_number(float(delta))}"
    row = shown.queries[query]
    name = f"“{_slot_name(row)}”"
    name = f"reading “{row.read}”, writing {name}" if row.read else name
    return values, f"query {name} → key “{_slot_name(shown.keys[key])}”"


def signed_number(value: float) -> str:
    """A difference with its sign and four significant digits."""
    if value == 0:
        return "0"
    sign = "+" if value > 0 else "−"
    size = abs(value)
    return f"{sign}{size:#.4g}" if size >= 1e-4 else f"{sign}{size:.3e}"


def _weight_words(weight: float) -> str:
    if np.isnan(weight):
        return "not allowed by the mask"
    if np.isinf(weight):
        return "has no token here"
    return f"{weight:#.4g}" if weight == 0 or weight >= 1e-4 else f"{weight:.3e}"


def _placed(tokens: tuple[Token, ...], slots: tuple[int, ...]) -> tuple[Token, ...]:
    return tuple(GAP if i == NO_TOKEN else tokens[i] for i in slots)


def _merged(first: tuple[Token, ...], second: tuple[Token, ...]) -> tuple[Token, ...]:
    """One name for each slot: the token of both, of one, or both with an arrow between."""
    merged = []
    for a, b in zip(first, second, strict=True):
        if a is GAP or b is GAP or a.label == b.label:
            merged.append(b if a is GAP else a)
        else:
            merged.append(
                Token(
                    id=a.id,
                    piece=f"{a.label} → {b.label}",
                    is_special=a.is_special and b.is_special,
                    joins_previous=a.joins_previous and b.joins_previous,
                    read=a.read if a.read == b.read else f"{a.read} → {b.read}",
                )
            )
    return tuple(merged)


def _slot_name(token: Token) -> str:
    return " ".join(token.label.split()) or "␣"
