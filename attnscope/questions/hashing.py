"""Pairs never compared by hashing, and the weight on them (Kitaev et al. 2020).

| symbol | meaning                                                         | shape                           |
|--------|-----------------------------------------------------------------|---------------------------------|
| R      | a random rotation for each round, of normal numbers             | [n_rounds, d_head, n_buckets/2] |
| h(x)   | the bucket of a vector, argmax [x R; −x R]                      | 0 … n_buckets − 1               |

Reformer compares a query with the keys of its own bucket in any of the rounds (section 2). It gives queries
and keys the same matrix, so that a query's best keys have its direction; the heads asked here have two. Its
blocks of sorted tokens, which bound the size of a bucket, are left out.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural, share_words
from attnscope.fields import number, redraw
from attnscope.questions.question import Attended, Numbers, Question, Reading
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series

_ROUNDS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Buckets, rounds, and the amount mapped."""

    n_buckets: int = number(
        4, (2, 4, 8, 16, 32, 64), title="buckets", tip="Into how many buckets vectors fall"
    )
    n_rounds: int = number(
        2, _ROUNDS, title="rounds", tip="Hashings with rotations of their own; a pair meets if one joins it"
    )
    seed: int = redraw(title="rotations", tip="Which random rotations are drawn")
    n_shown: int = number(
        32,
        (8, 16, 24, 32, 48, 64, 128),
        title="tokens",
        tip="The maps show at most so many tokens, the last ones; shares and table are about all",
    )


class Hashing(Question):
    """Pairs that locality-sensitive hashing would have hidden from a head."""

    name, title, order = "hashing", "Hash buckets", 70
    words = "the pairs that attention by hashing (Reformer) would never compare, and the weight on them"
    source = "Kitaev et al. 2020"
    needs = "a head with queries and keys"
    formula = "h(x) = argmax [x·R; −x·R],   lost_i = Σ w_ij over keys j with h(q_i) ≠ h(k_j) in every round"
    search = ("reformer", "lsh", "locality-sensitive", "buckets", "sparse attention")
    is_of_head = True
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.attended()
        allowed = ~np.isnan(found.weights)
        weights = np.where(allowed, found.weights, 0.0)
        joined = joins(found.q, found.k, options.n_buckets, max(_ROUNDS), options.seed)
        met = joined[: options.n_rounds].any(axis=0) & allowed
        shares = [_shares(joined[:n].any(axis=0) & allowed, allowed, weights) for n in _ROUNDS]
        return Answer(
            sentence=_sentence(found, options, _shares(met, allowed, weights)),
            cells=(
                _map("Weight that is lost", np.where(met, 0.0, weights), found, options.n_shown),
                _map("Weights", weights, found, options.n_shown),
                _pairs(met, allowed, found, options.n_shown),
            ),
            charts=(_chart(shares), _by_query(np.where(met, 0.0, weights).sum(axis=1))),
            tables=(_table(shares),),
            note="Reformer is trained with one matrix for queries and keys; a head with two loses more.",
        )


def joins(q: Numbers, k: Numbers, n_buckets: int, n_rounds: int, seed: int) -> NDArray[np.bool_]:
    """Whether query i and key j share a bucket, for each round: [n_rounds, n_queries, n_keys]."""
    draw = np.random.default_rng(seed)
    rotations = draw.standard_normal((n_rounds, q.shape[1], n_buckets // 2))

    def bucket(x: Numbers) -> NDArray[np.int64]:
        turned = x @ rotations  # [n_rounds, n, n_buckets / 2]
        return np.asarray(np.concatenate((turned, -turned), axis=-1).argmax(axis=-1))

    return np.asarray(bucket(q)[:, :, None] == bucket(k)[:, None, :])


def _shares(met: NDArray[np.bool_], allowed: NDArray[np.bool_], weights: Numbers) -> tuple[float, float]:
    """The share of allowed pairs never compared, and the share of the weight on these."""
    lost = allowed & ~met
    return float(lost.sum() / max(1, allowed.sum())), float(weights[lost].sum() / max(weights.sum(), 1e-30))


def _sentence(found: Attended, options: Options, shares: tuple[float, float]) -> str:
    pairs, weight = shares
    return (
        f"With {options.n_buckets} buckets in {plural(options.n_rounds, 'round')}, {found.head.stack} "
        f"{found.head.label} would never compare {share_words(pairs)} of its pairs, and these hold "
        f"{share_words(weight)} of its weight; as many left out by chance would hold {share_words(pairs)}."
    )


def _map(title: str, weights: Numbers, found: Attended, n_shown: int) -> CellMap:
    shown = weights[-n_shown:, -n_shown:]
    is_part = shown.shape != weights.shape
    return CellMap(
        title=title,
        values=shown,
        note=f"last {n_shown} tokens" if is_part else "",
        rows=tuple(token.piece for token in found.query_tokens[-n_shown:]),
        columns=tuple(token.piece for token in found.key_tokens[-n_shown:]),
    )


def _pairs(met: NDArray[np.bool_], allowed: NDArray[np.bool_], found: Attended, n_shown: int) -> CellMap:
    """Pairs compared in some round, and in none, whatever their weight."""
    kinds = np.where(allowed, np.where(met, 1.0, 2.0), np.nan)
    return replace(
        _map("Pairs", kinds, found, n_shown), kind="kinds", legend=("compared", "never compared", "masked")
    )


def _chart(shares: list[tuple[float, float]]) -> Chart:
    rounds = np.array(_ROUNDS, np.float64)
    pairs, weight = (np.array(column) for column in zip(*shares, strict=True))
    curves = (
        Series(name="weight lost", xs=rounds, ys=weight, has_points=True),
        Series(name="pairs left out", xs=rounds, ys=pairs, colour=1, has_points=True, is_quiet=True),
    )
    return Chart(title="By rounds", x_label="rounds", y_label="share", series=curves, is_log_x=True)


def _by_query(lost: Numbers) -> Chart:
    curve = Series(name="lost", xs=np.arange(len(lost), dtype=np.float64), ys=lost, style="stems")
    return Chart(title="By query", x_label="place of the query", y_label="weight lost", series=(curve,))


def _table(shares: list[tuple[float, float]]) -> NumberTable:
    rows: list[tuple[Cell, ...]] = [(n, *one) for n, one in zip(_ROUNDS, shares, strict=True)]
    return NumberTable(
        title="By rounds", columns=("rounds", "pairs left out", "weight lost"), rows=tuple(rows)
    )
