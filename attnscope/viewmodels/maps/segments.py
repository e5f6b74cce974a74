"""Two texts that a model reads as one, and the four blocks of a map between them.

| symbol | meaning                                              | shape               |
|--------|------------------------------------------------------|---------------------|
| a      | weights, NaN where the mask forbids                  | [n_queries, n_keys] |
| r      | whether a query is in the block                      | [n_queries]         |
| s      | whether a key is left out                            | [n_keys]            |
"""

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import share_words
from attnscope.records.axes import Rows, row_labels, tokens_of_site, tokens_on, written_after
from attnscope.records.messages import Traced
from attnscope.records.sites import HeadRef, Stack
from attnscope.records.tiles import LongMap, is_long
from attnscope.records.tokens import Token, typed_segments
from attnscope.viewmodels.maps.aspect import BLOCKS, Block
from attnscope.viewmodels.maps.renormalising import LEFT_OUT, Reduced, without_keys


def segments_of(tokens: tuple[Token, ...]) -> NDArray[np.bool_] | None:
    """Whether each token is of the second text, [n_tokens]; None where there is one text.

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
    """Which queries are in a block, and which keys are not; None where the whole map is shown."""
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
    """Show a block alone: keys are left out of its rows, and every other row is LEFT_OUT whole.

    `removed` is the mean mass that the rows of the block lose.
    """
    block = without_keys(weights[is_row], is_hidden, is_renormalised=is_renormalised)
    result = np.where(np.isnan(weights), weights, LEFT_OUT)
    result[is_row] = block.weights
    return Reduced(weights=result, removed=block.removed)


def block_note(removed: float, block: Block, hidden_words: str, *, is_renormalised: bool) -> str:
    """What was taken away, in words: `A → B only, without special tokens: 62 % of A's weight not shown`."""
    share = share_words(removed)
    also = f", {hidden_words}" if hidden_words else ""
    end = " · rows sum to 1 again" if is_renormalised else ""
    return f"{BLOCKS[block]} only{also}: {share} of {block[0].upper()}’s weight not shown{end}"


def long_map_of(traced: Traced | None, head: HeadRef | None, rows: Rows = "read") -> LongMap | None:
    """The map of a head of a traced text when it is a long one, its rows called after `rows`."""
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
    """What the rows of a stack are called after, and its keys; the text for a stack it does not have."""
    site = next((grid.site for grid in traced.grids if grid.site.stack == stack), None)
    if site is None:
        tokens = tokens_on("source", traced.source, traced.target)
        return tokens, tokens
    queries, keys = tokens_of_site(site, traced.source, traced.target)
    return row_labels(queries, written_after(stack, traced.target), rows), keys
