"""Typed or pasted text made safe to keep and send (no lone surrogates, a limit), and what was lost of it."""

import re
from dataclasses import dataclass
from typing import Annotated

from attnscope.records.tokens import Tokens

MAX_CHARACTERS = 20_000
CLEANED = "cleaned"
Typed = Annotated[str, CLEANED]
"""A text that went through `clean_typed`: files may hold any."""
_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedText:
    """Text that every part of the program can take, and what was done to it.

    `n_replaced` counts lone surrogates (each replaced by U+FFFD); `n_cut` counts characters beyond
    the limit, at least so many where `is_more`.
    """

    text: str = ""
    n_replaced: int = 0
    n_cut: int = 0
    is_more: bool = False


NOTHING_TYPED = TypedText()


def clean_typed(raw: str, *, is_more: bool = False) -> TypedText:
    """Join surrogate pairs, replace lone surrogates and cut the text at MAX_CHARACTERS.

    `is_more` says that somebody cut it before, nobody knows where.
    """
    n_cut = max(0, len(raw) - MAX_CHARACTERS)
    text = raw[:MAX_CHARACTERS]
    if not _SURROGATES.search(text):
        return TypedText(text=text, n_cut=n_cut, is_more=is_more)
    joined = _PAIRS.sub(_join_pair, text)
    text, n_replaced = _SURROGATES.subn("\ufffd", joined)
    return TypedText(text=text, n_replaced=n_replaced, n_cut=n_cut, is_more=is_more)


def text_notes(tokens: Tokens, typed: TypedText = NOTHING_TYPED) -> str:
    """Counts of what was cut, unknown and replaced, for instance `12 tokens cut · 1 unknown`."""
    n_replaced = tokens.n_replaced + typed.n_replaced
    parts = (
        (typed.n_cut, "characters or more cut" if typed.is_more else "characters cut"),
        (tokens.n_dropped, "tokens cut" if tokens.n_dropped != 1 else "token cut"),
        (tokens.n_unknown, "unknown"),
        (n_replaced, "replaced"),
        (tokens.n_untrained, "at positions never trained"),
    )
    return " · ".join(f"{count:,} {what}" for count, what in parts if count)


def _join_pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
