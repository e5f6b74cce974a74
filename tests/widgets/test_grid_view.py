from collections.abc import Iterator

import pytest
from figure_samples import site_grid
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from pytestqt.qtbot import QtBot

from attnscope.figures import DARK, LIGHT
from attnscope.records import Gates, HeadRef
from attnscope.widgets import apply_theme
from attnscope.widgets.explore import GridView, switch_rect

pytestmark = pytest.mark.qt
CTRL = Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton


def ref(layer: int, head: int) -> HeadRef:
    return HeadRef(stack="decoder", layer=layer, head=head)


@pytest.fixture
def view(qtbot: QtBot) -> Iterator[GridView]:
    made = GridView()
    qtbot.addWidget(made)
    made.resize(480, 400)
    made.set_grids(tuple(site_grid(layer, n_heads=4) for layer in range(3)))
    made.show()
    yield made
    made.close()


def at(view: GridView, layer: int, head: int) -> QPoint:
    return view.layout_now().box(layer, head).center().toPoint()


def wheel(view: GridView, position: QPointF, delta: int) -> None:
    event = QWheelEvent(
        position,
        view.mapToGlobal(position),
        QPoint(),
        QPoint(0, delta),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    view.wheelEvent(event)


@pytest.mark.parametrize("is_additive", [False, True])
def test_that_a_click_selects_and_ctrl_adds(view: GridView, qtbot: QtBot, is_additive: bool) -> None:
    modifier = CTRL if is_additive else Qt.KeyboardModifier.NoModifier
    with qtbot.waitSignal(view.head_selected) as signal:
        qtbot.mouseClick(view, LEFT, modifier, at(view, 1, 2))
    assert signal.args == [ref(1, 2), is_additive]


def test_that_a_click_beside_the_maps_selects_nothing(view: GridView, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(view.head_selected):
        qtbot.mouseClick(view, LEFT, pos=QPoint(3, 3))


def test_that_a_double_click_opens_the_head(view: GridView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.head_activated) as signal:
        qtbot.mouseDClick(view, LEFT, pos=at(view, 2, 3))
    assert signal.args == [ref(2, 3)]


def test_that_hovering_tells_each_head_once_and_leaving_tells_none(view: GridView, qtbot: QtBot) -> None:
    seen: list[object] = []
    view.head_hovered.connect(seen.append)
    for position in (at(view, 0, 0), at(view, 0, 0) + QPoint(1, 1), at(view, 0, 1), QPoint(2, 2)):
        qtbot.mouseMove(view, position)
    assert seen == [ref(0, 0), ref(0, 1), None]


@pytest.mark.parametrize(
    ("key", "start", "end"),
    [
        (Qt.Key.Key_Right, (1, 1), (1, 2)),
        (Qt.Key.Key_Left, (1, 1), (1, 0)),
        (Qt.Key.Key_Up, (1, 1), (0, 1)),
        (Qt.Key.Key_Down, (1, 1), (2, 1)),
    ],
)
def test_that_arrows_walk(
    view: GridView, qtbot: QtBot, key: Qt.Key, start: tuple[int, int], end: tuple[int, int]
) -> None:
    view.set_selection((ref(*start),))
    with qtbot.waitSignal(view.head_selected) as signal:
        qtbot.keyClick(view, key)
    assert signal.args == [ref(*end), False]


def test_that_walking_stops_at_the_edge(view: GridView, qtbot: QtBot) -> None:
    view.set_selection((ref(0, 0),))
    with qtbot.assertNotEmitted(view.head_selected):
        qtbot.keyClick(view, Qt.Key.Key_Left)


def test_that_walking_without_a_selection_begins_at_the_first_head(view: GridView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.head_selected) as signal:
        qtbot.keyClick(view, Qt.Key.Key_Down)
    assert signal.args == [ref(0, 0), False]


def test_that_space_asks_to_toggle_and_enter_to_open(view: GridView, qtbot: QtBot) -> None:
    view.set_selection((ref(0, 1), ref(2, 2)))
    with qtbot.waitSignal(view.selection_toggled), qtbot.assertNotEmitted(view.head_toggled):
        qtbot.keyClick(view, Qt.Key.Key_Space)
    with qtbot.waitSignal(view.head_activated) as activated:
        qtbot.keyClick(view, Qt.Key.Key_Return)
    assert activated.args == [ref(2, 2)]


def test_that_the_wheel_zooms_at_the_cursor_and_0_fits(view: GridView, qtbot: QtBot) -> None:
    position = QPointF(at(view, 1, 2))
    wheel(view, position, 360)
    assert view.seen.zoom > 1.5
    assert view.layout_now().hit(position) == ref(1, 2)
    qtbot.keyClick(view, Qt.Key.Key_0)
    assert view.seen.zoom == 1.0
    wheel(view, position, -360)
    assert view.seen.zoom == 1.0


def test_that_a_drag_pans_and_selects_nothing(view: GridView, qtbot: QtBot) -> None:
    view.seen.zoom_at(QPointF(240, 200), 4.0)
    before = view.layout_now().box(1, 1)
    with qtbot.assertNotEmitted(view.head_selected):
        qtbot.mousePress(view, LEFT, pos=QPoint(200, 200))
        qtbot.mouseMove(view, QPoint(215, 200))
        qtbot.mouseMove(view, QPoint(260, 230))
        qtbot.mouseRelease(view, LEFT, pos=QPoint(260, 230))
    moved = view.layout_now().box(1, 1).topLeft() - before.topLeft()
    assert moved.x() == pytest.approx(60, abs=16)
    assert moved.y() == pytest.approx(30, abs=16)


def test_that_a_pan_never_leaves_the_grid(view: GridView) -> None:
    view.seen.zoom_at(QPointF(240, 200), 3.0)
    for far in (1e5, -1e5):
        view.seen.pan(QPointF(far, far))
        assert view.layout_now().visible()


def picture(view: GridView) -> QImage:
    return view.grab().toImage()


def test_that_themes_gates_and_staleness_are_seen(view: GridView) -> None:
    plain = picture(view)
    view.set_gates(Gates.of({ref(0, 0): 0.0}))
    gated = picture(view)
    assert gated != plain
    view.set_gates(Gates())
    view.set_stale(True)
    assert picture(view) != plain
    view.set_stale(False)
    assert picture(view) == plain
    apply_theme(view, DARK)
    assert picture(view).pixelColor(1, 200).name() == DARK.background
    apply_theme(view, LIGHT)
    assert picture(view) == plain


def test_that_new_data_is_shown_and_keeps_the_zoom(view: GridView) -> None:
    view.seen.zoom_at(QPointF(240, 200), 2.0)
    view.set_grids(tuple(site_grid(layer, n_heads=4, n=12) for layer in range(3)))
    assert view.seen.zoom == 2.0
    view.set_grids((site_grid(0, n_heads=2),))
    assert view.seen.zoom == 1.0


def test_that_an_empty_grid_says_what_belongs_there(qtbot: QtBot) -> None:
    made = GridView()
    qtbot.addWidget(made)
    made.resize(300, 200)
    first = picture(made)
    made.set_empty_text("Nothing", "at all")
    assert picture(made) != first
    qtbot.keyClick(made, Qt.Key.Key_Right)
    qtbot.mouseClick(made, LEFT, pos=QPoint(100, 100))
    wheel(made, QPointF(50, 50), 120)


@pytest.fixture
def switched(qtbot: QtBot) -> Iterator[GridView]:
    made = GridView(has_switches=True)
    qtbot.addWidget(made)
    made.resize(480, 400)
    made.set_grids(tuple(site_grid(layer, n_heads=4) for layer in range(3)))
    made.show()
    yield made
    made.close()


def switch_of(view: GridView, layer: int, head: int) -> QPoint:
    rect = switch_rect(view.layout_now().box(layer, head))
    assert rect is not None
    return rect.center().toPoint()


def test_that_a_click_on_the_switch_toggles_and_does_not_select(switched: GridView, qtbot: QtBot) -> None:
    with (
        qtbot.assertNotEmitted(switched.head_selected),
        qtbot.assertNotEmitted(switched.head_activated),
        qtbot.waitSignal(switched.head_toggled) as signal,
    ):
        qtbot.mouseClick(switched, LEFT, pos=switch_of(switched, 1, 2))
    assert signal.args == [ref(1, 2)]
    with qtbot.assertNotEmitted(switched.head_activated):
        qtbot.mouseDClick(switched, LEFT, pos=switch_of(switched, 1, 2))


def test_that_only_the_head_under_the_pointer_shows_its_switch(switched: GridView, qtbot: QtBot) -> None:
    before = switched.grab().toImage()
    qtbot.mouseMove(switched, at(switched, 1, 2))
    hovered = switched.grab().toImage()
    place = switch_of(switched, 1, 2)
    assert hovered.pixel(place + QPoint(6, -6)) != before.pixel(place + QPoint(6, -6))
    assert hovered.pixel(switch_of(switched, 0, 0)) == before.pixel(switch_of(switched, 0, 0))
    qtbot.mouseMove(switched, place)
    assert switched.grab().toImage() != hovered
    assert "off or on" in switched.toolTip()


def test_that_a_view_without_switches_selects_there(view: GridView, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(view.head_toggled), qtbot.waitSignal(view.head_selected):
        qtbot.mouseClick(view, LEFT, pos=switch_of(view, 1, 2))


def test_that_small_thumbnails_have_no_switch() -> None:
    assert switch_rect(QRectF(0, 0, 20, 20)) is None
    assert switch_rect(QRectF(0, 0, 36, 36)) is None
    assert switch_rect(QRectF(0, 0, 39, 200)) is None


@pytest.mark.parametrize("width", [8, 36, 40, 44, 53, 80, 400])
@pytest.mark.parametrize("height", [8, 36, 40, 44, 53, 80, 400])
def test_that_the_switch_leaves_the_middle_of_a_thumbnail_to_the_head(width: int, height: int) -> None:
    box = QRectF(10, 20, width, height)
    rect = switch_rect(box)
    if rect is not None:
        assert box.contains(rect)
        assert not rect.contains(box.center())
        assert rect.width() * rect.height() <= 0.15 * width * height


def test_that_thumbnails_can_be_kept_smaller_than_a_large_map(view: GridView) -> None:
    width = view.layout_now().box_width
    view.set_most(width / 2)
    assert 0.8 * width / 2 <= view.layout_now().box_width <= width / 2 + 1
    assert view.layout_now().hit(view.layout_now().box(2, 3).center()) == ref(2, 3)
    view.set_most(2 * width)
    assert view.layout_now().box_width == width
