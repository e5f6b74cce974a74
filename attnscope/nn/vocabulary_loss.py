"""The loss over the vocabulary: in pieces on a CPU, so that not all logits are there at once.

    symbol   meaning                                  shape
    rows     the stream where a token is to be told   [n_scored, d_model]
    labels   the token to be told there               [n_scored]
    logits   of one piece of the rows                 [n_rows, n_classes]

A piece is worked out with its gradient before the next one is begun, which takes no operation more: the loss
is a sum, so whatever is made of it only scales what was found.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.own_module import OwnModule

PIECE_NUMBERS = 2**22
"""Most logits at a time on a CPU; fewer rows make the products slower."""


def cross_entropy_sum(
    module: OwnModule, rows: Tensor, labels: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """The summed cross-entropy in nats; with smoothing ε all pieces of the vocabulary share ε, but not
    words outside of it that only one text has (`nn/copying.py`).
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
    """The rows in parts of at most PIECE_NUMBERS logits; on other devices, and of few, all at once."""
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
