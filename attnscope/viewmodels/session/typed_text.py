"""Typed or pasted text: made safe to keep and send, with a record of what was lost, and words of a small
vocabulary as suggestions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from attnscope.records.tokens import COPYABLE, Tokens

MAX_CHARACTERS = 20_000
CLEANED = "cleaned"
Typed = Annotated[str, CLEANED]
"""A text that went through `clean_typed`: files may hold any."""
_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedText:
    """Text that every part of the program can handle, and what was done to it.

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


def _n_alike(one: str, other: str) -> int:
    """Number of letters in the common prefix."""
    least = min(len(one), len(other))
    return next((i for i in range(least) if one[i] != other[i]), least)


def is_written_over(before: str, after: str) -> bool:
    """Whether several words at once are gone: the user selected and overwrote them."""
    n_same = _n_alike(before, after)
    gone = before[n_same : len(before) - _n_alike(before[n_same:][::-1], after[n_same:][::-1])]
    return len(gone.split()) > 1


def is_foreign(text: str, words: Sequence[str]) -> bool:
    """Whether a model that knows only these words, if there are any, knows less than half of a text's."""
    if not words:
        return False
    known, typed = {word.lower() for word in words}, _WORD.findall(text.lower())
    return 2 * sum(word in known for word in typed) < len(typed)


@lru_cache(maxsize=4)  # asked at every key
def words_told(words: tuple[str, ...], n_named: int = 60) -> str:
    """Words known to a model, the first of them by name."""
    named = ", ".join([word for word in words if word[:1].isalnum()][:n_named])
    return f"The model knows {len(words):,} words: {named}{', …' if len(words) > n_named else ''}"


def text_notes(tokens: Tokens, typed: TypedText = NOTHING_TYPED, *, n_words: int = 0) -> str:
    """Counts of cut, unknown and replaced parts, for instance `12 tokens cut · 1 unknown`.

    `n_words` is how many words the model knows, where it knows whole words only.
    """
    unknown = f"unknown: the model knows {n_words:,} words" if n_words else "unknown"
    n_replaced = tokens.n_replaced + typed.n_replaced
    parts = (
        (typed.n_cut, "characters or more cut" if typed.is_more else "characters cut"),
        (tokens.n_dropped, "tokens cut" if tokens.n_dropped != 1 else "token cut"),
        (tokens.n_strange, unknown),
        (tokens.n_copyable, COPYABLE),
        (n_replaced, "replaced"),
        (tokens.n_untrained, "at positions never trained"),
    )
    return " · ".join(f"{count:,} {what}" for count, what in parts if count)


def named_text(text: str, what: str = "text") -> str:
    """A text in a label: its first words."""
    words = " ".join(text.split())
    return f"{what} “{words[:31]}…”" if len(words) > 32 else f"{what} “{words}”"


def _join_pair(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")


_WORD = re.compile(r"\w[\w'-]*")
N_LEAST, N_OFFERED, N_NEAREST = 2, 8, 3
"""Letters before words are offered, the most that are, and how many stand for an unknown one."""
_MAX_LETTERS = 40
_BEGUN = re.compile(r"[^\W_][\w-]*$")


def begun_word(text: str, at: int) -> str:
    """The letters before a position of a text that may begin a word; empty within a word."""
    found = _BEGUN.search(text[:at])
    return found.group() if found and not re.match(r"\w", text[at:]) else ""


def completions(words: Sequence[str], begun: str) -> list[str]:
    """Words that begin with these letters and are longer, in their own order."""
    letters = begun.casefold()
    if len(letters) < N_LEAST:
        return []
    return [word for word in words if word.casefold().startswith(letters) and word.casefold() != letters][
        :N_OFFERED
    ]


def nearest_words(words: Sequence[str], typed: str, n: int = N_NEAREST) -> list[str]:
    """The words with the fewest letters to change, then with the longest common beginning."""
    letters = typed[:_MAX_LETTERS].casefold()

    def order(word: str) -> tuple[int, int, str]:
        other = word.casefold()
        n_same = next(
            (k for k, pair in enumerate(zip(letters, other, strict=False)) if pair[0] != pair[1]), 0
        )
        return edit_distance(letters, other), -n_same, word

    return sorted((word for word in words if any(map(str.isalnum, word))), key=order)[:n]


def edit_distance(a: str, b: str) -> int:
    """Minimum number of letters to insert, delete, change, or exchange with their neighbour, to get from `a`
    to `b`.

    The optimal string alignment distance (Damerau 1964, with the table of Wagner and Fischer 1974): no
    letter is touched twice.
    """
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        before, last = row, before
        row = [i]
        for j, other in enumerate(b, start=1):
            least = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                least = min(least, last[j - 2] + 1)
            row.append(least)
    return row[-1]
