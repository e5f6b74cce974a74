"""Names exchanged for made-up ones, so that a model learns to copy a name instead of guessing a frequent one.

A word is a name if it stands in the middle of a sentence with a capital letter, and hardly ever without one:
"Tom" and "Mia", not "Mom", which is written "mom" as well.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

_IN_SENTENCE = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b")
_SMALL = re.compile(r"\b[a-z]+\b")
_MOST_SMALL = 0.1
"""A name is written small at most a tenth as often as with a capital: Rose and rose."""
_FIRSTS = "B Br C Ch D Dr F Fl G Gr H J K L M N P Pr Qu R S Sh St T Tr V W Y Z".split()
_VOWELS = "a e i o u".split()
_MIDDLES = "b bb d dd f g l ll lm m mm n nd nn p r rn rr s ss st t tt v x z".split()
_ENDS = ["a", "e", "o", "y", "in", "el", "us", "an", "ie", "on", "er", "ick", "it"]


def names_in(texts: Iterable[str]) -> frozenset[str]:
    """The names in all these texts."""
    capital: Counter[str] = Counter()
    small: Counter[str] = Counter()
    for text in texts:
        capital.update(_IN_SENTENCE.findall(text))
        small.update(_SMALL.findall(text))
    return frozenset(name for name, n in capital.items() if n > 1 and small[name.lower()] <= n * _MOST_SMALL)


def renamed(lines: Sequence[str], share: float, rng: np.random.Generator) -> list[str]:
    """The lines with other names in that share of the texts; blank lines stand between texts.

    Within a text every name becomes one made-up name, the same wherever it stands.
    """
    names = names_in(lines)
    result: list[str] = []
    text: list[str] = []
    for line in (*lines, ""):
        text.append(line)
        if not line.strip():
            result += _with_other_names(text, names, rng) if rng.random() < share else text
            text = []
    return result[:-1]


def made_up_name(rng: np.random.Generator) -> str:
    """A name of two or three syllables: "Drilly", "Momex"."""
    parts = [_FIRSTS, _VOWELS, _MIDDLES, *([_VOWELS, _MIDDLES] if rng.random() < 0.2 else []), _ENDS]
    return "".join(part[int(rng.integers(len(part)))] for part in parts)


def _with_other_names(text: Sequence[str], names: frozenset[str], rng: np.random.Generator) -> list[str]:
    known = {}
    for name in sorted(names.intersection(re.findall(r"\b[A-Z][a-z]+\b", " ".join(text)))):
        known[name] = made_up_name(rng)
    if not known:
        return list(text)
    pattern = re.compile(r"\b(" + "|".join(known) + r")\b")
    return [pattern.sub(lambda found: known[found[0]], line) for line in text]
