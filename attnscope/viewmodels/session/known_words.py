"""Words of a small vocabulary for somebody who types: how one may go on, which are nearest to another."""

import re
from collections.abc import Sequence

N_LEAST, N_OFFERED, N_NEAREST = 2, 8, 3
"""Letters before words are offered, the most that are, and how many stand for an unknown one."""
_MAX_LETTERS = 40
_BEGUN = re.compile(r"[^\W_][\w-]*$")


def begun_word(text: str, at: int) -> str:
    """The letters before a place of a text that a word may begin with; empty within a word."""
    found = _BEGUN.search(text[:at])
    return found.group() if found and not re.match(r"\w", text[at:]) else ""


def completions(words: Sequence[str], begun: str) -> list[str]:
    """Words that begin with these letters and go on, in their own order."""
    letters = begun.casefold()
    if len(letters) < N_LEAST:
        return []
    return [word for word in words if word.casefold().startswith(letters) and word.casefold() != letters][
        :N_OFFERED
    ]


def nearest_words(words: Sequence[str], typed: str, n: int = N_NEAREST) -> list[str]:
    """The words with the fewest letters to change; of equally near ones, those that begin alike first."""
    letters = typed[:_MAX_LETTERS].casefold()

    def order(word: str) -> tuple[int, int, str]:
        other = word.casefold()
        n_same = next(
            (k for k, pair in enumerate(zip(letters, other, strict=False)) if pair[0] != pair[1]), 0
        )
        return edit_distance(letters, other), -n_same, word

    return sorted((word for word in words if any(map(str.isalnum, word))), key=order)[:n]


def edit_distance(a: str, b: str) -> int:
    """Letters to put in, leave out, change, or exchange with their neighbour, at least, to make `b` of `a`.

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
