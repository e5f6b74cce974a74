"""Where heads look and how alike they do, over many texts (Clark et al. 2019, sections 3 and 6).

| symbol | meaning                                                | shape                        |
|--------|--------------------------------------------------------|------------------------------|
| a      | weights of one text, 0 where the mask forbids          | [n_heads, n_tokens, n_tokens]|
| shares | mean weight on a place, over the rows that have one    | [n_heads, n_places]          |

Numbers are means over the rows of a text, then over the texts that have any. Special tokens stay in.

On the plane of heads, what is laid out is D, the square root of the mean Jensen–Shannon divergence, since
that is a distance (Endres and Schindelin 2003), by classical scaling (Torgerson 1952).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.measures import row_entropy
from attnscope.analysis.redundancy import HeadDivergences
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records.arrays import frozen_array
from attnscope.records.importance import Progress
from attnscope.records.sites import HeadRef, Stack
from attnscope.records.tokens import Token

PLACES = (
    "previous",
    "itself",
    "next",
    "start token",
    "separators",
    "stops and commas",
    "separators on specials",
)
"""The token before, the same, the one after; the first; other special tokens; `.` and `,`; and, of the rows
of special tokens other than the first, their weight on all special tokens."""
_STOPS = (".", ",")
_MIN_HEADS = 3
_MOST_GROUPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPlane:
    """The heads of one stack as points: near ones attend alike.

    `clusters` number the groups from 0, in the order of their first head. `shown_share` is how much of all
    squared distance the two axes show.
    """

    stack: Stack
    heads: tuple[HeadRef, ...]
    divergences: NDArray[np.float64]
    places: NDArray[np.float64]
    clusters: tuple[int, ...]
    shown_share: float

    def __post_init__(self) -> None:
        for name in ("divergences", "places"):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=2, name=name)
            object.__setattr__(self, name, array)
        if not len(self.heads) == len(self.places) == len(self.divergences) == len(self.clusters):
            raise ValueError(f"{len(self.heads)} heads, {len(self.places)} places")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Everything that was seen of the heads of one stack; entropies in nats, `even` that of equal weights.

    `stops` is the share of the tokens that are a stop or a comma, `n_tokens` counts tokens.
    """

    heads: tuple[HeadRef, ...]
    shares: NDArray[np.float64]
    entropies: NDArray[np.float64]
    plane: HeadPlane
    even: float
    stops: float
    n_tokens: int
    n_texts: int

    def __post_init__(self) -> None:
        for name, rank in (("shares", 2), ("entropies", 1)):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=rank, name=name)
            object.__setattr__(self, name, array)

    @property
    def layers(self) -> NDArray[np.int64]:
        """The layer of each head."""
        return np.array([head.layer for head in self.heads], np.int64)

    def share(self, place: str) -> NDArray[np.float64]:
        """The mean weight of each head on one of PLACES."""
        found: NDArray[np.float64] = self.shares[:, PLACES.index(place)]
        return found

    def by_layer(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means over the heads of each layer."""
        layers = self.layers
        return np.array([values[layers == layer].mean() for layer in np.unique(layers)])

    def likeness(self) -> tuple[float, float]:
        """The mean divergence of two heads of one layer, and of two layers, in nats; NaN without such two."""
        above = np.triu(np.ones((len(self.heads),) * 2, bool), 1)
        is_same = self.layers[:, None] == self.layers[None]
        found = self.plane.divergences
        within, between = found[above & is_same], found[above & ~is_same]
        return _mean(within), _mean(between)


def look(model: Model, texts: Sequence[str]) -> Iterator[Progress | Looks]:
    """Progress after each text, then the looks of all heads of a model's one stack.

    Raises UserError for a model that reads two texts, for one of fewer than three heads, and for texts
    without a token.
    """
    stack = _stack_of(model)
    sites = [site for site in model.sites if site.stack == stack]
    heads = [head for site in sites for head in site.heads]
    if len(heads) < _MIN_HEADS:
        raise UserError(
            f"{model.info.name} has {len(heads)} heads.",
            expected=f"at least {_MIN_HEADS} to compare",
            action="Choose another model.",
        )
    divergences = HeadDivergences(heads)
    sums, counts = (np.zeros((len(heads), len(PLACES))) for _ in range(2))
    entropies, even = np.zeros(len(heads)), 0.0
    n_tokens = n_stops = 0
    for n_done, text in enumerate(texts, start=1):
        trace = model.trace(text)
        tokens = trace.tokens(sites[0])[0]
        weights = torch.cat([trace.all_weights(site) for site in sites])  # [H, T, T]
        divergences.add_weights(weights)
        entropy, most = _entropies(weights)
        entropies, even = entropies + entropy, even + most
        shares = shares_of(weights.nan_to_num(nan=0.0), tokens)
        sums += np.nan_to_num(shares)
        counts += ~np.isnan(shares)
        n_tokens, n_stops = n_tokens + len(tokens), n_stops + sum(_is_stop(token) for token in tokens)
        yield Progress(n_done=n_done, n_total=len(texts), about="looking at heads")
    if not n_tokens:
        raise UserError(
            "There is no text to look at.", expected="a text of a word", action="Give other texts."
        )
    yield Looks(
        heads=tuple(heads),
        shares=np.where(counts > 0, sums / np.maximum(counts, 1), np.nan),
        entropies=entropies / len(texts),
        plane=plane_of(divergences, stack),
        even=even / len(texts),
        stops=n_stops / n_tokens,
        n_tokens=n_tokens,
        n_texts=len(texts),
    )


def shares_of(a: Tensor, tokens: Sequence[Token]) -> NDArray[np.float64]:
    """The mean weights of one text on each of PLACES; NaN where no row has that place."""
    n = len(tokens)
    special = torch.tensor([token.is_special for token in tokens])
    is_begun = bool(special[0])
    begin, separator = torch.zeros(n, dtype=torch.bool), special.clone()
    begin[0], separator[0] = is_begun, False
    stop = torch.tensor([_is_stop(token) for token in tokens])
    nothing = a.new_full((len(a),), torch.nan)

    def offset(k: int) -> Tensor:
        return a.diagonal(k, dim1=1, dim2=2).mean(dim=1) if abs(k) < n else nothing

    def on(keys: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
        chosen = a[:, rows]
        return chosen[:, :, keys].sum(dim=2).mean(dim=1) if bool(keys.any()) and chosen.shape[1] else nothing

    found = (offset(-1), offset(0), offset(1), on(begin), on(separator), on(stop), on(special, separator))
    array: NDArray[np.float64] = torch.stack(found, dim=1).cpu().double().numpy()
    return array


def _entropies(weights: Tensor) -> tuple[NDArray[np.float64], float]:
    """The mean entropy of each head's rows, and that of rows whose weights are all alike."""
    n_seen = (~weights[0].isnan()).sum(dim=-1)
    mean: NDArray[np.float64] = row_entropy(weights.nan_to_num(nan=0.0)).mean(dim=1).cpu().double().numpy()
    return mean, float(n_seen.cpu().double().log().mean())


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _is_stop(token: Token) -> bool:
    return not token.is_special and token.piece.strip() in _STOPS


def _stack_of(model: Model) -> Stack:
    stacks = {site.stack for site in model.sites}
    if stacks not in ({"encoder"}, {"decoder"}):
        raise UserError(
            f"{model.info.name} has attention in: {', '.join(sorted(stacks))}.",
            expected="a model that reads one text with self-attention, masked or causal",
            action="Choose another model; 'attnscope study roles' takes those that translate.",
        )
    return next(iter(stacks))


def plane_of(sums: HeadDivergences, stack: Stack, n_groups: int | None = None) -> HeadPlane:
    """The heads on a plane and in groups, from what was summed so far."""
    mean = sums.mean()
    places, share = scale_classically(mean)
    distances = np.sqrt(mean)
    wishes = range(2, min(_MOST_GROUPS, len(mean) - 1) + 1) if n_groups is None else (n_groups,)
    clusters = max((link_average(distances, n) for n in wishes), key=lambda c: silhouette(distances, c))
    return HeadPlane(
        stack=stack,
        heads=sums.heads,
        divergences=mean,
        places=places,
        clusters=tuple(clusters),
        shown_share=share,
    )


def scale_classically(squared: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Points on a plane whose squared distances follow `squared` [n, n], and the share they show.

    The signs of the axes are fixed: the point furthest out on an axis lies on its positive side.
    """
    n = len(squared)
    centring = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ squared @ centring)
    top = np.argsort(values)[::-1][:2]
    kept = np.clip(values[top], 0.0, None)
    places = vectors[:, top] * np.sqrt(kept)
    furthest = np.abs(places).argmax(axis=0)
    places *= np.where(places[furthest, range(places.shape[1])] < 0, -1.0, 1.0)
    total = np.clip(values, 0.0, None).sum()
    return places, float(kept.sum() / total) if total > 0 else 1.0


def link_average(distances: NDArray[np.float64], n_groups: int) -> list[int]:
    """Groups by average linkage: the two groups nearest on average are joined until `n_groups` are left."""
    groups = [[i] for i in range(len(distances))]
    while len(groups) > max(1, n_groups):
        pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
        i, j = min(pairs, key=lambda pair: distances[np.ix_(groups[pair[0]], groups[pair[1]])].mean())
        groups[j] += groups.pop(i)
    groups.sort(key=min)
    numbers = {member: number for number, group in enumerate(groups) for member in group}
    return [numbers[i] for i in range(len(distances))]


def silhouette(distances: NDArray[np.float64], clusters: Sequence[int]) -> float:
    """How well groups stand apart, −1 to 1 (Rousseeuw 1987); a head alone in its group counts 0."""
    labels = np.asarray(clusters)
    scores = []
    for i, own in enumerate(labels):
        same = (labels == own) & (np.arange(len(labels)) != i)
        others = [distances[i, labels == other].mean() for other in set(labels.tolist()) - {own}]
        if not same.any() or not others:
            scores.append(0.0)
            continue
        inside, outside = distances[i, same].mean(), min(others)
        scores.append((outside - inside) / max(inside, outside, 1e-12))
    return float(np.mean(scores))
