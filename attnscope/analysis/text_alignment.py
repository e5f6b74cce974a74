"""Cross-attention against gold links on one text that was traced already: the numbers, and where links lie.

Words, rows and rates are those of `word_alignment.py`; the gates and changes of the trace are in it.
"""

import numpy as np
import torch

from attnscope.analysis.batches import slices_of
from attnscope.analysis.gold_links import AlignedPair, Link
from attnscope.analysis.known_links import word_spans
from attnscope.analysis.word_alignment import count_links, heads_then_means
from attnscope.analysis.words import WordMaps, word_maps
from attnscope.errors import UserError
from attnscope.records.alignment import AlignmentRows, GoldCell
from attnscope.records.sites import Site
from attnscope.records.word_tables import AlignmentTable
from attnscope.trace.trace import Trace
from attnscope.trace.weights import weights_to_sum

MAX_CELLS = 64_000_000
"""Larger layers are not aligned: heads · queries · keys, gone through while the person waits."""
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
    """Where the links lie on a map of tokens, sure ones last; a link whose word has no row is left out."""
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
    """What `count_links` counts, [2, 1, n_heads + 1, 3], summed over blocks of target words."""
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
    """Some of the target words with the links of theirs."""

    def of_part(links: frozenset[Link]) -> frozenset[Link]:
        return frozenset((t - words.start, s) for t, s in links if words.start <= t < words.stop)

    return AlignedPair(
        source=pair.source,
        target=" ".join(targets[words]),
        sure=of_part(pair.sure),
        possible=of_part(pair.possible),
    )


def _reach(row: torch.Tensor) -> tuple[int, int] | None:
    """The first place of a word and the one after its last; None where it has none."""
    places = row.nonzero()[:, 0]
    return (int(places[0]), int(places[-1]) + 1) if len(places) else None
