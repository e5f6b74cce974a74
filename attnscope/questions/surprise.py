"""A causal model's surprise at each token of a text: its −log p, and the model's uncertainty before it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import fixed, format_number, plural
from attnscope.fields import number, one_of
from attnscope.questions.question import Numbers, Question, Reading
from attnscope.records.charts import Answer, Cell, Chart, NumberTable, Series
from attnscope.records.tokens import Token

_BLOCK_CELLS = 4_000_000
"""Probabilities that are held at once."""
_UNITS = {"nats": 1.0, "bits": float(np.log(2.0))}
_MOST_NAMES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The unit, and the number of tokens in the curves."""

    unit: str = one_of(
        "bits",
        {name: name for name in _UNITS},
        title="unit",
        tip="Logarithms to the base 2 (bits) or e (nats)",
    )
    n_shown: int = number(
        32,
        (8, 16, 32, 64, 128, 256),
        title="tokens",
        tip="The curves show at most so many tokens, the last ones; the sentence and the table are about all",
    )


class Surprise(Question):
    """Surprisal and entropy at each position, and bits per character."""

    name, title, order = "surprise", "Next-token surprise", 30
    words = "how surprising each token is after those before it, and how unsure the model was"
    source = "Shannon 1951"
    needs = "a model that predicts the next token"
    formula = "s_t = −log p(x_t | x_(<t)),   H_t = −Σ p log p"
    search = ("surprisal", "perplexity", "entropy", "cross-entropy", "bits per character", "log probability")
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found, unit = reading.next_tokens(), _UNITS[options.unit]
        ids = [token.id for token in found.tokens]
        surprise, entropy, rank = surprises(reading, ids, found.positions)
        surprise, entropy = surprise / unit, entropy / unit
        return Answer(
            sentence=_sentence(found.tokens, surprise, options.unit),
            charts=(_chart(found.tokens, surprise, entropy, options),),
            tables=(_table(found.tokens, surprise, entropy, rank, options.unit),),
        )


def surprises(
    reading: Reading, ids: list[int], positions: tuple[int, ...]
) -> tuple[Numbers, Numbers, NDArray[np.int64]]:
    """−ln p of each token, the entropy of the prediction there, and the token's rank from 0 on."""
    n = len(ids)
    surprise, entropy, rank = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)
    size = max(1, _BLOCK_CELLS // max(1, reading.model.vocab_size))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        log_p = reading.log_p(positions[rows])
        own = log_p[np.arange(len(log_p)), ids[rows]]
        with np.errstate(invalid="ignore"):  # a token that is ruled out adds nothing
            terms = np.where(np.isneginf(log_p), 0.0, np.exp(log_p) * log_p)
        surprise[rows], entropy[rows] = -own, -terms.sum(axis=1)
        rank[rows] = (log_p > own[:, None]).sum(axis=1)
    return surprise, entropy, rank


def bits_per_character(tokens: tuple[Token, ...], surprise_bits: Numbers) -> tuple[float, int]:
    """Bits for each character of the text behind the tokens, without special tokens; 0 for none."""
    known = [k for k, token in enumerate(tokens) if not token.is_special and token.end > token.start]
    if not known:
        return 0.0, 0
    n_characters = tokens[known[-1]].end - tokens[known[0]].start
    return float(surprise_bits[known].sum()) / n_characters, n_characters


def _sentence(tokens: tuple[Token, ...], surprise: Numbers, unit: str) -> str:
    most = int(np.argmax(surprise))
    bits = surprise * _UNITS[unit] / _UNITS["bits"]
    each, n_characters = bits_per_character(tokens, bits)
    mean = float(surprise.mean())
    perplexity = format_number(float(np.exp(mean * _UNITS[unit])))
    told = f"{format_number(mean)} {unit} a token (perplexity {perplexity})"
    if n_characters:
        told += f", {fixed(each)} bits per character over {plural(n_characters, 'character')}"
    piece, largest = tokens[most].piece, format_number(surprise[most])
    return f"{told}; the most surprising token is “{piece}” ({largest} {unit})."


def _chart(tokens: tuple[Token, ...], surprise: Numbers, entropy: Numbers, options: Options) -> Chart:
    n = min(options.n_shown, len(tokens))
    xs = np.arange(1.0, n + 1.0)
    has_names = n <= _MOST_NAMES
    curves = (("surprise", surprise), ("entropy", entropy))
    return Chart(
        title="Surprise and entropy",
        x_label="token" if has_names else "position",
        y_label=options.unit,
        series=tuple(
            Series(
                name=name,
                xs=xs if has_names else xs + len(tokens) - n,
                ys=ys[-n:],
                colour=k,
                has_points=True,
                is_dashed=k == 1,
            )
            for k, (name, ys) in enumerate(curves)
        ),
        x_names=tuple(token.piece for token in tokens[-n:]) if has_names else (),
    )


def _table(
    tokens: tuple[Token, ...], surprise: Numbers, entropy: Numbers, rank: NDArray[np.int64], unit: str
) -> NumberTable:
    rows: list[tuple[Cell, ...]] = [
        (token.piece, float(s), float(h), float(np.exp(-s * _UNITS[unit])), float(place + 1))
        for token, s, h, place in zip(tokens, surprise, entropy, rank, strict=True)
    ]
    columns = ("token", "−log p", "entropy", "p", "rank")
    return NumberTable(title=f"Token by token, in {unit}", columns=columns, rows=tuple(rows))
