"""Searching very many things by a few letters: the command palette's content, and its order.

A query matches when each of its words stands in the text, as a whole or as letters in order; small words
of a question, such as `what does this`, need not, and a question that students ask needs half of the others.
Letters that follow each other or begin a word weigh
more, so that `pab` finds “Prune all but selected”. Where letters lie within words, words that stand
somewhere as they were typed come first. Where nothing but help has every word, what has the rarest of them
follows: `hierarchical attention network`.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["action", "page", "model", "recent", "sample", "head", "choice", "recipe", "help", "question"]
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
    "question": "question",
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
    "question": -2.0,
}
N_SHOWN = 60
_START, _FOLLOWING, _LETTER, _GAP = 8.0, 6.0, 1.0, 0.15
_WHOLE_WORD, _LATER = 12.0, 0.02
_ISE, _IZE = re.compile(r"(?<=\w\w)is(?=$|[aei])"), re.compile(r"(?<=\w\w)iz(?=$|[aei])")
_ALL_WORDS = 300.0
"""What every word of a query that nothing has wholly is worth; to have some of them is worth a share."""
_MOST_SCATTERED = 4.0
"""What letters in order are worth at most when one of them neither begins a word nor follows another."""
_DISABLED = 12.0
"""What cannot be done now comes after what can, unless it is what was typed."""
_ASKED = 60.0
"""What a question that students ask is worth to somebody who asks, with every word; with some, a share."""
_IN_DETAIL, _IN_SEARCH, _LEAST_LETTERS = 20.0, 14.0, 3
"""What a word is worth that begins a word of the detail, or of the other words; how long it is at least."""


_ASKS = frozenset("how what when where which who why".split())
_SMALL = _ASKS - {"why"} | frozenset(
    "a an and are be can could did do does got had happen happens has have he i if in is it its me my of she "
    "should so that the there these they this to was we were will would you your".split()
)
"""Words that say nothing of what is looked for; `why` stands in names."""
_MARKS = "?!.,;:…\"'“”‘’"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One command or destination. `key` identifies it; `keys` is its shortcut.

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
    """An item that matches the query; `places` are the letters of its title to mark."""

    item: Item
    places: tuple[int, ...] = ()
    score: float = 0.0


def find(
    items: Iterable[Item], query: str, *, used: Mapping[str, int] | None = None, n_shown: int = N_SHOWN
) -> tuple[ItemMatch, ...]:
    """The matching items, best first; `used` ranks recent choices (1: last) before the rest.

    Without a query: what was used lately, then everything but the heads, as it came.
    """
    ranks = used or {}
    typed = _plain(query).split()
    words = _telling(typed)
    if not words:
        shown = [item for item in items if item.kind != "head"]
        shown.sort(key=lambda item: ranks.get(item.key, 1_000_000))
        return tuple(ItemMatch(item=item) for item in shown[:n_shown])
    items = tuple(items)
    found = [match for item in items if (match := match_item(item, words)) is not None]
    if _ASKS & set(typed) or "?" in query:
        found = [match for match in found if match.item.kind != "question"] + _asked(items, words)
    ranked = sorted(found, key=lambda match: -_of_use(match, ranks))
    if all(match.item.kind == "help" for match in found):
        known = {match.item.key for match in found}
        others = [match for match in _with_rarest(items, words) if match.item.key not in known]
        ranked += sorted(others, key=lambda match: -_of_use(match, ranks))
    return tuple(ranked[:n_shown])


def _telling(typed: list[str]) -> list[str]:
    """The words without punctuation at their ends, and without small words unless all are small."""
    bare = [word.strip(_MARKS) or word for word in typed]
    return [word for word in bare if word not in _SMALL] or bare


def _asked(items: tuple[Item, ...], words: list[str]) -> list[ItemMatch]:
    """The questions with at least half of the words; each counts from the beginning of a word on."""
    found = []
    for item in items:
        matches = [match for word in words if item.kind == "question" and (match := _match_whole(item, word))]
        if matches and 2 * len(matches) >= len(words):
            places = {place for match in matches for place in match.places}
            score = _ASKED * len(matches) / len(words) + sum(match.score for match in matches) / len(words)
            found.append(ItemMatch(item=item, places=tuple(sorted(places)), score=score))
    return found


def _of_use(match: ItemMatch, ranks: Mapping[str, int]) -> float:
    rank = ranks.get(match.item.key)
    return match.score if rank is None else match.score + 4.0 / rank


def _with_rarest(items: tuple[Item, ...], words: list[str]) -> list[ItemMatch]:
    """The items with most of the words, if all words match only in help; a word found in few items counts for
    more.

    A word counts where it stands as it was typed or in the other spelling, from its beginning on.
    """
    parts = [part for word in words for part in word.split("-")]
    long = [part for part in parts if len(part) >= _LEAST_LETTERS]
    if len(parts) == 1:
        return []
    having = {
        word: {item.key: match for item in items if (match := _match_whole(item, word))} for word in long
    }
    worth = {word: math.log(1.0 + len(items) / len(of)) for word, of in having.items() if of}
    found = []
    for item in items:
        matches = {word: having[word][item.key] for word in worth if item.key in having[word]}
        if matches:
            share = sum(worth[word] for word in matches) / sum(worth.values())
            places = sorted({place for match in matches.values() for place in match.places})
            score = _ALL_WORDS * share + max(match.score for match in matches.values())
            found.append(ItemMatch(item=item, places=tuple(places), score=score))
    most = max((match.score for match in found), default=0.0)
    return [match for match in found if match.score > most - _ALL_WORDS / 2]


def _match_whole(item: Item, word: str) -> ItemMatch | None:
    """Score of an item for one word that begins a word of it; None if none begins so."""
    title = _plain(item.title)
    texts = (title, _plain(f"{item.detail} {KIND_NAMES[item.kind]}"), _plain(item.search))
    begins = (
        any(_is_start(text, i) for i in _occurrences(text, spelt, text.find(spelt)))
        for spelt in _spellings(word)
        for text in texts
    )
    return match_item(item, [word]) if any(begins) else None


def match_item(item: Item, words: list[str]) -> ItemMatch | None:
    """Score of an item: every word in its title, or else in its detail, its kind or its other words."""
    title = _plain(item.title)
    aside, search = _plain(f"{item.detail} {KIND_NAMES[item.kind]}"), _plain(item.search)
    score, places = _KIND_WEIGHT[item.kind], set[int]()
    for word in words:
        for spelt in _spellings(word):
            found, beside = match_letters(title, spelt), _beside(aside, search, spelt)
            if found is not None or beside is not None:
                break
        else:
            return None
        if found is None or (beside is not None and beside > found[0]):
            score += beside or 0.0
            continue
        score += found[0]
        places.update(found[1])
    score -= 0.05 * len(title) + (0.0 if item.is_enabled else _DISABLED)
    return ItemMatch(item=item, places=tuple(sorted(places)), score=score)


def _spellings(word: str) -> tuple[str, ...]:
    """A word as typed, and with the other of -ise and -ize: normalisation, normalization."""
    other = _ISE.sub(lambda found: found[0].replace("s", "z"), word)
    other = other if other != word else _IZE.sub(lambda found: found[0].replace("z", "s"), word)
    return (word,) if other == word else (word, other)


def _plain(text: str) -> str:
    """Letters as compared: lower case, and an en dash as the hyphen that is typed."""
    return text.lower().replace("–", "-")


def _beside(aside: str, search: str, word: str) -> float | None:
    """Score of a word in the detail or the other words; None if it is not there."""
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
    """The score and the positions of `word` in `text`: as a whole, else letter by letter; None if absent."""
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
    """The letters of `word` from `start` on; beginnings of words are preferred to letters within."""
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
