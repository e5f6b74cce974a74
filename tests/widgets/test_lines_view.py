from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from figure_samples import head_map
from PySide6.QtCore import QPoint, QRectF, Qt
from pytestqt.qtbot import QtBot

from attnscope.figures import DARK, LIGHT, PROJECTOR, MapStyle, series_colour
from attnscope.figures.views import name_rows, strong_lines
from attnscope.widgets import apply_theme
from attnscope.widgets.explore import LinesView

pytestmark = pytest.mark.qt


@pytest.fixture
def view(qtbot: QtBot) -> Iterator[LinesView]:
    made = LinesView()
    qtbot.addWidget(made)
    made.resize(560, 480)
    made.set_maps((head_map(5, 5), head_map(5, 5, head=1)))
    made.show()
    yield made
    made.close()


def test_that_pointing_at_a_token_is_told_and_leaves_its_lines(view: LinesView, qtbot: QtBot) -> None:
    layout = view.layout_now()
    assert layout is not None
    plain = view.grab().toImage()
    with qtbot.waitSignal(view.token_hovered) as signal:
        qtbot.mouseMove(view, QPoint(int(layout.left) - 12, int(layout.queries.centre(3))))
    assert signal.args == [3, None]
    assert view.grab().toImage() != plain
    with qtbot.waitSignal(view.token_hovered) as signal:
        qtbot.mouseMove(view, QPoint(int(layout.right) + 12, int(layout.keys.centre(1))))
    assert signal.args == [None, 1]
    with qtbot.waitSignal(view.token_hovered) as signal:
        qtbot.mouseMove(view, QPoint(1, 1))
    assert signal.args == [None, None]


def test_that_states_are_seen(view: LinesView) -> None:
    pictures = [view.grab().toImage()]
    for change in (
        lambda: view.set_highlight(1, None),
        lambda: apply_theme(view, DARK),
        lambda: view.set_stale(True),
        lambda: view.set_maps(()),
        lambda: view.set_empty_text("Nothing", "here"),
    ):
        change()
        pictures.append(view.grab().toImage())
    view.set_style(MapStyle())
    assert all(a != b for a, b in pairwise(pictures))


def test_that_rows_spread_at_the_cursor_and_never_leave_their_room(view: LinesView, qtbot: QtBot) -> None:
    layout = view.layout_now()
    assert layout is not None
    y_px = layout.queries.centre(2)
    for _ in range(4):
        view.zoom_at(y_px, 2.0)
    spread = view.layout_now()
    assert spread is not None
    assert spread.queries.centre(2) == pytest.approx(y_px, abs=1.0)
    assert spread.queries.step > 10 * layout.queries.step
    view.zoom_at(y_px, 1e-6)
    assert view.zoom == 1.0
    assert view.layout_now() == layout
    qtbot.keyClick(view, Qt.Key.Key_Plus)
    assert view.zoom == 1.25
    qtbot.keyClick(view, Qt.Key.Key_0)
    assert view.zoom == 1.0


def test_that_the_keyboard_walks_the_tokens(view: LinesView, qtbot: QtBot) -> None:
    told: list[tuple[int | None, int | None]] = []
    view.token_hovered.connect(lambda query, key: told.append((query, key)))
    down, right, escape = Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Escape
    for key in (down, down, right, down, escape):
        qtbot.keyClick(view, key)
    assert told == [(0, None), (1, None), (None, 1), (None, 2), (None, None)]


def test_that_a_head_named_alone_shows_its_lines_alone(view: LinesView, qtbot: QtBot) -> None:
    layout = view.layout_now()
    assert layout is not None
    assert [place.name for place in layout.names] == ["L1H0", "L1H1"]
    qtbot.mouseMove(view, layout.names[1].rect.center().toPoint())
    assert view.only == 1
    qtbot.mouseMove(view, QPoint(1, 1))
    assert view.only is None


def test_that_fewer_lines_are_chosen_by_weight_or_by_rank() -> None:
    maps = (head_map(5, 6), head_map(5, 6, head=1))
    weights = np.stack([m.weights for m in maps])
    assert len(strong_lines(maps, least_weight=0.2).weights) == int((weights >= 0.2).sum())
    best = strong_lines(maps, n_strongest=2)
    assert len(best.weights) == 2 * 5 * 2
    for head, query in ((0, 0), (1, 4)):
        kept = sorted(best.weights[(best.heads == head) & (best.queries == query)])
        assert kept == sorted(weights[head, query])[-2:]


def test_that_many_heads_have_colours_and_names_of_their_own() -> None:
    for palette in (LIGHT, DARK, PROJECTOR):
        assert len({series_colour(palette, i) for i in range(24)}) == 24
    names = tuple(f"L{i}H{i}" for i in range(40))
    places = name_rows(names, QRectF(0, 0, 500, 60))
    assert places[-1].name.startswith("+")
    assert sum(place.index >= 0 for place in places) + int(places[-1].name[1:]) == 40
    assert all(place.rect.right() <= 501 for place in places)
