import pytest
from figure_samples import head_map, site_grid, tokens
from PySide6.QtCore import QPointF, QRectF

from attnscope.figures.grid_layout import grid_layout
from attnscope.figures.map_layout import map_layout
from attnscope.figures.token_axis import Span, column_turn, stride_for
from attnscope.records.sites import HeadRef

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
RECT = QRectF(0, 0, 700, 560)


@pytest.mark.parametrize("view", [None, QRectF(1.6, 0.6, 2, 2)])
def test_that_every_visible_cell_is_hit_at_its_centre(view: QRectF | None) -> None:
    shown = head_map(4, 5)
    layout = map_layout(RECT, shown.queries, shown.keys, view=view)
    n_hit = 0
    for query in range(4):
        for key in range(5):
            centre = layout.cell_rect(query, key).center()
            if layout.cells.contains(centre):
                assert layout.hit(centre) == (query, key)
                n_hit += 1
            else:
                assert layout.hit(centre) is None
    assert n_hit == (20 if view is None else 4)


def test_that_nothing_is_hit_outside_the_cells() -> None:
    shown = head_map()
    layout = map_layout(RECT, shown.queries, shown.keys)
    assert layout.hit(layout.cells.topLeft() - QPointF(1, 1)) is None
    assert layout.hit(layout.bar.center()) is None


@pytest.mark.parametrize("size", [(200, 160), (700, 560), (2560, 1440), (80, 60)])
@pytest.mark.parametrize("shape", [(1, 1), (9, 11), (40, 40), (2, 300), (300, 2)])
def test_that_cells_lie_inside_and_clear_of_labels(size: tuple[int, int], shape: tuple[int, int]) -> None:
    shown = head_map(*shape)
    rect = QRectF(0, 0, *size)
    layout = map_layout(rect, shown.queries, shown.keys)
    assert layout.cells.width() > 0
    assert layout.cells.height() > 0
    if min(size) >= 160:
        assert rect.contains(layout.cells)
        assert layout.bar.left() > layout.cells.right()
        assert layout.cells.left() - layout.row_width >= rect.left()


def test_that_small_maps_have_square_cells() -> None:
    shown = head_map(9, 11)
    layout = map_layout(RECT, shown.queries, shown.keys)
    assert layout.rows.step == pytest.approx(layout.columns.step, rel=0.02)  # whole pixels


def test_that_labels_turn_before_they_touch() -> None:
    long = tokens("extraordinary", "a")
    assert column_turn(long, 200) == 0
    assert column_turn(long, 30) == 45
    assert column_turn(long, 12) == 90


@pytest.mark.parametrize("step", [0.5, 3.0, 8.0, 11.0, 40.0])
def test_that_drawn_labels_are_a_line_apart(step: float) -> None:
    assert stride_for(step) * step >= 10.5


def test_that_only_tokens_in_sight_are_labelled() -> None:
    span = Span(origin=-50, step=10, low=0, high=30, n=100)
    assert list(span.visible()) == [5, 6, 7]


@pytest.mark.parametrize(("zoom", "offset"), [(1.0, (0, 0)), (3.0, (-120, -80))])
def test_that_every_head_is_hit_at_its_centre(zoom: float, offset: tuple[int, int]) -> None:
    grids = tuple(site_grid(layer, n_heads=4) for layer in range(3))
    layout = grid_layout(RECT, grids, zoom=zoom, offset=QPointF(*offset))
    for row, column in layout.visible():
        centre = layout.box(row, column).center()
        if layout.area.contains(centre):
            assert layout.hit(centre) == HeadRef(stack="decoder", layer=row, head=column)
    if zoom == 1.0:
        assert len(layout.visible()) == 12


@pytest.mark.parametrize(("n_layers", "n_heads"), [(1, 1), (2, 4), (12, 12), (48, 25), (3, 16)])
def test_that_a_fitted_grid_needs_no_scrolling(n_layers: int, n_heads: int) -> None:
    grids = tuple(site_grid(layer, n_heads=n_heads) for layer in range(n_layers))
    layout = grid_layout(RECT, grids)
    last = layout.box(n_layers - 1, n_heads - 1)
    assert layout.area.adjusted(0, 0, 2, 2).contains(last)
    assert layout.area.contains(layout.box(0, 0))


def test_that_layers_with_fewer_heads_end_sooner() -> None:
    layout = grid_layout(RECT, (site_grid(0, n_heads=4), site_grid(1, n_heads=2)))
    assert len(layout.visible()) == 6
    beyond = layout.box(1, 3).center()
    assert layout.hit(beyond) is None
