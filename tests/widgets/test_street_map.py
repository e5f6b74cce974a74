"""The widget of a long map: hands, keys, readings, pictures, and a window that never waits."""

import math
from collections.abc import Iterator

import pytest
from long_fakes import HEAD, answer, long_map
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from pytestqt.qtbot import QtBot

from attnscope import Caption
from attnscope.figures import DARK, LIGHT, MapPart, MapStyle, lut, render
from attnscope.figures.views import HeadFigure
from attnscope.records import CellReading, ShowTile, TileRequest, Token
from attnscope.viewmodels import Highlight, Requests
from attnscope.viewmodels.maps import MapTiles, MapWindow
from attnscope.widgets import MAX_CHIPS, TokenStrip, apply_theme
from attnscope.widgets.explore import StreetMap, map_title, reading_words

pytestmark = pytest.mark.qt
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def posted() -> list[TileRequest]:
    return []


@pytest.fixture
def view(qtbot: QtBot, posted: list[TileRequest]) -> Iterator[StreetMap]:
    made = StreetMap(MapTiles(Requests(posted.append)))
    qtbot.addWidget(made)
    made.resize(600, 560)
    made.show()
    made.state.show(long_map())
    serve(made, posted)
    yield made
    made.close()


def serve(view: StreetMap, posted: list[TileRequest]) -> None:
    for request in [r for r in posted if isinstance(r, ShowTile)]:
        view.state.handle(answer(request))
    posted.clear()


def window_of(view: StreetMap) -> MapWindow:
    assert view.state.window is not None
    return view.state.window


def middle(view: StreetMap, query: float, key: float) -> QPoint:
    layout = view.layout_now()
    assert layout is not None
    x, y = window_of(view).place(query + 0.5, key + 0.5)
    return (layout.cells.topLeft() + QPointF(x, y)).toPoint()


def wheel(view: StreetMap, place: QPoint, delta: int) -> None:
    event = QWheelEvent(
        QPointF(place), view.mapToGlobal(QPointF(place)), QPoint(), QPoint(0, delta),
        Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    view.wheelEvent(event)


def test_that_the_wheel_zooms_at_the_cursor_down_to_single_cells(
    view: StreetMap, posted: list[TileRequest]
) -> None:
    place = middle(view, 2_000, 1_000)
    layout = view.layout_now()
    assert layout is not None
    under = layout.local(QPointF(place))
    for _ in range(10):
        wheel(view, place, 120)
    before = window_of(view).cell(*under)
    for _ in range(60):
        wheel(view, place, 120)
    window = window_of(view)
    after = window.cell(*under)
    assert before is not None
    assert after is not None
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 1
    assert window.step == (72.0, 72.0)
    serve(view, posted)
    assert view.state.best is not None
    assert view.state.best.is_exact
    view.grab()


def test_that_a_drag_pans_and_zero_fits(view: StreetMap, qtbot: QtBot) -> None:
    view.state.zoom(30.0, 200, 200)
    before = window_of(view)
    start = middle(view, before.rows[0] + 40, before.cols[0] + 40)
    qtbot.mousePress(view, LEFT, pos=start)
    qtbot.mouseMove(view, start + QPoint(60, 30))
    qtbot.mouseRelease(view, LEFT, pos=start + QPoint(60, 30))
    assert window_of(view).x == pytest.approx(before.x - 60 / before.step[0])
    assert window_of(view).y == pytest.approx(before.y - 30 / before.step[1])
    qtbot.keyClick(view, Qt.Key.Key_0)
    assert window_of(view).is_whole


def test_that_a_double_click_and_the_keys_zoom_and_walk(view: StreetMap, qtbot: QtBot) -> None:
    qtbot.mouseDClick(view, LEFT, pos=middle(view, 2_000, 1_000))
    assert window_of(view).zoom == pytest.approx(4.0)
    qtbot.keyClick(view, Qt.Key.Key_Plus)
    assert window_of(view).zoom == pytest.approx(5.0)
    qtbot.keyClick(view, Qt.Key.Key_Minus)
    assert window_of(view).zoom == pytest.approx(4.0)
    before = window_of(view)
    qtbot.keyClick(view, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert window_of(view).x > before.x


def test_that_arrows_walk_single_cells_and_bring_them_into_view(
    view: StreetMap, qtbot: QtBot, posted: list[TileRequest]
) -> None:
    view.state.zoom(1e6, 0, 0)
    serve(view, posted)
    seen: list[tuple[int, int]] = []
    view.cell_hovered.connect(lambda query, key, _: seen.append((query, key)))
    for _ in range(9):
        qtbot.keyClick(view, Qt.Key.Key_Down)
    assert seen[:3] == [(0, 0), (1, 0), (2, 0)]
    assert window_of(view).rows[0] > 0


def test_that_the_exact_weight_is_told_at_full_zoom(
    view: StreetMap, qtbot: QtBot, posted: list[TileRequest]
) -> None:
    view.state.zoom(1e6, 100, 100)
    serve(view, posted)
    window = window_of(view)
    query, key = window.rows[0] + 1, window.cols[0] + 2
    with qtbot.waitSignal(view.cell_hovered) as told:
        qtbot.mouseMove(view, middle(view, query, key))
    tile = view.state.best
    assert tile is not None
    assert tile.weights is not None
    weight = float(tile.weights[query - tile.rows[0], key - tile.cols[0]])
    assert told.args == [query, key, pytest.approx(weight)]
    with qtbot.waitSignal(view.left):
        qtbot.mouseMove(view, QPoint(2, 2))


def test_that_the_picture_shows_each_cell_in_its_colour(view: StreetMap, posted: list[TileRequest]) -> None:
    view.state.zoom(1e6, 100, 100)
    serve(view, posted)
    view.set_style(MapStyle(scale="head"))
    window, tile = window_of(view), view.state.best
    assert tile is not None
    picture = view.grab().toImage()
    for query, key in ((window.rows[0] + 1, window.cols[0] + 1), (window.rows[0] + 2, window.cols[0] + 3)):
        level = int(tile.levels[query - tile.rows[0], key - tile.cols[0]])
        expected = lut("viridis")[round((level - 1) / 254 * 255)]
        place = middle(view, query, key) - QPoint(30, 30)  # beside the number in the cell
        colour = picture.pixelColor(place)
        assert [colour.red(), colour.green(), colour.blue()] == pytest.approx(expected.tolist(), abs=2)


def test_that_the_small_map_moves_the_window(view: StreetMap, qtbot: QtBot) -> None:
    view.state.zoom(40.0, 0, 0)
    layout = view.layout_now()
    assert layout is not None
    qtbot.mouseClick(view, LEFT, pos=(layout.corner.center()).toPoint())
    rows = window_of(view).rows
    assert rows[0] < 2_300 < rows[1] + 400


@pytest.mark.parametrize("scale", ["fixed", "head", "row"])
def test_that_every_scale_and_theme_is_painted(view: StreetMap, scale: str) -> None:
    for palette in (LIGHT, DARK):
        apply_theme(view, palette)
        view.set_style(MapStyle(scale=scale))  # type: ignore[arg-type]
        view.set_highlight(5, 3)
        view.set_gate(0.0)
        view.set_stale(True)
        assert not view.grab().isNull()
    view.state.show(None)
    assert not view.grab().isNull()


def test_that_a_reading_says_of_how_many_cells_it_is_the_largest() -> None:
    shown = long_map()
    one = CellReading(rows=(9, 10), cols=(4, 5), query=9, key=4, weight=0.123456)
    assert reading_words(shown, one)[0] == "0.1235"
    block = CellReading(rows=(0, 64), cols=(64, 128), query=9, key=70, weight=0.5)
    words = reading_words(shown, block)
    assert words[0] == "0.5000  largest of 64×64"
    assert "query 9" in words[1]
    nothing = CellReading(rows=(0, 1), cols=(3, 4), query=0, key=3, weight=None)
    assert reading_words(shown, nothing)[0] == "not allowed by the mask"


@pytest.mark.parametrize("format", ["svg", "pdf", "png", "csv", "npz"])
def test_that_a_part_of_a_long_map_is_a_figure_that_says_what_a_pixel_is(
    view: StreetMap, posted: list[TileRequest], format: str
) -> None:
    view.state.zoom(9.0, 100, 100)
    serve(view, posted)
    tile, shown = view.state.seen_tile(), view.state.shown
    assert tile is not None
    assert shown is not None
    part = MapPart(tile=tile, queries=shown.queries, keys=shown.keys)
    spec = HeadFigure(part=part, caption=Caption(model="tiny"), dpi=50)
    content = render(spec, format)  # type: ignore[arg-type]
    if format == "svg":
        text = content.decode()
        assert f"max over {tile.b}×{tile.b} cells" in text
        assert "4,096" in text
    if format == "csv":
        assert content.count(b"\n") == tile.levels.size + 1


def test_that_a_long_strip_shows_some_tokens_around_the_lit_one(qtbot: QtBot) -> None:
    strip = TokenStrip("Tokens")
    qtbot.addWidget(strip)
    strip.resize(700, 80)
    strip.set_tokens(tuple(Token(id=i, piece=f"w{i}") for i in range(32_768)))
    assert len(strip.chips()) < MAX_CHIPS
    assert strip.chips()[-1].text.endswith("more")
    assert strip.chip_of(30_000) is None
    strip.show()
    strip.set_lit(Highlight(query=30_000))
    chip = strip.chip_of(30_000)
    assert chip is not None
    assert chip.text == "w30000"
    seen: list[int] = []
    strip.token_hovered.connect(seen.append)
    qtbot.mouseMove(strip, chip.rect.center().toPoint())
    assert seen == [30_000]
    assert "30000" in strip.tooltip_of(30_000)


def test_that_nan_is_told_where_the_mask_forbids(view: StreetMap, qtbot: QtBot) -> None:
    seen: list[float] = []
    view.cell_hovered.connect(lambda _q, _k, weight: seen.append(weight))
    qtbot.mouseMove(view, middle(view, 2_000, 1_000))
    view.state.reading = CellReading(rows=(0, 1), cols=(3, 4), query=0, key=3, weight=None)
    view.state.changed.cell.emit()
    assert math.isnan(seen[-1])
    assert view.state.shown == long_map(head=HEAD)


def test_that_the_title_speaks_of_the_picture_under_all_others(
    view: StreetMap, posted: list[TileRequest]
) -> None:
    def words() -> str:
        state = view.state
        return map_title(state.shown, 1.0, state, state.window, view.devicePixelRatioF())

    whole = view.state.painted()[0].sentence
    assert whole != "every cell"
    assert whole in words()
    view.state.zoom(1e9, 0.0, 0.0)
    serve(view, posted)
    assert "every cell" in words()
    view.state.zoom(1e-9, 0.0, 0.0)  # the exact tile of a corner is still there
    assert "every cell" not in words()
