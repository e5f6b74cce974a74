"""Making typed or pasted text safe to keep and send: no lone surrogates, a limit on its length."""

import re
from dataclasses import dataclass

MAX_CHARACTERS = 20_000
_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedText:
    """Text that every part of the program can take, and what was done to it.

    `n_replaced` counts lone surrogates (each replaced by U+FFFD); `n_cut` counts characters beyond
    the limit.
    """

    text: str = ""
    n_replaced: int = 0
    n_cut: int = 0


def clean_text(raw: str) -> TypedText:
    """Join surrogate pairs, replace lone surrogates and cut the text at MAX_CHARACTERS."""
    n_cut = max(0, len(raw) - MAX_CHARACTERS)
    text = raw[:MAX_CHARACTERS]
    if not _SURROGATES.search(text):
        return TypedText(text=text, n_cut=n_cut)
    joined = _PAIRS.sub(_join_pair, text)
    text, n_replaced = _SURROGATES.subn("\ufffd", joined)
    return TypedText(text=text, n_replaced=n_replaced, n_cut=n_cut)


def _join_pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
