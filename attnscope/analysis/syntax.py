"""The heads that follow each dependency relation, against the best fixed offset.

An arc counts as found when the word at its one end gives most weight to the word at its other end (Voita
et al. 2019, section 5.2; Clark et al. 2019, section 4.2), words being merged from pieces (`words.py`). In
causal sites only arcs to earlier words count, for the baseline too.

That is the manner `voita`. In the manner `clark` a word's weight on itself is left out, and from head to
dependent it is asked which word looks most at the dependent, not at which the head looks most: the map is
turned over, so that a head with several dependents can find them all.

| symbol | meaning                                              | shape                            |
|--------|------------------------------------------------------|----------------------------------|
| arcs   | (text, relation, query word, key word) of a batch    | [n_arcs, 4]                      |
| best   | the word that gets most weight                       | [batch, n_heads, n_words]        |
| hits   | arcs found                                           | [batch, n_relations, n_heads]    |
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.bootstrap import RatioBootstrap
from attnscope.analysis.corpus_texts import (
    NumberedInputs,
    TellingTexts,
    length_batches,
    read_abreast,
    run_batch,
)
from attnscope.analysis.words import WordProbe, find_spans, stack_maps, word_maps
from attnscope.conllu import Tree
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.findings import Direction, Manner, SyntaxTable
from attnscope.records.measures import N_TELLING, CorpusProgress
from attnscope.records.sites import Site, Stack

MIN_ARCS = 20
"""Relations with fewer arcs in the corpus are left out."""
_Relation = tuple[str, Direction]
_Arc = tuple[_Relation, int, int]


def measure_syntax(
    model: Model,
    trees: Sequence[Tree],
    *,
    name: str = "",
    min_arcs: int = MIN_ARCS,
    manner: Manner = "voita",
) -> Iterator[CorpusProgress | SyntaxTable]:
    """Yield progress after each batch, and finally the table; `manner` is explained above.

    A translation model is measured in its encoder. Raises UserError when no relation is frequent enough.
    """
    is_translating = model.info.form == "encoder-decoder"
    sites = [s for s in model.sites if s.stack == "encoder" or (s.stack == "decoder" and not is_translating)]
    counts = Counter(relation for tree in trees for relation, _, _ in _arcs(tree))
    relations = tuple(sorted(relation for relation, n in counts.items() if n >= min_arcs))
    if not relations or not sites:
        raise UserError(
            f"No relation occurs {min_arcs} times in these trees."
            if sites
            else f"{model.info.name} has no self-attention.",
            expected="more trees, and a model that reads a text",
            action="Give a larger CoNLL-U file, or another model.",
        )
    table = _Table(model, sites, relations, manner=manner)

    yield CorpusProgress(n_done=0, n_total=len(trees))
    read = partial(_read, model, {site.stack for site in sites}, trees)
    for batch, probe in read_abreast(model, length_batches(model, _encoded(model, trees)), read):
        table.add(batch, trees, probe)
        yield CorpusProgress(n_done=table.n_texts, n_total=len(trees))
    yield table.finish(name, len(trees))


def _encoded(model: Model, trees: Sequence[Tree]) -> Iterator[NumberedInputs]:
    """The sentences whose words are all found in the text, uncut."""
    for number, tree in enumerate(trees):
        inputs = model.network.encode(tree.text)
        if not inputs.source.n_dropped and find_spans(inputs.source.text, tree.written) is not None:
            yield NumberedInputs(number=number, inputs=inputs)


def _arcs(tree: Tree) -> Iterator[_Arc]:
    """Both directions of every arc between two written words, the root and punctuation left out."""
    for word in tree.words:
        if word.head < 0 or word.relation == "punct":
            continue
        head = tree.words[word.head]
        if head.place != word.place:
            yield (word.relation, "to head"), word.place, head.place
            yield (word.relation, "to dependent"), head.place, word.place


def _read(
    model: Model, stacks: Set[Stack], trees: Sequence[Tree], _thread: int, batch: Sequence[NumberedInputs]
) -> WordProbe:
    maps = []
    for one in batch:
        tokens = one.inputs.source.tokens
        spans = find_spans(one.inputs.source.text, trees[one.number].written) or []
        maps.append(word_maps(tokens, spans, tokens, spans))
    probe = WordProbe(stacks, stack_maps(maps, model.device))
    run_batch(model, batch, probe)
    return probe


class _Table:
    """Counts of arcs found and of all arcs, from which a SyntaxTable is made."""

    def __init__(
        self,
        model: Model,
        sites: Sequence[Site],
        relations: Sequence[_Relation],
        *,
        manner: Manner,
    ) -> None:
        self._model, self._sites, self._relations, self._manner = model, sites, tuple(relations), manner
        self._is_turned = torch.tensor(
            [manner == "clark" and direction == "to dependent" for _, direction in relations],
            device=model.device,
        )
        self._number = {relation: index for index, relation in enumerate(relations)}
        self._heads = tuple(head for site in sites for head in site.heads)
        n_columns = len(self._heads) * len(relations)
        n_resamples = min(1000, max(200, 15_000_000 // n_columns))
        self._bootstrap = RatioBootstrap(n_columns, n_resamples=n_resamples)
        self._telling = TellingTexts(n_columns)
        self._offsets: dict[bool, list[Counter[int]]] = {
            is_causal: [Counter() for _ in relations] for is_causal in (False, True)
        }
        self._is_causal: dict[int, bool] = {}
        self.n_texts = 0

    def add(self, batch: Sequence[NumberedInputs], trees: Sequence[Tree], probe: WordProbe) -> None:
        """Count the arcs of a batch that was read."""
        device = self._model.device
        arcs = [
            (index, self._number[relation], query, key)
            for index, one in enumerate(batch)
            for relation, query, key in _arcs(trees[one.number])
            if relation in self._number
        ]
        found, total = [], []
        for index, site in enumerate(self._sites):
            is_causal = probe.is_causal[site.key]
            self._is_causal[index] = is_causal
            seen = [arc for arc in arcs if not is_causal or arc[3] < arc[2]]
            between = probe.between[site.key]
            if self._manner == "clark":
                between = between - torch.diag_embed(between.diagonal(dim1=2, dim2=3))
            places = torch.tensor(seen, dtype=torch.int64, device=device).reshape(-1, 4)  # of no arc too
            hits, n_arcs = _count(between, places, self._is_turned)
            found.append(hits)
            total.append(n_arcs.expand_as(hits))
        for is_causal in set(self._is_causal.values()):
            for _, relation, query, key in arcs:
                if not is_causal or key < query:
                    self._offsets[is_causal][relation][key - query] += 1
        self._take(batch, torch.cat(found, dim=1), torch.cat(total, dim=1))

    def finish(self, name: str, n_given: int) -> SyntaxTable:
        shape = (len(self._heads), len(self._relations))
        found = self._bootstrap.intervals((0.0, 1.0))
        values, low, high, sentences = (part.reshape(shape).astype(np.float32) for part in found.parts)
        offsets, shares, counts = self._baselines()
        return SyntaxTable(
            model=self._model.info.name,
            corpus=name,
            heads=self._heads,
            relations=self._relations,
            values=values,
            low=low,
            high=high,
            baseline=shares,
            offsets=offsets,
            n_arcs=counts,
            counts=sentences.astype(np.int32),
            telling=np.moveaxis(self._telling.texts.reshape(N_TELLING, *shape), 0, 2),
            n_texts=self.n_texts,
            n_skipped=n_given - self.n_texts,
            manner=self._manner,
        )

    def _take(self, batch: Sequence[NumberedInputs], hits: Tensor, n_arcs: Tensor) -> None:
        """Both [batch, n_heads, n_relations]."""
        found = hits.flatten(1).float().cpu().numpy()
        total = n_arcs.flatten(1).float().cpu().numpy()
        numbers = [one.number for one in batch]
        self._bootstrap.add(numbers, found, total)
        clear = np.where(total > 0, 2 * found - total, np.nan)  # found minus missed
        self._telling.add(numbers, [len(one.inputs.source) for one in batch], clear)
        self.n_texts += len(batch)

    def _baselines(self) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
        """Best offset, its share and the number of arcs: [n_heads, n_relations] each."""
        rows: list[tuple[list[int], list[float], list[int]]] = []
        for index, site in enumerate(self._sites):
            counters = self._offsets[self._is_causal.get(index, False)]
            best = [counter.most_common(1)[0] if counter else (0, 0) for counter in counters]
            totals = [counter.total() for counter in counters]
            shares = [n / total if total else np.nan for (_, n), total in zip(best, totals, strict=True)]
            rows += [([offset for offset, _ in best], shares, totals)] * site.n_heads
        return (
            np.array([row[0] for row in rows], np.int32),
            np.array([row[1] for row in rows], np.float32),
            np.array([row[2] for row in rows], np.int32),
        )


def _count(between: Tensor, arcs: Tensor, is_turned: Tensor) -> tuple[Tensor, Tensor]:
    """Arcs found [batch, n_heads, n_relations], and arcs there are [batch, 1, n_relations].

    `is_turned` [n_relations] are the relations of which the key is asked which query looks most at it.
    """
    n_texts, n_heads = between.shape[:2]
    n_relations = len(is_turned)
    text, relation, query, key = arcs.unbind(dim=1)
    by_query = between.argmax(dim=3)[text, :, query] == key[:, None]  # [A, H]
    by_key = between.argmax(dim=2)[text, :, key] == query[:, None]
    is_found = torch.where(is_turned[relation][:, None], by_key, by_query).float()
    place = text * n_relations + relation
    hits = torch.zeros(n_texts * n_relations, n_heads, device=between.device).index_add_(0, place, is_found)
    ones = torch.zeros(n_texts * n_relations, device=between.device)
    ones.index_add_(0, place, torch.ones(len(place), device=between.device))
    by_text = hits.reshape(n_texts, n_relations, n_heads)
    return by_text.transpose(1, 2), ones.reshape(n_texts, 1, n_relations)
