"""Which token of one text is which of another, and how to say it.

The pieces are matched in order by `difflib` (Ratcliff and Metzener 1988: longest common block, then left
and right of it). Must not import Qt.
"""

import difflib
from collections.abc import Iterator, Sequence
from typing import Literal

from attnscope.counting import plural
from attnscope.records.maps import NO_TOKEN, StackAlignment, TokenAlignment
from attnscope.records.messages import Traced
from attnscope.records.sites import Rows, Stack
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.aggregation import stack_tokens

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
