"""Translating many texts at once: the search for one text, with shared passes of the model.

| symbol | meaning                                                     | shape                   |
|--------|-------------------------------------------------------------|-------------------------|
| rows   | the live texts of every search under way, one below another | n_rows                  |
| log_p  | log-probability of each row's next token                    | [n_rows, vocab_size]    |

Each text has a `BeamSearch` of its own, so what is written does not depend on what else is in the batch
but for rounding. Nothing is recorded. Other networks than ours write one text after another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.network import log_probabilities
from attnscope.models.own import OwnNetwork
from attnscope.models.passes import evaluating_tokens
from attnscope.models.writing.writer import BeamSearch
from attnscope.models.writing.written import what_else
from attnscope.nn import KeyValueCache, Transformer
from attnscope.records.outputs import WriteSettings
from attnscope.records.sites import NO_GATES, Gates
from attnscope.trace.record import GateProbe

_BATCH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The translation of the text with this `index`; `has_ended` is False if it was cut off."""

    index: int
    text: str
    has_ended: bool


def translate_texts(
    model: Model,
    texts: Sequence[str],
    settings: WriteSettings | None = None,
    gates: Gates = NO_GATES,
    *,
    batch_size: int = _BATCH,
) -> Iterator[Translation]:
    """Each text's translation, grouped by similar length, not in order; stop iterating to cancel.

    Greedy writing is a search with one beam and no length penalty. Raises UserError for a model that does
    not translate, or settings that draw.
    """
    settings = WriteSettings() if settings is None else settings
    settings.check()
    if model.network.output_kind != "translation":
        raise UserError(
            f"{model.info.name} does not translate.",
            expected="a translation model",
            action=what_else(model.network),
        )
    if settings.mode == "sample":
        raise UserError(
            "Translations are not sampled.", expected="greedy or beams", action="Choose one of the two."
        )
    network = model.network
    if isinstance(network, OwnNetwork) and isinstance(network.module, Transformer):
        yield from _in_batches(network, network.module, texts, settings, gates, batch_size)
        return
    for index, text in enumerate(texts):
        written = model.write(text, settings, gates).text
        yield Translation(index=index, text=written.text, has_ended=written.has_ended)


def _in_batches(
    network: OwnNetwork,
    module: Transformer,
    texts: Sequence[str],
    settings: WriteSettings,
    gates: Gates,
    batch_size: int,
) -> Iterator[Translation]:
    inputs = [network.encode(text) for text in texts]
    order = sorted(range(len(texts)), key=lambda index: len(inputs[index].source))
    probe = GateProbe(network.sites, gates) if gates else None
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        batch = _Batch(network, module, [inputs[index] for index in part], settings, probe)
        searches = batch.search()
        for index, search in zip(part, searches, strict=True):
            ids = search.ids(search.best)
            has_ended = ids[-1:] == [network.vocabulary.end_id]
            vocabulary = network.knowing(inputs[index]).vocabulary
            text = vocabulary.decode(ids[:-1] if has_ended else ids)
            yield Translation(index=index, text=text, has_ended=has_ended)


class _Batch:
    """The texts of one batch, searched side by side."""

    def __init__(
        self,
        network: OwnNetwork,
        module: Transformer,
        inputs: Sequence[Inputs],
        settings: WriteSettings,
        probe: GateProbe | None,
    ) -> None:
        self._module, self._probe = module, probe
        self._begin_id = network.vocabulary.begin_id
        self._ids = [text.source.ids for text in inputs]
        is_greedy = settings.mode == "greedy"
        self._searches = [
            BeamSearch(
                n_beams=1 if is_greedy else settings.n_beams,
                alpha=0.0 if is_greedy else settings.length_penalty,
                max_tokens=min(settings.max_tokens, module.config.max_tokens - 1),
                end_id=network.vocabulary.end_id,
            )
            for _ in inputs
        ]
        self._cache = KeyValueCache()

    def search(self) -> list[BeamSearch]:
        """Complete every search."""
        module = self._module
        with evaluating_tokens(module, sum(map(len, self._ids))):
            ids, valid = self._sources()
            memory = module.encode(ids, valid=valid, probe=self._probe)
            rows = list(range(len(self._searches)))  # the text of each row
            last, parents = [self._begin_id] * len(rows), rows
            while rows:
                log_p = self._read(last, memory, valid)
                rows, last, parents = self._advance(rows, log_p)
                chosen = self._tensor(parents)
                valid = None if valid is None else valid.index_select(0, chosen)
                memory = memory.index_select(0, chosen)
                self._cache.select(chosen)
                self._cache.select_texts(chosen)
        return self._searches

    def _advance(self, rows: Sequence[int], log_p: Tensor) -> tuple[list[int], list[int], list[int]]:
        """Advance every text by one token: the text, last token and parent of each surviving row."""
        texts, last, parents = [], [], []
        first = 0
        for text in dict.fromkeys(rows):
            n_rows, search = rows.count(text), self._searches[text]
            search.advance(log_p[first : first + n_rows])
            if not search.is_done:
                texts += [text] * len(search.live_ids)
                last += search.live_ids
                parents += [first + row for row in search.live_rows]
            first += n_rows
        return texts, last, parents

    def _read(self, last: Sequence[int], memory: Tensor, valid: Tensor | None) -> Tensor:
        """Log-probabilities after the last token of each row, float64 on the CPU."""
        module = self._module
        hidden = module.decode(
            self._tensor(last)[:, None],
            memory=memory,
            memory_valid=valid,
            cache=self._cache,
            probe=self._probe,
        )
        return log_probabilities(module.logits(hidden[:, -1])).cpu()

    def _sources(self) -> tuple[Tensor, Tensor | None]:
        """Ids [n_texts, longest], padded with the begin token, and the mask of real tokens."""
        lengths = [len(ids) for ids in self._ids]
        longest = max(lengths)
        padded = [[*ids, *[self._begin_id] * (longest - len(ids))] for ids in self._ids]
        valid = torch.arange(longest) < torch.tensor(lengths)[:, None]
        return self._tensor(padded), None if bool(valid.all()) else valid.to(self._module.device)

    def _tensor(self, values: Sequence[object]) -> Tensor:
        return torch.tensor(list(values), dtype=torch.int64, device=self._module.device)
