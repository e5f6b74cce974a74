"""Which of the session's maps are too long to be held whole, and so are shown by tiles."""

from attnscope.records.axes import Rows, row_labels, tokens_of_site, tokens_on, written_after
from attnscope.records.messages import Traced
from attnscope.records.sites import HeadRef, Stack
from attnscope.records.tiles import LongMap, is_long
from attnscope.records.tokens import Token


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
