"""The state of a long map: what it asks for, what it keeps, what it drops."""

from dataclasses import replace

import numpy as np
import pytest
from long_fakes import HEAD, answer, long_map, tile_for
from told import names_told

from attnscope.records import (
    CellRead,
    CellReading,
    EdgesShown,
    HeadRef,
    ReadCell,
    Ready,
    ShowEdges,
    ShowTile,
    StrongEdges,
    TileRequest,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.maps import N_EDGES, MapTiles, part_of_tile


class Desk:
    def __init__(self) -> None:
        self.posted: list[TileRequest] = []
        self.state = MapTiles(Requests(self.posted.append))
        self.told = names_told(self.state.changed)
        self.state.set_area(400, 400)

    def tiles(self, slot: str) -> list[ShowTile]:
        return [r for r in self.posted if isinstance(r, ShowTile) and r.slot == slot]

    def answer_all(self) -> None:
        for request in [r for r in self.posted if isinstance(r, ShowTile)]:
            self.state.handle(answer(request))
        self.posted.clear()


def test_that_a_map_is_first_asked_for_whole_in_blocks_of_a_pixel() -> None:
    desk = Desk()
    desk.state.show(long_map())
    (overview,), (view,) = desk.tiles("overview"), desk.tiles("view")
    assert (overview.rows, overview.b) == ((0, 4_096), 8)
    assert (view.rows, view.cols, view.b) == ((0, 4_096), (0, 4_096), 16)


def test_that_a_step_inside_the_margin_asks_for_nothing_and_a_far_one_does() -> None:
    desk = Desk()
    desk.state.show(long_map())
    desk.state.zoom(40.0, 200, 200)
    desk.answer_all()
    desk.state.pan(10, 10)
    assert not desk.posted
    desk.state.pan(300, 300)
    (request,) = desk.tiles("view")
    window = desk.state.window
    assert window is not None
    assert request.rows[0] <= window.rows[0]
    assert request.rows[1] >= window.rows[1]
    desk.state.pan(-1, 0)
    assert len(desk.tiles("view")) == 1, "what is on its way is not asked for again"


def test_that_coarser_tiles_stay_below_until_a_finer_one_covers_the_window() -> None:
    desk = Desk()
    desk.state.show(long_map())
    overview, view = desk.tiles("overview")[0], desk.tiles("view")[0]
    desk.state.handle(answer(overview, is_sampled=True))
    desk.state.handle(answer(view, is_sampled=True))
    assert [tile.is_sampled for tile in desk.state.painted()] == [True, True]
    desk.state.handle(answer(view))
    assert [(tile.b, tile.is_sampled) for tile in desk.state.painted()] == [(16, False)]
    desk.posted.clear()
    desk.state.zoom(20.0, 10, 10)
    assert desk.state.painted()[-1].b == 16
    (fine,) = desk.tiles("view")
    desk.state.handle(answer(fine))
    assert [tile.b for tile in desk.state.painted()] == [fine.b]
    assert desk.state.seen_tile() is not None


def test_that_the_middle_of_the_window_goes_where_it_is_sent() -> None:
    desk = Desk()
    desk.state.show(long_map())
    desk.state.zoom(40.0, 0, 0)
    desk.state.centre_on(3_000, 1_000)
    window = desk.state.window
    assert window is not None
    assert window.cell(200, 200) == (3_000, 1_000)


@pytest.mark.parametrize(
    ("rows", "cols", "place"),
    [
        ((96, 112), (16, 32), (slice(4, 5), slice(0, 1))),
        ((97, 113), (17, 30), (slice(4, 6), slice(0, 1))),
        ((32, 130), (60, 70), (slice(0, 7), slice(2, 4))),
    ],
)
def test_that_a_part_of_a_tile_is_the_blocks_it_touches(rows, cols, place) -> None:
    request = ShowTile(
        number=1, model="", trace=7, head=HEAD, rows=(32, 130), cols=(16, 70), b=16, slot="view"
    )
    tile = replace(tile_for(request), row_peaks=np.arange(7, dtype=np.float32))
    part = part_of_tile(tile, rows, cols)
    assert (part.levels == tile.levels[place]).all()
    assert (part.row_peaks == tile.row_peaks[place[0]]).all()
    assert part.rows == (32 + 16 * place[0].start, min(32 + 16 * place[0].stop, 130))
    assert part.cols == (16 + 16 * place[1].start, min(16 + 16 * place[1].stop, 70))


def test_that_tiles_of_another_trace_or_head_change_nothing() -> None:
    desk = Desk()
    desk.state.show(long_map())
    request = desk.tiles("view")[0]
    other = HeadRef(stack="decoder", layer=3, head=0)
    desk.state.show(long_map(trace=8, head=other))
    desk.told.clear()
    desk.state.handle(answer(request))
    assert desk.state.tiles == ()
    assert desk.told == []


def test_that_the_window_stays_for_another_head_and_old_tiles_are_stale_until_new_ones_come() -> None:
    desk = Desk()
    desk.state.show(long_map())
    desk.state.zoom(40.0, 200, 200)
    desk.answer_all()
    before = desk.state.window
    desk.state.show(long_map(head=HeadRef(stack="decoder", layer=1, head=0)))
    assert desk.state.window == before
    assert desk.state.is_stale
    assert desk.state.best is not None
    assert desk.state.seen_tile() is None
    desk.answer_all()
    assert not desk.state.is_stale
    desk.state.show(long_map(n=5_000))
    assert desk.state.window is not None
    assert desk.state.window.is_whole
    assert desk.state.best is None


def test_that_a_cell_is_read_from_an_exact_tile_and_a_block_is_asked_for() -> None:
    desk = Desk()
    desk.state.show(long_map())
    desk.answer_all()
    desk.state.point_at((100, 40))
    (asked,) = [r for r in desk.posted if isinstance(r, ReadCell)]
    assert (asked.rows, asked.cols) == ((96, 112), (32, 48))
    desk.state.point_at((101, 41))
    assert len(desk.posted) == 1, "the same block is not asked for again"
    reading = CellReading(rows=asked.rows, cols=asked.cols, query=99, key=44, weight=0.25)
    desk.state.handle(CellRead(number=asked.number - 1, trace=7, head=HEAD, reading=reading))
    assert desk.state.reading is None
    desk.state.handle(CellRead(number=asked.number, trace=7, head=HEAD, reading=reading))
    assert desk.state.reading == reading
    desk.posted.clear()
    desk.state.zoom(1e6, 200, 200)
    desk.answer_all()
    window = desk.state.window
    assert window is not None
    cell = (window.rows[0] + 1, window.cols[0] + 1)
    desk.state.point_at(cell)
    assert not desk.posted
    assert desk.state.reading is not None
    assert (desk.state.reading.query, desk.state.reading.key) == cell
    desk.state.point_at(None)
    assert desk.state.reading is None


def test_that_a_part_of_a_tile_keeps_its_blocks_and_weights() -> None:
    desk = Desk()
    desk.state.show(long_map())
    desk.state.zoom(60.0, 200, 200)
    desk.answer_all()
    seen, window = desk.state.seen_tile(), desk.state.window
    assert seen is not None
    assert window is not None
    assert (seen.rows, seen.cols) == (window.rows, window.cols)
    assert seen.weights is not None
    assert seen.weights.shape == seen.levels.shape


def test_that_fewer_device_pixels_a_cell_are_used_where_the_screen_has_them() -> None:
    desk = Desk()
    desk.state.set_area(400, 400, 2.0)
    desk.state.show(long_map())
    assert desk.tiles("view")[0].b == 8


def test_that_an_unknown_reply_is_a_fault() -> None:
    with pytest.raises(TypeError, match="Ready"):
        Desk().state.handle(Ready(devices=(), demo_models=()))


def test_that_a_tile_with_the_wrong_number_of_levels_is_refused() -> None:
    request = ShowTile(number=1, model="", trace=1, head=HEAD, rows=(0, 9), cols=(0, 9), b=4)
    assert tile_for(request).levels.shape == (3, 3)
    with pytest.raises(ValueError, match=r"expected \(3, 3\)"):
        replace(tile_for(request), levels=np.zeros((2, 3), np.uint8))


def test_that_lines_of_long_maps_show_only_the_tokens_at_their_ends() -> None:
    desk = Desk()
    lines = desk.state.lines
    lines.show((long_map(),))
    (asked,) = [r for r in desk.posted if isinstance(r, ShowEdges)]
    assert asked.n_edges == N_EDGES
    edges = StrongEdges(
        trace=7, heads=(HEAD,), head_indices=np.zeros(3, np.intp), queries=np.array([9, 2_000, 9]),
        keys=np.array([4, 1_999, 8]), weights=np.array([0.1, 0.4, 0.5]), n_all=8_390_656, hidden=0.99,
    )  # fmt: skip
    desk.state.handle(EdgesShown(number=asked.number + 1, edges=edges))
    assert lines.maps == ()
    assert lines.is_waiting
    desk.state.handle(EdgesShown(number=asked.number, edges=edges))
    (shown,) = lines.maps
    assert not lines.is_waiting
    assert [token.piece for token in shown.queries] == ["w9 9", "w0 2,000"]
    assert shown.weights.shape == (2, 3)
    assert float(np.nansum(shown.weights)) == pytest.approx(1.0)
    assert "8,390,656" in shown.note
    assert lines.token(1, 2) == (2_000, 1_999)
    assert lines.token(2, 3) == (None, None)
    assert lines.row(2_000, 5) == (1, None)
    lines.show(())
    assert lines.maps == ()
