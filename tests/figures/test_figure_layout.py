import pytest
from figure_samples import head_map, site_grid, tokens
from PySide6.QtCore import QPointF, QRectF

from attnscope.figures import GridLayout, Span, column_turn, grid_layout, map_layout, stride_for
from attnscope.records import HeadRef

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
    last = layout.box(len(layout.rows) - 1, len(layout.rows[-1]) - 1)
    assert layout.area.adjusted(0, 0, 2, 2).contains(last)
    assert layout.area.contains(layout.box(0, 0))


WRAPPED = QRectF(0, 0, 420, 560)


def wrapped() -> GridLayout:
    return grid_layout(WRAPPED, tuple(site_grid(layer, n_heads=8) for layer in range(2)))


def test_that_few_wide_layers_are_broken_into_lines_of_larger_thumbnails() -> None:
    layout = wrapped()
    assert layout.n_lines > 1
    assert layout.n_layers == 2
    assert layout.box_width > 1.5 * (layout.area.width() / 8)
    assert layout.label_px > 0  # no column header says which head it is
    assert [head.head for row in layout.rows[: layout.n_lines] for head in row] == list(range(8))
    assert layout.layer_pitch > layout.n_lines * layout.pitch_y


@pytest.mark.parametrize(("n_layers", "n_heads"), [(12, 12), (2, 7), (3, 1), (1, 2)])
def test_that_other_grids_keep_one_line_for_each_layer(n_layers: int, n_heads: int) -> None:
    grids = tuple(site_grid(layer, n_heads=n_heads) for layer in range(n_layers))
    assert grid_layout(RECT, grids).n_lines == 1


@pytest.mark.parametrize(("zoom", "offset"), [(1.0, (0, 0)), (3.0, (-120, -400))])
def test_that_broken_layers_are_hit_and_found(zoom: float, offset: tuple[int, int]) -> None:
    grids = tuple(site_grid(layer, n_heads=8) for layer in range(2))
    layout = grid_layout(WRAPPED, grids, zoom=zoom, offset=QPointF(*offset))
    places = [(r, c) for r in range(len(layout.rows)) for c in range(len(layout.rows[r]))]
    n_hit = 0
    for place in places:
        head = layout.rows[place[0]][place[1]]
        assert layout.place(head) == place
        centre = layout.box(*place).center()
        if layout.area.contains(centre):
            assert place in layout.visible()
            assert layout.hit(centre) == head
            n_hit += 1
    assert n_hit == 16 if zoom == 1.0 else 0 < n_hit < 16


def test_that_walking_sideways_goes_through_the_lines_of_a_layer_only() -> None:
    layout = wrapped()
    place, walked = (0, 0), [0]
    for _ in range(10):
        place = layout.step(place, (0, 1))
        walked.append(layout.rows[place[0]][place[1]].head)
    assert walked == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7]
    assert layout.rows[place[0]][place[1]].layer == 0
    for _ in range(10):
        place = layout.step(place, (0, -1))
    assert place == (0, 0)
    assert layout.step(place, (-1, 0)) == (0, 0)
    assert layout.rows[layout.step((layout.n_lines - 1, 0), (1, 0))[0]][0].layer == 1


def test_that_slanted_labels_have_room_at_the_right_of_the_bar() -> None:
    queries, keys = tokens("a", "b"), tokens(*["word"] * 17, "</s>")
    for width in range(420, 760, 20):
        rect = QRectF(0, 0, width, 700)
        layout = map_layout(rect, queries * 9, keys)
        if layout.turn == 45:
            assert layout.bar.right() <= rect.right() - 12.0 - 9.0


def test_that_layers_with_fewer_heads_end_sooner() -> None:
    layout = grid_layout(RECT, (site_grid(0, n_heads=4), site_grid(1, n_heads=2)))
    assert len(layout.visible()) == 6
    beyond = layout.box(1, 3).center()
    assert layout.hit(beyond) is None


def test_that_cells_grow_with_a_wide_pane_and_stay_square() -> None:
    five = tokens(*"abcde")
    large = map_layout(QRectF(0, 0, 1300, 1150), five, five).cells
    assert large.width() == large.height() > 900
    two = map_layout(QRectF(0, 0, 1300, 1150), five[:2], five[:2]).cells
    assert two.width() == two.height() == 480


def test_that_cells_are_square_while_they_can_be_seen_so() -> None:
    few, many = tokens(*"abcd"), tokens(*(f"k{j}" for j in range(24)))
    for queries, keys in ((few, many), (many, few)):
        wide = map_layout(QRectF(0, 0, 640, 460), queries, keys)
        assert wide.rows.step == pytest.approx(wide.columns.step, rel=0.03)
    strip = map_layout(QRectF(0, 0, 640, 460), few[:2], tokens(*(f"k{j}" for j in range(90))))
    assert strip.rows.step > 2 * strip.columns.step  # square ones would be a thread
