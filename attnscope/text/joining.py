"""Short sentences joined to longer ones, so that a model of short pairs also learns sentences of two clauses.

My name is John.            Je m'appelle John.
I study at a university.    J'étudie à l'université.
My name is John and I study at a university.    Je m'appelle John et j'étudie à l'université.
"""

from collections.abc import Sequence

import numpy as np

from attnscope.text.renaming import names_in

_MOST_WORDS = 12
"""Of each of the two sentences."""
_SIDE_BY_SIDE, _WITH_COMMA = 0.3, 0.4
"""How often two sentences stay sentences, and how often a comma stands before the joining word."""


def joining_words(text: str) -> list[tuple[str, str]]:
    """The words of "and/et, but/mais", source and target; raises ValueError on any other form."""
    words = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        source, _, target = (word.strip() for word in part.partition("/"))
        if not source or not target or "/" in target:
            raise ValueError(f"{part!r} is not a word, a slash and its translation")
        words.append((source, target))
    return words


def joined_pairs(
    pairs: Sequence[tuple[str, str]], share: float, words: Sequence[tuple[str, str]], rng: np.random.Generator
) -> list[tuple[str, str]]:
    """That share of the number of pairs, each made of two of them that are drawn at random.

    Two statements are joined by one of the words, the second without the capital it begins with unless
    that belongs to a name or "I"; otherwise, and in three of ten cases, they stay two sentences in a row.
    """
    short = [pair for pair in pairs if all(pair) and max(len(text.split()) for text in pair) <= _MOST_WORDS]
    if not short:
        return []
    names = names_in(source for source, _ in pairs), names_in(target for _, target in pairs)
    result = []
    for first, second in rng.integers(0, len(short), (round(share * len(pairs)), 2)).tolist():
        (source, target), (then, then_target) = short[first], short[second]
        texts = source, target, then, then_target
        is_joined = bool(words) and rng.random() >= _SIDE_BY_SIDE
        if not is_joined or not all(_is_statement(text) for text in texts):
            result.append((f"{source} {then}", f"{target} {then_target}"))
            continue
        by, by_target = words[int(rng.integers(len(words)))]
        comma = "," if rng.random() < _WITH_COMMA else ""
        result.append(
            (
                f"{source[:-1]}{comma} {by} {_within(then, names[0])}",
                f"{target[:-1]}{comma} {by_target} {_within(then_target, names[1])}",
            )
        )
    return result


def _is_statement(text: str) -> bool:
    return text.endswith(".") and not text.endswith("..")


def _within(text: str, names: frozenset[str]) -> str:
    """A sentence as it goes on within another."""
    first = text.split()[0].rstrip(".,")
    is_name = first in names or first == "I" or first.startswith(("I'", "I’"))
    return text if is_name or (first.isupper() and len(first) > 1) else text[0].lower() + text[1:]
