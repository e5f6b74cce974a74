"""Plain definitions of what the program computes in other ways, and rows of random words, for tests."""

import math
import random
import time
from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis import Link, weights_of
from attnscope.errors import RecipeError, UserError
from attnscope.models import Model
from attnscope.records import HeadRef, TokenizerRow, check_heads
from attnscope.text import described, full_lines, is_held_out, measure_tokenizer, parts_of, train_or_refuse

PatternName = Literal["previous", "duplicate", "induction"]
Scoring = Literal["mul", "abs"]


def alignment_error_rate(
    predicted: Collection[Link], sure: Collection[Link], possible: Collection[Link] | None = None
) -> float:
    """How wrong predicted links are: 0 is perfect; NaN when there is nothing to align.

    `possible` None means that only the sure links are right; sure links always count as possible.
    """
    found, certain = set(predicted), set(sure)
    allowed = certain | set(possible or ())
    if not found and not certain:
        return math.nan
    return 1.0 - (len(found & certain) + len(found & allowed)) / (len(found) + len(certain))


def word_weights(
    weights: NDArray[np.float32], query_words: Sequence[int], key_words: Sequence[int]
) -> NDArray[np.float32]:
    """Weights between words: summed over the pieces of a key, averaged over the pieces of a query.

    Tokens whose word is −1 are left out (Clark et al. 2019, section 4.1).
    """
    n_queries = max(query_words, default=-1) + 1
    n_keys = max(key_words, default=-1) + 1
    to_query = np.array([[word == i for word in query_words] for i in range(n_queries)], np.float32)
    to_key = np.array([[word == j for word in key_words] for j in range(n_keys)], np.float32)
    if not n_queries or not n_keys:
        return np.zeros((n_queries, n_keys), np.float32)
    to_query /= np.maximum(to_query.sum(axis=1, keepdims=True), 1.0)
    result: NDArray[np.float32] = to_query @ np.nan_to_num(weights) @ to_key.T
    return result


def pattern(name: PatternName, ids: Sequence[int]) -> Tensor:
    """The pattern P of a text, 1 where a head should look: float32 [n_tokens, n_tokens].

    Row i looks at i − 1 (previous), at equal tokens before it (duplicate), at what came after them
    (induction).
    """
    tokens = torch.tensor(list(ids), dtype=torch.int64)
    n = len(tokens)
    if name == "previous":
        return torch.eye(n).roll(-1, dims=1).tril(-1)
    same = tokens[:, None] == tokens[None, :]  # [i, j]: token i equals token j
    if name == "duplicate":
        return same.float().tril(-1)
    if name != "induction":
        raise UserError(f"There is no pattern {name!r}.", expected="previous, duplicate or induction")
    after = torch.zeros(n, n)
    after[:, 1:] = same[:, :-1].float()  # [i, j]: token i equals token j−1
    return after.tril(0)


def detect(weights: Tensor, expected: Tensor, scoring: Scoring = "mul") -> Tensor:
    """The score of each head; `weights` a is [..., n, n] and never written to.

    "mul" is Σ(a∘P)/Σa, "abs" 1 − n · mean|a − P|: the detectors of TransformerLens (Nanda and Bloom 2022).
    """
    if weights.shape[-2:] != expected.shape:
        raise ValueError(f"weights {list(weights.shape)} against a pattern {list(expected.shape)}")
    a = weights.nan_to_num(nan=0.0)
    expected = expected.to(a)
    if scoring == "mul":
        return (a * expected).sum(dim=(-2, -1)) / a.sum(dim=(-2, -1))
    if scoring != "abs":
        raise UserError(f"There is no scoring {scoring!r}.", expected="'mul' or 'abs'")
    return 1.0 - expected.shape[-1] * (a - expected).abs().mean(dim=(-2, -1))


def ov_matrix(model: Model, head: HeadRef) -> Tensor:
    """What a head makes of a stream: x W_V W_O as [d_model, d_model], rows in, columns out; float64."""
    check_heads((head,), model.sites)
    weights = weights_of(model, head.site_key)
    return (weights.o[head.head] @ weights.v[head.head]).T


def qk_matrix(model: Model, head: HeadRef) -> Tensor:
    """How a head scores: x_q W_Q W_Kᵀ x_k · scale as [d_model, d_model], rows query, columns key; float64."""
    check_heads((head,), model.sites)
    weights = weights_of(model, head.site_key)
    return weights.scale * weights.q[head.head].T @ weights.k[head.head]


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


def compare_now(
    kinds: Sequence[str],
    sizes: Sequence[int],
    text: str,
    *,
    sentence: str = "",
    is_held_out: bool = True,
) -> list[TokenizerRow]:
    """Every row at once, for scripts; raises LoadError for a text without words."""
    training, measured = parts_of(full_lines(text), is_held_out=is_held_out)
    facts = described("", training, measured)
    rows: list[TokenizerRow] = []
    for kind in kinds:
        for size in sizes:
            began_s = time.perf_counter()
            made = train_or_refuse(kind, size, training)
            if isinstance(made, str):
                rows.append(TokenizerRow(kind=kind, asked=size, refusal=made))
                continue
            steps = measure_tokenizer(
                made,
                kind=kind,
                asked=size,
                lines=measured,
                facts=facts,
                sentence=sentence,
                train_ms=1e3 * (time.perf_counter() - began_s),
            )
            rows.extend(row for row in steps if isinstance(row, TokenizerRow))
    return rows
