"""The tile server, its desk and its thread: what comes first, what is dropped, what is exact."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from long_records import long_record
from pytestqt.qtbot import QtBot

from attnscope.records import (
    NO_GATES,
    CellRead,
    EdgesShown,
    GridRefined,
    HeadRef,
    ReadCell,
    RefineGrids,
    ShowEdges,
    ShowTile,
    Site,
    TileReply,
    TileRequest,
    TileShown,
    Token,
    Tokens,
)
from attnscope.trace import TextRecord, Trace, site_weights
from attnscope.workers import TileDesk, TileServer, Views, serve_tiles, tile_thread

N = 1_200
HEAD = HeadRef(stack="decoder", layer=0, head=1)


@pytest.fixture(scope="module")
def trace() -> Trace:
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    tokens = Tokens(text="", tokens=tuple(Token(id=i % 9, piece=f"w{i}") for i in range(N)))
    record = long_record("causal", N, N)
    return Trace(
        TextRecord(
            sites=(site,),
            gates=NO_GATES,
            source=tokens,
            target=None,
            records={site.key: record},
        )
    )


@pytest.fixture
def server(trace: Trace) -> TileServer:
    views = Views()
    views.keep("", trace, 5)
    return TileServer(views)


def show(
    rows: tuple[int, int], cols: tuple[int, int], b: int, *, number: int = 1, trace: int = 5
) -> ShowTile:
    return ShowTile(number=number, model="", trace=trace, head=HEAD, rows=rows, cols=cols, b=b)


def tiles(replies: Iterator[TileReply | None]) -> list[TileShown]:
    return [reply for reply in replies if isinstance(reply, TileShown)]


def test_that_a_tile_at_full_zoom_holds_the_exact_weights(server: TileServer, trace: Trace) -> None:
    (shown,) = tiles(server.start(show((700, 900), (10, 130), 1)))
    expected = site_weights(trace.records[HEAD.site_key])[1, 700:900, 10:130]
    assert shown.tile.weights is not None
    torch.testing.assert_close(
        torch.from_numpy(shown.tile.weights.copy()), expected, atol=5e-6, rtol=0, equal_nan=True
    )
    assert shown.tile.is_exact


def test_that_a_large_part_comes_rough_first_and_exact_when_the_pyramid_is_there(
    server: TileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_tiles, "QUICK_CELLS", 1000)
    monkeypatch.setattr(serve_tiles, "DIRECT_CELLS", 1000)
    (rough,) = tiles(server.start(show((0, N), (0, N), 8)))
    assert rough.tile.is_sampled
    assert rough.fraction == 0.0
    later: list[TileShown] = []
    while server.has_idle_work:
        later += tiles(iter(server.grow()))
    (exact,) = later
    assert (exact.number, exact.tile.is_sampled) == (1, False)
    assert (exact.tile.levels >= rough.tile.levels).mean() > 0.5
    assert exact.tile.row_peaks is not None
    (again,) = tiles(server.start(show((0, N), (0, N), 16, number=2)))
    assert not again.tile.is_sampled


def test_that_a_block_is_read_exactly_with_the_place_of_its_largest_weight(
    server: TileServer, trace: Trace
) -> None:
    request = ReadCell(number=3, model="", trace=5, head=HEAD, rows=(640, 704), cols=(64, 128))
    (read,) = [r for r in server.start(request) if isinstance(r, CellRead)]
    weights = site_weights(trace.records[HEAD.site_key])[1]
    block = weights[640:704, 64:128]
    assert read.reading.weight == pytest.approx(float(block.max()), abs=5e-6)
    assert float(weights[read.reading.query, read.reading.key]) == pytest.approx(float(block.max()))
    forbidden = ReadCell(number=4, model="", trace=5, head=HEAD, rows=(5, 6), cols=(9, 10))
    (nothing,) = [r for r in server.start(forbidden) if isinstance(r, CellRead)]
    assert nothing.reading.weight is None


def test_that_edges_and_exact_thumbnails_are_made(
    server: TileServer, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ShowEdges(number=4, model="", trace=5, heads=(HEAD,), n_edges=20)
    (found,) = [r for r in server.start(request) if isinstance(r, EdgesShown)]
    assert len(found.edges.weights) <= 20
    monkeypatch.setattr("attnscope.trace.trace.MAX_EXACT_CELLS", 1000)
    replies = server.start(RefineGrids(number=5, model="", trace=5, thumbnail_px=30))
    grids = [reply.grid for reply in replies if isinstance(reply, GridRefined)]
    assert [grid.is_sampled for grid in grids] == [True, False]
    assert grids[-1].levels.shape == (2, 30, 30)
    assert grids[-1].peaks[1] == pytest.approx(
        float(site_weights(trace.records[HEAD.site_key])[1].nan_to_num(0).max())
    )


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_that_few_queries_of_many_keys_are_refined(
    is_looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    record = long_record("open", 16, 700)
    tokens = Tokens(text="", tokens=tuple(Token(id=0, piece="a") for _ in range(700)))
    read = Trace(
        TextRecord(
            sites=(site,),
            gates=NO_GATES,
            source=tokens,
            target=None,
            records={site.key: record},
        )
    )
    views = Views()
    views.keep("", read, 5)
    server = TileServer(views)
    if is_looked_at:
        tiles(server.start(show((0, 16), (0, 700), 8)))
        while server.has_idle_work:
            list(server.grow())
    monkeypatch.setattr("attnscope.trace.trace.MAX_EXACT_CELLS", 1000)
    replies = server.start(RefineGrids(number=5, model="", trace=5, thumbnail_px=30))
    grids = [reply.grid for reply in replies if isinstance(reply, GridRefined)]
    assert [grid.is_sampled for grid in grids] == [True, False]
    assert grids[-1].levels.shape == (2, 16, 30)
    assert grids[-1].peaks == pytest.approx(site_weights(record).amax(dim=(1, 2)).numpy(), abs=1e-5)


def test_that_nothing_comes_for_a_trace_that_is_gone(server: TileServer) -> None:
    assert not tiles(server.start(show((0, 8), (0, 8), 1, trace=4)))


class Scripted:
    """A server whose every job says its name twice."""

    def __init__(self) -> None:
        self.idle = 0

    def start(self, request: TileRequest) -> Iterator[TileReply | None]:
        yield f"{request.number}a"  # type: ignore[misc]
        yield f"{request.number}b"  # type: ignore[misc]

    @property
    def has_idle_work(self) -> bool:
        return self.idle > 0

    def grow(self) -> Iterator[TileReply]:
        self.idle -= 1
        yield "grown"  # type: ignore[misc]


def test_that_the_most_urgent_work_comes_first_and_the_newest_of_a_kind_wins() -> None:
    server = Scripted()
    server.idle = 1
    desk = TileDesk(server)
    desk.take(RefineGrids(number=9, model="", trace=1))
    desk.take(show((0, 8), (0, 8), 1, number=1))
    steps = [*desk.step()]
    desk.take(show((0, 8), (0, 8), 1, number=2))  # the rest of 1 is given up
    desk.take(ReadCell(number=3, model="", trace=1, head=HEAD, rows=(0, 1), cols=(0, 1)))
    while desk.has_work:
        steps += desk.step()
    assert steps == ["1a", "3a", "3b", "2a", "2b", "grown", "9a", "9b"]


@pytest.mark.qt
def test_that_the_thread_serves_tiles_and_survives_a_fault(qtbot: QtBot, trace: Trace) -> None:
    views = Views()
    views.keep("", trace, 5)
    faults: list[BaseException] = []

    def write_crash(error: BaseException, _what: str) -> Path | None:
        faults.append(error)
        return None

    thread = tile_thread(views, write_crash)
    try:
        with qtbot.waitSignal(thread.replied, timeout=10_000) as told:
            thread.post(show((0, 20), (0, 20), 1))
        assert isinstance(told.args[0], TileShown)
        with qtbot.waitSignal(thread.replied, timeout=10_000) as told:
            thread.post(show((0, 20), (0, 20), 0))
        assert "fault" in told.args[0].message
        assert faults
        with qtbot.waitSignal(thread.replied, timeout=10_000) as told:
            thread.post(show((0, 20), (0, 20), 2))
        assert isinstance(told.args[0], TileShown)
    finally:
        assert thread.stop()
    thread.post(show((0, 20), (0, 20), 2))
    assert not thread.isRunning()
