"""Rulers and windows on axes of up to a million tokens: every position lies where arithmetic says."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.viewmodels.maps import MAX_STEP_PX, MapWindow, mark_step, ruler_marks, widest_text, window_on

MILLION = 1_048_576


def real(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers without subnormal ones, which training may have switched off in this process."""
    return st.floats(low, high, allow_subnormal=False)


@pytest.mark.slow
@given(step_px=real(1e-4, 100.0), room_px=real(1.0, 200.0))
@settings(deadline=None)
def test_that_steps_are_one_two_or_five_times_a_power_of_ten_and_the_smallest_that_fit(
    step_px: float, room_px: float
) -> None:
    step = mark_step(step_px, room_px)
    assert int(str(step)[0]) in (1, 2, 5)
    assert set(str(step)[1:]) <= {"0"}
    assert step * step_px >= room_px * 0.999 or step == 1
    smaller = {1: step // 2, 2: step // 2, 5: step * 2 // 5}[int(str(step)[0])]
    assert step == 1 or smaller * step_px < room_px


@pytest.mark.slow
@given(
    n=st.sampled_from((1, 7, 32_768, MILLION)),
    share=real(0.0, 1.0),
    step_px=real(5e-4, 72.0),
    length_px=real(20.0, 3000.0),
)
@settings(deadline=None, max_examples=200)
def test_that_marks_lie_on_the_middle_of_their_token(
    n: int, share: float, step_px: float, length_px: float
) -> None:
    first = share * max(0.0, n - length_px / step_px)
    marks = ruler_marks(first=first, step_px=step_px, length_px=length_px, n=n, room_px=60.0)
    assert all(0 <= mark.position < n for mark in marks)
    for mark in marks:
        assert mark.place_px == (mark.position + 0.5 - first) * step_px
        assert -1e-6 <= mark.place_px <= length_px + 1e-6
    majors = [mark.position for mark in marks if mark.is_major]
    assert len({b - a for a, b in itertools.pairwise(majors)}) <= 1
    assert len(marks) <= length_px / 6 + 2


def test_that_single_tokens_at_the_end_of_a_million_are_told_apart() -> None:
    marks = ruler_marks(first=MILLION - 10, step_px=72.0, length_px=720.0, n=MILLION, room_px=60.0)
    assert [mark.position for mark in marks if mark.is_major] == list(range(MILLION - 10, MILLION))
    assert marks[-1].text == "1,048,575"
    assert marks[-1].place_px == 9.5 * 72.0
    assert len(widest_text(MILLION)) == len("1,048,575")


def test_that_the_first_mark_is_the_first_middle_that_is_seen() -> None:
    for first, wanted in ((3.4, 3), (3.6, 4), (0.0, 0)):
        marks = ruler_marks(first=first, step_px=72.0, length_px=144.0, n=9, room_px=60.0)
        assert [mark.position for mark in marks] == [wanted, wanted + 1]
    marks = ruler_marks(first=0.0, step_px=0.6, length_px=120.0, n=9_000, room_px=60.0)
    assert [m.position for m in marks][:3] == [0, 10, 20]  # six pixels apart are enough
    assert [m.position for m in marks if m.is_major] == [0, 100]


def window(n_queries: int = 32_768, n_keys: int = 32_768, **choices: float) -> MapWindow:
    return MapWindow(n_queries=n_queries, n_keys=n_keys, **{"width_px": 700.0, "height_px": 500.0, **choices})


@pytest.mark.slow
@given(
    n=st.sampled_from((1_500, 32_768, MILLION)),
    zooms=st.lists(st.tuples(real(0.5, 3.0), real(0, 700), real(0, 500)), max_size=30),
)
@settings(deadline=None)
def test_that_what_is_under_the_cursor_stays_there_when_zooming(
    n: int, zooms: list[tuple[float, float, float]]
) -> None:
    shown = window(n, n)
    for factor, x_px, y_px in zooms:
        before = shown.x + x_px / shown.step[0]
        shown = shown.zoomed(factor, x_px, y_px)
        after = shown.x + x_px / shown.step[0]
        is_at_edge = shown.x in (0.0, n - 700.0 / shown.step[0]) or before > n
        assert is_at_edge or after == pytest.approx(before, rel=1e-12)
        assert 0 <= shown.rows[0] < shown.rows[1] <= n
        assert 0 <= shown.cols[0] < shown.cols[1] <= n
        assert max(shown.step) <= MAX_STEP_PX


def test_that_cells_become_single_at_the_end_of_a_million_tokens() -> None:
    shown = window(MILLION, MILLION).zoomed(1e9, 700.0, 500.0).showing(MILLION - 1, MILLION - 1)
    assert shown.step == (MAX_STEP_PX, MAX_STEP_PX)
    x, y = shown.place(MILLION - 0.5, MILLION - 0.5)
    assert shown.cell(x, y) == (MILLION - 1, MILLION - 1)
    assert shown.cols[1] - shown.cols[0] <= math.ceil(700 / MAX_STEP_PX) + 1
    assert shown.block == 1


def test_that_blocks_are_powers_of_two_of_at_least_a_pixel() -> None:
    for zoom in (1.0, 3.0, 17.0, 60.0, 100.0):
        shown = window(zoom=zoom)
        cells_per_px = 1 / shown.step[0]
        assert math.log2(shown.block).is_integer()
        assert shown.block >= cells_per_px * 0.999 or shown.block == 1
        assert shown.block < 2 * max(1.0, cells_per_px)


def test_that_zooming_goes_as_far_as_asked_and_no_further() -> None:
    assert window().zoomed(2.0, 0.0, 0.0).zoom == 2.0
    assert window().zoomed(0.1, 0.0, 0.0).zoom == 1.0
    assert window().zoomed(1e9, 0.0, 0.0).zoom == window().max_zoom


def test_that_cells_are_square_unless_a_map_is_six_times_longer_one_way() -> None:
    square = window(n_queries=100, n_keys=600, width_px=600.0, height_px=600.0)
    assert square.fit_step == (1.0, 1.0)
    assert window(n_queries=99, n_keys=600, width_px=600.0, height_px=600.0).fit_step == (1.0, 600 / 99)


def test_that_panning_stops_at_the_edges_and_fitting_shows_all() -> None:
    shown = window().zoomed(20.0, 100.0, 100.0)
    assert shown.panned(1e9, 1e9).rows[0] == shown.panned(1e9, 1e9).cols[0] == 0
    end = shown.panned(-1e9, -1e9)
    assert (end.rows[1], end.cols[1]) == (32_768, 32_768)
    assert shown.fitted().is_whole


def test_that_a_window_on_a_part_shows_just_that_part() -> None:
    shown = window_on(
        n_queries=9_000, n_keys=9_000, rows=(640, 1_280), cols=(64, 704), width_px=300, height_px=200
    )
    assert shown.rows == (640, 1_280)
    assert shown.cols == (64, 704)
    assert shown.width_px == shown.height_px == pytest.approx(200)


def test_that_resizing_keeps_the_size_of_cells() -> None:
    shown = window().zoomed(500.0, 350.0, 250.0)
    larger = shown.resized(900.0, 800.0)
    assert larger.step == pytest.approx(shown.step)
    assert larger.x + 450 / larger.step[0] == pytest.approx(shown.x + 350 / shown.step[0])
    assert window().resized(300, 300).is_whole
