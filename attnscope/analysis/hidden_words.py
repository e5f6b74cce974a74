"""How many hidden words a masked model guesses: all pieces of a word hidden, and all of them told first.

Fifteen in a hundred of a text's words are hidden, at least one, the same ones every time. A word is a run of
pieces of letters and digits; punctuation is none.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.analysis.batches import MASK_SEED, MASK_SHARE, hidden_batches, scored_logits
from attnscope.analysis.metrics import gate_probe
from attnscope.analysis.subject import Subject
from attnscope.models.model import Model
from attnscope.records.sites import Gates
from attnscope.records.tokens import Token
from attnscope.text.pieces import is_of_word


def hidden_words_right(
    model: Model, subject: Subject, texts: Sequence[str], gates: Gates
) -> NDArray[np.float64]:
    """Of each text the number of hidden words that are right, and of those hidden: [n_texts, 2]."""
    rng = np.random.default_rng(MASK_SEED)
    inputs = [model.encode(text) for text in texts]
    hidden = [_drawn(list(_words(one.source.tokens)), rng) for one in inputs]
    batches = hidden_batches(model, inputs, [[place for word in words for place in word] for words in hidden])
    counts, of_text = np.zeros((len(texts), 2)), iter(range(len(texts)))
    for batch in batches:
        with subject.studying():
            logits, labels, is_scored = scored_logits(subject, batch, gate_probe(subject, gates))
            is_right = torch.zeros_like(is_scored).masked_scatter(is_scored, logits.argmax(dim=-1) == labels)
        for row in is_right.cpu().numpy():
            k = next(of_text)
            counts[k] = sum(bool(row[list(word)].all()) for word in hidden[k]), len(hidden[k])
    return counts


def _drawn(words: Sequence[range], rng: np.random.Generator) -> list[range]:
    draw = rng.random(len(words))
    return [word for word, x in zip(words, draw, strict=True) if x < MASK_SHARE or x == draw.min()]


def _words(tokens: Sequence[Token]) -> Iterator[range]:
    """Where each word stands."""
    start = None
    for i, token in enumerate(tokens):
        is_word = not token.is_special and is_of_word(token.piece[:1])
        goes_on = is_word and token.joins_previous and i > 0 and is_of_word(tokens[i - 1].piece[-1:])
        if start is not None and not goes_on:
            yield range(start, i)
            start = None
        if start is None and is_word:
            start = i
    if start is not None:
        yield range(start, len(tokens))
