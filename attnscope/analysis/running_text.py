"""How well a model tells a text of any length: nats a token, and of a causal model nats a character.

The text is cut between words into windows that the model can read, each a text by itself: what stands in
one is told from what stands in the same one. A causal model tells every token, a masked one a
fixed share that is hidden. Characters are those of the tokens told, line ends among them, so that models of
other vocabularies compare.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.analysis.batches import MASK_SEED, MASK_SHARE, build_batches, hidden_batches, scored_logits
from attnscope.analysis.bootstrap import interval_of_sums
from attnscope.analysis.metrics import gate_probe, make_metric, ratio_of
from attnscope.analysis.model_adapter import Subject, telling_subject
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.sites import NO_GATES, Gates
from attnscope.records.tokens import Token, Tokens
from attnscope.text.pieces import is_of_word

# How many hidden words a masked model guesses: all pieces of a word hidden, and all of them told first.


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


_CHARACTERS_PER_TOKEN = 16
"""More than a window is ever filled with, so that no text is encoded again and again to its end."""
Estimate = tuple[float, float, float]
"""A value with its interval over windows, which is NaN for too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTold:
    """Means over what was told; `per_character` is None for a model that does not tell every token.

    `words` is a masked model's share of hidden words that are right with all their pieces.
    """

    n_windows: int
    n_tokens: int
    n_characters: int
    per_token: Estimate
    per_character: Estimate | None
    accuracy: Estimate
    words: Estimate | None


def tell_text(model: Model, text: str, gates: Gates = NO_GATES) -> TextTold:
    """The losses of a text in nats, and the share of tokens that the model holds for the most probable.

    Raises UserError for a translation model, one that tells no tokens, and a text with nothing to be told.
    """
    if model.info.form == "encoder-decoder":
        raise UserError(
            f"The model {model.info.name} translates: it does not model running text.",
            expected="a causal or a masked model",
            action="Compute BLEU with attnscope translate, or open another model.",
        )
    subject = telling_subject(model)
    windows = list(_windows(model, text)) or [text]
    batches = [batch for window in windows for batch in build_batches(model, [window])]
    losses, hits = (
        np.concatenate(list(make_metric(name, model, subject, batches, windows).count(gates)))
        for name in ("loss", "accuracy")
    )
    n_characters = np.array([_characters(model.encode(window).source) for window in windows], np.float64)
    is_causal = model.info.form == "decoder"
    return TextTold(
        n_windows=len(windows),
        n_tokens=int(losses[:, 1].sum()),
        n_characters=int(n_characters.sum()),
        per_token=_estimate(losses),
        per_character=_estimate(np.stack([losses[:, 0], n_characters], axis=1)) if is_causal else None,
        accuracy=_estimate(hits),
        words=None if is_causal else _estimate(hidden_words_right(model, subject, windows, gates)),
    )


def _windows(model: Model, text: str) -> Iterator[str]:
    """The text in parts that the model reads whole, cut before words; those with nothing to tell left out."""
    rest, most = text, _CHARACTERS_PER_TOKEN * model.info.max_tokens
    while rest:
        source = model.encode(rest[:most]).source
        window = source.read_text
        n = len(window)
        if 0 < n < len(rest) and not (rest[n - 1].isspace() or rest[n].isspace()):  # within a word
            window = window[: -len(window.split()[-1])].rstrip(" ") or window
        if _n_told(source) > 0:
            yield window
        rest = rest[len(window) or most :]


def _n_told(source: Tokens) -> int:
    """Tokens that stand after another one."""
    return sum(not token.is_special for token in source.tokens[1:])


def _characters(source: Tokens) -> int:
    """Characters of the tokens that are told: all but those of a first token that is read from nothing."""
    first = next(iter(source.tokens), None)
    return len(source.read_text) - (0 if first is None or first.is_special else first.end)


def _estimate(counts: NDArray[np.float64]) -> Estimate:
    return float(ratio_of(counts.sum(axis=0))), *interval_of_sums(counts, ratio_of, limits=(0.0, np.inf))
