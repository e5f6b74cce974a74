"""Scores of Unigram pieces: expected counts against all splits, and the same tokenizer each time."""

import json
import math
from collections import Counter
from types import SimpleNamespace

from tokenizers import Tokenizer, models

from attnscope.schemes.tokenizers import KINDS, SPECIALS
from attnscope.text import train_tokenizer

SPECIAL = [(piece, 0.0) for piece in SPECIALS]
N_ROUNDS = 8
WORDS = {"abab": 3, "ba": 2, "abx": 1, "aab": 1}
PIECES = ("b", "ab", "a", "aba")


def settled_vocabulary(vocabulary: list[tuple[str, float]], words: dict[str, int]) -> list[tuple[str, float]]:
    """The pieces with their scores as the kind gives them, of such pieces and counted words."""
    library = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIALS.index("<unk>")))
    finished = KINDS["unigram"].finished(library, SimpleNamespace(words=words))
    return [(piece, score) for piece, score in json.loads(finished.to_str())["model"]["vocab"]]


def splits(word: str) -> list[tuple[str, ...]]:
    if not word:
        return [()]
    parts = [word[:n] for n in range(1, len(word) + 1) if word[:n] in PIECES or (n == 1 and word[0] == "x")]
    return [(part, *rest) for part in parts for rest in splits(word[len(part) :])]


def slow_scores() -> dict[str, float]:
    counts = {
        piece: sum(n * sum(word[k:].startswith(piece) for k in range(len(word))) for word, n in WORDS.items())
        for piece in PIECES
    }
    for _ in range(N_ROUNDS):
        total = sum(max(n, 0.1) for n in counts.values())
        p = {piece: max(n, 0.1) / total for piece, n in counts.items()} | {"x": 1e-8}
        counts = dict.fromkeys(PIECES, 0.0)
        for word, n in WORDS.items():
            ways = [(math.prod(p[part] for part in way), way) for way in splits(word)]
            for weight, way in ways:
                for part, times in Counter(way).items():
                    if part != "x":
                        counts[part] += n * times * weight / sum(w for w, _ in ways)
    total = sum(max(n, 0.1) for n in counts.values())
    return {piece: math.log(max(n, 0.1) / total) for piece, n in counts.items()}


def test_that_scores_are_those_of_all_splits_weighed_one_by_one() -> None:
    given = [*SPECIAL, *((piece, -1.0) for piece in PIECES)]
    settled = settled_vocabulary(given, WORDS)
    assert settled[:5] == SPECIAL
    expected = slow_scores()
    assert {piece for piece, _ in settled[5:]} == set(PIECES)
    assert all(abs(score - expected[piece]) < 1e-6 for piece, score in settled[5:])
    assert [score for _, score in settled[5:]] == sorted((s for _, s in settled[5:]), reverse=True)


def test_that_neither_the_order_of_pieces_nor_that_of_words_matters() -> None:
    one = settled_vocabulary([*SPECIAL, *((piece, -1.0) for piece in PIECES)], WORDS)
    turned = dict(reversed(WORDS.items()))
    assert settled_vocabulary([*SPECIAL, *((piece, -2.0) for piece in reversed(PIECES))], turned) == one
    long = settled_vocabulary(one, {"ab" * 4000: 1})  # longer than a float has room for
    assert all(math.isfinite(score) for _, score in long)


def test_that_the_same_texts_give_the_same_unigram_tokenizer(tmp_path) -> None:
    texts = [f"the {a} cat and the {b} king, said {a}{b}." for a in ("red", "old", "wee") for b in "xyzuvw"]
    first, second = (train_tokenizer("unigram", texts, vocab_size=40) for _ in range(2))
    for name, tokenizer in (("a", first), ("b", second)):
        (tmp_path / name).mkdir()
        tokenizer.save(tmp_path / name)
    one, other = ((tmp_path / name / "tokenizer.json").read_bytes() for name in "ab")
    assert one == other
    assert first.decode(first.encode_ids(texts[0])) == texts[0]
