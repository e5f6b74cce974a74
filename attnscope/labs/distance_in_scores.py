"""Distance between query and key in the score, in four ways: ALiBi, T5, Shaw and rotary.

    symbol   meaning                                                                   shape
    Δ        distance j − i of key j from query i: below 0 back, above 0 ahead          whole numbers
    m_h      slope of ALiBi's head h of n, 2^(−8h/n) (Press et al. 2022)                one number
    b        T5's number for each bucket of distances (Raffel et al. 2020)              [N_BUCKETS]
    r_Δ      Shaw's vector of each distance up to k; further ones are the last's        [2k + 1, d]
    R_Δ      rotary: every pair of dimensions turned by Δ·θ_p (Su et al. 2021)          [d, d]
    q, k     a query and a key, the same at every place: only the distance is told      [d]

ALiBi and T5 add a bias that no token changes; Shaw's term q·r_Δ / √d depends on the query, the rotary score
q·R_Δ k / √d on both. Learned numbers (b, r, q, k) are drawn; b falls by 0.2 a bucket, with noise.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number, redraw, switch
from attnscope.labs.lab import BLUE, GREEN, ORANGE, PURPLE, Lab, LabWords
from attnscope.records.charts import CellMap, Chart, Series

Numbers = NDArray[np.float64]
N_HEADS, N_BUCKETS, MAX_DISTANCE, D_HEAD = 8, 16, 32, 16
TOKENS: tuple[int, ...] = (8, 12, 16, 24, 48)
REACHES: tuple[int, ...] = (1, 2, 4, 8, 16)
BASES: tuple[float, ...] = (10.0, 100.0, 1000.0, 10000.0)
NAMES = ("ALiBi", "T5", "Shaw", "rotary")
COLOURS = (PURPLE, GREEN, ORANGE, BLUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceChoice:
    """The text's length, the selected distance, and the settings of each method."""

    distance: int = number(
        -5,
        range(-TOKENS[-1] + 1, TOKENS[-1]),
        title="distance Δ",
        tip="Key minus query, in tokens: click a cell, or drag in the chart",
        shown=lambda c: max(-c.n_tokens + 1, min(c.distance, 0 if c.is_causal else c.n_tokens - 1)),
    )
    n_tokens: int = number(12, TOKENS, title="tokens T", tip="Length of the text")
    is_causal: bool = switch(
        False, title="causal", tip="Keys ahead are masked: T5 then has buckets back only"
    )
    head: int = number(4, range(1, N_HEADS + 1), title="head", tip="Which of eight ALiBi heads: 1 looks near")
    reach: int = number(4, REACHES, title="reach k", tip="Shaw: distances beyond k share the last vector")
    base: float = number(
        100.0, BASES, title="base", tip="Rotary: with a larger base the slow pairs turn even more slowly"
    )
    seed: int = redraw(title="Other numbers", tip="Draw another query and key, and other learned numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """By method, in the order of NAMES: the score's term at `distances` [n], and for each pair [T, T]."""

    choice: DistanceChoice
    distance: int
    distances: Numbers
    terms: tuple[Numbers, ...]
    maps: tuple[Numbers, ...]
    words: LabWords


def tell_distances(choice: DistanceChoice) -> Distances:
    """The term of every method at every distance of a text."""
    last = 0 if choice.is_causal else choice.n_tokens - 1
    distances = np.arange(1.0 - choice.n_tokens, last + 1.0)
    query, key, learned, vectors = drawn(choice.seed)
    terms = (
        alibi_bias(distances, choice.head),
        learned[buckets(distances, is_causal=choice.is_causal)],
        shaw_terms(distances, query, vectors, choice.reach),
        rotary_scores(distances, query, key, choice.base),
    )
    places = np.arange(choice.n_tokens)
    column = places[None, :] - places[:, None] + choice.n_tokens - 1  # of each pair
    maps = []
    for term in terms:
        whole = np.concatenate([term, np.full(2 * choice.n_tokens - 1 - len(term), np.nan)])
        maps.append(whole[column])
    distance = int(min(max(choice.distance, distances[0]), last))
    return Distances(
        choice=choice,
        distance=distance,
        distances=distances,
        terms=terms,
        maps=tuple(maps),
        words=_words(
            choice, distance, {n: t[distances == distance].item() for n, t in zip(NAMES, terms, strict=True)}
        ),
    )


def drawn(seed: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """A query and a key [d] from N(0, 1), T5's numbers [N_BUCKETS], Shaw's vectors [2·16 + 1, d]."""
    random = np.random.default_rng(seed)
    query, key = random.standard_normal((2, D_HEAD))
    place = np.arange(N_BUCKETS)
    learned = -0.2 * (place % (N_BUCKETS // 2) + place // (N_BUCKETS // 2)) + 0.1 * random.standard_normal(
        N_BUCKETS
    )
    vectors = random.standard_normal((2 * REACHES[-1] + 1, D_HEAD)) / np.sqrt(D_HEAD)
    return query, key, learned, vectors


def alibi_bias(distances: Numbers, head: int) -> Numbers:
    """−m_h·|Δ|, for head 1 … N_HEADS."""
    return np.asarray(-(2.0 ** (-8.0 * head / N_HEADS)) * np.abs(distances))


def buckets(
    distances: Numbers, *, is_causal: bool, n_buckets: int = N_BUCKETS, max_distance: int = MAX_DISTANCE
) -> NDArray[np.int64]:
    """T5's bucket of each distance: single ones nearby, ever wider ones up to the maximum.

    Where not causal, the upper half of the buckets is for keys ahead. Logarithms are float32, as in T5.
    """
    half = n_buckets // 2
    n, first = (n_buckets, 0 * distances) if is_causal else (half, (distances > 0) * half)
    away = np.maximum(-distances, 0) if is_causal else np.abs(distances)
    n_single = n // 2
    share = np.log(np.maximum(away, 1).astype(np.float32) / n_single) / np.float32(
        np.log(max_distance / n_single)
    )
    wide = np.minimum(n_single + np.floor(share * (n - n_single)), n - 1)
    return np.asarray(first + np.where(away < n_single, away, wide), dtype=np.int64)


def shaw_terms(distances: Numbers, query: Numbers, vectors: Numbers, reach: int) -> Numbers:
    """q·r_Δ / √d, with Δ clipped to ±reach; the middle one of `vectors` is that of Δ = 0."""
    clipped = np.clip(distances, -reach, reach).astype(np.int64)
    return np.asarray(vectors[len(vectors) // 2 + clipped] @ query / np.sqrt(len(query)))


def rotary_scores(distances: Numbers, query: Numbers, key: Numbers, base: float) -> Numbers:
    """q·R_Δ k / √d, with dimensions p and p + d/2 paired."""
    half = len(query) // 2
    theta = base ** (-np.arange(half) / half)
    q, k = (v[:half] + 1j * v[half:] for v in (query, key))
    turned = np.exp(1j * distances[:, None] * theta) * (k * np.conj(q))  # [n, half]
    return np.asarray(turned.real.sum(axis=1) / np.sqrt(len(query)))


def _words(choice: DistanceChoice, distance: int, at: dict[str, float]) -> LabWords:
    numbers = (
        ("distance Δ", f"{distance:+d}".replace("-", "−") if distance else "0"),
        *(
            (
                f"{name}, added to the score" if name != "rotary" else "rotary, the score itself",
                format_number(at[name]),
            )
            for name in NAMES
        ),
        ("changes with the query", "Shaw, rotary"),
        ("changes with the key", "rotary"),
        ("learned numbers of a layer", f"0 · {N_BUCKETS} a head · {(2 * choice.reach + 1) * D_HEAD:,} · 0"),
        ("bucket of T5", str(int(buckets(np.array([float(distance)]), is_causal=choice.is_causal)[0]))),
    )
    return LabWords(
        formula=("ALiBi: s − m|Δ|", "T5: s + b[bucket Δ]", "Shaw: s + q·r_Δ / √d", "rotary: q·R_Δ k / √d"),
        numbers=numbers,
        sentence=_sentence(choice, distance),
    )


def _sentence(choice: DistanceChoice, distance: int) -> str:
    if abs(distance) > choice.reach:
        n_single = (N_BUCKETS if choice.is_causal else N_BUCKETS // 2) // 2
        buckets = "buckets are wide there" if abs(distance) >= n_single else "bucket is its own"
        return (
            f"{abs(distance)} tokens are beyond Shaw's reach of {choice.reach}: all such keys on one side "
            f"get the same term. T5's {buckets}, ALiBi goes on falling, and rotary turns on."
        )
    return (
        "Each map is the same along its diagonals: only the distance counts. ALiBi and T5 add a bias that no "
        "token changes; Shaw's term changes with the query; rotary is no bias: it turns the score."
    )


def distance_cells(shown: Distances) -> tuple[CellMap, ...]:
    """Terms of each pair's score, a map for each method."""
    return tuple(
        CellMap(
            title=name,
            note="score" if name == "rotary" else "added",
            values=values,
            kind="signed",
            limit=float(np.nanmax(np.abs(values))) or 1.0,
        )
        for name, values in zip(NAMES, shown.maps, strict=True)
    )


def distance_charts(shown: Distances) -> tuple[Chart, ...]:
    return (
        Chart(
            title="By distance",
            x_label="distance Δ in tokens, keys back at the left",
            y_label="nats",
            series=tuple(
                Series(name=name, xs=shown.distances, ys=term, colour=colour)
                for name, term, colour in zip(NAMES, shown.terms, COLOURS, strict=True)
            ),
            marks=((float(shown.distance), ""),),
        ),
    )


class DistanceInScores(Lab[DistanceChoice, Distances]):
    name = "Bias or rotation by distance"
    group = "Positions"
    order = 4
    shows = "ALiBi, T5, Shaw and rotary side by side: what a score gets for the distance of its key"
    source = "Shaw et al. 2018, Raffel et al. 2020, Press et al. 2022, Su et al. 2021"
    help = """Four ways of telling a score how far its key is away, as maps of queries and keys and as curves
    over the distance. ALiBi and T5 add a bias; Shaw adds the product of the query with a vector of the
    distance; rotary turns query and key, so that their product depends on the distance alone. The token is
    the same at every place, so everything seen comes from the distance, and each map is constant along its
    diagonals. Learned numbers are drawn at random. How models with these positions do on longer texts is
    measured in [Longer texts](help:labs#longer-texts).
    """

    example = DistanceChoice()
    dragged = (0,)
    stretches = (5, 4)
    names_px = 64
    figure_mm = (220.0, 180.0)
    other_page = ("Matrices and similarities →", "positions")

    resolve = staticmethod(tell_distances)
    cells = staticmethod(distance_cells)
    charts = staticmethod(distance_charts)

    def drag(self, choice: DistanceChoice, x: float, y: float, *, is_start: bool) -> DistanceChoice:
        last = 0 if choice.is_causal else choice.n_tokens - 1
        return replace(choice, distance=min(max(round(x), 1 - choice.n_tokens), last))

    def click(self, choice: DistanceChoice, cells: int, i: int, j: int) -> DistanceChoice:
        return replace(choice, distance=j - i) if j <= i or not choice.is_causal else choice
