"""Pairs of sentences made into more of them: names exchanged, and short sentences joined.

Names exchanged for made-up ones, so that a model learns to copy a name instead of guessing a frequent one.

A word is a name if it stands in the middle of a sentence with a capital letter, and hardly ever without one:
"Tom" and "Mia", not "Mom", which is written "mom" as well.

    Tom is 30.          Tom a 30 ans.
    Sterghi is 847.     Sterghi a 847 ans.

Short sentences are joined to longer ones, so that a model of short pairs also learns sentences of two
clauses.

My name is John.            Je m'appelle John.
I study at a university.    J'étudie à l'université.
My name is John and I study at a university.    Je m'appelle John et j'étudie à l'université.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

_IN_SENTENCE = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b")
_SMALL = re.compile(r"\b[a-z]+\b")
_MOST_SMALL = 0.1
"""A name is written small at most a tenth as often as with a capital: Rose and rose."""
_NAME_OR_NUMBER = re.compile(r"\b[A-Z][a-z]+\b|(?<![:.,0-9])[0-9]+(?![:.,]?[0-9])")
_WITH_SIGN = 0.125
_SIGNS = [chr(code) for code in (*range(0x1F330, 0x1F6C0), *range(0x2600, 0x2700), *range(0x1F900, 0x1FA00))]
_FIRSTS = "B Br C Ch D Dr F Fl G Gr H J K L M N P Pr Qu R S Sh St T Tr V W Y Z".split()
_VOWELS = "a e i o u".split()
_MIDDLES = "b bb d dd f g l ll lm m mm n nd nn p r rn rr s ss st t tt v x z".split()
_WITH_MARK = 0.4
_MARKED = {
    "a": "áàâäãåăąæ", "c": "çćč", "d": "ďđð", "e": "éèêëěęė", "g": "ğģ", "i": "íìîïıī", "k": "ķ",
    "l": "łľļ", "n": "ñńňņ", "o": "óòôöõøőœ", "r": "řŕ", "s": "šśşșß", "t": "ťțþ", "u": "úùûüůűū", "y": "ýÿ",
    "z": "žźż",
}  # fmt: skip
"""Letters of the alphabets of Europe that are not in the English one."""
_ENDS = ["a", "e", "o", "y", "in", "el", "us", "an", "ie", "on", "er", "ick", "it"]


def names_in(texts: Iterable[str]) -> frozenset[str]:
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


def renamed_pairs(
    pairs: Sequence[tuple[str, str]], share: float, rng: np.random.Generator
) -> list[tuple[str, str]]:
    """That share of the number of pairs, drawn from those that have a name or a number in both texts, with
    another one there; every eighth ends in a sign such as an emoji as well. None where no pair has any.
    """
    names = names_in(source for source, _ in pairs)
    shared = [(pair, _shared(pair, names)) for pair in pairs]
    shared = [(pair, words) for pair, words in shared if words]
    words = sorted({word for source, _ in pairs for word in _SMALL.findall(source)})
    result = []
    for i in rng.integers(0, len(shared), round(share * len(pairs))).tolist() if shared else ():
        (source, target), known = shared[i]
        other = {word: _another(word, words, rng) for word in known}
        sign = f" {_SIGNS[int(rng.integers(len(_SIGNS)))]}" if rng.random() < _WITH_SIGN else ""
        result.append((_exchanged(source, other) + sign, _exchanged(target, other) + sign))
    return result


def _exchanged(text: str, other: Mapping[str, str]) -> str:
    return _NAME_OR_NUMBER.sub(lambda found: other.get(found[0], found[0]), text)


def _shared(pair: tuple[str, str], names: frozenset[str]) -> list[str]:
    """The names and numbers that stand in both texts."""
    first, second = (set(_NAME_OR_NUMBER.findall(text)) for text in pair)
    return sorted(word for word in first & second if word.isdigit() or word in names)


def _another(word: str, words: Sequence[str], rng: np.random.Generator) -> str:
    """A number of up to four digits for a number; for a name a made-up one, or parts of words in a row.

    Four names in ten have a letter or two that English does not have: "Drílly".
    """
    if word.isdigit():
        return str(int(rng.integers(10 ** int(rng.integers(1, 5)))))
    name = made_up_name(rng) if rng.random() < 0.5 or not words else _in_parts(words, rng)
    return _marked(name, rng) if rng.random() < _WITH_MARK else name


def _in_parts(words: Sequence[str], rng: np.random.Generator) -> str:
    parts = []
    for _ in range(int(rng.integers(2, 4))):
        of = words[int(rng.integers(len(words)))]
        start = int(rng.integers(max(1, len(of) - 2)))
        parts.append(of[start : start + int(rng.integers(2, 6))])
    return "".join(parts).capitalize()


def _marked(name: str, rng: np.random.Generator) -> str:
    """The name with one or two of its letters exchanged for like ones of other alphabets."""
    letters = list(name)
    for _ in range(int(rng.integers(1, 3))):
        k = int(rng.integers(len(letters)))
        like = _MARKED.get(letters[k].lower())
        if like is not None:
            mark = like[int(rng.integers(len(like)))]
            other = mark.upper() if letters[k].isupper() else mark
            letters[k] = other if len(other) == 1 else letters[k]  # ß has no capital
    return "".join(letters)


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
