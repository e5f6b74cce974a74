"""What a head does, in words, with the number and the texts behind it."""

from dataclasses import dataclass
from typing import Literal

from attnscope.records.measures import Estimate
from attnscope.records.sites import HeadRef

RoleName = Literal[
    "positional",
    "identity",
    "induction",
    "duplicate",
    "first",
    "separator",
    "syntactic",
    "rare",
    "broad",
    "aligns",
    "none",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellingText:
    """A text in which a head did most of what it does: its strongest edges as (query, key, weight)."""

    number: int
    source: str
    target: str | None
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    edges: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One thing a head does: `strength` is its number over the number that makes the role, so 1 or more."""

    name: RoleName
    sentence: str
    strength: float
    estimate: Estimate
    measure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCard:
    """What a head does, in one sentence with its number, the roles it has, and its most telling texts.

    `roles` are in the order of their strength; a head without any has none, and the sentence says what it
    does most: `leaning` is the measure behind that.
    """

    head: HeadRef
    sentence: str
    roles: tuple[Role, ...]
    texts: tuple[TellingText, ...] = ()
    statement: str = ""
    leaning: str = ""
