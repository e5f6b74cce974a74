"""Removing heads from a copy of the open model, and saving that copy. No Qt."""

from collections.abc import Iterator
from pathlib import Path

from attnscope.errors import UserError
from attnscope.models.pruning import Pruned, pruning, shapes_of
from attnscope.records.messages import Progress
from attnscope.records.pruning import ForgetPruned, PrunedSaved, PruningTried, SavePruned, TryPruning
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves

_STEPS = 3


class LastPruned:
    """The smaller copy made last, until another one takes its place; by the number of its request."""

    def __init__(self) -> None:
        self._kept: dict[int, Pruned] = {}

    def keep(self, number: int, pruned: Pruned) -> None:
        """Make this the copy."""
        self._kept = {number: pruned}

    def forget(self) -> None:
        """Let the copy go, and its memory."""
        self._kept.clear()

    def get(self, number: int) -> Pruned:
        """The copy of a request; raises UserError when there is none any more."""
        if number not in self._kept:
            raise UserError(
                "The smaller model is no longer available.",
                action="Remove the heads again, then save.",
            )
        return self._kept[number]


@serves(TryPruning)
def try_pruning(request: TryPruning, desk: Desk) -> Iterator[Reply]:
    """Make, prove and measure a smaller copy; it can be given up between these."""
    model, last = desk.model, desk.kept(LastPruned)
    last.forget()
    read = model.encode(request.text, request.target) if request.text.strip() else None
    steps = pruning(model.network, request.gates, read, shape=request.shape)
    n_done = 0
    while True:
        try:
            what = next(steps)
        except StopIteration as stop:
            pruned: Pruned = stop.value
            break
        yield Progress(number=request.number, what=what, fraction=n_done / _STEPS)
        n_done += 1
    last.keep(request.number, pruned)
    yield PruningTried(number=request.number, report=pruned.report, shapes=shapes_of(model.network))


@serves(SavePruned)
def save_pruned(request: SavePruned, desk: Desk) -> Iterator[Reply]:
    """Save the copy that was tried."""
    pruned = desk.kept(LastPruned).get(request.tried)
    yield Progress(number=request.number, what=f"Saving {Path(request.folder).name}")
    yield PrunedSaved(number=request.number, report=pruned.save(request.folder))


@serves(ForgetPruned)
def forget_pruned(request: ForgetPruned, desk: Desk) -> Iterator[Reply]:
    """Let the copy go."""
    desk.kept(LastPruned).forget()
    return iter(())
