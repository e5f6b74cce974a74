"""Cross-attention as word alignment against gold links: error rate, precision and recall of every head.

A target word is aligned with the source word that gets most of its weight, words being merged from pieces
(`words.py`); rates are of the whole corpus (Och and Ney 2003, section 5.1):

    precision |A∩P| / |A|    recall |A∩S| / |S|    error rate 1 − (|A∩S| + |A∩P|) / (|A| + |S|)

| symbol  | meaning                                             | shape                             |
|---------|-----------------------------------------------------|-----------------------------------|
| between | weights from target words to source words           | [batch, n_heads, target, source]  |
| gold    | sure and possible links                             | [2, batch, target, source]        |
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.bootstrap import RatioBootstrap
from attnscope.analysis.corpus_texts import NumberedInputs, length_batches, run_batch
from attnscope.analysis.gold_links import AlignedPair
from attnscope.analysis.words import Span, WordMaps, WordProbe, find_spans, stack_maps, word_maps
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.intervals import LEVEL
from attnscope.records.measures import CorpusProgress
from attnscope.records.word_tables import AlignmentTable


def measure_alignment(
    model: Model,
    pairs: Sequence[AlignedPair],
    *,
    name: str = "",
    rows: str = "predicting",
    seed: int = 0,
    level: float = LEVEL,
) -> Iterator[CorpusProgress | AlignmentTable]:
    """Progress after each batch, and the table at last.

    `rows` says which row stands for a target word: the one `predicting` it, or the one `reading` it.
    Raises UserError for a model without cross-attention, or when every pair had to be left out.
    """
    sites = [site for site in model.sites if site.stack == "cross"]
    if not sites:
        raise UserError(
            f"The model {model.info.name} has no cross-attention.",
            expected="a translation model",
            action="Choose another model.",
        )
    if rows not in ("predicting", "reading"):
        raise UserError(f"Rows cannot be {rows!r}.", expected="predicting or reading")
    bootstrap = RatioBootstrap(3 * sum(site.n_heads + 1 for site in sites), seed=seed)
    probe = WordProbe({"cross"})
    n_texts = 0
    yield CorpusProgress(n_done=0, n_total=len(pairs))
    for batch in length_batches(model, _encoded(model, pairs)):
        chosen = [pairs[one.number] for one in batch]
        maps = [_maps(one, pair, rows) for one, pair in zip(batch, chosen, strict=True)]
        probe.maps = stack_maps(maps, model.device)
        run_batch(model, batch, probe)
        counts = torch.cat([count_links(probe.between[site.key], chosen) for site in sites], dim=2).cpu()
        above, below = counts.flatten(2).numpy()  # [B, columns] each
        bootstrap.add([one.number for one in batch], above, below)
        n_texts += len(batch)
        yield CorpusProgress(n_done=n_texts, n_total=len(pairs))
    found = bootstrap.intervals(level, (0.0, 1.0))
    values, low, high = (part.reshape(-1, 3) for part in (found.values, found.low, found.high))
    order = heads_then_means([site.n_heads for site in sites])
    yield AlignmentTable(
        model=model.info.name,
        corpus=name,
        heads=tuple(head for site in sites for head in site.heads),
        layers=tuple(site.layer for site in sites),
        error_rate=1 - values[order, 0],
        low=1 - high[order, 0],
        high=1 - low[order, 0],
        precision=values[order, 1],
        recall=values[order, 2],
        precision_low=low[order, 1],
        precision_high=high[order, 1],
        recall_low=low[order, 2],
        recall_high=high[order, 2],
        n_texts=n_texts,
        rows=rows,
        n_skipped=len(pairs) - n_texts,
        level=level,
        diagonal=diagonal_error_rate(pairs),
    )


def diagonal_error_rate(pairs: Sequence[AlignedPair]) -> float:
    """The error rate, 0…1, of linking each target word to the source word at the same part of its sentence.

    Word j of n is linked to word round(j (m − 1) / (n − 1)) of m: what a head reaches that only follows the
    order of the words. NaN where there are no words.
    """
    n_found = n_sure = n_right = 0
    for pair in pairs:
        n_source, n_target = len(pair.source.split()), len(pair.target.split())
        if not n_source or not n_target:
            continue
        links = {(j, round(j * (n_source - 1) / max(n_target - 1, 1))) for j in range(n_target)}
        n_found, n_sure = n_found + n_target, n_sure + len(pair.sure)
        n_right += len(links & pair.sure) + len(links & (pair.sure | pair.possible))
    return 1 - n_right / (n_found + n_sure) if n_found else math.nan


def _encoded(model: Model, pairs: Sequence[AlignedPair]) -> Iterator[NumberedInputs]:
    """The pairs that were not cut off and whose words are found."""
    for number, pair in enumerate(pairs):
        inputs = model.network.encode(*pair.texts)
        target = inputs.target
        if target is None or inputs.source.n_dropped or target.n_dropped or not pair.source.split():
            continue
        if _spans(inputs.source.text, pair.source) and _spans(target.text, pair.target):
            yield NumberedInputs(number=number, inputs=inputs)


def _spans(text: str, words: str) -> list[Span]:
    return find_spans(text, words.split()) or []


def _maps(one: NumberedInputs, pair: AlignedPair, rows: str) -> WordMaps:
    source, target = one.inputs.source, one.inputs.target
    if target is None:
        raise ValueError("a pair without a target")
    return word_maps(
        target.tokens,
        _spans(target.text, pair.target),
        source.tokens,
        _spans(source.text, pair.source),
        shift=1 if rows == "predicting" else 0,
    )


def count_links(between: Tensor, pairs: Sequence[AlignedPair]) -> Tensor:
    """What agreement, precision and recall divide: [2, batch, n_heads + 1, 3], numerators first.

    The last row is of the mean of the heads.
    """
    maps = torch.cat([between, between.mean(dim=1, keepdim=True)], dim=1)  # [B, H + 1, target, source]
    top = maps.max(dim=3)
    n_words = torch.tensor([len(pair.target.split()) for pair in pairs], device=between.device)
    is_word = torch.arange(maps.shape[2], device=between.device) < n_words[:, None]
    is_linked = (top.values > 0) & is_word[:, None]  # [B, H + 1, target]
    sure, possible = _gold(pairs, maps.shape[2:], between.device)
    in_sure, in_possible = (
        (gold[:, None].expand_as(maps).gather(3, top.indices[..., None])[..., 0] & is_linked).sum(dim=-1)
        for gold in (sure, possible)
    )
    n_found = is_linked.sum(dim=-1)
    n_sure = sure.sum(dim=(1, 2))[:, None].expand_as(n_found)
    above = torch.stack([in_sure + in_possible, in_possible, in_sure], dim=-1)
    below = torch.stack([n_found + n_sure, n_found, n_sure], dim=-1)
    return torch.stack([above, below]).float()


def _gold(pairs: Sequence[AlignedPair], shape: Sequence[int], device: torch.device) -> Tensor:
    """Sure and possible links, bool [2, batch, target, source]."""
    gold = torch.zeros(2, len(pairs), *shape, dtype=torch.bool)
    for index, pair in enumerate(pairs):
        for part, links in enumerate((pair.sure, pair.sure | pair.possible)):
            for target, source in links:
                gold[part, index, target, source] = True
    return gold.to(device)


def heads_then_means(n_heads: Sequence[int]) -> NDArray[np.int64]:
    """The order that puts the mean of each site, which follows its heads, behind all heads."""
    ends = np.cumsum([n + 1 for n in n_heads]) - 1
    heads = np.setdiff1d(np.arange(ends[-1] + 1), ends)
    return np.concatenate([heads, ends])
