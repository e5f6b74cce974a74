"""Finding one of very many things by a few letters: what the command palette offers, and its order.

A query matches when each of its words stands in the text, as a whole or as letters in order. Letters
that follow each other or begin a word weigh more, so that `pab` finds “Prune all but selected”. Where
letters lie within words, words that stand somewhere as they were typed come first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["action", "page", "model", "recent", "sample", "head", "choice", "recipe", "help"]
KIND_NAMES: dict[Kind, str] = {
    "action": "command",
    "page": "page",
    "model": "model",
    "recent": "recent",
    "sample": "sample",
    "head": "head",
    "choice": "setting",
    "recipe": "recipe",
    "help": "help",
}
_KIND_WEIGHT: dict[Kind, float] = {
    "action": 3.0,
    "page": 3.0,
    "choice": 1.5,
    "model": 2.0,
    "recent": 1.0,
    "sample": 0.5,
    "head": 0.0,
    "recipe": -1.0,
    "help": -2.0,
}
N_SHOWN = 60
_START, _FOLLOWING, _LETTER, _GAP = 8.0, 6.0, 1.0, 0.15
_WHOLE_WORD, _LATER = 12.0, 0.02
_MOST_SCATTERED = 4.0
"""What letters in order are worth at most when one of them neither begins a word nor follows another."""
_DISABLED = 12.0
"""What cannot be done now comes after what can, unless it is what was typed."""
_IN_DETAIL, _IN_SEARCH, _LEAST_LETTERS = 20.0, 14.0, 3
"""What a word is worth that begins a word of the detail, or of the other words; how long it is at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that can be done or gone to. `key` tells it from all others; `keys` is its shortcut.

    `search` are further words that find it and are not shown.
    """

    key: str
    kind: Kind
    title: str
    detail: str = ""
    keys: str = ""
    search: str = ""
    is_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemMatch:
    """An item that fits the query; `places` are the letters of its title to mark."""

    item: Item
    places: tuple[int, ...] = ()
    score: float = 0.0


def find(
    items: Iterable[Item], query: str, *, used: Mapping[str, int] | None = None, n_shown: int = N_SHOWN
) -> tuple[ItemMatch, ...]:
    """The items that fit, best first; `used` ranks what was chosen lately (1: last) before the rest.

    Without a query: what was used lately, then everything but the heads, as it came.
    """
    ranks = used or {}
    words = _plain(query).split()
    if not words:
        shown = [item for item in items if item.kind != "head"]
        shown.sort(key=lambda item: ranks.get(item.key, 1_000_000))
        return tuple(ItemMatch(item=item) for item in shown[:n_shown])
    found = []
    for item in items:
        match = match_item(item, words)
        if match is not None:
            bonus = 4.0 / ranks[item.key] if item.key in ranks else 0.0
            found.append(ItemMatch(item=item, places=match.places, score=match.score + bonus))
    found.sort(key=lambda match: -match.score)
    return tuple(found[:n_shown])


def match_item(item: Item, words: list[str]) -> ItemMatch | None:
    """How well an item fits: every word in its title, or else in its detail, its kind or its other words."""
    title = _plain(item.title)
    aside, search = _plain(f"{item.detail} {KIND_NAMES[item.kind]}"), _plain(item.search)
    score, places = _KIND_WEIGHT[item.kind], set[int]()
    for word in words:
        found = match_letters(title, word)
        beside = _beside(aside, search, word)
        if found is None and beside is None:
            return None
        if found is None or (beside is not None and beside > found[0]):
            score += beside or 0.0
            continue
        score += found[0]
        places.update(found[1])
    score -= 0.05 * len(title) + (0.0 if item.is_enabled else _DISABLED)
    return ItemMatch(item=item, places=tuple(sorted(places)), score=score)


def _plain(text: str) -> str:
    """Letters as they are compared: small, and an en dash as the hyphen that is typed."""
    return text.lower().replace("–", "-")


def _beside(aside: str, search: str, word: str) -> float | None:
    """What a word is worth that stands in the detail or the other words; None where it does not."""
    least = _LETTER * len(word) / 2
    if word in aside:
        begins = any(_is_start(aside, i) for i in _occurrences(aside, word, aside.find(word)))
        return least + _IN_DETAIL * (begins and len(word) >= _LEAST_LETTERS)
    if word in search:
        starts = [i for i in _occurrences(search, word, search.find(word)) if _is_start(search, i)]
        if len(word) >= _LEAST_LETTERS:
            return least + _IN_SEARCH if starts else None
        is_whole = any(not search[i + len(word) : i + len(word) + 1].isalnum() for i in starts)
        return least if is_whole else None  # such as the “of” of what is looked for
    return None


def match_letters(text: str, word: str) -> tuple[float, tuple[int, ...]] | None:
    """The score and the places of `word` in `text`: as it stands, else letter by letter; None without."""
    whole = _whole(text, word)
    if whole is not None:
        return whole
    best: tuple[float, tuple[int, ...]] | None = None
    for start in (i for i, letter in enumerate(text) if letter == word[0]):
        places = _places_from(text, word, start)
        if places is None:
            break
        score = _score(text, places)
        if best is None or score > best[0]:
            best = (score, places)
    return best


def _whole(text: str, word: str) -> tuple[float, tuple[int, ...]] | None:
    at = text.find(word)
    if at < 0:
        return None
    begins = next((i for i in _occurrences(text, word, at) if _is_start(text, i)), None)
    place = at if begins is None else begins
    places = tuple(range(place, place + len(word)))
    is_all = text == word
    return _score(text, places) + _WHOLE_WORD + 4.0 * (begins is not None) + 20.0 * is_all, places


def _occurrences(text: str, word: str, at: int) -> Iterable[int]:
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _places_from(text: str, word: str, start: int) -> tuple[int, ...] | None:
    """The letters of `word` from `start` on; beginnings of words are taken before letters within."""
    places = [start]
    for letter in word[1:]:
        at = places[-1] + 1
        follows = at < len(text) and text[at] == letter
        begins = next((i for i in range(at, len(text)) if text[i] == letter and _is_start(text, i)), -1)
        found = at if follows else begins if begins >= 0 else text.find(letter, at)
        if found < 0:
            return None
        places.append(found)
    return tuple(places)


def _score(text: str, places: tuple[int, ...]) -> float:
    score, last, is_scattered = 0.0, None, False
    for place in places:
        if last is not None and place == last + 1:
            score += _FOLLOWING
        elif _is_start(text, place):
            score += _START
        else:
            score += _LETTER
            is_scattered = is_scattered or last is not None
        score -= _GAP * (place - last - 1) if last is not None else _LATER * place
        last = place
    return min(score, _MOST_SCATTERED) if is_scattered else score


def _is_start(text: str, i: int) -> bool:
    return i == 0 or not text[i - 1].isalnum()
