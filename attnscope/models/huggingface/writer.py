"""Writing with a model of the library and its own cache of keys and values.

| symbol | meaning                               | shape                 |
|--------|---------------------------------------|-----------------------|
| logits | one number per piece, next token      | [n_texts, vocab_size] |

The cache keeps every layer whole, windows too, so that a wrong guess can be taken back; the mask says what
a window sees. `can_cache` proves on a tiny text that reading on gives the same numbers as reading again.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.huggingface.proof import RUN_ERRORS
from attnscope.models.outputs import best_ids
from attnscope.nn.cache import Room

_TOLERANCE = 1e-3

Watch = Callable[[int], AbstractContextManager[None]]
"""What a single pass over so many tokens runs in: the probe's context, or nothing."""


class CachedReading:
    """Texts that are read on, all equally long; keeps what the model computed of them."""

    def __init__(self, model: Any, watch: Watch = lambda _: nullcontext()) -> None:
        self._model, self._watch = model, watch
        self._cache = importlib.import_module("transformers").DynamicCache()
        self._cache.layer_class_to_replicate = _layer_with_room()
        self._cache_name = cache_argument(model)
        self._keeps_logits = takes_argument(model, "logits_to_keep")
        self.n_read = self._n_texts = 0

    def read_source(self, ids: Sequence[int]) -> None:
        """Read what an encoder reads, once for all that is written."""

    def take_back(self, n_tokens: int) -> None:
        """Forget the last `n_tokens` of every text."""
        if n_tokens > 0:
            self._cache.crop(-n_tokens)
            self.n_read -= n_tokens

    def select(self, rows: Sequence[int]) -> None:
        """Text i from now on is what text `rows[i]` was."""
        if list(rows) == list(range(self._n_texts)):
            return
        self._n_texts = len(rows)
        chosen = torch.tensor(list(rows), dtype=torch.int64, device=self._model.device)
        self._reorder(chosen)

    def _reorder(self, chosen: Tensor) -> None:
        self._cache.reorder_cache(chosen)

    def read(self, ids: Sequence[Sequence[int]], n_last: int = 1) -> Tensor:
        """Read on; the logits after each of the last `n_last` tokens: [n_texts, n_last, vocab_size]."""
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
        """What the model is called with for some more tokens of each text."""
        n_whole = self.n_read + tokens.shape[1]
        mask = torch.ones((len(tokens), n_whole), dtype=torch.int64, device=tokens.device)
        return {"input_ids": tokens, "attention_mask": mask}


class DoubleReading(CachedReading):
    """Targets of one source that are read on.

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
    """The library's growing layer of a cache, which copies all keys at each token, with room for more.

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
        """Text i from now on is text `parents[i]` with `ids[i]` after it: [n_texts, vocab_size]."""
        self._reading.select(parents)
        return self._reading.read([[id] for id in ids])[:, 0]


class GuessReader:
    """The most probable next tokens of one text that grows, with guesses taken back when they were wrong."""

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
    """Whether reading on, and taking back, give the logits of reading at once; tried on a few tokens.

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
    """Whether the model's forward names an argument."""
    code = type(model).forward
    code = getattr(code, "__wrapped__", code)
    return name in inspect.signature(code).parameters


def cache_argument(model: Any) -> str:
    """What the forward calls its cache of keys and values: `cache` since transformers 5.24; "" without."""
    return next((name for name in ("cache", "past_key_values") if takes_argument(model, name)), "")


def _is_near(a: Tensor, b: Tensor, scale: float) -> bool:
    if a.shape != b.shape:
        return False
    finite = torch.isfinite(b)
    return bool(((a - b)[finite].abs() <= _TOLERANCE * scale).all())
