"""The aspect of maps: heads blended into one, keys left out, words instead of pieces, blocks."""

import dataclasses
import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, get_args

import numpy as np
from numpy.typing import NDArray

from attnscope.codec import Once
from attnscope.counting import share_words
from attnscope.errors import UserError
from attnscope.records.findings import GoldCell
from attnscope.records.maps import HeadMap, SelfCheck, SiteGrid
from attnscope.records.messages import HeadsShown, ShowHeads, Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import (
    ROWS,
    Blend,
    Block,
    HeadRef,
    Hidden,
    Over,
    Rows,
    Site,
    Stack,
    row_labels,
    tokens_of_site,
    tokens_on,
    written_after,
)
from attnscope.records.tiles import LongMap, is_long
from attnscope.records.tokens import Token, Tokens, typed_segments
from attnscope.viewmodels.query import Requests

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session

BLENDS: dict[Blend, str] = {
    "none": "one head",
    "mean": "mean of heads",
    "max": "largest of heads",
    "sum": "sum of heads",
}
OVERS: dict[Over, str] = {
    "selection": "the selected heads",
    "layer": "every head of the layer",
    "stack": "every head of the stack",
}
HIDDEN: dict[Hidden, str] = {
    "nothing": "every key",
    "first": "without the first token",
    "special": "without special tokens",
    "both": "without first and special tokens",
}

BLOCKS: dict[Block, str] = {
    "all": "both texts",
    "aa": "A → A",
    "ab": "A → B",
    "ba": "B → A",
    "bb": "B → B",
}
"""Of two texts that are read as one: queries of the first named, keys of the second."""
ROW_WORDS: dict[Rows, str] = {  # what a row is called after
    "written": "written",
    "read": "read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """An aspect under which maps are shown.

    `blend` makes one map of the heads `over`. `hidden` keys are left out of every row; with
    `is_renormalised` what is left of a row sums to 1 again. `is_by_word` sums the keys and averages the
    queries of each word's pieces. `block` shows one of the four parts of a map between two texts. `rows` says
    what the rows of cross-attention are called after; see `records.axes.row_labels`.
    """

    blend: Blend = "none"
    over: Over = "selection"
    hidden: Hidden = "nothing"
    is_renormalised: bool = False
    is_by_word: bool = False
    block: Block = "all"
    rows: Annotated[Rows, Once("read")] = "written"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("blend", self.blend, get_args(Blend)),
            ("over", self.over, get_args(Over)),
            ("hidden", self.hidden, get_args(Hidden)),
            ("block", self.block, get_args(Block)),
            ("rows", self.rows, ROWS),
        ):
            if value not in known:
                raise UserError(
                    f"A map cannot be shown with {name} '{str(value)[:40]}'.",
                    expected=", ".join(known),
                    action="Choose one of these.",
                )

    @property
    def changes_maps(self) -> bool:
        """Whether it changes the numbers of maps."""
        return self.blend != "none" or self.leaves_out or self.is_by_word

    @property
    def leaves_out(self) -> bool:
        """Whether it hides part of a map."""
        return self.hidden != "nothing" or self.block != "all"


PLAIN = Aspect()


def blended_heads(
    aspect: Aspect, selection: tuple[HeadRef, ...], sites: Iterable[Site]
) -> tuple[HeadRef, ...]:
    """The heads in the shown map: the head selected last, or all that are blended."""
    if not selection:
        return ()
    primary = selection[-1]
    if aspect.blend == "none":
        return (primary,)
    if aspect.over == "selection":
        return selection
    return tuple(
        head
        for site in sites
        if site.stack == primary.stack and (aspect.over == "stack" or site.layer == primary.layer)
        for head in site.heads
    )


def blend_name(aspect: Aspect, heads: tuple[HeadRef, ...]) -> str:
    """Name of a blended map, for instance `mean of 8 heads of layer 1`."""
    how = {"mean": "mean", "max": "largest", "sum": "sum"}[aspect.blend]
    if aspect.over == "stack":
        return f"{how} of all {len(heads)} heads"
    if aspect.over == "layer" and heads:
        return f"{how} of {len(heads)} heads of layer {heads[0].layer}"
    if len(heads) <= 2:
        return f"{how} of {', '.join(head.label for head in heads)}"
    return f"{how} of {len(heads)} heads"


def aspect_words(aspect: Aspect) -> str:
    """The aspect as the name of a step in the history."""
    parts = []
    if aspect.blend != "none":
        parts.append(f"{BLENDS[aspect.blend]} over {OVERS[aspect.over]}")
    left = [HIDDEN[aspect.hidden]] if aspect.hidden != "nothing" else []
    left += [f"{BLOCKS[aspect.block]} only"] if aspect.block != "all" else []
    if left:
        parts.append(", ".join(left) + (", renormalised" if aspect.is_renormalised else ""))
    if aspect.is_by_word:
        parts.append("words")
    if aspect.rows != PLAIN.rows:
        parts.append(f"rows {aspect.rows}")
    return "show " + (" · ".join(parts) or "maps as they are")


def word_starts(tokens: tuple[Token, ...]) -> NDArray[np.intp]:
    """The index of each word's first piece; special tokens are words of their own.

    A piece that begins with a space begins a word, whatever the tokenizer says of it.
    """
    starts = [
        i
        for i, token in enumerate(tokens)
        if i == 0
        or not token.joins_previous
        or token.is_special
        or tokens[i - 1].is_special
        or token.piece[:1].isspace()
    ]
    return np.array(starts, dtype=np.intp)


def words_of_tokens(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """One token for each word, with the id of its first piece."""
    starts = [*word_starts(tokens).tolist(), len(tokens)]
    words = []
    for first, end in itertools.pairwise(starts):
        pieces = tokens[first:end]
        if len(pieces) == 1:
            words.append(pieces[0])
        else:
            word = "".join(piece.label for piece in pieces).strip().lstrip("␣") or "␣"
            words.append(
                Token(
                    id=pieces[0].id,
                    piece=word,
                    start=pieces[0].start,
                    end=pieces[-1].end,
                    segment=pieces[0].segment,
                    read=pieces[0].read,
                )
            )
    return tuple(words)


def word_weights(
    weights: NDArray[np.float32],
    queries: tuple[Token, ...],
    keys: tuple[Token, ...],
    *,
    has_every_row: bool = True,
) -> NDArray[np.float32]:
    """Weights between words, [n_query_words, n_key_words].

    NaN where the mask forbids every pair of pieces; infinite where every allowed pair is left out. Without
    `has_every_row` the pieces whose row has nothing left are not in the mean: rows sum to 1 again.
    """
    rows, columns = word_starts(queries), word_starts(keys)
    if not weights.size:
        return weights
    is_finite = np.isfinite(weights)
    is_whole = bool(is_finite.all())
    n_pieces = np.diff(np.append(rows, len(queries)))
    if not has_every_row:
        n_pieces = np.maximum(np.add.reduceat(is_finite.any(axis=1), rows, dtype=np.intp), 1)
    finite = weights if is_whole else np.where(is_finite, weights, np.float32(0.0))
    sums = _by_word(finite, rows, columns)
    sums /= n_pieces[:, None].astype(np.float32)
    if not is_whole:
        sums[_by_word(is_finite, rows, columns) == 0] = np.inf
        sums[_by_word(~np.isnan(weights), rows, columns) == 0] = np.nan
    return sums


def cell_of_words(cell: GoldCell, queries: tuple[Token, ...], keys: tuple[Token, ...]) -> GoldCell:
    """A link on a map of tokens, moved to the map of their words.

    The rows that predict a word of several pieces are those of the word before and its own: both are marked.
    """

    def of_words(part: tuple[int, int], tokens: tuple[Token, ...]) -> tuple[int, int]:
        starts = word_starts(tokens)
        first, last = np.searchsorted(starts, (part[0], part[1] - 1), side="right").tolist()
        return first - 1, last

    return replace(cell, rows=of_words(cell.rows, queries), cols=of_words(cell.cols, keys))


def _by_word(
    values: NDArray[np.float32] | NDArray[np.bool_], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.float32]:
    by_query = np.add.reduceat(values, rows, axis=0, dtype=np.float32)
    return np.asarray(np.add.reduceat(by_query, columns, axis=1))


LEFT_OUT = np.float32(np.inf)
"""Stands in cells of keys that are left out: no weight at all, and no ban by the mask either."""
_LEAST_LEFT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A map without some keys, and the mean mass that they had in its rows (0…1)."""

    weights: NDArray[np.float32]
    removed: float


def hidden_keys(keys: tuple[Token, ...], hidden: Hidden) -> NDArray[np.bool_]:
    """Keys left out, [n_keys]."""
    is_special: NDArray[np.bool_] = np.array([token.is_mark for token in keys], dtype=bool)
    is_first: NDArray[np.bool_] = np.array([i == 0 for i in range(len(keys))], dtype=bool)
    match hidden:
        case "first":
            return is_first
        case "special":
            return is_special
        case "both":
            return is_first | is_special
        case _:
            return np.zeros(len(keys), dtype=bool)


def without_keys(
    weights: NDArray[np.float32], is_hidden: NDArray[np.bool_], *, is_renormalised: bool
) -> Reduced:
    """Leave keys out of every row; their cells become LEFT_OUT where the mask allows them.

    Renormalised rows sum to 1 again; a row with nothing left has LEFT_OUT everywhere, never 0 ÷ 0.
    """
    if not is_hidden.any() or not weights.size:
        return Reduced(weights=weights, removed=0.0)
    finite = np.where(np.isfinite(weights), weights, 0.0)
    taken = finite[:, is_hidden].sum(axis=1)
    sums = finite.sum(axis=1)
    is_row = sums > 0
    removed = float((taken[is_row] / sums[is_row]).mean()) if is_row.any() else 0.0
    result = weights.copy()
    if is_renormalised:
        left = finite[:, ~is_hidden].sum(axis=1)  # sums − taken has no digits under a sink
        is_empty = is_row & (left < _LEAST_LEFT)
        result /= np.where(left > 0, left / np.where(is_row, sums, 1.0), 1.0)[:, None].astype(np.float32)
        result[is_empty[:, None] & ~np.isnan(weights)] = LEFT_OUT
    result[is_hidden[None, :] & ~np.isnan(weights)] = LEFT_OUT
    return Reduced(weights=result, removed=removed)


def removed_note(removed: float, hidden: Hidden, *, is_renormalised: bool) -> str:
    """Note on the keys removed: `without the first token: 62 % of the weight`."""
    what = {"first": "first token", "special": "special tokens", "both": "first and special tokens"}
    share = share_words(removed)
    end = " · rows sum to 1 again" if is_renormalised else ""
    return f"{what[hidden]} left out, {share} of the weight{end}"


def segments_of(tokens: tuple[Token, ...]) -> NDArray[np.bool_] | None:
    """Whether each token is of the second text, [n_tokens]; None for a single text.

    A text typed with the separator in it counts as two (`records.tokens.typed_segments`), for a model that
    is not told of segments as well.
    """
    numbers = np.array([token.segment for token in tokens], dtype=np.intp)
    if numbers.size and 0 < numbers.max() <= 1 and numbers.min() == 0:
        return np.asarray(numbers == 1)
    typed = typed_segments(tokens)
    return np.array(typed, dtype=np.bool_) if typed else None


def block_parts(
    queries: tuple[Token, ...], keys: tuple[Token, ...], block: Block
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Queries in a block, and keys not in it; None if the whole map is shown."""
    if block == "all":
        return None
    rows, columns = segments_of(queries), segments_of(keys)
    if rows is None or columns is None:
        return None
    is_row = rows if block[0] == "b" else ~rows
    return is_row, ~columns if block[1] == "b" else columns


def without_the_rest(
    weights: NDArray[np.float32],
    is_row: NDArray[np.bool_],
    is_hidden: NDArray[np.bool_],
    *,
    is_renormalised: bool,
) -> Reduced:
    """Show a block alone: other keys are left out of its rows, and every other row is LEFT_OUT.

    `removed` is the mean mass that the rows of the block lose.
    """
    block = without_keys(weights[is_row], is_hidden, is_renormalised=is_renormalised)
    result = np.where(np.isnan(weights), weights, LEFT_OUT)
    result[is_row] = block.weights
    return Reduced(weights=result, removed=block.removed)


def block_note(removed: float, block: Block, hidden_words: str, *, is_renormalised: bool) -> str:
    """Note on the part removed: `A → B only, without special tokens: 62 % of A's weight not shown`."""
    share = share_words(removed)
    also = f", {hidden_words}" if hidden_words else ""
    end = " · rows sum to 1 again" if is_renormalised else ""
    return f"{BLOCKS[block]} only{also}: {share} of {block[0].upper()}’s weight not shown{end}"


def long_map_of(traced: Traced | None, head: HeadRef | None, rows: Rows = "read") -> LongMap | None:
    """The map of a head of a traced text if it is a long one, with rows named by `rows`."""
    if traced is None or head is None:
        return None
    grid = next((grid for grid in traced.grids if grid.site.key == head.site_key), None)
    if grid is None or not is_long(grid.n_queries, grid.n_keys):
        return None
    queries, keys = stack_tokens(traced, head.stack, rows)
    return LongMap(
        model=traced.model,
        trace=traced.number,
        head=head,
        queries=queries,
        keys=keys,
        is_known=traced.knows(head.site_key),
    )


def stack_tokens(
    traced: Traced, stack: Stack, rows: Rows = "read"
) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """Tokens of a stack's rows and keys; the text for a stack it does not have."""
    site = next((grid.site for grid in traced.grids if grid.site.stack == stack), None)
    if site is None:
        tokens = tokens_on("source", traced.source, traced.target)
        return tokens, tokens
    queries, keys = tokens_of_site(site, traced.source, traced.target)
    return row_labels(queries, written_after(stack, traced.target), rows), keys


MAX_BLENDED_CELLS = 4_000_000
"""Cells of all heads together that are blended while the user waits."""
_LEAST_STEPS = 25
"""Fewer steps of a thumbnail's bytes, to half a step, tell weights from each other but roughly."""


def map_through(aspect: Aspect, maps: tuple[HeadMap, ...]) -> HeadMap | None:
    """One map from one or more heads with the same tokens; the last one names it. None without any.

    Keys are left out of each head before heads are blended, so that a mean is the mean of what the
    heads show alone.
    """
    if not maps:
        return None
    maps = tuple(labelled(one, aspect.rows) for one in maps)
    last = maps[-1]
    if not aspect.changes_maps:
        return last
    alike = tuple(m for m in maps if (m.queries, m.keys) == (last.queries, last.keys))
    reduced = [_reduced(aspect, m.weights, last.queries, last.keys) for m in alike]
    weights = blended_weights(tuple(r.weights for r in reduced), aspect.blend)
    queries, keys = last.queries, last.keys
    if aspect.is_by_word:
        weights = word_weights(weights, queries, keys, has_every_row=not aspect.is_renormalised)
        queries, keys = words_of_tokens(queries), words_of_tokens(keys)
    removed = float(np.mean([r.removed for r in reduced]))
    return HeadMap(
        head=last.head,
        queries=queries,
        keys=keys,
        weights=weights,
        name=blend_name(aspect, tuple(m.head for m in alike)) if aspect.blend != "none" else "",
        note=_note(aspect, last, removed),
        full=float(len(alike)) if aspect.blend == "sum" else 1.0,
        check=_worst_check(alike),
    )


def labelled(head_map: HeadMap, rows: Rows) -> HeadMap:
    """The map with its rows named after the generated, or read, tokens; its numbers stay."""
    queries = row_labels(head_map.queries, head_map.following, rows)
    is_so = queries is head_map.queries
    return head_map if is_so else dataclasses.replace(head_map, queries=queries, following=None)


def _worst_check(maps: tuple[HeadMap, ...]) -> SelfCheck | None:
    checks = [one.check for one in maps if one.check is not None]
    return min(checks, key=lambda check: (check.is_good, -check.worst), default=None)


def _reduced(
    aspect: Aspect, weights: NDArray[np.float32], queries: tuple[Token, ...], keys: tuple[Token, ...]
) -> Reduced:
    """One map without the parts hidden by the aspect."""
    is_hidden, parts = hidden_keys(keys, aspect.hidden), block_parts(queries, keys, aspect.block)
    if parts is None:
        return without_keys(weights, is_hidden, is_renormalised=aspect.is_renormalised)
    is_row, is_elsewhere = parts
    return without_the_rest(weights, is_row, is_hidden | is_elsewhere, is_renormalised=aspect.is_renormalised)


def exact_grid(
    aspect: Aspect,
    site: Site,
    sides: tuple[tuple[Token, ...], tuple[Token, ...]],
    weights_of: Callable[[HeadRef], NDArray[np.float32]],
) -> NDArray[np.float32]:
    """The weights behind the thumbnails of a site, NaN where left out or not allowed."""
    shown = np.stack([weights_of(head) for head in site.heads])
    if aspect.leaves_out:
        shown = np.stack([_reduced(aspect, weights, *sides).weights for weights in shown])
    return np.where(np.isinf(shown), np.float32(np.nan), shown)


def _note(aspect: Aspect, shown: HeadMap, removed: float) -> str:
    """Note on the part removed from a map; empty if none was."""
    is_hidden = bool(hidden_keys(shown.keys, aspect.hidden).any())
    if block_parts(shown.queries, shown.keys, aspect.block) is not None:
        words = HIDDEN[aspect.hidden] if is_hidden else ""
        return block_note(removed, aspect.block, words, is_renormalised=aspect.is_renormalised)
    if not is_hidden:
        return ""
    return removed_note(removed, aspect.hidden, is_renormalised=aspect.is_renormalised)


def blended_weights(weights: tuple[NDArray[np.float32], ...], blend: Blend) -> NDArray[np.float32]:
    """Blend several maps. A cell missing from one of them is missing from the mean, sum or maximum too."""
    if len(weights) == 1:
        return weights[0]
    result = weights[0].astype(np.float32, copy=True)
    with np.errstate(invalid="ignore"):
        for other in weights[1:]:
            if blend == "max":
                np.maximum(result, other, out=result)
            else:
                result += other
    if blend == "mean":
        result /= np.float32(len(weights))
    return result


def grid_through(
    aspect: Aspect,
    grid: SiteGrid,
    queries: tuple[Token, ...],
    keys: tuple[Token, ...],
    exact: tuple[NDArray[np.float32], ...] = (),
) -> SiteGrid:
    """Thumbnails under the aspect; those of long texts, which pool cells, are unchanged.

    `exact` are the weights of each head, where they are known. Without them thumbnails are rough
    (`is_sampled`) where a sink took so much that bytes hardly hold what is left.
    """
    is_changed = (
        hidden_keys(keys, aspect.hidden).any() or block_parts(queries, keys, aspect.block) is not None
    )
    is_whole = (len(queries), len(keys)) == (grid.n_queries, grid.n_keys) and not grid.is_pooled
    if not is_changed or not is_whole:
        return grid
    levels, peaks = grid.levels.copy(), grid.peaks.copy()
    left_out, is_rough = np.zeros(levels.shape, dtype=bool), grid.is_sampled
    for head, thumbnail in enumerate(grid.levels):
        weights = (thumbnail.astype(np.float32) - 1) / np.float32(254) * grid.peaks[head]
        weights[thumbnail == 0] = np.nan
        weights = exact[head] if exact else weights
        reduced = _reduced(aspect, weights, queries, keys).weights
        is_left = np.isfinite(reduced)
        peaks[head] = max(float(reduced[is_left].max()) if is_left.any() else 0.0, 1e-6)
        steps = np.rint(np.where(is_left, reduced, 0.0) / peaks[head] * 254) + 1
        levels[head] = np.where(is_left, np.clip(steps, 1, 255), 0).astype(np.uint8)
        left_out[head] = np.isinf(reduced)
        is_rough |= not exact and _is_rough(aspect, thumbnail, queries, keys)
    return dataclasses.replace(grid, levels=levels, peaks=peaks, left_out=left_out, is_sampled=is_rough)


def _is_rough(
    aspect: Aspect, thumbnail: NDArray[np.uint8], queries: tuple[Token, ...], keys: tuple[Token, ...]
) -> bool:
    """Whether few levels are left for the whole thumbnail, or for a renormalised row."""
    steps = np.where(thumbnail == 0, np.nan, thumbnail - np.float32(1))
    shown = _reduced(dataclasses.replace(aspect, is_renormalised=False), steps, queries, keys).weights
    is_shown = np.isfinite(shown)
    left = np.where(is_shown, shown, 0.0)
    if not aspect.is_renormalised:
        return bool(is_shown.any() and left.max() < _LEAST_STEPS)
    return bool((left.sum(axis=1)[is_shown.any(axis=1)] < _LEAST_STEPS).any())


_MOST_SHARES = 2.0
"""How many even shares the largest weight of a row may be."""
_MOST_COLOUR = 0.25
"""How much of the fixed scale the rows may use and still look like one colour."""
_LEAST_KEYS = 4


def even_words(head_map: HeadMap) -> str:
    """`almost even: 0.07 at most over 14 keys`, or empty if a row stands out or there are few keys.

    Rows of fewer than four keys, as a causal mask begins with, are not looked at; the numbers are those of
    the rows with the most keys.
    """
    is_seen = np.isfinite(head_map.weights)
    n_keys = is_seen.sum(axis=1)
    rows = n_keys >= _LEAST_KEYS
    if not rows.any():
        return ""
    peaks = np.where(is_seen, head_map.weights, 0.0).max(axis=1)
    longest = n_keys == n_keys.max()
    peak = float(peaks[longest].max())
    if (peaks[rows] * n_keys[rows] > _MOST_SHARES).any() or peak > _MOST_COLOUR * head_map.full:
        return ""
    return f"almost even: {peak:.2g} at most over {int(n_keys.max()):,} keys"


_N_KEPT = 64


class HeadMaps:
    """Fetches the maps of heads and caches what was made of them.

    `raw` are the maps as the worker sent them.
    """

    raw: tuple[HeadMap, ...] = ()
    number: int = 0
    """Of the request for the maps that were asked for last."""

    def __init__(self, session: "Session", requests: Requests) -> None:
        self._session, self._requests = session, requests
        self._made: OrderedDict[Hashable, tuple[object, object]] = OrderedDict()

    @property
    def blended(self) -> tuple[HeadRef, ...]:
        """The heads of the shown map: the one selected last, or those blended by the aspect."""
        now = self._session
        return heads_to_blend(now.aspect, now.selection, now.model, now.traced, now.text)

    @property
    def wanted(self) -> tuple[HeadRef, ...]:
        """The heads needed in full: the selected ones, and all of a blend."""
        return tuple(dict.fromkeys((*self._session.selection, *self.blended)))

    @property
    def shown(self) -> tuple[HeadMap, ...]:
        """The maps of the selected heads under the aspect; a blend of them once."""
        return distinct(map(self.of, self._session.selection))

    def of(self, head: HeadRef | None) -> HeadMap | None:
        """The map of `head` under the aspect; a blend of heads represents each of them.

        None while one of the maps it is made of has not come.
        """
        aspect, heads = self._session.aspect, self.blended
        found = {m.head: m for m in self.raw}
        own = found.get(head) if head else None
        is_called_anew = own is not None and own.following is not None and aspect.rows == "written"
        if own is None or not (aspect.changes_maps or is_called_anew):
            return own
        is_blend = aspect.blend != "none" and len(heads) > 1 and own.head in heads
        names = (*(h for h in heads if h != heads[-1]), heads[-1]) if is_blend else (own.head,)
        if any(name not in found for name in names):
            return None
        sources = tuple(found[name] for name in names)
        way = aspect if is_blend else dataclasses.replace(aspect, blend="none")
        key = ("map", way, tuple(map(id, sources)))
        if key not in self._made:
            self._keep(key, sources, map_through(way, sources))
        made = self._made[key][1]
        return made if isinstance(made, HeadMap) else None

    def grid(self, grid: SiteGrid) -> SiteGrid:
        """The thumbnails of a site of the current trace under the aspect."""
        aspect, traced = self._session.aspect, self._session.traced
        if traced is None or not aspect.leaves_out:
            return grid
        key = ("grid", aspect.hidden, aspect.block, aspect.is_renormalised, id(grid))
        if key not in self._made:
            self._keep(key, grid, grid_through(aspect, grid, *sides_of_site(grid.site, traced)))
        made = self._made[key][1]
        return made if isinstance(made, SiteGrid) else grid

    def exact(self, grids: tuple[SiteGrid, ...]) -> tuple[NDArray[np.float32], ...]:
        """The weights behind thumbnails of the current trace; none while one of the maps is missing."""
        traced, found = self._session.traced, {m.head: m.weights for m in self.raw}
        is_known = all(head in found for grid in grids for head in grid.site.heads)
        if traced is None or not is_known or any(grid.is_pooled for grid in grids):
            return ()
        aspect, weights_of = self._session.aspect, found.__getitem__
        sites = [grid.site for grid in grids]
        return tuple(exact_grid(aspect, site, sides_of_site(site, traced), weights_of) for site in sites)

    def fetch_stack(self) -> None:
        """Request every head of the current stack, if its thumbnails show each cell."""
        traced, stack = self._session.traced, self._session.stack
        grids = [grid for grid in traced.grids if grid.site.stack == stack] if traced is not None else []
        if not any(grid.is_pooled for grid in grids):
            self.fetch(tuple(head for grid in grids for head in grid.site.heads))

    def take_all(self, maps: tuple[HeadMap, ...]) -> None:
        """The maps of another trace, or none."""
        self.raw = maps
        self._made.clear()

    def fetch(self, more: tuple[HeadRef, ...] = ()) -> None:
        """Request the missing maps, and `more`."""
        traced, wanted = self._session.traced, self.wanted
        if more:
            wanted = tuple(dict.fromkeys((*wanted, *more)))
        if traced and not {m.head for m in self.raw}.issuperset(wanted):
            self.number = self._requests.send(
                ShowHeads(heads=wanted, model=traced.model, trace=traced.number)
            )

    def take(self, reply: HeadsShown, traced: Traced | None) -> None:
        """Take requested maps; those of an older trace than `traced` are ignored."""
        if reply.number != self.number or traced is None or reply.trace not in (0, traced.number):
            return  # the last: from a thread that did not know yet
        kept = tuple(m for m in self.raw if m.head not in {new.head for new in reply.maps})
        self.raw = kept + reply.maps
        self._session.changed.heads.emit()

    def _keep(self, key: Hashable, sources: object, made: object) -> None:
        self._made[key] = (sources, made)
        while len(self._made) > _N_KEPT:
            self._made.popitem(last=False)


def heads_to_blend(
    aspect: Aspect, selection: tuple[HeadRef, ...], model: ModelInfo | None, traced: Traced | None, text: str
) -> tuple[HeadRef, ...]:
    """The heads of the shown blend; only the head selected last if the maps would be too large."""
    heads = blended_heads(aspect, selection, model.sites if model else ())
    if traced and traced.text == text:
        n_tokens = max(len(traced.source), len(traced.target or ()))
    else:
        n_tokens = min(len(text) + 2, model.max_tokens if model else 0)  # at most, while nobody has counted
    is_small = len(heads) * n_tokens**2 <= MAX_BLENDED_CELLS and not is_long(n_tokens, n_tokens)
    return heads if is_small else selection[-1:]


def distinct(maps: Iterable[HeadMap | None]) -> tuple[HeadMap, ...]:
    """The maps there are, each once: a blend represents several heads."""
    found: list[HeadMap] = []
    for head_map in maps:
        if head_map is not None and not any(head_map is other for other in found):
            found.append(head_map)
    return tuple(found)


def sides_of_site(site: Site, traced: Traced) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens at the rows and at the columns of a site."""
    return tokens_of_site(site, traced.source, traced.target)


def site_keys(site: Site, traced: Traced) -> tuple[Token, ...]:
    """The tokens at the columns of a site."""
    return sides_of_site(site, traced)[1]


def shown_tokens(tokens: Tokens, aspect: Aspect) -> tuple[Token, ...]:
    """The tokens named on the maps: words, or pieces; the maps of long texts have pieces."""
    is_by_word = aspect.is_by_word and not is_long(len(tokens), len(tokens))
    return words_of_tokens(tokens.tokens) if is_by_word else tokens.tokens


def with_room(grid: SiteGrid, n_queries: int, n_keys: int) -> SiteGrid:
    """The thumbnails of a target that is still being generated, with empty rows to come.

    Of decoder self-attention the columns come with the rows. Thumbnails of fewer cells than their map stay.
    """
    more_rows = max(0, n_queries - grid.n_queries)
    more_columns = max(0, n_keys - grid.n_keys) if grid.site.stack == "decoder" else 0
    if grid.is_pooled or grid.site.stack == "encoder" or not (more_rows or more_columns):
        return grid
    room = ((0, 0), (0, more_rows), (0, more_columns))
    return replace(
        grid,
        n_queries=grid.n_queries + more_rows,
        n_keys=grid.n_keys + more_columns,
        levels=np.pad(grid.levels, room),
        left_out=None if grid.left_out is None else np.pad(grid.left_out, room),
    )


def with_grid(traced: Traced, grid: SiteGrid) -> Traced:
    """The same trace with better thumbnails of one site."""
    grids = tuple(grid if old.site == grid.site else old for old in traced.grids)
    return replace(traced, grids=grids)
