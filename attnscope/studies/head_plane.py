"""Heads on a plane and in groups, by how alike they attend (Clark et al. 2019, section 6).

What is laid out is D, the square root of the mean Jensen–Shannon divergence, since that is a distance (Endres
and Schindelin 2003), by classical scaling (Torgerson 1952).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.redundancy import HeadDivergences
from attnscope.records.arrays import frozen_array
from attnscope.records.sites import HeadRef, Stack

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
