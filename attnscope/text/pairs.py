"""Augments pairs of sentences: names or rare nouns exchanged, and short sentences joined.

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

Rare nouns put into the places of others, in both texts, so that a model meets them more often. After Fadaee
et al. 2017 ("Data augmentation for low-resource neural machine translation"), with the links below instead of
a language model: a noun takes the place of another one that has the same number, gender and first sound, so
that articles and adjectives around it stay right.

    I bought a bicycle at the market.    J'ai acheté un vélo au marché.
    I bought a curtain at the market.    J'ai acheté un rideau au marché.

Nouns are told by their neighbours: English ones follow an article or its like and are followed by no other
noun or adjective; the gender of a French one is that of the articles before it. French is the only language
whose genders are known here.

Which token of a text is a translation of which of the other, learned from the pairs alone.

The lexical model of Brown et al. 1993 (their Model 1) with the diagonal prior of Dyer et al. 2013, by
expectation maximisation, once in each direction; a link is what both directions believe (Liang et al. 2006).

| symbol | meaning                                                          | shape       |
|--------|------------------------------------------------------------------|-------------|
| cell   | one token of a source with one token of its target               | [n_cells]   |
| kind   | which two tokens a cell is of, whatever the pair it stands in    | [n_cells]   |
| prior  | P(place in the source | place in the target), over one target row | [n_cells]   |
| table  | P(target token | source token), one number for each kind         | [n_kinds]   |
| belief | P(the target token comes from this source token)                 | [n_cells]   |
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

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
    """The lines with other names in that share of the texts; blank lines separate texts.

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
    """That share of the number of pairs, drawn from those with a name or number in both texts, which is
    replaced; every eighth also ends in a sign such as an emoji. None if no pair has one.
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
    first, second = (set(_NAME_OR_NUMBER.findall(text)) for text in pair)
    return sorted(word for word in first & second if word.isdigit() or word in names)


def _another(word: str, words: Sequence[str], rng: np.random.Generator) -> str:
    """A number of up to four digits for a number; for a name a made-up one, or several parts of words.

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
    """The name with one or two of its letters replaced by similar ones of other alphabets."""
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
    """The words of "and/et, but/mais", source and target; raises ValueError for any other form."""
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
    """That share of the number of pairs, each joined from two drawn at random.

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
        if not is_joined or not all(text.endswith(".") and not text.endswith("..") for text in texts):
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


def _within(text: str, names: frozenset[str]) -> str:
    """A sentence in the form it has within another."""
    first = text.split()[0].rstrip(".,")
    is_name = first in names or first == "I" or first.startswith(("I'", "I’"))
    return text if is_name or (first.isupper() and len(first) > 1) else text[0].lower() + text[1:]


_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*['’]?|\d+|[^\w\s]")
_BEFORE = frozenset("a an the my your his her its our their this that these those some any no".split())
_AFTER = frozenset(
    "is are was were be been has have had will would can could may might must should do does did in on at to "
    "of for from with by about into over under after before and or but so because if when while as than that "
    "who which he she it they we you i yesterday today tomorrow now here there".split()
)
_MALE = frozenset("un le ce cet du au".split())
_FEMALE = frozenset("une la cette ma ta sa".split())
_MANY = frozenset("les des ces mes tes ses nos vos leurs aux".split())
_ARTICLES = _MALE | _FEMALE | _MANY | frozenset("mon ton son notre votre leur l' l’ d' d’ de".split())
_OPEN_SOUNDS = "aeiou", "aeiouyhàâäéèêëîïôöûüœæ"
"""The first letters before which English writes *an* and French *l'*; an h is silent in French alone."""
_LEAST, _MOST = 3, 60
"""A rare noun is linked with its translation so often in the pairs; places are those of any noun."""
_SURE = 0.7
_Kind = tuple[str | bool, ...]
"""The gender (with the number), whether English has an s at the end, and whether either begins open."""


@dataclass(frozen=True, slots=True)
class _Noun:
    """A noun with its translation, and how often they are linked in the pairs."""

    word: str
    translation: str
    n: int


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a noun in a pair: spans of characters in the source and the target."""

    pair: int
    source: tuple[int, int]
    target: tuple[int, int]


def exchanged_pairs(
    pairs: Sequence[tuple[str, str]], share: float, rng: np.random.Generator
) -> list[tuple[str, str]]:
    """That share of the number of pairs, drawn so that each rare noun is equally likely.

    None where no rare noun is found. A noun may be drawn for a place where it stands already.
    """
    nouns, places = _nouns_and_places(pairs)
    kinds = {noun: kind for kind, known in nouns.items() if places[kind] for noun in known if noun.n <= _MOST}
    offered = sorted(kinds, key=lambda noun: (noun.word, noun.translation))
    if not offered:
        return []
    found = []
    for index in rng.integers(0, len(offered), round(share * len(pairs))).tolist():
        noun = offered[index]
        there = places[kinds[noun]]
        place = there[int(rng.integers(len(there)))]
        source, target = pairs[place.pair]
        found.append((_put(source, place.source, noun.word), _put(target, place.target, noun.translation)))
    return found


def _nouns_and_places(
    pairs: Sequence[tuple[str, str]],
) -> tuple[dict[_Kind, list[_Noun]], dict[_Kind, list[_Place]]]:
    """By kind: its nouns, the most frequent first, and their positions."""
    texts = [[list(_TOKEN.finditer(text)) for text in pair] for pair in pairs]
    words = [[[token[0] for token in side] for side in both] for both in texts]
    numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
    ids = [
        [
            np.array([numbers[side].setdefault(word.lower(), len(numbers[side])) for word in both[side]], int)
            for both in words
        ]
        for side in (0, 1)
    ]
    genders = _genders(both[1] for both in words)
    is_noun = _english_nouns(both[0] for both in words)
    counted: Counter[tuple[str, str]] = Counter()
    of_word: Counter[str] = Counter()
    seen: dict[tuple[str, str], list[_Place]] = defaultdict(list)
    for index, links in enumerate(align_texts(*ids)):
        (sources, targets), (source, target) = texts[index], words[index]
        for t, s in _single(links):
            word, other = source[s], target[t]
            if word not in is_noun or other not in genders:
                continue
            of_word[word] += 1
            counted[word, other] += 1
            if t and target[t - 1].lower() in _ARTICLES:
                seen[word, other].append(_Place(index, sources[s].span(), targets[t].span()))
    nouns: dict[_Kind, list[_Noun]] = defaultdict(list)
    places: dict[_Kind, list[_Place]] = defaultdict(list)
    for (word, other), n in counted.most_common():
        if n < _LEAST or n < 0.4 * of_word[word] or (gender := genders[other]) is None:
            continue
        begins = [text[0] in sounds for text, sounds in zip((word, other), _OPEN_SOUNDS, strict=True)]
        kind: _Kind = (gender, word.endswith("s"), *begins)
        nouns[kind].append(_Noun(word, other, n))
        places[kind] += seen[word, other]
    return nouns, places


def _put(text: str, span: tuple[int, int], word: str) -> str:
    return text[: span[0]] + word + text[span[1] :]


def _single(links: np.ndarray) -> Iterator[tuple[int, int]]:
    targets, sources = (Counter(links[:, side].tolist()) for side in (0, 1))
    for t, s in links.tolist():
        if targets[t] == 1 and sources[s] == 1:
            yield t, s


def _genders(texts: Iterator[list[str]]) -> dict[str, str | None]:
    """By lower-case French word "m" or "f", in the plural "mm" or "ff"; None if uncertain."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for before, word in pairwise(text):
            if not word.islower() or not word[-1].isalpha() or len(word) < 3:
                continue
            before = before.lower()
            kind = "m" if before in _MALE else "f" if before in _FEMALE else "many" if before in _MANY else ""
            seen[word][kind] += 1
    single: dict[str, str | None] = {}
    for word, kinds in seen.items():
        n = kinds["m"] + kinds["f"] + kinds["many"]
        if n >= 2 and n >= 0.3 * kinds.total():
            kind = max("mf", key=kinds.__getitem__)
            single[word] = kind if kinds[kind] >= 0.85 * n else None
    found = dict(single)
    for word, kinds in seen.items():
        gender = single.get(word[:-1])
        if word[-1] in "sx" and gender and kinds["many"] >= 2 and kinds["m"] + kinds["f"] == 0:
            found[word] = 2 * gender
    return found


def _english_nouns(texts: Iterator[list[str]]) -> frozenset[str]:
    """Lower-case words that occur after an article, and never before a word that follows no noun."""
    n_all: Counter[str] = Counter()
    n_after: Counter[str] = Counter()
    n_last: Counter[str] = Counter()
    for text in texts:
        for before, word, then in zip(["", *text], text, [*text[1:], "."], strict=False):
            if word.islower() and word[-1].isalpha() and len(word) > 2:
                n_all[word] += 1
                n_after[word] += before.lower() in _BEFORE
                n_last[word] += then.lower() in _AFTER or not then[0].isalpha()
    return frozenset(
        word
        for word, n in n_all.items()
        if n_after[word] >= 0.2 * n and n_last[word] >= _SURE * n and word not in _BEFORE | _AFTER
    )


Ids = NDArray[np.int64]
Shares = NDArray[np.float64]
MOST_CELLS = 30_000_000
"""Pairs after the one that reaches it are left out: about 2.5 GB are held for so many."""
_N_PLAIN, _N_DIAGONAL = 4, 5
_TENSION, _NULL = 4.0, 0.08
"""How narrow the diagonal is, and the share of target tokens that come from nowhere (Dyer et al. 2013)."""
_LEAST_AGREEMENT = 0.2


def align_texts(sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Ids]:
    """The links of each pair, int64 [n_links, 2] of target and source positions, in order.

    A link is where the product of both directions' beliefs is at least 0.2. Pairs that have an empty text,
    or come after `MOST_CELLS`, have none.
    """
    grid = _lay_out(sources, targets)
    if not len(grid.pair):
        return [np.empty((0, 2), dtype=np.int64) for _ in sources]
    forward = _beliefs(grid, grid.rows, grid.source_token, grid.target_token)
    backward = _beliefs(grid, grid.columns, grid.target_token, grid.source_token)
    is_link = forward * backward >= _LEAST_AGREEMENT
    links = np.stack([grid.target_place[is_link], grid.source_place[is_link]], axis=1)
    ends = np.searchsorted(grid.pair[is_link], np.arange(1, len(sources)))
    return np.split(links, ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Every cell of every pair; `rows` and `columns` number the target and the source tokens of all pairs."""

    pair: Ids
    target_place: Ids
    source_place: Ids
    rows: Ids
    columns: Ids
    target_token: Ids
    source_token: Ids
    distance: Shares


def _lay_out(sources: Sequence[Ids], targets: Sequence[Ids]) -> _Grid:
    n_source = np.array([len(ids) for ids in sources], dtype=np.int64)
    n_target = np.array([len(ids) for ids in targets], dtype=np.int64)
    n_cells = n_source * n_target
    n_cells[np.cumsum(n_cells) > MOST_CELLS] = 0
    pair = np.repeat(np.arange(len(n_cells)), n_cells)
    within = np.arange(n_cells.sum()) - (np.cumsum(n_cells) - n_cells)[pair]
    width = n_source[pair]
    target_place, source_place = within // np.maximum(width, 1), within % np.maximum(width, 1)
    rows = (np.cumsum(n_target) - n_target)[pair] + target_place
    columns = (np.cumsum(n_source) - n_source)[pair] + source_place
    distance = np.abs((target_place + 0.5) / n_target[pair] - (source_place + 0.5) / width)
    return _Grid(
        pair=pair,
        target_place=target_place,
        source_place=source_place,
        rows=rows,
        columns=columns,
        target_token=_joined(targets)[rows],
        source_token=_joined(sources)[columns],
        distance=distance,
    )


def _joined(texts: Sequence[Ids]) -> Ids:
    return np.concatenate([np.empty(0, dtype=np.int64), *texts])


def _beliefs(grid: _Grid, rows: Ids, given: Ids, told: Ids) -> Shares:
    """P(the token `told` of a row comes from the token `given` of the cell), [n_cells]."""
    _, kind = np.unique(given * (int(told.max()) + 1) + told, return_inverse=True)
    kind = kind.astype(np.int32)
    of_given = np.zeros(int(kind.max()) + 1, dtype=np.int64)
    of_given[kind] = given
    n_rows = int(rows.max()) + 1
    seen = np.zeros(n_rows, dtype=np.int64)
    seen[rows] = told
    how_often = np.bincount(told[np.unique(rows, return_index=True)[1]], minlength=int(told.max()) + 1)
    from_nowhere = (_NULL * how_often / how_often.sum())[seen]  # [n_rows]
    table = np.ones(len(of_given))
    belief = np.empty(len(rows))
    for step in range(_N_PLAIN + _N_DIAGONAL + 1):
        prior = np.exp(-_TENSION * grid.distance) if step >= _N_PLAIN else np.ones(len(rows))
        prior *= (1.0 - _NULL) / np.bincount(rows, prior, n_rows)[rows]
        belief = prior * table[kind]
        belief /= (np.bincount(rows, belief, n_rows) + from_nowhere)[rows]
        counts = np.bincount(kind, belief)
        table = counts / np.bincount(of_given, counts)[of_given]
    return belief
