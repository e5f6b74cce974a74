"""A model of the library as a network: what stands behind `Model` for every Hugging Face architecture."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from attnscope.errors import UserError
from attnscope.models.generate import HearIds, NextTokens, write_greedily
from attnscope.models.huggingface.head import DetachedPass, NoPass, PooledPass, WholePass, run_detached, said
from attnscope.models.huggingface.inputs import PictureReader, Reader
from attnscope.models.huggingface.site_map import Attached
from attnscope.models.huggingface.tasks import ModelTask
from attnscope.models.huggingface.writer import (
    CachedReading,
    DoubleReading,
    GuessReader,
    HuggingFaceWriter,
    takes_argument,
)
from attnscope.models.inputs import Inputs
from attnscope.models.network import TokensById
from attnscope.models.outputs import best_ids, token_positions
from attnscope.models.writing.writer import RecomputingWriter, Writer
from attnscope.nn.attention import Probe
from attnscope.nn.computing import layer_products, threads_for
from attnscope.records.models import Form, ModelInfo
from attnscope.records.outputs import OutputKind
from attnscope.records.pictures import Picture
from attnscope.records.sites import Site
from attnscope.records.tokens import Token, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What was found out about a model when it was opened; see `head.py` and `writer.py`."""

    has_detachable_head: bool = False
    try_cache: Callable[[], bool] | None = None
    """Whether what was read can be kept: tried when something is written first, for it takes five passes."""
    has_segments: bool = False
    labels: tuple[str, ...] = ()
    ends: frozenset[int] = frozenset()
    forced: tuple[int, ...] = ()
    max_target: int = 0


class HuggingFaceNetwork:
    """A model of the library with its own tokenizer; always in evaluation mode."""

    is_training = False

    def __init__(
        self,
        model: Any,
        attached: Attached,
        task: ModelTask,
        reader: Reader,
        abilities: Abilities,
        info: ModelInfo,
    ) -> None:
        self.module = model
        self.task = task
        self.attached = attached
        self.sites: tuple[Site, ...] = attached.sites
        self.abilities = abilities
        self._reader, self._info = reader, info

    @property
    def form(self) -> Form:
        return self.task.form

    @property
    def output_kind(self) -> OutputKind:
        return self.task.output_kind

    @property
    def device(self) -> torch.device:
        device: torch.device = self.module.device
        return device

    @property
    def max_tokens(self) -> int:
        return self._reader.max_tokens

    @property
    def vocabulary(self) -> TokensById:
        """Its own tokenizer; for pictures, patches."""
        return self._reader.vocabulary

    @property
    def info(self) -> ModelInfo:
        return self._info

    @cached_property
    def has_cache(self) -> bool:
        """Whether the model reads on where it ended."""
        return self.abilities.try_cache is not None and self.abilities.try_cache()

    # -- in ---------------------------------------------------------------------------------------

    def encode(self, text: str, target: str | None = None) -> Inputs:
        """Both texts as the model reads them; for an encoder the target is a second sentence."""
        return self._reader.encode(text, target)

    def picture(self, text: str) -> Picture:
        """See `models.pictures.ReadsPictures`."""
        if not isinstance(self._reader, PictureReader):
            raise UserError(
                f"{self._info.name} reads no pictures.", expected="a vision model", action="Open one."
            )
        return self._reader.picture(text)

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        """The same inputs with what the model wrote; one that does not write reads its source again."""
        return self._reader.own_target(inputs, written)

    def arguments(self, inputs: Inputs, n_copies: int = 1) -> dict[str, Any]:
        """What the module is called with for `n_copies` of a text, nothing being kept for a next one."""
        arguments: dict[str, Any] = dict(self._reader.arguments(inputs, self.device, n_copies))
        if takes_argument(self.module, "use_cache"):
            arguments["use_cache"] = False
        return arguments

    # -- out --------------------------------------------------------------------------------------

    def run(
        self, inputs: Inputs, probe: Probe | None = None, *, n_copies: int = 1
    ) -> DetachedPass | WholePass | NoPass:
        """One pass over `n_copies` of the same text."""
        if inputs.target is None and self.form == "encoder-decoder":
            inputs = self.own_target(inputs, ())
        arguments = self.arguments(inputs, n_copies)
        n_tokens = len(inputs.source if inputs.target is None else inputs.target)
        with torch.no_grad(), self._watched(probe), self.threads(n_copies * inputs.n_tokens):
            if self.abilities.has_detachable_head:
                return run_detached(self.module, arguments)
            output = self.module(**arguments)
        if not self.task.has_output:
            return NoPass(n_tokens)
        if self.task.is_pooled:
            return PooledPass(output.logits, n_tokens=n_tokens, pooled_at=self._pooled_at(n_tokens))
        return WholePass(output.logits)

    def say_all(self, case: Inputs | torch.Tensor, probe: Probe | None = None) -> torch.Tensor:
        """All that the module says of an input, or of the pixels [1, channels, height, width] of a picture.

        Its logits, or its last stream where it has no head; float32.
        """
        if isinstance(case, torch.Tensor):
            arguments: dict[str, Any] = {"pixel_values": case.to(self.device)}
        else:
            is_open = case.target is None and self.form == "encoder-decoder"
            arguments = self.arguments(self.own_target(case, ()) if is_open else case)
        with torch.no_grad(), self._watched(probe):
            return said(self.module(**arguments))

    def threads(self, n_tokens: int) -> AbstractContextManager[None]:
        """As many threads as pay for a pass over so many tokens, of all texts together."""
        return threads_for(layer_products(self._layer_weights, n_tokens))

    @cached_property
    def _layer_weights(self) -> float:
        """The weights in matrices, a layer, its embeddings left out."""
        n_weights: int = sum(
            parameter.numel()
            for part in self.module.modules()
            if not isinstance(part, nn.Embedding)
            for parameter in part.parameters(recurse=False)
            if parameter.ndim == 2
        )
        return n_weights / max(1, len({(site.stack, site.layer) for site in self.sites}))

    def answer(self, id: int) -> Token:
        if self.output_kind != "class":
            return self.vocabulary.token(id)
        labels = self.abilities.labels
        return Token(id=id, piece=labels[id] if id < len(labels) else f"label {id}")

    def shown_positions(self, inputs: Inputs) -> list[int]:
        if self.task.is_pooled:
            return [self._pooled_at(len(inputs.source if inputs.target is None else inputs.target))]
        if self.task.name == "tagging":
            return [i for i, token in enumerate(inputs.source.tokens) if not token.is_special]
        mask_id = self.vocabulary.mask_id if self.vocabulary.has("mask") else None
        return token_positions(self.output_kind, inputs, mask_id)

    def _pooled_at(self, n_tokens: int) -> int:
        """Where a label of the whole text is read off: the first token of an encoder, else the last."""
        return 0 if self.form == "encoder" else n_tokens - 1

    # -- writing ----------------------------------------------------------------------------------

    def write(
        self,
        inputs: Inputs,
        probe: Probe | None = None,
        *,
        n_tokens: int | None = None,
        guess: Sequence[int] = (),
        hear: HearIds | None = None,
    ) -> list[int]:
        """What the model writes greedily, without the end token; nothing when it has no such head."""
        if not self.task.is_writing:
            return []
        is_double = self.form == "encoder-decoder"
        target = self.own_target(inputs, ()).target if is_double else None
        forced = self.abilities.forced if is_double else ()
        prefix = inputs.source.ids if target is None else (*target.ids, *forced)
        limit = self.abilities.max_target if is_double else self.max_tokens
        n_free = limit - len(prefix)
        if n_tokens is None:  # as long as the source and half again, unless the model ends before
            n_tokens = 3 * len(inputs.source) // 2 + 10 if is_double else n_free
        reader = self._guess_reader(inputs, probe)
        ends = self.abilities.ends
        end_id = min(ends) if ends else None

        def next_tokens(sequence: Sequence[int], n_last: int) -> list[int]:
            best = reader(sequence, n_last)
            return [end_id if id in ends and end_id is not None else id for id in best]

        if tuple(guess[: len(forced)]) == forced:
            guess = guess[len(forced) :]

        def hear_all(ids: Sequence[int]) -> None:
            if hear is not None and is_double:
                hear([*forced, *ids])

        n_tokens = max(0, min(n_tokens, n_free))
        written = write_greedily(
            next_tokens, prefix, n_tokens=n_tokens, end_id=end_id, guess=guess, hear=hear_all
        )
        return [*forced, *written]

    def writer(self, probe: Probe | None = None) -> Writer:
        """A writer for one prompt: with the library's cache, or reading every text again."""
        if not self.has_cache or _has_edits(probe, self.sites):
            return RecomputingWriter(self, probe)
        is_double = self.form == "encoder-decoder"
        return HuggingFaceWriter(
            self._reading(probe),
            max_tokens=self.abilities.max_target if is_double else self.max_tokens,
        )

    def _encoder_arguments(self, ids: Sequence[int]) -> dict[str, torch.Tensor]:
        return self._reader.source_arguments(ids, self.device)

    def _guess_reader(self, inputs: Inputs, probe: Probe | None) -> NextTokens:
        if self.has_cache and not _has_edits(probe, self.sites):
            reading = self._reading(probe)
            reading.read_source(inputs.source.ids)
            return GuessReader(reading)

        def read_again(sequence: Sequence[int], n_last: int) -> list[int]:
            text = Tokens(text="", tokens=tuple(self.vocabulary.token(id) for id in sequence))
            is_double = self.form == "encoder-decoder"
            whole = Inputs(source=inputs.source, target=text) if is_double else Inputs(source=text)
            logits = self.run(whole, probe).logits(range(len(sequence) - n_last, len(sequence)))
            best: list[int] = best_ids(logits).tolist()
            return best

        return read_again

    def _reading(self, probe: Probe | None) -> CachedReading:
        @contextmanager
        def watch(n_tokens: int) -> Iterator[None]:
            with self._watched(probe, is_one_pass=True), self.threads(n_tokens):
                yield

        if self.form == "encoder-decoder":
            return DoubleReading(self.module, self._encoder_arguments, watch)
        return CachedReading(self.module, watch)

    def _watched(self, probe: Probe | None, *, is_one_pass: bool = False) -> AbstractContextManager[None]:
        return nullcontext() if probe is None else self.attached.probing(probe, is_one_pass=is_one_pass)


def _has_edits(probe: Probe | None, sites: Iterable[Site]) -> bool:
    """Edits name places of a whole map, so they need whole passes."""
    return probe is not None and any(probe.edits(site.key) is not None for site in sites)
