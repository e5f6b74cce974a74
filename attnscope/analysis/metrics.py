"""How well a model does with some heads off: loss, accuracy, exact match, alignment error.

Each metric is a ratio of sums over texts, so that its interval comes from drawing texts again:

    metric            of one text, above the line           below the line
    loss              summed cross-entropy, nats            scored tokens
    accuracy          scored tokens told first              scored tokens
    exact-match       1 when all its tokens are told first  1
    alignment-error   |A| + |S| − |A∩S| − |A∩P|             |A| + |S|

Tokens are told with the right ones before them given. For exact match that is no help: writing greedily
gives the right text if and only if every token is told first. The alignment error rate is Och and Ney's
(2003), of the mean over the heads that are on of the cross-attention layer which aligns best with every
head on; S are the sure and P the possible gold links.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.analysis.alignment import Link, head_alignment
from attnscope.analysis.batches import NOT_SCORED, Sample, scored_logits, token_losses
from attnscope.analysis.gold_links import AlignedPair
from attnscope.analysis.importance import gate_tensors
from attnscope.analysis.subject import Batch, Subject, TensorGates
from attnscope.analysis.words import find_spans, word_maps
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.importance import MetricName
from attnscope.records.sites import NO_GATES, Gates, Site
from attnscope.text.examples import Example
from attnscope.trace.trace import Trace

Ratios = tuple[NDArray[np.float64], NDArray[np.float64]]
"""What each text adds above and below the line: two arrays [n_texts]."""
Metric = Callable[[Gates], Iterator[Ratios]]
"""With some gates: the texts, a few at a time."""


def make_metric(
    name: MetricName, model: Model, subject: Subject, batches: Sequence[Batch], samples: Sequence[Sample]
) -> Metric:
    """The metric of that name over the texts; raises UserError for one that does not apply to them."""
    match name:
        case "loss":
            return lambda gates: (_loss(subject, batch, gates) for batch in batches)
        case "accuracy" | "exact-match":
            is_whole = name == "exact-match"
            return lambda gates: (_hits(subject, batch, gates, is_whole) for batch in batches)
        case "alignment-error":
            return _alignment_metric(model, samples)
        case _:
            raise UserError(
                f"There is no metric '{name}'.",
                expected="loss, accuracy, exact-match or alignment-error",
                action="Choose one of these.",
            )


def _loss(subject: Subject, batch: Batch, gates: Gates) -> Ratios:
    with subject.studying():
        losses = token_losses(subject, batch, _probe(subject, gates)).double().sum(dim=1)
    return losses.cpu().numpy(), _n_scored(batch)


def _hits(subject: Subject, batch: Batch, gates: Gates, is_whole: bool) -> Ratios:
    with subject.studying():
        logits, labels, is_scored = scored_logits(subject, batch, _probe(subject, gates))
        is_right = logits.argmax(dim=-1) == labels
        hits = torch.zeros(is_scored.shape, device=is_right.device).masked_scatter(
            is_scored, is_right.float()
        )
        n_hits = hits.sum(dim=1).double().cpu().numpy()
    n_scored = _n_scored(batch)
    return (
        ((n_hits == n_scored).astype(np.float64), np.ones(len(n_scored))) if is_whole else (n_hits, n_scored)
    )


def _probe(subject: Subject, gates: Gates) -> TensorGates | None:
    return TensorGates(gate_tensors(subject, gates)) if gates else None


def _n_scored(batch: Batch) -> NDArray[np.float64]:
    return (batch.labels != NOT_SCORED).sum(dim=1).double().cpu().numpy()


# -- alignment ------------------------------------------------------------------------------------


def _alignment_metric(model: Model, samples: Sequence[Sample]) -> Metric:
    pairs = [pair for pair in (_aligned(sample) for sample in samples) if pair is not None]
    sites = [site for site in model.sites if site.stack == "cross"]
    if not sites or not pairs:
        raise UserError(
            "There is no alignment to measure.",
            expected="a translation model, and texts with gold links",
            action="Choose another metric.",
        )
    rates = [_rate([_count(model, site, pair, NO_GATES) for pair in pairs]) for site in sites]
    site = sites[rates.index(min(rates))]
    return lambda gates: (_count(model, site, pair, gates) for pair in pairs)


def _aligned(sample: Sample) -> AlignedPair | None:
    if isinstance(sample, AlignedPair):
        return sample
    if not isinstance(sample, Example) or sample.target is None or not sample.links:
        return None
    return AlignedPair(source=sample.source, target=sample.target, sure=frozenset(sample.links))


def _count(model: Model, site: Site, pair: AlignedPair, gates: Gates) -> Ratios:
    is_on = np.array([gates.value(head) != 0.0 for head in site.heads])
    found = _links(model.trace(pair.source, pair.target, gates), site, is_on, pair)
    n = len(found) + len(pair.sure)
    n_right = len(found & pair.sure) + len(found & (pair.sure | pair.possible))
    return np.array([float(n - n_right)]), np.array([float(n)])


def _links(trace: Trace, site: Site, is_on: NDArray[np.bool_], pair: AlignedPair) -> set[Link]:
    """Links of the target words, each from the row that predicts it; none when every head is off."""
    queries, keys = trace.tokens(site)
    if trace.target is None or not is_on.any():
        return set()
    spans = [
        find_spans(text, words.split()) or []
        for text, words in ((trace.target.text, pair.target), (trace.source.text, pair.source))
    ]
    maps = word_maps(queries, spans[0], keys, spans[1], shift=1)
    mean = trace.all_weights(site)[torch.from_numpy(is_on)].nan_to_num(nan=0.0).mean(dim=0).cpu()
    return set(head_alignment((maps.to_query @ mean @ maps.to_key.T).numpy()))


def _rate(counts: Sequence[Ratios]) -> float:
    return float(sum(above.sum() for above, _ in counts) / sum(below.sum() for _, below in counts))
