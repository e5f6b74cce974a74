"""What the rows and columns of a site stand for: the one place that says it.

| axis      | what it stands for                                            | how many            |
|-----------|---------------------------------------------------------------|---------------------|
| source    | the tokens of the (first) text                                | its tokens          |
| target    | the tokens of the target, or of the second text               | its tokens          |
| summary   | the one learned query of a pooling head                       | 1                   |
| sentences | the sentences of the first text                               | `Tokens.sentences`  |
| slots     | projections, inducing points, latents: no places of a text    | `Site.n_slots`      |
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Literal, get_args

from attnscope.records.sites import Site, Stack
from attnscope.records.tokens import Token, Tokens

Axis = Literal["source", "target", "summary", "sentences", "slots"]
Rows = Literal["written", "read"]
"""What a row of cross-attention is called after: the token written there, or the query, which is read."""
ROWS: tuple[Rows, ...] = get_args(Rows)
NOT_WRITTEN = Token(id=-1, piece="(next)", is_special=True)
"""Follows the last token of a target where nobody knows what the model would write."""
_ROWS: dict[Stack, Axis] = {
    "encoder": "source",
    "decoder": "target",
    "cross": "target",
    "pool": "summary",
    "second": "target",
    "back": "source",
    "second-pool": "summary",
    "sentence": "sentences",
    "read-in": "slots",
    "latents": "slots",
}
_COLUMNS: dict[Stack, Axis] = {
    "encoder": "source",
    "decoder": "target",
    "cross": "source",
    "pool": "source",
    "second": "target",
    "back": "target",
    "second-pool": "target",
    "sentence": "source",
    "read-in": "source",
    "latents": "slots",
}


def axes_of(stack: Stack, sites: Iterable[Site] = (), *, has_target: bool = True) -> tuple[Axis, Axis]:
    """What the rows and the columns of a stack stand for; `sites` are those of its model.

    A model with one text has it as its source, whatever the stack is called.
    """
    site = next((site for site in sites if site.stack == stack), None)
    rows, columns = _ROWS[stack], _COLUMNS[stack]
    if site is not None and site.keys != "tokens":
        columns = site.keys
    if has_target:
        return rows, columns
    return "source" if rows == "target" else rows, "source" if columns == "target" else columns


def is_self_attention(site: Site) -> bool:
    """Whether rows and columns are the same tokens, so that a diagonal and distances mean something."""
    rows, columns = axes_of(site.stack, (site,))
    return rows == columns != "slots"


def tokens_of_site(
    site: Site, source: Tokens, target: Tokens | None
) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """What stands at the rows and at the columns of a site, as tokens to be shown."""
    rows, columns = axes_of(site.stack, (site,), has_target=target is not None)
    slots = site.slot, site.n_slots
    return tokens_on(rows, source, target, slots), tokens_on(columns, source, target, slots)


def written_after(stack: Stack, target: Tokens | None) -> Token | None:
    """What is written at the last row of a stack; None where rows write nothing."""
    return target.following if target is not None and stack == "cross" else None


def row_labels(queries: tuple[Token, ...], following: Token | None, rows: Rows) -> tuple[Token, ...]:
    """What the rows are called: the one place that decides it.

    A query is a token that was read. Where it is read to write the next one, and `following` after the last,
    a row may be called after what it writes, as in Bahdanau et al. 2015 (figure 3).
    """
    if following is None or rows == "read" or not queries:
        return queries
    return _written(queries, following) if len(queries) <= _KEPT_TOKENS else _name_written(queries, following)


def _name_written(queries: tuple[Token, ...], following: Token) -> tuple[Token, ...]:
    written = (*queries[1:], following)
    return tuple(replace(token, read=query.label) for query, token in zip(queries, written, strict=True))


_KEPT_TOKENS = 1024
"""The names of longer texts are made anew: kept, they would hold their memory."""
_written = lru_cache(maxsize=8)(_name_written)


def tokens_on(
    axis: Axis, source: Tokens, target: Tokens | None, slots: tuple[str, int] = ("slot", 0)
) -> tuple[Token, ...]:
    """What stands along an axis; what is no token is told as a special one, with an id below 0."""
    match axis:
        case "source":
            return source.tokens
        case "target":
            return (source if target is None else target).tokens
        case "summary":
            return _named("summary", 1)
        case "sentences":
            return _named("sentence", len(source.sentences))
        case "slots":
            return _named(*slots, first=1)


def _named(name: str, n: int, first: int = 0) -> tuple[Token, ...]:
    if name == "summary":
        return (Token(id=-1, piece=name, is_special=True),)
    return tuple(Token(id=-1 - i, piece=f"{name} {first + i}") for i in range(n))
