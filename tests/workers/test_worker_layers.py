"""Of a long text the layers are shown as they come: marked as a part, exact in what is known."""

from pathlib import Path

import numpy as np
import pytest
from worker_tools import ask

from attnscope.nn import progress_heard, stoppable
from attnscope.records import (
    HeadRef,
    LoadModel,
    Progress,
    Reply,
    ShowEdges,
    ShowTile,
    TileShown,
    Traced,
    TraceText,
)
from attnscope.viewmodels.maps import long_map_of
from attnscope.workers import Engine, TileServer, Views, serve_views
from bench.long_model import long_text, write_long_model

N_TOKENS = 1_100  # just above what one array of weights may hold


def head(layer: int) -> HeadRef:
    return HeadRef(stack="decoder", layer=layer, head=1)


class Desk:
    """An engine with its tiles, asked for one long text; `told` is what comes during the pass."""

    def __init__(self, folder: Path) -> None:
        self.views = Views()
        self.engine = Engine(lambda *_: None, self.views)
        self.server = TileServer(self.views)
        self.told: list[Reply] = []
        self.tiles: list[tuple[int, list[TileShown]]] = []
        source = str(write_long_model(folder / "model", n_layers=3, n_heads=2, d_model=16))
        ask(self.engine, LoadModel(number=1, source=source, device="cpu"))

    def hear(self, what: object) -> None:
        self.told.append(what)  # type: ignore[arg-type]
        if isinstance(what, Traced):
            self.tiles += [(layer, self.tile(layer)) for layer in range(3)]

    def trace(self, number: int = 2) -> list[Reply]:
        request = TraceText(number=number, text=long_text(N_TOKENS - 1))
        with progress_heard(self.hear):
            return ask(self.engine, request)

    def tile(self, layer: int) -> list[TileShown]:
        ask_for = ShowTile(
            number=9, model="", trace=2, head=head(layer), rows=(40, 60), cols=(0, 60), b=1, slot="view"
        )
        return [reply for reply in self.server.start(ask_for) if isinstance(reply, TileShown)]

    @property
    def parts(self) -> list[Traced]:
        return [reply for reply in self.told if isinstance(reply, Traced)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(serve_views, "MAX_CONTINUED", 2_000)
    monkeypatch.setattr(serve_views, "_NEWS_EVERY_S", 0.0)
    return Desk(tmp_path)


def test_that_each_layer_is_told_when_it_is_known(desk: Desk) -> None:
    whole = next(reply for reply in desk.trace() if isinstance(reply, Traced))
    assert whole.known is None
    assert [len(part.known or ()) for part in desk.parts] == [1, 2, 3]
    for n, part in enumerate(desk.parts, start=1):
        assert part.number == whole.number
        assert part.source == whole.source
        assert part.known == {("decoder", layer) for layer in range(n)}
        assert part.measures == ()
        assert part.comparison.is_writing
        assert part.comparison.after.predictions == ()
        assert [grid.site for grid in part.grids] == [grid.site for grid in whole.grids]
        for grid, final in zip(part.grids, whole.grids, strict=True):
            assert (grid.n_queries, grid.n_keys) == (final.n_queries, final.n_keys)
            if grid.site.key in part.known:
                assert grid.peaks.min() > 0
            else:
                assert not grid.levels.any()
    progress = [reply for reply in desk.told if isinstance(reply, Progress)]
    assert [reply.fraction for reply in progress] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert progress[0].what.startswith("layer 1 of 3, about ")
    assert progress[0].what.endswith(" s left")


@pytest.mark.slow
def test_that_tiles_of_known_layers_are_those_of_the_whole_trace_and_others_do_not_come(desk: Desk) -> None:
    desk.trace()
    came = [(layer, len(found)) for layer, found in desk.tiles]
    assert came == [(0, 1), (1, 0), (2, 0), (0, 1), (1, 1), (2, 0), (0, 1), (1, 1), (2, 1)]
    trace = desk.views.find("", 2)
    assert trace is not None
    for layer, found in desk.tiles:
        exact = trace.weights(("decoder", layer), 1)[40:60, :60]
        for reply in found:
            np.testing.assert_allclose(reply.tile.weights, exact, atol=1e-6)
    assert all(len(desk.tile(layer)) == 1 for layer in range(3))
    edges = ShowEdges(number=3, model="", trace=2, heads=(head(0), head(2)), n_edges=4)
    assert [reply for reply in desk.server.start(edges) if reply is not None]


def test_that_a_part_serves_tiles_alone(desk: Desk) -> None:
    with stoppable(lambda: len(desk.parts) == 1):
        assert not [reply for reply in desk.trace() if isinstance(reply, Traced)]
    assert len(desk.parts) == 1
    assert desk.views.find("", 2) is None  # nothing is worked out from a trace without all its layers
    assert desk.views.newest("") is None
    assert [len(desk.tile(layer)) for layer in range(3)] == [1, 0, 0]
    edges = ShowEdges(number=3, model="", trace=2, heads=(head(0), head(2)), n_edges=4)
    assert list(desk.server.start(edges)) == []


def test_that_a_long_map_is_asked_for_again_once_it_is_known(desk: Desk) -> None:
    desk.trace()
    first, second, _ = (long_map_of(part, head(1)) for part in desk.parts)
    assert first is not None
    assert second is not None
    assert (first.is_known, second.is_known) == (False, True)
    assert first != second


def test_that_other_parts_of_the_window_wait_for_the_whole(desk: Desk) -> None:
    request = TraceText(number=2, text=long_text(N_TOKENS - 1), view="compare A")
    with progress_heard(desk.hear):
        ask(desk.engine, request)
    assert desk.told == []
