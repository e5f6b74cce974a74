"""Scores of every head of a model over many texts whose right attention is known.

| symbol | meaning                              | shape                |
|--------|--------------------------------------|----------------------|
| scores | one number for each head, by site    | [n_sites, n_heads]   |

Sites follow `Model.sites`; a site with fewer heads than the largest is filled up with NaN, and so are
sites that a score does not apply to. Links of an Example count words from 0.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.detectors import detect, induction_stripe, pattern
from attnscope.analysis.gold_links import AlignedPair
from attnscope.analysis.word_alignment import measure_alignment
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.models.passes import evaluating, ids_tensor
from attnscope.records.sites import NO_GATES, SiteKey
from attnscope.records.word_tables import AlignmentTable
from attnscope.text.examples import Example
from attnscope.trace.probe import TraceProbe
from attnscope.trace.weights import site_weights

RowMeaning = Literal["predicting", "reading"]
"""Which row stands for a target word: the one that predicts it, or the one that has just read it."""


def previous_scores(model: Model, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """How far each head looks at the token before: detector "mul", mean over rows of ids [n, n_tokens]."""

    def score(weights: Tensor, ids: Sequence[int]) -> Tensor:
        return detect(weights, pattern("previous", ids))

    return _mean_scores(model, rows, score)


def induction_scores(model: Model, rows: NDArray[np.int64], n_first: int = 0) -> NDArray[np.float32]:
    """The induction stripe of each head, mean over rows of repeated ids [n, n_tokens].

    The first `n_first` ids of a row (a begin token, say) do not belong to the repeated part; each row's
    period is the first distance at which its ids repeat. Raises UserError for a row that never does.
    """

    def score(weights: Tensor, ids: Sequence[int]) -> Tensor:
        n_period = _period(ids[n_first:])
        end = n_first + 2 * n_period  # later copies would have two right answers
        return induction_stripe(weights[:, n_first:end, n_first:end], n_period)

    return _mean_scores(model, rows, score)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentScores:
    """Alignment error rates of cross-attention over many examples.

    `heads` [n_layers, n_heads]: each head alone; `layers` [n_layers]: the mean of a layer's heads.
    """

    heads: NDArray[np.float32]
    layers: NDArray[np.float32]
    n_examples: int

    @property
    def best(self) -> float:
        """The smallest rate of any head or layer mean."""
        return float(min(np.nanmin(self.heads), np.nanmin(self.layers)))


def cross_alignment(
    model: Model, examples: Iterable[Example], rows: RowMeaning = "predicting"
) -> AlignmentScores:
    """Alignment error rate of every cross-attention head, with gold targets and links; corpus totals.

    A target word is aligned with the source word of largest weight, among words only. Raises UserError
    for a model without cross-attention.
    """
    sites = [site for site in model.sites if site.stack == "cross"]
    if not sites:
        raise UserError(
            f"The model {model.info.name} has no cross-attention.",
            expected="a translation model",
            action="Choose another model.",
        )
    chosen = [example for example in examples if example.target is not None]
    pairs = [
        AlignedPair(source=example.source, target=example.target or "", sure=frozenset(example.links))
        for example in chosen
    ]
    table = next(
        found for found in measure_alignment(model, pairs, rows=rows) if isinstance(found, AlignmentTable)
    )
    n_heads = len(table.heads)
    return AlignmentScores(
        heads=table.error_rate[:n_heads].reshape(len(sites), -1),
        layers=table.error_rate[n_heads:],
        n_examples=table.n_texts,
    )


def _mean_scores(
    model: Model, rows: NDArray[np.int64], score: Callable[[Tensor, Sequence[int]], Tensor]
) -> NDArray[np.float32]:
    total = np.zeros((len(model.sites), max(site.n_heads for site in model.sites)), np.float64)
    total[:] = np.nan
    scored: dict[SiteKey, list[Tensor]] = {}
    for row in rows:
        ids = [int(id) for id in row]
        for key, weights in _self_attention(model, ids).items():
            scored.setdefault(key, []).append(score(weights, ids))
    for index, site in enumerate(model.sites):
        if site.key in scored:
            total[index, : site.n_heads] = torch.stack(scored[site.key]).cpu().double().mean(dim=0).numpy()
    return total.astype(np.float32)


def _self_attention(model: Model, ids: Sequence[int]) -> dict[SiteKey, Tensor]:
    """Weights of every self-attention site that reads `ids` as they are, [n_heads, n_tokens, n_tokens]."""
    module = model.own.module
    probe = TraceProbe(model.sites, NO_GATES)
    with evaluating(module):
        read = module.decode if model.own.config.form == "decoder" else module.encode
        read(ids_tensor(module, ids), probe=probe)
    return {key: site_weights(record) for key, record in probe.records.items()}


def _period(ids: Sequence[int]) -> int:
    for n in range(1, len(ids) // 2 + 1):
        if all(ids[i] == ids[i + n] for i in range(len(ids) - n)):
            return n
    raise UserError(
        "A row of tokens does not repeat.",
        expected="the same tokens at least twice",
        action="Give other rows.",
    )
