"""How alike heads attend: Jensen–Shannon divergences over many texts, heads on a plane, groups of heads.

| symbol | meaning                                              | shape                       |
|--------|------------------------------------------------------|-----------------------------|
| a      | weights, 0 where the mask forbids                    | [n_heads, n_queries, n_keys]|
| JS     | H((a + a')/2) − (H(a) + H(a'))/2, nats, of one row   | [n_heads, n_heads]          |
| D      | √ of the mean JS over all queries                    | [n_heads, n_heads]          |

Clark et al. 2019, section 6: Σ_i JS(a_h[i] ‖ a_h'[i]) over the tokens of a corpus, then multidimensional
scaling. Here its square root is what is laid out, since that is a distance (Endres and Schindelin 2003), by
classical scaling (Torgerson 1952). Heads of one stack are compared with each other; those of another read
other tokens.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.batches import Sample, chunks
from attnscope.analysis.measures import row_entropy
from attnscope.counting import there_are
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.nn.precision import exact
from attnscope.records.importance import Progress
from attnscope.records.redundancy import HeadPlane
from attnscope.records.sites import HeadRef, Stack
from attnscope.trace.trace import Trace

_BLOCK_CELLS = 4_000_000
_MOST_GROUPS = 8


class HeadDivergences:
    """Sums of Jensen–Shannon divergences between the heads of one stack, text by text."""

    def __init__(self, heads: Sequence[HeadRef]) -> None:
        self.heads = tuple(heads)
        self.n_queries = self.n_texts = 0
        self.total = np.zeros((len(self.heads), len(self.heads)))

    def add(self, trace: Trace, stack: Stack) -> None:
        """Take in one text."""
        weights = [trace.all_weights(site) for site in trace.sites if site.stack == stack]
        self.add_weights(torch.cat(weights))

    def add_weights(self, weights: Tensor) -> None:
        """Take in weights [n_heads, n_queries, n_keys]; NaN is forbidden, rows without a key do not count."""
        seeing = (~weights.isnan()).any(dim=-1).all(dim=0)
        a = weights[:, seeing].nan_to_num(nan=0.0)
        self.total += divergence_sums(a).cpu().numpy()
        self.n_queries += int(seeing.sum())
        self.n_texts += 1

    def mean(self) -> NDArray[np.float64]:
        """The mean divergence of each pair of heads, nats: 0 for heads that attend alike, at most ln 2."""
        return self.total / max(1, self.n_queries)


def divergence_sums(a: Tensor) -> Tensor:
    """Σ_i JS(a_h[i] ‖ a_h'[i]) of every pair of heads, float64 [n_heads, n_heads]; a [n_heads, n, keys]."""
    n_heads, n_queries, n_keys = a.shape
    total = torch.zeros(n_heads, n_heads, dtype=torch.float64)
    for rows in chunks(n_queries, max(1, _BLOCK_CELLS // max(1, n_heads * n_keys))):
        part = a[:, rows]
        entropy = row_entropy(part)  # [n_heads, rows]
        for h in range(n_heads - 1):
            mixed = row_entropy((part[h] + part[h + 1 :]) / 2)
            js = (mixed - (entropy[h] + entropy[h + 1 :]) / 2).clamp(min=0.0)
            total[h, h + 1 :] += exact(js).sum(dim=-1).cpu()
    return total + total.T


def head_plane(
    model: Model, samples: Sequence[Sample], stack: Stack | None = None, n_groups: int | None = None
) -> Iterator[Progress | HeadPlane]:
    """Progress after each text, then the heads of a stack (None: the first) on a plane.

    `n_groups` None takes the number of groups, 2 to 8, that stand apart best. Raises UserError for a stack
    with fewer than three heads.
    """
    stack = stack or model.sites[0].stack
    heads = [head for site in model.sites if site.stack == stack for head in site.heads]
    if len(heads) < 3:
        raise UserError(
            f"{there_are(len(heads), 'head')} in the stack '{stack}'.",
            expected="at least three to compare",
            action="Choose another stack or model.",
        )
    sums = HeadDivergences(heads)
    for n_done, trace in enumerate(_traces(model, samples), start=1):
        sums.add(trace, stack)
        yield Progress(n_done=n_done, n_total=len(samples), about="comparing heads")
    yield plane_of(sums, stack, n_groups)


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
        n_queries=sums.n_queries,
        n_texts=sums.n_texts,
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


def _traces(model: Model, samples: Iterable[Sample]) -> Iterator[Trace]:
    for sample in samples:
        if isinstance(sample, str):
            yield model.trace(sample)
        elif isinstance(sample, tuple):
            yield model.trace(*sample)
        else:
            yield model.trace(sample.source, sample.target)
