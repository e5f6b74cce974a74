"""Answering which part of the model made an output: parts that add up, and patching. No Qt."""

import time
from collections.abc import Callable, Generator, Iterator

from attnscope.analysis.answers import (
    candidates_of,
    comparing_position,
    read_logits,
    resolve_token,
)
from attnscope.analysis.attribution import attribute_logits
from attnscope.analysis.flow import check_position
from attnscope.analysis.patching import patch_map
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records.causes import (
    AttributeOutput,
    OutputAttributed,
    PatchingNews,
    PatchTexts,
    TextsPatched,
)
from attnscope.records.importance import Progress
from attnscope.records.messages import OPEN_MODEL, Reply
from attnscope.workers.mailbox import MAX_PER_S, RateLimit
from attnscope.workers.serve_models import OpenModels

MAX_PATCHED = 512
"""Most tokens of a text that is patched: each of them is a pass for each layer."""


def attribute_output(request: AttributeOutput, models: OpenModels) -> Iterator[Reply]:
    """What every part adds to the difference of two logits."""
    model = models.get(OPEN_MODEL)
    logits = read_logits(model, request.text, request.target, request.gates)
    row = logits[check_position(request.position, len(logits))]
    found = attribute_logits(
        model,
        request.text,
        request.target,
        position=request.position,
        answer=resolve_token(model, request.answer, row),
        other=resolve_token(model, request.other, row),
        gates=request.gates,
    )
    yield OutputAttributed(number=request.number, attribution=found, candidates=candidates_of(model, row))


class PatchingJob:
    """One map of patches, made row by row."""

    def __init__(
        self, request: PatchTexts, model: Model, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.number = request.number
        self.is_active = True
        self._model = model
        self._limit = RateLimit(MAX_PER_S, clock)
        self._steps = self._run(request)

    def advance(self) -> PatchingNews | TextsPatched | None:
        """Do one piece of work; returns what is to be told now. What the pass raises ends the job."""
        try:
            news = next(self._steps, None)
        except BaseException:
            self.is_active = False
            raise
        if not isinstance(news, PatchingNews):
            self.is_active = False
            return news
        return news if self._limit.take() else None

    def stop(self) -> None:
        """Give the map up."""
        self._steps.close()
        self.is_active = False

    def _run(self, request: PatchTexts) -> Generator[PatchingNews | TextsPatched, None, None]:
        yield PatchingNews(number=self.number, n_done=0, n_total=0)
        model = self._model
        clean = read_logits(model, request.clean, request.target, request.gates)
        if len(clean) > MAX_PATCHED:
            raise UserError(
                f"These are {len(clean):,} tokens.",
                expected=f"at most {MAX_PATCHED} tokens to patch",
                action="Choose a shorter text.",
            )
        corrupt = read_logits(model, request.corrupt, request.target, request.gates)
        position = request.position
        if position is None:
            position = comparing_position(model, request.clean, request.target, clean, corrupt)
        row = clean[check_position(position, len(clean))]
        found = patch_map(
            model,
            (request.clean, request.target),
            (request.corrupt, request.target),
            request.kind,
            stack=request.stack,
            position=position,
            answer=resolve_token(model, request.answer, row),
            other=resolve_token(model, request.other, row),
            gates=request.gates,
        )
        for one in found:
            if isinstance(one, Progress):
                yield PatchingNews(number=self.number, n_done=one.n_done, n_total=one.n_total)
            else:
                yield TextsPatched(
                    number=self.number, patched=one, position=position, candidates=candidates_of(model, row)
                )
