"""Texts from files: asking for one, and what was in it."""

from dataclasses import dataclass

from attnscope.records.masks import Edge
from attnscope.records.requests import Reply, Request
from attnscope.records.tokens import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenText(Request):
    """Read a text file; of it as much as any model could use. With `tokens` it is an edge list of them."""

    path: str
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOpened(Reply):
    """A file's text. `n_cut` characters were left out, `n_replaced` bytes were no UTF-8.

    Of an edge list there are the `edges`, or what is wrong with it.
    """

    name: str
    text: str
    n_cut: int = 0
    n_replaced: int = 0
    edges: tuple[Edge, ...] = ()
    fault: str = ""
