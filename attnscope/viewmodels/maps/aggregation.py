"""Maps and thumbnails as an aspect shows them: heads blended, keys left out, words."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from attnscope.records.axes import Rows, row_labels
from attnscope.records.maps import HeadMap, SelfCheck, SiteGrid
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.aspect import HIDDEN, Aspect, Blend, blend_name
from attnscope.viewmodels.maps.renormalising import Reduced, hidden_keys, removed_note, without_keys
from attnscope.viewmodels.maps.segments import block_note, block_parts, without_the_rest
from attnscope.viewmodels.maps.word_map import word_weights, words_of_tokens

MAX_BLENDED_CELLS = 4_000_000
"""Cells of all heads together that are blended while the person waits."""
_LEAST_STEPS = 25
"""Fewer steps of a thumbnail's bytes, to half a step, tell weights from each other but roughly."""


def map_through(aspect: Aspect, maps: tuple[HeadMap, ...]) -> HeadMap | None:
    """One map from one or more heads with the same tokens; the last one gives its head. None without any.

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
    """The map with its rows called after what is written, or read, there; its numbers stay."""
    queries = row_labels(head_map.queries, head_map.following, rows)
    is_so = queries is head_map.queries
    return head_map if is_so else dataclasses.replace(head_map, queries=queries, following=None)


def _worst_check(maps: tuple[HeadMap, ...]) -> SelfCheck | None:
    """The self-check that says least good of the maps that a blend is made of."""
    checks = [one.check for one in maps if one.check is not None]
    return min(checks, key=lambda check: (check.is_good, -check.worst), default=None)


def _reduced(
    aspect: Aspect, weights: NDArray[np.float32], queries: tuple[Token, ...], keys: tuple[Token, ...]
) -> Reduced:
    """One map without what the aspect leaves out."""
    is_hidden, parts = hidden_keys(keys, aspect.hidden), block_parts(queries, keys, aspect.block)
    if parts is None:
        return without_keys(weights, is_hidden, is_renormalised=aspect.is_renormalised)
    is_row, is_elsewhere = parts
    return without_the_rest(weights, is_row, is_hidden | is_elsewhere, is_renormalised=aspect.is_renormalised)


def _note(aspect: Aspect, shown: HeadMap, removed: float) -> str:
    """What was taken from a map, in words; empty when nothing was."""
    is_hidden = bool(hidden_keys(shown.keys, aspect.hidden).any())
    if block_parts(shown.queries, shown.keys, aspect.block) is not None:
        words = HIDDEN[aspect.hidden] if is_hidden else ""
        return block_note(removed, aspect.block, words, is_renormalised=aspect.is_renormalised)
    if not is_hidden:
        return ""
    return removed_note(removed, aspect.hidden, is_renormalised=aspect.is_renormalised)


def blended_weights(weights: tuple[NDArray[np.float32], ...], blend: Blend) -> NDArray[np.float32]:
    """Several maps as one. A cell that one of them lacks is missing from a mean, sum or largest too."""
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
    """Thumbnails without what is left out; those of long texts, which pool cells, stay as they are.

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
    """Whether few steps are left of the whole thumbnail, or of a row that is to sum to 1 again."""
    steps = np.where(thumbnail == 0, np.nan, thumbnail - np.float32(1))
    shown = _reduced(dataclasses.replace(aspect, is_renormalised=False), steps, queries, keys).weights
    is_shown = np.isfinite(shown)
    left = np.where(is_shown, shown, 0.0)
    if not aspect.is_renormalised:
        return bool(is_shown.any() and left.max() < _LEAST_STEPS)
    return bool((left.sum(axis=1)[is_shown.any(axis=1)] < _LEAST_STEPS).any())
