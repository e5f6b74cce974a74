import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
from figure_samples import head_map
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from pytestqt.qtbot import QtBot

from attnscope.figures import AXIS_LINE_PX, DARK, MapStyle, text_width
from attnscope.widgets import apply_theme
from attnscope.widgets.explore import HeadView

pytestmark = pytest.mark.qt
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def view(qtbot: QtBot) -> Iterator[HeadView]:
    made = HeadView()
    qtbot.addWidget(made)
    made.resize(560, 480)
    made.set_map(head_map(6, 6, is_causal=True))
    made.show()
    yield made
    made.close()


def at(view: HeadView, query: int, key: int) -> QPoint:
    layout = view.layout_now()
    assert layout is not None
    return layout.cell_rect(query, key).center().toPoint()


def test_that_the_exact_weight_under_the_cursor_is_told(view: HeadView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.cell_hovered) as signal:
        qtbot.mouseMove(view, at(view, 4, 2))
    query, key, weight = signal.args
    assert (query, key) == (4, 2)
    assert weight == float(head_map(6, 6, is_causal=True).weights[4, 2])


def test_that_a_masked_cell_tells_nan(view: HeadView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.cell_hovered) as signal:
        qtbot.mouseMove(view, at(view, 1, 4))
    assert math.isnan(signal.args[2])


def test_that_leaving_the_cells_is_told_once(view: HeadView, qtbot: QtBot) -> None:
    qtbot.mouseMove(view, at(view, 1, 1))
    seen: list[bool] = []
    view.left.connect(lambda: seen.append(True))
    for position in (QPoint(2, 2), QPoint(4, 4)):
        qtbot.mouseMove(view, position)
    assert seen == [True]


def test_that_arrows_walk_the_cells(view: HeadView, qtbot: QtBot) -> None:
    seen: list[tuple[int, int]] = []
    view.cell_hovered.connect(lambda query, key, _: seen.append((query, key)))
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Left):
        qtbot.keyClick(view, key)
    assert seen == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    with qtbot.waitSignal(view.left):
        qtbot.keyClick(view, Qt.Key.Key_Escape)


def test_that_zooming_keeps_the_cell_under_the_cursor(view: HeadView, qtbot: QtBot) -> None:
    position = QPointF(at(view, 4, 1))
    view.zoom_at(position, 1.8)
    layout = view.layout_now()
    assert layout is not None
    assert view.view.width() == pytest.approx(6 / 1.8)
    assert layout.hit(position) == (4, 1)
    qtbot.keyClick(view, Qt.Key.Key_0)
    assert view.view.width() == 6


def test_that_zooming_ends_at_two_cells_and_at_the_whole_map(view: HeadView) -> None:
    position = QPointF(at(view, 3, 3))
    for _ in range(30):
        view.zoom_at(position, 1.5)
    assert view.view.width() == pytest.approx(2.0)
    for _ in range(30):
        view.zoom_at(position, 0.5)
    assert view.view.getRect() == (0, 0, 6, 6)


def test_that_a_drag_pans_within_the_map(view: HeadView, qtbot: QtBot) -> None:
    position = at(view, 3, 3)
    view.zoom_at(QPointF(position), 2.0)
    before = view.view
    qtbot.mousePress(view, LEFT, pos=position)
    qtbot.mouseMove(view, position + QPoint(-30, 0))
    qtbot.mouseMove(view, position + QPoint(-60, 0))
    qtbot.mouseRelease(view, LEFT, pos=position)
    assert view.view.left() > before.left()
    assert view.view.right() <= 6.0 + 1e-9


def test_that_a_highlight_from_elsewhere_is_drawn(view: HeadView) -> None:
    plain = view.grab().toImage()
    view.set_highlight(2, None)
    assert view.grab().toImage() != plain
    view.set_highlight(None, None)
    assert view.grab().toImage() == plain


def test_that_style_theme_gate_and_staleness_are_seen(view: HeadView) -> None:
    pictures = [view.grab().toImage()]
    for change in (
        lambda: view.set_style(MapStyle(scale="row", colour_map="magma")),
        lambda: apply_theme(view, DARK),
        lambda: view.set_gate(0.0),
        lambda: view.set_stale(True),
    ):
        change()
        pictures.append(view.grab().toImage())
    assert all(a != b for a, b in pairwise(pictures))


def test_that_a_map_with_fewer_tokens_forgets_the_cell(view: HeadView, qtbot: QtBot) -> None:
    qtbot.mouseMove(view, at(view, 5, 5))
    with qtbot.waitSignal(view.left):
        view.set_map(head_map(2, 2))
    view.grab()
    view.set_map(None)
    view.grab()
    qtbot.keyClick(view, Qt.Key.Key_Down)


def test_that_a_map_without_a_title_names_its_axes_too(view: HeadView) -> None:
    view.set_compact(True)
    layout = view.layout_now()
    assert layout is not None
    left, top = layout.cells.left() - layout.row_width, layout.cells.top() - 2 * AXIS_LINE_PX
    assert layout.row_width >= text_width("Query")
    assert top >= 0
    corner = view.grab(QRect(int(left), int(top), int(layout.row_width), int(2 * AXIS_LINE_PX) - 2)).toImage()
    colours = {corner.pixel(x, y) for x in range(corner.width()) for y in range(corner.height())}
    assert len(colours) > 4, "nothing is written in the corner"
