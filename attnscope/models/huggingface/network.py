"""A library model as a network, for every Hugging Face architecture.

Writing with a model of the library and its own cache of keys and values.

| symbol | meaning                               | shape                 |
|--------|---------------------------------------|-----------------------|
| logits | one number per piece, next token      | [n_texts, vocab_size] |

The cache keeps every layer whole, windows too, so that a wrong guess can be taken back; the mask says what
a window sees. `can_cache` proves on a tiny text that reading on gives the same numbers as reading again.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.config import ModelTask
from attnscope.models.huggingface.head import DetachedPass, NoPass, PooledPass, WholePass, run_detached, said
from attnscope.models.huggingface.inputs import PictureReader, Reader
from attnscope.models.huggingface.proof import RUN_ERRORS
from attnscope.models.huggingface.site_map import Attached
from attnscope.models.inputs import Inputs
from attnscope.models.network import (
    HearIds,
    NextTokens,
    TokensById,
    best_ids,
    token_positions,
    write_greedily,
)
from attnscope.models.writing.writer import RecomputingWriter, Writer
from attnscope.nn import Probe, layer_products, threads_for
from attnscope.nn.cache import Room
from attnscope.records.maps import Picture
from attnscope.records.models import Form, ModelInfo
from attnscope.records.outputs import OutputKind
from attnscope.records.sites import Site
from attnscope.records.tokens import Token, Tokens

_TOLERANCE = 1e-3

Watch = Callable[[int], AbstractContextManager[None]]
"""What a single pass over so many tokens runs in: the probe's context, or nothing."""


class CachedReading:
    """Texts that are read further, all equally long, with the model's cached results."""

    def __init__(self, model: Any, watch: Watch = lambda _: nullcontext()) -> None:
        self._model, self._watch = model, watch
        self._cache = importlib.import_module("transformers").DynamicCache()
        self._cache.layer_class_to_replicate = _layer_with_room()
        self._cache_name = cache_argument(model)
        self._keeps_logits = takes_argument(model, "logits_to_keep")
        self.n_read = self._n_texts = 0

    def read_source(self, ids: Sequence[int]) -> None:
        """Read an encoder's source, once for the whole output."""

    def take_back(self, n_tokens: int) -> None:
        """Drop the last `n_tokens` of every text."""
        if n_tokens > 0:
            self._cache.crop(-n_tokens)
            self.n_read -= n_tokens

    def select(self, rows: Sequence[int]) -> None:
        """Make text i a copy of text `rows[i]`."""
        if list(rows) == list(range(self._n_texts)):
            return
        self._n_texts = len(rows)
        chosen = torch.tensor(list(rows), dtype=torch.int64, device=self._model.device)
        self._reorder(chosen)

    def _reorder(self, chosen: Tensor) -> None:
        self._cache.reorder_cache(chosen)

    def read(self, ids: Sequence[Sequence[int]], n_last: int = 1) -> Tensor:
        """Read further tokens; gives the logits after the last `n_last`: [n_texts, n_last, vocab_size]."""
        device = self._model.device
        tokens = torch.tensor([list(row) for row in ids], dtype=torch.int64, device=device)
        arguments = {self._cache_name: self._cache, "use_cache": True, **self._arguments(tokens)}
        if self._keeps_logits:
            arguments["logits_to_keep"] = n_last
        with torch.no_grad(), self._watch(tokens.numel()):
            logits: Tensor = self._model(**arguments).logits
        self.n_read += tokens.shape[1]
        self._n_texts = len(tokens)
        return logits[:, -n_last:].float()

    def _arguments(self, tokens: Tensor) -> dict[str, Any]:
        """The model's arguments for some more tokens of each text."""
        n_whole = self.n_read + tokens.shape[1]
        mask = torch.ones((len(tokens), n_whole), dtype=torch.int64, device=tokens.device)
        return {"input_ids": tokens, "attention_mask": mask}


class DoubleReading(CachedReading):
    """Targets of one source that are read further.

    `encoder_arguments` gives what the encoder is called with for the ids of a source.
    """

    def __init__(
        self,
        model: Any,
        encoder_arguments: Callable[[Sequence[int]], Mapping[str, Tensor]],
        watch: Watch = lambda _: nullcontext(),
    ) -> None:
        super().__init__(model, watch)
        library = importlib.import_module("transformers")
        self._cache = library.EncoderDecoderCache(self._cache, library.DynamicCache())
        self._encoder_arguments = encoder_arguments
        self._memory = torch.empty(0)
        self._has_mask = False

    def read_source(self, ids: Sequence[int]) -> None:
        arguments = self._encoder_arguments(ids)
        with torch.no_grad(), self._watch(next(iter(arguments.values())).numel()):
            output = self._model.get_encoder()(**arguments)
        self._memory = output["last_hidden_state"]
        self._has_mask = "attention_mask" in arguments

    def _reorder(self, chosen: Tensor) -> None:
        super()._reorder(chosen)
        self._memory = self._memory.index_select(0, chosen)

    def _arguments(self, tokens: Tensor) -> dict[str, Any]:
        outputs, memory = importlib.import_module("transformers.modeling_outputs"), self._memory
        mask = {"attention_mask": memory.new_ones(memory.shape[:2], dtype=torch.int64)}
        return {
            "encoder_outputs": outputs.BaseModelOutput(last_hidden_state=memory),
            "decoder_input_ids": tokens,
            **(mask if self._has_mask else {}),
        }


@cache
def _layer_with_room() -> Any:
    """The library's growing cache layer, which copies all keys at each token, with spare room.

    Appending copies the new ones only, as `nn.cache` does. What it gives is a view of its room, and what
    stands there is never written again: after a change of places or a guess taken back it moves.
    """
    layer: Any = importlib.import_module("transformers.cache_utils").DynamicLayer

    class Layer(layer):  # type: ignore[misc]
        def update(
            self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
        ) -> tuple[Tensor, Tensor]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
                self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
                self.rooms: list[Room] = []
            if (
                not self.rooms
                or self.rooms[0].given is not self.keys
                or self.rooms[1].given is not self.values
            ):
                self.rooms = [Room(self.keys), Room(self.values)]
            self.keys, self.values = self.rooms[0].append(key_states), self.rooms[1].append(value_states)
            return self.keys, self.values

    return Layer


class HuggingFaceWriter:
    """Writes token by token; see `models.writing.writer.Writer`."""

    is_incremental = True

    def __init__(self, reading: CachedReading, *, max_tokens: int) -> None:
        self._reading, self.max_tokens = reading, max_tokens

    def begin(self, source: Sequence[int], prefix: Sequence[int]) -> Tensor:
        """Read the source and the prefix: [1, vocab_size]."""
        self._reading.read_source(source)
        return self._reading.read([prefix])[:, 0]

    def step(self, ids: Sequence[int], parents: Sequence[int]) -> Tensor:
        """Make text i a copy of text `parents[i]` followed by `ids[i]`: [n_texts, vocab_size]."""
        self._reading.select(parents)
        return self._reading.read([[id] for id in ids])[:, 0]


class GuessReader:
    """The most probable next tokens of one growing text, with wrong guesses taken back."""

    def __init__(self, reading: CachedReading) -> None:
        self._reading = reading
        self._ids: list[int] = []

    def __call__(self, sequence: Sequence[int], n_last: int) -> list[int]:
        """After each of the last `n_last` tokens of `sequence`, as `models.generate.NextTokens`."""
        n_same = 0
        for old, new in zip(self._ids, sequence[: len(sequence) - n_last], strict=False):
            if old != new:
                break
            n_same += 1
        self._reading.take_back(len(self._ids) - n_same)
        logits = self._reading.read([sequence[n_same:]], n_last)
        self._ids = list(sequence)
        best: list[int] = best_ids(logits[0]).tolist()
        return best


def can_cache(model: Any, ids: Sequence[int], source: Mapping[str, Tensor] | None) -> bool:
    """Whether reading further, and taking back, give the logits of a single reading.

    `source` is what the encoder of an encoder–decoder is called with.
    """
    if not cache_argument(model):
        return False
    half = len(ids) // 2
    try:
        kind = CachedReading if source is None else partial(DoubleReading, encoder_arguments=lambda _: source)
        once, parts = kind(model), kind(model)
        once.read_source(())
        parts.read_source(())
        whole = once.read([ids], len(ids))
        parts.read([[*ids[:half], ids[0], ids[0]]])
        parts.take_back(2)
        on = parts.read([ids[half:]], len(ids) - half)
        parts.select([0, 0])
        again = parts.read([[ids[0]], [ids[0]]])
        direct = once.read([[ids[0]]])
    except (*RUN_ERRORS, UserError):  # for instance a mask that leaves out what the cache holds
        return False
    scale = float(whole.abs().max().clamp(min=1e-6))
    pairs = ((on, whole[:, half:]), (again, direct.expand_as(again)))
    return all(_is_near(a, b, scale) for a, b in pairs)


def takes_argument(model: Any, name: str) -> bool:
    """Whether the model's forward has this argument."""
    code = type(model).forward
    code = getattr(code, "__wrapped__", code)
    return name in inspect.signature(code).parameters


def cache_argument(model: Any) -> str:
    """Name of the forward's argument for its key–value cache: `cache` since transformers 5.24; "" if none."""
    return next((name for name in ("cache", "past_key_values") if takes_argument(model, name)), "")


def _is_near(a: Tensor, b: Tensor, scale: float) -> bool:
    if a.shape != b.shape:
        return False
    finite = torch.isfinite(b)
    return bool(((a - b)[finite].abs() <= _TOLERANCE * scale).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """Abilities of a model, found when it was opened; see `head.py` and `writer.py`."""

    has_detachable_head: bool = False
    try_cache: Callable[[], bool] | None = None
    """Whether what was read can be kept: tried when something is written first, for it takes five passes."""
    has_segments: bool = False
    labels: tuple[str, ...] = ()
    ends: frozenset[int] = frozenset()
    forced: tuple[int, ...] = ()
    max_target: int = 0


class HuggingFaceNetwork:
    """A library model with its own tokenizer; always in evaluation mode."""

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
        """Whether the model can continue reading from a cache."""
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
        """The same inputs with the generated text; a model that does not generate reads its source again."""
        return self._reader.own_target(inputs, written)

    def arguments(self, inputs: Inputs, n_copies: int = 1) -> dict[str, Any]:
        """Arguments of the module for `n_copies` of a text, with nothing cached for a later call."""
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
        if self.task.kind.is_pooled:
            return PooledPass(output.logits, n_tokens=n_tokens, pooled_at=self._pooled_at(n_tokens))
        return WholePass(output.logits)

    def say_all(self, case: Inputs | torch.Tensor, probe: Probe | None = None) -> torch.Tensor:
        """The module's whole output for an input, or for the pixels of a picture.

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
        """Number of threads that pay for a pass over so many tokens, of all texts together."""
        return threads_for(layer_products(self._layer_weights, n_tokens))

    @cached_property
    def _layer_weights(self) -> float:
        """Matrix weights of a layer, without embeddings."""
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
        if self.task.kind.is_pooled:
            return [self._pooled_at(len(inputs.source if inputs.target is None else inputs.target))]
        if self.output_kind == "class":
            return [i for i, token in enumerate(inputs.source.tokens) if not token.is_special]
        mask_id = self.vocabulary.mask_id if self.vocabulary.has("mask") else None
        return token_positions(self.output_kind, inputs, mask_id)

    def _pooled_at(self, n_tokens: int) -> int:
        """Position of a label of the whole text: the first token of an encoder, else the last."""
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
        """Generate greedily, without the end token; empty if the model has no such head."""
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
    """Edits refer to positions of a whole map, so they need whole passes."""
    return probe is not None and any(probe.edits(site.key) is not None for site in sites)
