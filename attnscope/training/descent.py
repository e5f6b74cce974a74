"""The gradients of a batch's loss, by the threads that make them quickest (`training/threads.py`)."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from attnscope.nn.dropping import own_dice
from attnscope.nn.memory_on_paper import n_turns_of
from attnscope.training.distributed import Ranks, SharedLoss
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe
from attnscope.training.row_workers import RowWorkers, can_divide, shape_of_batch
from attnscope.training.threads import Way


class Descent:
    """Adds up gradients in `way`, which may change between two batches."""

    def __init__(
        self,
        recipe: Recipe,
        loss: SharedLoss,
        device: torch.device,
        ranks: Ranks,
        autocast: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._training, self._smoothing = recipe.training, recipe.objective.label_smoothing
        self._loss, self._device, self._ranks, self._autocast = loss, device, ranks, autocast
        self._can_divide, self._workers = can_divide(recipe, device, ranks), RowWorkers()
        self.parameters = [p for p in loss.module.parameters() if p.requires_grad]
        self.way = Way()

    @property
    def n_rows(self) -> int:
        """How many rows of a batch may be computed by threads of their own; 0: none."""
        return self._training.batch_size if self._can_divide else 0

    def add(self, batch: Batch, n_scored: int, *, is_last: bool) -> Tensor:
        """Add the gradients of a batch's loss over `n_scored`; gives that loss."""

        def loss_of(rows: Batch) -> Tensor:
            with self._autocast():
                return self._loss(rows, self._smoothing, is_last=is_last) / n_scored

        n = self.way.n if self.way.is_by_rows and len(batch.ids) >= self.way.n else 1
        n_turns = 1
        if self._can_divide:
            shape = shape_of_batch(batch, has_bfloat16=self._autocast is not nullcontext)
            n_turns = n_turns_of(self._loss.module.config, shape)
        if n > 1 or n_turns > 1:
            return self._workers.descend(n, loss_of, batch, self.parameters, n_turns)
        # what is computed again for its gradient must draw the same again: from the dice of torch
        with nullcontext() if self._training.checkpointing else own_dice(int(torch.randint(2**62, ()))):
            loss = loss_of(self._ranks.share(batch).to(self._device))
            torch.autograd.backward(loss)
        return loss.detach()

    def close(self) -> None:
        """End its threads."""
        self._workers.close()
