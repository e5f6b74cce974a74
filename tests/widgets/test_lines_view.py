from collections.abc import Iterator
from itertools import pairwise

import pytest
from figure_samples import head_map
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from attnscope.figures.colours import DARK
from attnscope.figures.style import MapStyle
from attnscope.widgets.lines_view import LinesView

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
        lambda: view.set_theme(DARK),
        lambda: view.set_stale(True),
        lambda: view.set_maps(()),
        lambda: view.set_empty_text("Nothing", "here"),
    ):
        change()
        pictures.append(view.grab().toImage())
    view.set_style(MapStyle())
    assert all(a != b for a, b in pairwise(pictures))
