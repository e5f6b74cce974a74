"""Random words written twice: mixed into training, and kept apart to score induction heads.

In a row `a b c a b c` of random different words nothing but the earlier occurrence predicts the later
one (Olsson et al. 2022, "In-context Learning and Induction Heads").

| symbol | meaning                | shape         |
|--------|------------------------|---------------|
| ids    | token ids of the rows  | [n, n_tokens] |
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import RecipeError
from attnscope.text.examples import is_held_out
from attnscope.text.tokenizer import Tokenizer

_LEAST_WORDS = 8


def word_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids of the tokens that are whole words of at least two letters, in order.

    A vocabulary with too few of them (one of characters, say) gives its single letters, or whatever it has
    but the special tokens.
    """
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    plain = [token for token in tokens if not token.is_special and token.piece and "⟨" not in token.piece]
    words = [t.id for t in plain if len(t.piece) > 1 and t.piece.isalpha() and not t.joins_previous]
    if len(words) >= _LEAST_WORDS:
        return tuple(words)
    letters = [token.id for token in plain if token.piece.isalpha()]
    return tuple(letters if len(letters) >= _LEAST_WORDS else (token.id for token in plain))


def repeated_random_ids(
    words: Sequence[int],
    *,
    n: int,
    n_tokens: int,
    seed: int,
    held_out: bool = False,
    min_period: int | None = None,
    begin_id: int | None = None,
) -> NDArray[np.int64]:
    """`n` rows of `n_tokens` ids: random different words, then the same words again until the row is full.

    The period is half a row (the begin token, if given, not counted), or with `min_period` a random
    number from there to half a row. A row that can be held out never occurs among the others, whatever the
    seed; the same arguments give the same rows. Shape [n, n_tokens].
    """
    n_free = n_tokens - (begin_id is not None)
    most = n_free // 2
    least = most if min_period is None else min_period
    if not 1 <= least <= most or most > len(words):
        raise RecipeError(
            f"Rows of {n_tokens} tokens cannot repeat {least} different words.",
            expected=f"a period from 1 to {min(n_free // 2, len(words))}",
            action="Use longer or shorter rows, or a larger vocabulary.",
        )
    rng = random.Random(f"repeats/{seed}/{held_out}")
    ids = np.empty((n, n_tokens), dtype=np.int64)
    for row in range(n):
        period = _draw_period(rng, words, rng.randint(least, most), held_out=held_out)
        repeated = np.resize(np.array(period, dtype=np.int64), n_free)  # [n_free]
        ids[row, n_tokens - n_free :] = repeated
        if begin_id is not None:
            ids[row, 0] = begin_id
    return ids


def _draw_period(rng: random.Random, words: Sequence[int], period: int, *, held_out: bool) -> list[int]:
    """Different random words whose hash lies on the wanted side; RecipeError when there is no choice."""
    row: list[int] = []
    for _ in range(1000):
        row = rng.sample(words, period)
        if is_held_out("/".join(map(str, row))) == held_out:
            return row
    raise RecipeError(
        f"Rows of {period} words out of {len(words)} are too few to keep some apart.",
        expected="more words",
        action="Use longer rows, or a larger vocabulary.",
    )
