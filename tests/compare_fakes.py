"""A Compare state whose requests lie in `asked` until `answer` plays the worker."""

import dataclasses

import numpy as np
from session_samples import Desk, head_map, state_of, traced
from told import names_told

from attnscope.records import (
    CompareTraces,
    DifferenceGrid,
    HeadRef,
    HeadsShown,
    ModelInfo,
    Request,
    ShowHeads,
    Tokens,
    Traced,
    TracesCompared,
    TraceText,
)
from attnscope.viewmodels.maps import stack_tokens


class CompareDesk:
    """A session with a model open, and two sides of it; `models` are others, by the name of a request."""

    def __init__(self, models: dict[str, ModelInfo] | None = None) -> None:
        self.desk = Desk().open()
        self.session = self.desk.session
        self.models = {"": self.desk.model, **(models or {})}
        self.asked: list[Request] = []
        self.state = state_of("compare", self.asked.append, session=self.session)
        self.told = names_told(self.state.changed)

    def open(self) -> "CompareDesk":
        self.state.open()
        self.answer()
        return self

    def answer(self) -> None:
        while self.asked:
            self.answer_one(self.asked.pop(0))

    def answer_one(self, request: Request) -> None:
        match request:
            case TraceText():
                self.state.handle(self.traced(request))
            case ShowHeads():
                maps = tuple(self._map(head, request.view) for head in request.heads)
                self.state.handle(HeadsShown(number=request.number, model=request.model, maps=maps))
            case CompareTraces():
                self.state.handle(compared(request))

    def traced(self, request: TraceText) -> Traced:
        model = self.models[request.model]
        return dataclasses.replace(traced(request, model), view=request.view, info=model)

    def traces(self) -> list[TraceText]:
        return [request for request in self.asked if isinstance(request, TraceText)]

    def _map(self, head: HeadRef, view: str) -> object:
        side = next(side for side in self.state.sides.values() if side.view == view)
        assert side.traced is not None
        queries, keys = stack_tokens(side.traced, head.stack)
        return head_map(head, Tokens(text="", tokens=queries), Tokens(text="", tokens=keys))


def compared(request: CompareTraces) -> TracesCompared:
    """Made-up differences: the second head of a layer changes four times as much, later layers more."""
    grids = []
    for aligned in request.stacks:
        for layer in range(2):
            size = (2, len(aligned.queries), len(aligned.keys))
            grids.append(
                DifferenceGrid(
                    heads=tuple(HeadRef(stack=aligned.stack, layer=layer, head=h) for h in range(2)),
                    n_queries=size[1],
                    n_keys=size[2],
                    levels=np.full(size, 200, dtype=np.uint8),
                    peaks=np.array([0.5, 0.25]),
                    mean_abs=np.array([0.01, 0.04]) * (layer + 1),
                    moved=np.array([0.1, 0.2]),
                )
            )
    kl = tuple(0.5 * k for k in range(len(request.answers)))
    return TracesCompared(number=request.number, grids=tuple(grids), kl_nats=kl)
