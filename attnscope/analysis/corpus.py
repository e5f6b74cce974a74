"""Every measure of every head over a corpus, batch by batch, without keeping the texts.

The probe computes the measures for all heads of a site at once, from queries, keys and the lse that
attention gave; only sums over rows leave it (see `measures.py`). Means are over texts;
intervals are those of `bootstrap.py`.

| symbol | meaning                                     | shape                        |
|--------|---------------------------------------------|------------------------------|
| values | measures of a batch                         | [batch, n_heads of a site]   |

One measure is the length of what a head writes for a key: ‖f(x)‖ with f(x) = (x W_V + b_V) W_O of that head.

| symbol | meaning                                           | shape                            |
|--------|---------------------------------------------------|----------------------------------|
| v      | values x W_V + b_V, which the attention call holds | [batch, n_kv_heads, n_keys, D]  |
| W_O    | the head's part of the output projection          | [n_heads, D, d_model]            |
| gram   | W_O W_Oᵀ                                          | [n_heads, D, D]                  |

‖a · f(x)‖ = a ‖f(x)‖ (Kobayashi et al. 2020, section 3), and ‖f(x)‖² = v gram vᵀ: nothing of the width of
the model is made. The bias of the output projection belongs to no head and is left out.

All that a pass over texts tells of the heads, part by part: measures, relations, alignment, and cards.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.bootstrap import N_RESAMPLES, RatioBootstrap
from attnscope.analysis.corpus_texts import (
    NumberedInputs,
    TellingTexts,
    Text,
    check_targets,
    encode_corpus,
    length_batches,
    read_abreast,
    run_batch,
)
from attnscope.analysis.induction_score import N_ROWS, stripe_scores
from attnscope.analysis.measures import BLOCK_CELLS, Facts, facts_of_site, sum_site
from attnscope.analysis.model_adapter import OwnSubject, QuietProbe
from attnscope.analysis.roles import head_card
from attnscope.analysis.syntax import measure_syntax
from attnscope.analysis.word_alignment import measure_alignment
from attnscope.analysis.words import AlignedPair
from attnscope.conllu import Tree
from attnscope.errors import UserError, of_wrong_kind
from attnscope.models import Inputs, Model, OwnNetwork
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.pruning import foreign_sites
from attnscope.nn import Call, MaskRule, stop_if_unwanted
from attnscope.records.findings import AlignmentTable, Findings, SyntaxTable
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


def output_matrices(model: Model) -> Mapping[SiteKey, Tensor]:
    """W_O of every site, [n_heads, d_head, d_model]; empty for a network that does not expose it."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork):
        return _library_matrices(network)
    if not isinstance(network, OwnNetwork):
        return {}
    subject = OwnSubject(network.module)
    found: dict[SiteKey, Tensor] = {}
    owners = set(network.config.headed_keys())
    for site in network.sites:
        if site.key not in owners:
            continue  # pooling and matching hand their sums on as they are
        weight = subject.projection(site.key).weight.detach()  # [d_model, n_heads · d_head]
        found[site.key] = weight.T.reshape(site.n_heads, -1, weight.shape[0])  # [n_heads, d_head, d_model]
    return found


def _library_matrices(network: HuggingFaceNetwork) -> dict[SiteKey, Tensor]:
    """W_O of the families with known matrices, under the network's names of the sites."""
    try:
        sites = foreign_sites(network.module)
    except UserError:
        return {}
    heads = {site.key: site.n_heads for site in network.sites}
    found: dict[SiteKey, Tensor] = {}
    for site in sites:
        rows = site.output_rows.detach()
        if heads.get(site.key) == site.n_heads:
            found[site.key] = rows.reshape(site.n_heads, -1, rows.shape[1])
    return found


def output_grams(model: Model) -> Mapping[SiteKey, Tensor]:
    """W_O W_Oᵀ of every site, float32 [n_heads, d_head, d_head]."""
    return {
        site: (matrix.float() @ matrix.float().transpose(1, 2))
        for site, matrix in output_matrices(model).items()
    }


def value_norms(v: Tensor, gram: Tensor) -> Tensor:
    """‖f(x_j)‖ of each head and key, [batch, n_heads, n_keys], from values [batch, n_kv_heads, n_keys, D]."""
    n_heads = gram.shape[0]
    values = v.float()
    if values.shape[1] != n_heads:
        values = values.repeat_interleave(n_heads // values.shape[1], dim=1)  # [B, H, T, D]
    rows = values.transpose(0, 1).flatten(1, 2)  # [H, B · T, D]: one product a head, whatever the texts
    squares: Tensor = (rows @ gram.to(rows)).mul_(rows).sum(dim=-1)
    norms = squares.clamp_(min=0.0).sqrt_()  # [H, B · T]
    return norms.view(n_heads, len(v), v.shape[2]).transpose(0, 1)


_STREAMED = tuple(name for name, measure in MEASURES.items() if not measure.like)
_KEPT_TEXTS = 10_000
"""The tokens of so many texts are kept between counting and measuring them."""
_HELD_CELLS, _HELD_NUMBERS = 500_000, 4_000_000
"""At most so many weights, and numbers of queries, keys and values (16 MB), wait to be measured together: so
little that the C library keeps it for the next ones (`boot.keep_freed_memory`). What is given back to the
system costs twice: its pages come anew, and empty, and into no cache."""
_N_SHARES = 2 * OFFSET_REACH + 1
_RESAMPLED_CELLS = 30_000_000
"""Most numbers that the resamples may hold (120 MB): models of many heads get fewer resamples."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteMeasures:
    """Measures of one site on some texts: rows [batch, n_heads, M] and two tables over offsets."""

    values: Tensor
    offsets: Tensor
    offset_shares: Tensor


Measured = tuple[Sequence[NumberedInputs], Mapping[SiteKey, SiteMeasures]]
"""Some texts and what every site did in them."""


class _Pass:
    """The texts of a pass, and its sites' data: the call, the lse, and the norms of values if known."""

    def __init__(self, texts: Sequence[NumberedInputs]) -> None:
        self.texts = texts
        self.calls: dict[SiteKey, tuple[Call, Tensor, Tensor | None]] = {}
        self.n_cells = self.n_numbers = 0


class MeasureProbe(QuietProbe):
    """Measures every site of some stacks: call `begin` before each pass, `end` after it.

    Small maps wait, for passes to come too where texts are padded alike, and are measured side by side as if
    they were heads of one site and texts of one batch: their cost is that of calls.
    """

    def __init__(
        self,
        grams: Mapping[SiteKey, Tensor],
        stacks: Collection[Stack],
        facts_of: Callable[[Sequence[NumberedInputs]], Mapping[Stack, Facts]],
    ) -> None:
        self._grams, self._stacks, self._facts_of = grams, stacks, facts_of
        self._earlier: list[_Pass] = []
        self._now = _Pass(())
        self._measured: dict[SiteKey, SiteMeasures] = {}  # what of this pass could not wait for its end
        self._facts: Mapping[Stack, Facts] = {}  # of the texts that are being measured
        self._ready: list[Measured] = []

    def wants(self, site: SiteKey) -> bool:
        """Whether the site is in one of the stacks; some networks run the others anyway."""
        return site[0] in self._stacks

    def begin(self, texts: Sequence[NumberedInputs]) -> None:
        """Set the texts of the next pass."""
        self._now = _Pass(texts)

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Take the call; nothing of it is kept after measuring."""
        if self._earlier and not _is_like(call, self._earlier[0].calls[site][0]):
            self._finish(self._earlier)
        # What is in the processor's cache now will not be later.
        norms = value_norms(call.v, self._grams[site]) if site in self._grams else None
        self._now.calls[site] = (call, lse, norms)
        self._now.n_cells += lse.numel() * call.k.shape[2]
        self._now.n_numbers += call.q.numel() + call.k.numel() + call.v.numel()
        if self._now.n_cells > BLOCK_CELLS and not self._earlier:
            self._measured |= self._measure([self._now])
            self._now.calls.clear()
            self._now.n_cells = self._now.n_numbers = 0

    def end(self) -> list[Measured]:
        """End a pass; returns the texts whose maps need not wait any longer."""
        self._earlier.append(self._now)
        can_wait = not self._measured and all(_can_join(call) for call, *_ in self._now.calls.values())
        n_more = len(self._earlier) + 1
        is_full = n_more * self._now.n_cells > _HELD_CELLS or n_more * self._now.n_numbers > _HELD_NUMBERS
        if not can_wait or is_full:
            self._finish(self._earlier)
        return self._handed_out()

    def rest(self) -> list[Measured]:
        """The texts whose maps still wait, after the last pass."""
        if self._earlier:
            self._finish(self._earlier)
        return self._handed_out()

    def _handed_out(self) -> list[Measured]:
        ready, self._ready = self._ready, []
        return ready

    def _finish(self, passes: list[_Pass]) -> None:
        texts = [text for one in passes for text in one.texts]
        measured = {**self._measured, **self._measure(passes)}
        self._measured, self._facts = {}, {}
        passes.clear()
        self._ready.append((texts, measured))

    def _measure(self, passes: Sequence[_Pass]) -> dict[SiteKey, SiteMeasures]:
        """Measures of the sites recorded in these passes."""
        with torch.no_grad():
            if not self._facts:
                self._facts = self._facts_of([text for one in passes for text in one.texts])
            groups: dict[object, list[SiteKey]] = {}
            for site, (call, *_) in passes[0].calls.items():
                kind = _kind(site, call)
                groups.setdefault(site if kind is None else (kind, site in self._grams), []).append(site)
            found: dict[SiteKey, SiteMeasures] = {}
            for sites in groups.values():
                stop_if_unwanted()
                found |= self._measure_together(
                    sites, [[one.calls[site] for site in sites] for one in passes]
                )
            return found

    def _measure_together(
        self, sites: Sequence[SiteKey], rows: Sequence[Sequence[tuple[Call, Tensor, Tensor | None]]]
    ) -> dict[SiteKey, SiteMeasures]:
        calls = [[call for call, *_ in row] for row in rows]
        q, k = (
            _joined([[call.q for call in row] for row in calls]),
            _joined([[call.k for call in row] for row in calls]),
        )
        lse = _joined([[lse for _, lse, _ in row] for row in rows])
        facts, rule = self._facts[sites[0][0]], _joined_rule([row[0] for row in calls])
        sums = sum_site(q, k, rule=rule, score=calls[0][0].score, lse=lse, facts=facts)
        norms = [[norms for one in row if (norms := one[2]) is not None] for row in rows]
        found, shares = sums.values(_joined(norms) if norms[0] else None), sums.offset_shares()
        nothing = torch.full_like(shares[..., 0], math.nan)
        values = torch.stack([found.get(name, nothing) for name in _STREAMED], dim=-1)
        measured, end = {}, 0
        for site, call in zip(sites, calls[0], strict=True):
            heads = slice(end, end := end + call.q.shape[1])
            measured[site] = SiteMeasures(
                values=values[:, heads], offsets=sums.offsets[:, heads], offset_shares=shares[:, heads]
            )
        return measured


def _joined(parts: Sequence[Sequence[Tensor]]) -> Tensor:
    """Concatenate passes, with the heads of their sites side by side: [batch of all, n_heads of all, ...]."""
    if len(parts) == 1:
        return torch.cat(list(parts[0]), dim=1)
    n_heads, end = sum(one.shape[1] for one in parts[0]), 0
    whole = parts[0][0].new_empty(sum(len(row[0]) for row in parts), n_heads, *parts[0][0].shape[2:])
    for row in parts:
        torch.cat(list(row), dim=1, out=whole[end : (end := end + len(row[0]))])
    return whole


def _joined_rule(calls: Sequence[Call]) -> MaskRule:
    """The rule of one site's calls, of concatenated passes."""
    rule = calls[0].rule
    if len(calls) == 1 or all(call.rule.key_valid is None for call in calls):
        return rule
    valid = []
    for call in calls:
        cells = torch.ones(len(call.k), call.k.shape[2], dtype=torch.bool, device=call.k.device)
        valid.append(cells if call.rule.key_valid is None else cells & call.rule.key_valid)
    return replace(rule, key_valid=torch.cat(valid))


def _can_join(call: Call) -> bool:
    """Whether the heads of a call can be placed beside others; not if its rules distinguish heads."""
    return call.score.is_plain and call.rule.pattern is None and call.rule.removed is None


def _is_like(call: Call, other: Call) -> bool:
    """Whether the texts of two calls of a site can be concatenated."""
    return _shapes(call) == _shapes(other) and _said(call) == _said(other)


def _kind(site: SiteKey, call: Call) -> tuple[object, ...] | None:
    """Key shared by calls whose heads can be placed side by side; None for one that stays alone."""
    if not _can_join(call):
        return None
    n_groups = call.q.shape[1] // call.k.shape[1]
    return (site[0], _shapes(call), n_groups, call.rule.kind, call.score.scale)


def _said(call: Call) -> tuple[object, ...]:
    return (call.rule.is_causal, call.rule.window, call.score.scale)


def _shapes(call: Call) -> tuple[object, ...]:
    return (call.q.shape[2:], call.k.shape[2:], call.q.dtype)


def measure_corpus(
    model: Model,
    texts: Sequence[Text | Inputs],
    *,
    name: str = "",
    specials: SpecialTokens = "kept",
    seed: int = 0,
) -> Iterator[CorpusProgress | HeadTable]:
    """Yield progress after each batch, and finally the table; closing the iterator cancels the work.

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
    facts_of = partial(batch_facts, model, sites, specials=specials, counters=counters)
    grams, stacks = output_grams(model), {site.stack for site in sites}
    probes: dict[int, MeasureProbe] = defaultdict(partial(MeasureProbe, grams, stacks, facts_of))

    def read(thread: int, batch: Sequence[NumberedInputs]) -> list[Measured]:
        probes[thread].begin(batch)
        run_batch(model, batch, probes[thread])
        return probes[thread].end()

    n_done = 0
    yield CorpusProgress(n_done=n_done, n_total=len(texts))
    for batch, found in read_abreast(model, length_batches(model, encoded()), read):
        for several, measured in found:
            table.add(several, measured)
        n_done += len(batch)
        yield CorpusProgress(n_done=n_done, n_total=len(texts))
    for thread in sorted(probes):
        for several, measured in probes[thread].rest():
            table.add(several, measured)
    if not table.n_texts:
        raise UserError(
            "There is no text to measure.", expected="a text of one word or more", action="Give other texts."
        )
    try:
        stripes = stripe_scores(model, n_rows=N_ROWS, seed=seed)
    except Exception:
        yield table.finish(name, len(texts), stripe_scores(model, n_rows=0))
        raise
    yield table.finish(name, len(texts), stripes)


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
    *,
    specials: SpecialTokens,
    counters: tuple[Mapping[int, int], Mapping[int, int]],
) -> dict[Stack, Facts]:
    """Facts about a batch that the measures need, for each kind of site."""
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
    """Sums over the texts of a corpus, from which a HeadTable is made."""

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
        values = torch.cat([one.values for one in found], dim=1)  # [B, heads, measures]
        flat = values.float().cpu().numpy().reshape(len(batch), -1)
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

    def finish(self, name: str, n_given: int, stripes: NDArray[np.float32]) -> HeadTable:
        """The table of everything added, with the stripes [n_rows, n_sites, n_heads]."""
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
        found = self._bootstrap.intervals(self._limits(), shown)
        columns: dict[str, tuple[NDArray[np.float64], ...]] = {}
        for index, measure in enumerate(_STREAMED):
            columns[measure] = tuple(part[: self._n_columns].reshape(shape)[:, index] for part in found.parts)
        columns["positional"] = tuple(part[at] for part in found.parts)
        columns["offset"] = tuple(part[share_at] for part in found.parts)
        columns["stripe"] = self._stripes(stripes)
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
            n_resamples=self._bootstrap.n_resamples,
            seed=self._bootstrap.seed,
        )

    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        ends = np.array([MEASURES[name].limits for name in _STREAMED]).T  # [2, measures]
        streamed = np.tile(ends, len(self._heads))
        shares = np.repeat([[0.0], [1.0]], self._offsets.size + len(self._heads) * _N_SHARES, axis=1)
        low, high = np.concatenate([streamed, shares], axis=1)
        return low, high

    def _stripes(self, scores: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
        bootstrap = RatioBootstrap(len(self._heads), seed=self._bootstrap.seed)
        wanted = [self._model.sites.index(site) for site in self._sites]
        parts = [scores[:, i, : site.n_heads] for i, site in zip(wanted, self._sites, strict=True)]
        if len(scores):
            bootstrap.add_means(range(len(scores)), np.concatenate(parts, axis=1))
        return bootstrap.intervals((0.0, 1.0)).parts


def _translates(model: Model) -> bool:
    return model.info.form == "encoder-decoder"


def _is_cut(one: NumberedInputs) -> bool:
    return bool(one.inputs.source.n_dropped or (one.inputs.target and one.inputs.target.n_dropped))


_Step = CorpusProgress | HeadTable | SyntaxTable | AlignmentTable


def measure_parts(
    model: Model,
    texts: Sequence[Text | Inputs],
    *,
    trees: Sequence[Tree] = (),
    pairs: Sequence[AlignedPair] = (),
    name: str = "",
    specials: SpecialTokens = "kept",
    seed: int = 0,
) -> Iterator[CorpusProgress | Findings]:
    """Yield progress after each batch, and finally the findings.

    A part that fails takes none of the finished ones along. What the user can mend becomes one of the notes;
    of any other fault the findings come first, with a note, and then it rises. Raises UserError when not even
    the measures can be had.
    """
    corpus = measure_corpus(model, texts, name=name, specials=specials, seed=seed)
    parts: list[tuple[str, str, Iterator[_Step]]] = [("Measuring heads", "The induction scores", corpus)]
    if trees:
        parts.append(("Reading trees", "The relations of words", measure_syntax(model, trees, name=name)))
    if pairs:
        aligning = measure_alignment(model, pairs, name=name, seed=seed)
        parts.append(("Aligning words", "The alignment of words", aligning))
    tables: dict[type, _Step] = {}
    notes: list[str] = []
    for what, missing, steps in parts:
        try:
            for step in steps:
                if isinstance(step, CorpusProgress):
                    yield replace(step, what=what)
                else:
                    tables[type(step)] = step
        except UserError as error:
            if HeadTable not in tables:
                raise
            notes.append(f"{missing} could not be measured: {error}")
        except Exception:
            if HeadTable in tables:
                notes.append(f"{missing} could not be measured because of a fault in AttnScope.")
                yield _findings(model, tables, notes)
            raise
    yield _findings(model, tables, notes)


def measure_texts(
    model: Model,
    texts: Iterable[Text],
    *,
    name: str = "",
    specials: SpecialTokens = "kept",
    seed: int = 0,
) -> Findings:
    """Measure every head over many texts: as numbers with intervals and as words.

    `texts` are strings, or pairs of source and target for a translation model, whose encoder alone is
    measured without targets; blank ones are skipped. Measures are means over the texts: weights and shares
    from 0 to 1, distances in tokens, entropies in nats where their name says so (`found.table.names`).
    `specials` keeps special tokens, drops their rows and columns ("dropped"), or makes the rest of each row
    sum to 1 as well ("renormalised").

        found = at.measure_texts(model, ["The cat sat.", "A dog ran."])
        found.rows()           # a list of dicts, one for each head; NaN where a measure does not apply
        found.to_dict()        # everything, for JSON
        found.save_csv("heads.csv")
        found.table.values     # float32 [n_heads, n_measures]

    Raises UserError for no texts, or for targets of only some.
    """
    if not isinstance(model, Model):
        raise of_wrong_kind(model, "what is to be measured", "a model", "Open one first: at.load(...).")
    some = [texts] if isinstance(texts, str) else list(texts)
    for one in some:
        if not isinstance(one, str) and not (isinstance(one, tuple) and [*map(type, one)] == [str, str]):
            raise of_wrong_kind(one, "one of the texts", "a string, or a tuple of source and target")
    some = [one for one in some if (one if isinstance(one, str) else one[0]).strip()]
    steps = list(measure_parts(model, some, name=name, specials=specials, seed=seed))
    if not isinstance(steps[-1], Findings):
        raise AssertionError("unreachable: the last thing a measuring pass gives is its findings")
    return steps[-1]


def _findings(model: Model, tables: dict[type, _Step], notes: Sequence[str]) -> Findings:
    table, syntax, alignment = (tables.get(kind) for kind in (HeadTable, SyntaxTable, AlignmentTable))
    if not isinstance(table, HeadTable):
        raise AssertionError("unreachable: a pass that ends has its table")
    syntax = syntax if isinstance(syntax, SyntaxTable) else None
    alignment = alignment if isinstance(alignment, AlignmentTable) else None
    return Findings(
        table=table,
        cards=tuple(head_card(head, table, syntax, alignment, sites=model.sites) for head in table.heads),
        syntax=syntax,
        alignment=alignment,
        notes=tuple(notes),
    )
