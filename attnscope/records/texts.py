"""Texts from files: asking for one, and what was in it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenText:
    """Read a text file; of it as much as any model could use."""

    number: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOpened:
    """A file's text. `n_cut` characters were left out, `n_replaced` bytes were no UTF-8."""

    number: int
    name: str
    text: str
    n_cut: int = 0
    n_replaced: int = 0
