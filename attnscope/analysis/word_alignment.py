"""Cross-attention as word alignment against gold links: error rate, precision and recall of every head.

A target word is aligned with the source word that gets most of its weight, words being merged from pieces
(`words.py`); rates are of the whole corpus (Och and Ney 2003, section 5.1):

    precision |A∩P| / |A|    recall |A∩S| / |S|    error rate 1 − (|A∩S| + |A∩P|) / (|A| + |S|)

| symbol  | meaning                                             | shape                             |
|---------|-----------------------------------------------------|-----------------------------------|
| between | weights from target words to source words           | [batch, n_heads, target, source]  |
| gold    | sure and possible links                             | [2, batch, target, source]        |

Whose gold links a text has: of two files that a user opened, or of the task that the model learned.

Texts are compared word by word as `find_spans` finds them, so that it does not matter whether `l' animal`
is written together or apart; capitals do not matter either.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.batches import slices_of
from attnscope.analysis.bootstrap import RatioBootstrap
from attnscope.analysis.corpus_texts import (
    N_OWN_TEXTS,
    NumberedInputs,
    hand_aligned,
    length_batches,
    own_examples,
    read_abreast,
    run_batch,
)
from attnscope.analysis.words import (
    AlignedPair,
    Link,
    Span,
    WordMaps,
    WordProbe,
    everyday_pairs,
    find_spans,
    stack_maps,
    word_maps,
)
from attnscope.errors import UserError
from attnscope.models import Model, OwnNetwork
from attnscope.records.findings import AlignmentRows, AlignmentTable, GoldCell, GoldPair
from attnscope.records.measures import CorpusProgress
from attnscope.records.sites import Site
from attnscope.text.examples import Example
from attnscope.text.grammar import read_sentence
from attnscope.trace import Trace, weights_to_sum

_GRAMMAR = "english-french"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The links of a text, or why there are none and what to read instead; see `AlignmentShown`."""

    pair: AlignedPair | None = None
    origin: str = ""
    note: str = ""
    offered: GoldPair | None = None
    following: GoldPair | None = None


def own_pairs(model: Model, max_texts: int = N_OWN_TEXTS) -> list[AlignedPair]:
    """The gold links of `own_texts`: held-out pairs of the model's task, or pairs aligned by hand."""
    known = own_examples(model, max_texts)
    if known is None:
        return list(hand_aligned(model)[:max_texts])
    return [
        AlignedPair(source=example.source, target=example.target, sure=frozenset(example.links))
        for example in known[0]
        if example.target is not None and example.links
    ]


def links_of_files(pairs: Sequence[AlignedPair], name: str, source: str, target: str) -> Known:
    """The links of a text that is a pair of the files; `name` is what the files are called."""
    if not pairs:
        return Known(note=f"{name} has no pairs")
    places = [place for place, pair in enumerate(pairs) if word_spans(source, pair.source)]
    place = next((p for p in places if word_spans(target, pairs[p].target)), None)
    if place is not None:
        following = _named(pairs, (place + 1) % len(pairs), name) if len(pairs) > 1 else None
        origin = f"links of {name}, pair {place + 1:,} of {len(pairs):,}"
        return Known(pair=pairs[place], origin=origin, following=following)
    if places:
        note = f"another translation of this text has links, in {name}"
        return Known(note=note, offered=_named(pairs, places[0], name))
    return Known(note=f"this text is not among the pairs of {name}", offered=_named(pairs, 0, name))


def links_of_task(model: Model, source: str, target: str) -> Known:
    """The links of a text of the task that the model was trained on."""
    task = _task_of(model)
    examples = read_sentence(source) if task == _GRAMMAR else _same_source(model, source)
    found = next((e for e in examples if e.target is not None and word_spans(target, e.target)), None)
    if found is not None:
        pair = AlignedPair(source=found.source, target=found.target or "", sure=frozenset(found.links))
        return Known(pair=pair, origin=f"links of the task {task}")
    if examples:
        best = examples[0]
        offered = GoldPair(source=source, target=best.target or "", name="the task's translation")
        return Known(note=f"the task {task} has links of another translation of this text", offered=offered)
    if task == _GRAMMAR:
        return Known(note="this text is outside the small grammar whose links are known: open gold links")
    if any(word_spans(source, pair.source) for pair in everyday_pairs()):
        return links_of_files(everyday_pairs(), "the everyday English-French pairs", source, target)
    return Known(note="no gold links of this text are known: open a file of pairs and one of links")


def word_spans(text: str, words: str) -> list[Span] | None:
    """Spans of all the words that make up a text; None if it is not made up of these words."""
    wanted = words.split()
    lower = text.lower()
    for written, sought in ((text, wanted), (lower, [word.lower() for word in wanted])):
        spans = find_spans(written, sought) if len(written) == len(text) else None
        if spans and not written[spans[-1][1] :].strip():
            return spans
    return None


def _named(pairs: Sequence[AlignedPair], place: int, name: str) -> GoldPair:
    source, target = pairs[place].texts
    return GoldPair(source=source, target=target, name=f"pair {place + 1:,} of {name}")


def _same_source(model: Model, source: str) -> tuple[Example, ...]:
    known = own_examples(model)
    examples = () if known is None else known[0]
    return tuple(e for e in examples if e.target is not None and e.links and word_spans(source, e.source))


def _task_of(model: Model) -> str:
    network = model.network
    name = network.card.training.get("task") if isinstance(network, OwnNetwork) else None
    return name if isinstance(name, str) else ""


def measure_alignment(
    model: Model,
    pairs: Sequence[AlignedPair],
    *,
    name: str = "",
    rows: str = "predicting",
    seed: int = 0,
) -> Iterator[CorpusProgress | AlignmentTable]:
    """Yield progress after each batch, and finally the table.

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
    n_texts = 0
    yield CorpusProgress(n_done=0, n_total=len(pairs))
    read = partial(_read, model, pairs, rows)
    for batch, probe in read_abreast(model, length_batches(model, _encoded(model, pairs)), read):
        chosen = [pairs[one.number] for one in batch]
        counts = torch.cat([count_links(probe.between[site.key], chosen) for site in sites], dim=2).cpu()
        above, below = counts.flatten(2).numpy()  # [B, columns] each
        bootstrap.add([one.number for one in batch], above, below)
        n_texts += len(batch)
        yield CorpusProgress(n_done=n_texts, n_total=len(pairs))
    found = bootstrap.intervals((0.0, 1.0))
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
        diagonal=diagonal_error_rate(pairs),
    )


def _read(
    model: Model, pairs: Sequence[AlignedPair], rows: str, _thread: int, batch: Sequence[NumberedInputs]
) -> WordProbe:
    maps = [_maps(one, pairs[one.number], rows) for one in batch]
    probe = WordProbe({"cross"}, stack_maps(maps, model.device))
    run_batch(model, batch, probe)
    return probe


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
    """The uncut pairs whose words are all found."""
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
    """Counts for agreement, precision and recall: [2, batch, n_heads + 1, 3], numerators first.

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
    """The order that moves the mean of each site, which follows its heads, behind all heads."""
    ends = np.cumsum([n + 1 for n in n_heads]) - 1
    heads = np.setdiff1d(np.arange(ends[-1] + 1), ends)
    return np.concatenate([heads, ends])


# Cross-attention against gold links on one text that was traced already: the numbers, and where links lie.


MAX_CELLS = 64_000_000
"""Larger layers are not aligned: heads · queries · keys, computed while the user waits."""
_BLOCK_CELLS = 4_000_000
"""So many weights are held at once."""


def align_trace(
    trace: Trace, pair: AlignedPair, *, rows: AlignmentRows = "predicting", model: str = ""
) -> tuple[AlignmentTable, tuple[GoldCell, ...]]:
    """Error rate, precision and recall of every cross head and layer mean, and the links as cells of the map.

    Raises UserError without cross-attention, for very long pairs, and when the words are not those traced.
    """
    sites = [site for site in trace.sites if site.stack == "cross"]
    if not sites or trace.target is None:
        raise UserError(
            "There is no cross-attention to align.", expected="a translation model", action="Open another."
        )
    n_cells = max(site.n_heads for site in sites) * len(trace.source) * len(trace.target)
    if n_cells > MAX_CELLS:
        raise UserError(
            f"The pair has {len(trace.source):,} and {len(trace.target):,} tokens.",
            expected="a pair of sentences",
            action="Shorten the text to see its alignment.",
        )
    maps = _word_maps(trace, sites[0], pair, shift=1 if rows == "predicting" else 0)
    sums = torch.cat([_counts(trace, site, maps, pair) for site in sites], dim=2)[:, 0].cpu().double().numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (sums[0] / sums[1])[heads_then_means([site.n_heads for site in sites])]
    nothing = np.full(len(values), np.nan)
    table = AlignmentTable(
        model=model,
        corpus="this text",
        heads=tuple(head for site in sites for head in site.heads),
        layers=tuple(site.layer for site in sites),
        error_rate=1 - values[:, 0],
        low=nothing,
        high=nothing,
        precision=values[:, 1],
        recall=values[:, 2],
        precision_low=nothing,
        precision_high=nothing,
        recall_low=nothing,
        recall_high=nothing,
        n_texts=1,
        rows=rows,
    )
    return table, gold_cells(pair, maps)


def gold_cells(pair: AlignedPair, maps: WordMaps) -> tuple[GoldCell, ...]:
    """Cells of the gold links on a map of tokens, sure ones last; omits links to words without a row."""
    targets, sources = pair.target.split(), pair.source.split()
    found = []
    for is_sure, links in ((False, pair.possible - pair.sure), (True, pair.sure)):
        for target, source in sorted(links):
            rows, cols = _reach(maps.to_query[target]), _reach(maps.to_key[source])
            if rows is not None and cols is not None:
                words = (targets[target], sources[source])
                found.append(GoldCell(rows=rows, cols=cols, is_sure=is_sure, words=words))
    return tuple(found)


def _word_maps(trace: Trace, site: Site, pair: AlignedPair, *, shift: int) -> WordMaps:
    queries, keys = trace.tokens(site)
    target = trace.target.text if trace.target is not None else ""
    query_spans, key_spans = word_spans(target, pair.target), word_spans(trace.source.text, pair.source)
    if query_spans is None or key_spans is None:
        raise UserError(
            "The links belong to other words than those that were read.",
            expected="links of this text, read whole",
            action="Read the text that the links belong to.",
        )
    return word_maps(queries, query_spans, keys, key_spans, shift=shift)


def _counts(trace: Trace, site: Site, maps: WordMaps, pair: AlignedPair) -> torch.Tensor:
    """Counts for `count_links`, [2, 1, n_heads + 1, 3], summed over blocks of target words."""
    record, targets = trace.records[site.key], pair.target.split()
    size = max(1, _BLOCK_CELLS // (site.n_heads * len(trace.source)))
    total = torch.zeros(2, 1, site.n_heads + 1, 3)
    for words in slices_of(len(targets), size):
        to_query = maps.to_query[words]  # [words, n_queries]
        seen = to_query.any(dim=0).nonzero()[:, 0].tolist() or [0]
        rows = slice(seen[0], seen[-1] + 1)
        weights = weights_to_sum(record, rows=rows).cpu()  # [H, rows, n_keys]
        between = to_query[:, rows] @ weights @ maps.to_key.T  # [H, words, source words]
        total += count_links(between[None], [_part(pair, targets, words)])
    return total


def _part(pair: AlignedPair, targets: list[str], words: slice) -> AlignedPair:
    def of_part(links: frozenset[Link]) -> frozenset[Link]:
        return frozenset((t - words.start, s) for t, s in links if words.start <= t < words.stop)

    return AlignedPair(
        source=pair.source,
        target=" ".join(targets[words]),
        sure=of_part(pair.sure),
        possible=of_part(pair.possible),
    )


def _reach(row: torch.Tensor) -> tuple[int, int] | None:
    """First position of a word and the one after its last; None if it has none."""
    places = row.nonzero()[:, 0]
    return (int(places[0]), int(places[-1]) + 1) if len(places) else None
