"""The interface of our own networks, whatever their body.

    symbol   meaning                              shape
    ids      token ids                            [batch, n_tokens], int64
    valid    False where a token is padding       [batch, n_tokens], bool
    hidden   the stream before the vocabulary     [batch, n_tokens, d_model]
    logits   one number per piece                 [batch, n_tokens, vocab_size]

Which body a configuration asks for is decided in `nn/building.py`.

The loss over the vocabulary: in pieces on a CPU, so that not all logits are there at once.

    symbol   meaning                                  shape
    rows     the stream where a token is to be told   [n_scored, d_model]
    labels   the token to be told there               [n_scored]
    logits   of one piece of the rows                 [n_rows, n_classes]

A piece is worked out with its gradient before the next one is begun, which takes no operation more: the loss
is a sum, so whatever is made of it only scales what was found.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.nn.attention import Probe
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.config import ModelConfig
from attnscope.nn.embedding_and_head import Head, LabelHead
from attnscope.nn.masks import Pattern
from attnscope.nn.pooling import Matching, OfSecond, Summary
from attnscope.records.sites import KeyKind, Site, Stack


class OwnModule(nn.Module, ABC):
    """The interface of every body: it encodes, decodes, and sends all attention through `attend`.

    `tokens` embeds both texts, `head` makes logits, `n_positions` is the longest text it reads now. A body
    implements `encode`, `decode`, `fill_tables`, `can_read_past` and `reach_past`; no more is asked of it.
    """

    config: ModelConfig
    tokens: nn.Embedding
    head: Head | LabelHead
    n_positions: int

    @property
    def device(self) -> torch.device:
        return self.tokens.weight.device

    @property
    def can_cache(self) -> bool:
        """Whether a text may be read in parts."""
        return True

    @property
    @abstractmethod
    def can_read_past(self) -> bool:
        """Whether texts longer than those of training can be read at all."""

    @abstractmethod
    def fill_tables(self) -> None:
        """Compute the non-learned buffers; called again when the weights are moved to new memory."""

    def take_memory(self, device: str | torch.device) -> None:
        """Leave the device "meta": weights are uninitialised, the tables are computed.

        `to_empty` would load the compiler and sympy for it: half a second at every start.
        """
        for part in self.modules():
            for name, weight in part.named_parameters(recurse=False):
                memory = torch.empty(weight.shape, dtype=weight.dtype, device=device)
                setattr(part, name, nn.Parameter(memory, requires_grad=weight.requires_grad))
            for name, buffer in part.named_buffers(recurse=False):
                setattr(part, name, torch.empty(buffer.shape, dtype=buffer.dtype, device=device))
        self.fill_tables()

    @abstractmethod
    def reach_past(self, n_tokens: int) -> None:
        """Allow texts of `n_tokens`, though the model was never trained on such lengths.

        Raises ValueError where they cannot be read.
        """

    @abstractmethod
    def encode(
        self,
        ids: Tensor,
        *,
        valid: Tensor | None = None,
        segments: Tensor | None = None,
        pattern: Pattern | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """The encoder's hidden stream."""

    @abstractmethod
    def decode(
        self,
        ids: Tensor,
        *,
        memory: Tensor | None = None,
        memory_valid: Tensor | None = None,
        valid: Tensor | None = None,
        pattern: Pattern | None = None,
        prefix: Tensor | None = None,
        probe: Probe | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """The decoder's hidden stream; `memory` is the encoder's, in the form encoder–decoder."""

    def told_from(
        self,
        ids: Tensor,
        *,
        second: Tensor | None = None,
        valid: Tensor | None = None,
        second_valid: Tensor | None = None,
        segments: Tensor | None = None,
        pattern: Pattern | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """The last stream of the predicting stack, or the row of `summarise` for a label model.

        `second` are the ids of the target, or of the second text where two are matched; an encoder–decoder
        without a target gives the stream of its encoder.
        """
        if self.config.labels_texts:
            return self.summarise(
                ids,
                valid=valid,
                second=second,
                second_valid=second_valid,
                segments=segments,
                pattern=pattern,
                probe=probe,
            )
        if self.config.form == "decoder":
            return self.decode(ids, valid=valid, pattern=pattern, probe=probe)
        memory = self.encode(ids, valid=valid, segments=segments, pattern=pattern, probe=probe)
        if second is None:
            return memory
        return self.decode(second, memory=memory, memory_valid=valid, valid=second_valid, probe=probe)

    def logits(self, hidden: Tensor) -> Tensor:
        """One number per piece for any rows of a hidden stream, [..., vocab_size]."""
        logits: Tensor = self.head(hidden, self.tokens.weight)
        return logits

    def summarise(
        self,
        ids: Tensor,
        *,
        valid: Tensor | None = None,
        second: Tensor | None = None,
        second_valid: Tensor | None = None,
        segments: Tensor | None = None,
        pattern: Pattern | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """One row for a text, or for two that are matched, [batch, d_model]: the basis of labels.

        `second` are the ids of the second text, [batch, n_target], with `second_valid` as `valid`; `segments`
        those of two texts that are read as one, as in `encode`. Raises ValueError for a model without labels,
        and where a second text is missing or is not read.
        """
        summary, matching = self._modules.get("summary"), self._modules.get("matching")
        if not isinstance(summary, Summary):
            raise ValueError("a model without labels makes no summary")
        if (second is None) == self.config.reads_pair:
            raise ValueError(f"second does not go with reads_pair = {self.config.reads_pair}")
        read = self.decode if self.config.form == "decoder" else self.encode
        hidden = (
            read(ids, valid=valid, pattern=pattern, probe=probe)
            if segments is None
            else self.encode(ids, valid=valid, segments=segments, pattern=pattern, probe=probe)
        )
        if second is None or not isinstance(matching, Matching):
            valid = None if self.config.has_latents else valid
            row: Tensor = summary(hidden, ids, valid=valid, probe=probe)
            return row
        of_second = None if probe is None else OfSecond(probe)
        other = read(second, valid=second_valid, probe=of_second)
        hidden, other = matching(hidden, other, valid=valid, second_valid=second_valid, probe=probe)
        first_row = summary(hidden, ids, valid=valid, probe=probe)
        return matching.joined(first_row, summary(other, second, valid=second_valid, probe=of_second))

    def sites(self) -> tuple[Site, ...]:
        """Every attention module: encoder layers, decoder layers, then cross layers.

        One that lost all its heads is left out; layers keep their numbers.
        """
        layouts = (
            (stack, layer, self.config.layout(stack, layer)) for stack, layer in self.config.site_keys()
        )
        return tuple(
            Site(
                stack=stack,
                layer=layer,
                n_heads=layout.n_heads,
                # What `attend` is given: uneven groups are handed out one to each query head.
                n_kv_heads=layout.n_kv_heads if layout.is_even else layout.n_heads,
                former=layout.heads if layout.heads != tuple(range(layout.n_heads)) else (),
                **key_kind(self.config, stack),
            )
            for stack, layer, layout in layouts
            if layout.heads
        )


class _KeyKind(TypedDict):
    keys: KeyKind
    n_slots: int
    slot: str


def key_kind(config: ModelConfig, stack: Stack) -> _KeyKind:
    """Meaning of the columns of a stack's maps, as in `Site`."""
    slot = "latent" if config.has_latents else "point" if config.has_inducing else "projection"
    if config.has_latents and stack in ("latents", "pool"):
        return {"keys": "slots", "n_slots": config.n_projected, "slot": slot}
    if stack == "read-in":
        return {"keys": "tokens", "n_slots": config.n_projected, "slot": slot}
    if config.n_projected and stack in ("encoder", "second"):
        return {"keys": "slots", "n_slots": config.n_projected, "slot": slot}
    is_of_sentences = stack == "pool" and config.pooling == "hierarchical"
    return {"keys": "sentences" if is_of_sentences else "tokens", "n_slots": 0, "slot": "slot"}


PIECE_NUMBERS = 2**22
"""Most logits at a time on a CPU; fewer rows make the products slower."""


def cross_entropy_sum(
    module: OwnModule, rows: Tensor, labels: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """The summed cross-entropy in nats; label smoothing ε is spread over all pieces of the vocabulary, but
    not over words outside of it that only one text has (`nn/copying.py`).
    """
    pieces = list(row_pieces(module, rows))
    if len(pieces) == 1 or torch.compiler.is_compiling():
        return _loss(module, rows, labels, label_smoothing)
    if not torch.is_grad_enabled():
        sums = [_loss(module, rows[piece], labels[piece], label_smoothing) for piece in pieces]
        return torch.stack(sums).sum()
    parameters = [p for p in (*module.head.parameters(), module.tokens.weight) if p.requires_grad]
    total: Tensor = _InPieces.apply(rows, module, labels, label_smoothing, *parameters)  # type: ignore[no-untyped-call]
    return total


def row_pieces(module: OwnModule, rows: Tensor) -> Iterator[slice]:
    """The rows in parts of at most PIECE_NUMBERS logits; on other devices, or if few, all at once."""
    n = max(1, PIECE_NUMBERS // (module.config.n_labels or module.config.vocab_size))
    n = n if rows.device.type == "cpu" else max(1, len(rows))
    for start in range(0, max(1, len(rows)), n):
        yield slice(start, min(start + n, len(rows)))


def _loss(module: OwnModule, rows: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    logits = module.logits(rows).float()
    n_pieces = module.config.vocab_size
    if label_smoothing and not module.config.n_labels and logits.shape[-1] > n_pieces:
        log_p = logits.log_softmax(dim=-1)
        told = F.nll_loss(log_p, labels, reduction="sum")
        return (1 - label_smoothing) * told - label_smoothing * log_p[:, :n_pieces].sum() / n_pieces
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=label_smoothing)


class _InPieces(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, module: OwnModule, labels: Tensor, label_smoothing: float, *parameters: Tensor
    ) -> Tensor:
        total, of_rows = rows.new_zeros((), dtype=torch.float32), torch.zeros_like(rows)
        sums = [torch.zeros_like(parameter) for parameter in parameters]
        for piece in row_pieces(module, rows):
            with torch.enable_grad():
                part = rows[piece].detach().requires_grad_()
                loss = _loss(module, part, labels[piece], label_smoothing)
            found = torch.autograd.grad(loss, (part, *parameters), allow_unused=True)
            of_rows[piece] = found[0]
            for own, gradient in zip(sums, found[1:], strict=True):
                if gradient is not None:
                    own.add_(gradient)
            total += loss.detach()
        ctx.save_for_backward(of_rows, *sums)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_rows, *sums = (saved * gradients[0].to(saved.dtype) for saved in ctx.saved_tensors)
        return of_rows, None, None, None, *sums
