"""Every measure of every head over a corpus, as a stream: batch by batch, nothing of a text kept.

The probe computes the measures inside the pass, for all heads of a site at once, from queries, keys and
the lse that attention gave; only sums over rows leave it (see `head_sums.py`). Means are over texts;
intervals are those of `bootstrap.py`.

| symbol | meaning                                     | shape                        |
|--------|---------------------------------------------|------------------------------|
| values | measures of a batch                         | [batch, n_heads of a site]   |
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.bootstrap import N_RESAMPLES, RatioBootstrap
from attnscope.analysis.corpus_texts import (
    NumberedInputs,
    Text,
    check_targets,
    encode_corpus,
    length_batches,
    run_batch,
)
from attnscope.analysis.facts import Facts, facts_of_site
from attnscope.analysis.head_sums import BLOCK_CELLS, sum_site
from attnscope.analysis.stripes import N_ROWS, stripe_scores
from attnscope.analysis.subject import QuietProbe
from attnscope.analysis.telling import TellingTexts
from attnscope.analysis.value_norms import output_grams, value_norms
from attnscope.errors import UserError
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.nn.edits import Call
from attnscope.nn.stopping import stop_if_unwanted
from attnscope.records.intervals import LEVEL
from attnscope.records.measures import (
    MEASURE_NAMES,
    N_TELLING,
    OFFSET_REACH,
    CorpusProgress,
    HeadTable,
    SpecialTokens,
)
from attnscope.records.sites import Site, SiteKey, Stack
from attnscope.schemes.measures import MEASURES

_STREAMED = tuple(name for name, measure in MEASURES.items() if not measure.like)
_KEPT_TEXTS = 10_000
"""The tokens of so many texts are kept between counting and measuring them."""
_N_SHARES = 2 * OFFSET_REACH + 1
_RESAMPLED_CELLS = 30_000_000
"""Most numbers that the resamples may hold (120 MB): models of many heads get fewer resamples."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteMeasures:
    """What one site did in the texts of a batch: measures by name, and two tables over offsets."""

    values: Mapping[str, Tensor]
    offsets: Tensor
    offset_shares: Tensor


class MeasureProbe(QuietProbe):
    """Measures every site of a pass over a batch; set `facts` before the pass, ask for `measured` after it.

    Small maps wait for the end of the pass and are measured side by side, as if they were heads of one
    site: their cost is that of calls.
    """

    def __init__(self, grams: Mapping[SiteKey, Tensor]) -> None:
        self._grams = grams
        self._joined_grams: dict[tuple[SiteKey, ...], Tensor] = {}
        self.facts: Mapping[Stack, Facts] = {}
        self._waiting: dict[SiteKey, tuple[Call, Tensor]] = {}
        self._n_cells = 0
        self._measured: dict[SiteKey, SiteMeasures] = {}

    def wants(self, site: SiteKey) -> bool:
        """Every site whose texts are known; the others are run for nothing by some networks."""
        return site[0] in self.facts

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Take the call; nothing of it is kept once it is measured."""
        self._waiting[site] = (call, lse)
        self._n_cells += lse.numel() * call.k.shape[2]
        if self._n_cells > BLOCK_CELLS:
            self._measure()

    def measured(self) -> Mapping[SiteKey, SiteMeasures]:
        """The measures of the pass that has ended."""
        self._measure()
        measured, self._measured = self._measured, {}
        return measured

    def _measure(self) -> None:
        groups: dict[object, list[SiteKey]] = {}
        for site, (call, _) in self._waiting.items():
            kind = _kind(site, call)
            groups.setdefault(site if kind is None else (kind, site in self._grams), []).append(site)
        for sites in groups.values():
            stop_if_unwanted()
            self._measure_together(tuple(sites))
        self._waiting.clear()
        self._n_cells = 0

    def _measure_together(self, sites: tuple[SiteKey, ...]) -> None:
        calls = [self._waiting[site][0] for site in sites]
        q, k, lse = (
            torch.cat(parts, dim=1)
            for parts in (
                [call.q for call in calls],
                [call.k for call in calls],
                [self._waiting[site][1] for site in sites],
            )
        )
        facts = self.facts[sites[0][0]]
        sums = sum_site(q, k, rule=calls[0].rule, score=calls[0].score, lse=lse, facts=facts)
        norms = None
        if sites[0] in self._grams:
            if sites not in self._joined_grams:
                self._joined_grams[sites] = torch.cat([self._grams[site] for site in sites])
            norms = value_norms(torch.cat([call.v for call in calls], dim=1), self._joined_grams[sites])
        values, shares = sums.values(norms), sums.offset_shares()
        end = 0
        for site, call in zip(sites, calls, strict=True):
            heads = slice(end, end := end + call.q.shape[1])
            self._measured[site] = SiteMeasures(
                values={name: found[:, heads] for name, found in values.items()},
                offsets=sums.offsets[:, heads],
                offset_shares=shares[:, heads],
            )


def _kind(site: SiteKey, call: Call) -> tuple[object, ...] | None:
    """Equal for calls whose heads can stand side by side; None for one whose rules tell heads apart."""
    rule, score = call.rule, call.score
    if not score.is_plain or rule.pattern is not None or rule.removed is not None:
        return None
    shapes = (call.q.shape[2:], call.k.shape[2:], call.v.shape[2:], call.q.shape[1] // call.k.shape[1])
    return (site[0], shapes, call.q.dtype, rule.kind, score.scale)


def measure_corpus(
    model: Model,
    texts: Sequence[Text | Inputs],
    *,
    name: str = "",
    specials: SpecialTokens = "kept",
    seed: int = 0,
    level: float = LEVEL,
    has_stripe: bool = True,
) -> Iterator[CorpusProgress | HeadTable]:
    """Progress after each batch, and the table at last; closing the iterator gives the work up.

    A translation model needs targets (pairs) to be measured in its decoder and cross-attention; single
    texts measure its encoder. The induction stripe takes a few passes of its own. Raises UserError for a
    corpus without texts, or with targets for only some of them; where only the stripe fails, the table
    without it comes before its error.
    """
    has_targets = check_targets(model, texts)
    sites = tuple(s for s in model.sites if has_targets or s.stack == "encoder" or not _translates(model))
    kept = list(encode_corpus(model, texts[:_KEPT_TEXTS]))  # read once; what comes after them twice
    rest = range(_KEPT_TEXTS, len(texts))

    def encoded() -> Iterator[NumberedInputs]:
        yield from kept
        for one in encode_corpus(model, (texts[number] for number in rest)):
            yield replace(one, number=one.number + _KEPT_TEXTS)

    counters = _count(encoded())
    table = _Table(model, sites, specials=specials, seed=seed)
    probe = MeasureProbe(output_grams(model))
    yield CorpusProgress(n_done=0, n_total=len(texts))
    for batch in length_batches(model, encoded()):
        probe.facts = batch_facts(model, sites, batch, specials, counters)
        run_batch(model, batch, probe)
        with torch.no_grad():
            measured = probe.measured()
        table.add(batch, measured)
        yield CorpusProgress(n_done=table.n_texts, n_total=len(texts))
    if not table.n_texts:
        raise UserError(
            "There is no text to measure.", expected="a text of one word or more", action="Give other texts."
        )
    try:
        stripes = stripe_scores(model, n_rows=N_ROWS if has_stripe else 0, seed=seed)
    except Exception:
        yield table.finish(name, len(texts), level, stripe_scores(model, n_rows=0))
        raise
    yield table.finish(name, len(texts), level, stripes)


def _count(encoded: Iterable[NumberedInputs]) -> tuple[Counter[int], Counter[int]]:
    sources: Counter[int] = Counter()
    targets: Counter[int] = Counter()
    for one in encoded:
        sources.update(one.inputs.source.ids)
        if one.inputs.target is not None:
            targets.update(one.inputs.target.ids)
    return sources, targets


def batch_facts(
    model: Model,
    sites: Sequence[Site],
    batch: Sequence[NumberedInputs],
    specials: SpecialTokens,
    counters: tuple[Mapping[int, int], Mapping[int, int]],
) -> dict[Stack, Facts]:
    """What the measures must know of a batch, for each kind of site."""
    sources = [one.inputs.source for one in batch]
    targets = [one.inputs.target for one in batch if one.inputs.target is not None]
    return {
        stack: facts_of_site(
            site,
            sources,
            targets or None,
            specials=specials,
            source_frequencies=counters[0],
            target_frequencies=counters[1],
            device=model.device,
        )
        for stack, site in {site.stack: site for site in sites}.items()
    }


class _Table:
    """Sums over the texts of a corpus, on their way to a HeadTable."""

    def __init__(self, model: Model, sites: Sequence[Site], *, specials: SpecialTokens, seed: int) -> None:
        self._model, self._sites, self._specials = model, sites, specials
        self._heads = tuple(head for site in sites for head in site.heads)
        self._n_columns = len(self._heads) * len(_STREAMED)
        n_offsets = 2 * OFFSET_REACH + 3
        n_all = self._n_columns + len(self._heads) * (n_offsets + _N_SHARES)
        n_resamples = min(N_RESAMPLES, max(200, _RESAMPLED_CELLS // (2 * n_all)))
        self._bootstrap = RatioBootstrap(n_all, seed=seed, n_resamples=n_resamples)
        self._telling = TellingTexts(self._n_columns)
        self._offsets = np.zeros((len(self._heads), n_offsets), np.int64)
        self.n_texts, self._n_tokens, self._n_cut = 0, 0, 0

    def add(self, batch: Sequence[NumberedInputs], measured: Mapping[SiteKey, SiteMeasures]) -> None:
        numbers = [one.number for one in batch]
        found = [measured[site.key] for site in self._sites]
        values = self._gather(len(batch), found)  # [B, heads, measures]
        flat = values.reshape(len(batch), -1)
        has_number = ~np.isnan(flat)
        offsets, shares = (
            torch.cat(parts, dim=1).cpu().numpy()
            for parts in ([one.offsets for one in found], [one.offset_shares for one in found])
        )
        shares = shares.reshape(len(batch), -1)
        rows = np.broadcast_to(offsets.sum(axis=2, keepdims=True), offsets.shape)
        self._bootstrap.add(
            numbers,
            np.hstack([np.nan_to_num(flat), offsets.reshape(len(batch), -1), np.nan_to_num(shares)]),
            np.hstack([has_number, rows.reshape(len(batch), -1), ~np.isnan(shares)]),
        )
        self._offsets += offsets.sum(axis=0).astype(np.int64)
        self._telling.add(numbers, [len(one.inputs.source) for one in batch], flat)
        self.n_texts += len(batch)
        self._n_tokens += sum(one.n_tokens for one in batch)
        self._n_cut += sum(_is_cut(one) for one in batch)

    def finish(self, name: str, n_given: int, level: float, stripes: NDArray[np.float32]) -> HeadTable:
        """The table of everything that was added, with the stripes [n_rows, n_sites, n_heads]."""
        n_heads = len(self._heads)
        shape = (n_heads, len(_STREAMED))
        places = 1 + self._offsets[:, 1:-1].argmax(axis=1)  # the ends hold many offsets together
        known = self._offsets.sum(axis=1) > 0
        at = self._n_columns + np.arange(n_heads) * self._offsets.shape[1] + places
        values = self._bootstrap.values
        shares = values[-n_heads * _N_SHARES :].reshape(n_heads, _N_SHARES)
        heaviest = np.where(np.isnan(shares), -1.0, shares).argmax(axis=1)
        share_at = len(values) + np.arange(-n_heads, 0) * _N_SHARES + heaviest
        shown = np.concatenate([np.arange(self._n_columns), at, share_at])
        found = self._bootstrap.intervals(level, self._limits(), shown)
        columns: dict[str, tuple[NDArray[np.float64], ...]] = {}
        for index, measure in enumerate(_STREAMED):
            columns[measure] = tuple(part[: self._n_columns].reshape(shape)[:, index] for part in found.parts)
        columns["positional"] = tuple(part[at] for part in found.parts)
        columns["offset"] = tuple(part[share_at] for part in found.parts)
        columns["stripe"] = self._stripes(level, stripes)
        telling = np.full((n_heads, len(MEASURE_NAMES), N_TELLING), -1, np.int32)
        texts = self._telling.texts.reshape(N_TELLING, *shape)
        for index, measure in enumerate(_STREAMED):
            telling[:, MEASURE_NAMES.index(measure)] = texts[:, :, index].T
        for column, kind in enumerate(MEASURES.values()):
            if kind.like:
                telling[:, column] = telling[:, MEASURE_NAMES.index(kind.like)]
        stacked = [
            np.stack([columns[m][part] for m in MEASURE_NAMES], axis=1).astype(np.float32)
            for part in range(4)
        ]
        return HeadTable(
            model=self._model.info.name,
            corpus=name,
            heads=self._heads,
            names=MEASURE_NAMES,
            values=stacked[0],
            low=stacked[1],
            high=stacked[2],
            counts=stacked[3].astype(np.int32),
            offsets=self._offsets.astype(np.int32),
            offset_shares=shares.astype(np.float32),
            best_offsets=np.where(known, places - OFFSET_REACH - 1, np.nan).astype(np.float32),
            telling=telling,
            n_texts=self.n_texts,
            n_tokens=self._n_tokens,
            n_cut=self._n_cut,
            n_skipped=n_given - self.n_texts,
            specials=self._specials,
            level=level,
            n_resamples=self._bootstrap.n_resamples,
            seed=self._bootstrap.seed,
        )

    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the most that each column can be."""
        ends = np.array([MEASURES[name].limits for name in _STREAMED]).T  # [2, measures]
        streamed = np.tile(ends, len(self._heads))
        shares = np.repeat([[0.0], [1.0]], self._offsets.size + len(self._heads) * _N_SHARES, axis=1)
        low, high = np.concatenate([streamed, shares], axis=1)
        return low, high

    def _gather(self, n_texts: int, measured: Sequence[SiteMeasures]) -> NDArray[np.float32]:
        """The measures of all heads, [batch, n_heads, n_measures]; one transfer for all."""
        parts = []
        for site, one in zip(self._sites, measured, strict=True):
            nothing = torch.full((n_texts, site.n_heads), float("nan"), device=self._model.device)
            parts.append(torch.stack([one.values.get(name, nothing) for name in _STREAMED], dim=-1))
        return torch.cat(parts, dim=1).float().cpu().numpy()

    def _stripes(self, level: float, scores: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
        bootstrap = RatioBootstrap(len(self._heads), seed=self._bootstrap.seed)
        wanted = [self._model.sites.index(site) for site in self._sites]
        parts = [scores[:, i, : site.n_heads] for i, site in zip(wanted, self._sites, strict=True)]
        if len(scores):
            bootstrap.add_means(range(len(scores)), np.concatenate(parts, axis=1))
        return bootstrap.intervals(level, (0.0, 1.0)).parts


def _translates(model: Model) -> bool:
    return model.info.form == "encoder-decoder"


def _is_cut(one: NumberedInputs) -> bool:
    return bool(one.inputs.source.n_dropped or (one.inputs.target and one.inputs.target.n_dropped))
