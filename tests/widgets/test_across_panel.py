"""The panel across layers: choose a token, read numbers and definitions."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graph_samples import graph
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from pytestqt.qtbot import QtBot
from session_samples import Desk, states_of

from attnscope.figures import DARK, LIGHT
from attnscope.records import METHODS, GraphShown, InfluenceRow, InfluenceShown, ShowGraph, ShowInfluence
from attnscope.viewmodels import States
from attnscope.widgets import apply_theme
from attnscope.widgets.causes import AcrossPanel

pytestmark = pytest.mark.qt


def made(desk: Desk, asked: list[Any], graphs: list[Any] | None = None) -> tuple[AcrossPanel, States]:
    """The panel, and its states; what is asked of the graph goes to `graphs`."""
    of_graph = [] if graphs is None else graphs

    def post(request: object) -> None:
        (of_graph if isinstance(request, ShowGraph) else asked).append(request)

    states = states_of(desk.session, worker=post)
    return AcrossPanel(desk.session, states.across, states.graph), states


def test_that_a_click_on_a_token_asks_and_chips_are_coloured(qtbot: QtBot) -> None:
    desk = Desk().open()
    asked: list[ShowInfluence] = []
    panel, states = made(desk, asked)
    state = states.across
    qtbot.addWidget(panel)
    panel.resize(280, 420)
    panel.show()
    assert [one.position for one in asked] == [0]
    chip = panel.strip.chips()[2]
    qtbot.mouseClick(panel.strip, Qt.MouseButton.LeftButton, pos=chip.rect.center().toPoint())
    qtbot.keyClick(panel.strip, Qt.Key.Key_Left)
    assert [one.position for one in asked] == [0, 2, 1]
    traced = desk.session.traced
    assert traced is not None
    assert traced.target is not None
    keys = (*traced.source.tokens, *traced.target.tokens)
    weights = np.zeros(len(keys), np.float32)
    weights[1] = 0.5
    rows = tuple(InfluenceRow(method=method, weights=weights) for method in METHODS)
    number = asked[-1].number
    n_source, said = len(traced.source), 'logit of "chat" at "le" (1)'
    state.handle(
        InfluenceShown(number=number, position=1, keys=keys, rows=rows, n_source=n_source, explained=said)
    )
    grid = panel.grid
    for palette in (LIGHT, DARK):
        apply_theme(panel, palette)
        image = grid.grab().toImage()
        column = grid.width() - 30
        strong, weak = (image.pixelColor(QPoint(column, y * 22 + 4)) for y in (3, 4))
        assert strong != weak
    assert "Chefer" in grid.tip_at(QPointF(grid.width() - 10, 5))
    assert grid.tip_at(QPointF(grid.width() - 10, 5)).endswith(f"Explained here: {said}.")
    assert "Abnar" in grid.tip_at(QPointF(grid.width() // 2, 5))
    assert "Explained here" not in grid.tip_at(QPointF(grid.width() // 2, 5))
    assert grid.tip_at(QPointF(20, 3 * 22 + 4)).startswith("cat  (source 1)")
    assert grid.tip_at(QPointF(20, 22 + 4)) == ""
    assert panel.note.isHidden()
    spec = panel.figure_spec()
    assert spec is not None
    (cells,) = spec.cells
    assert cells.columns == METHODS
    assert cells.row_name(1) == f"{keys[1].piece} (source 1)"
    np.testing.assert_allclose(cells.values[:, 0], weights / weights.sum())
    panel.hide()
    desk.session.texts.set_text("another text")
    desk.answer()
    assert len(asked) == 3


def test_that_no_empty_table_stands_under_a_refusal(qtbot: QtBot) -> None:
    desk = Desk().open()
    asked: list[ShowInfluence] = []
    panel, states = made(desk, asked)
    state = states.across
    qtbot.addWidget(panel)
    panel.show()
    traced = desk.session.traced
    assert traced is not None
    rows = tuple(InfluenceRow(method=m, weights=None, refusal="Two texts are matched.") for m in METHODS)
    keys = traced.source.tokens
    state.handle(
        InfluenceShown(number=asked[-1].number, position=0, keys=keys, rows=rows, n_source=len(keys))
    )
    assert panel.note.isVisible()
    assert panel.grid.sizeHint().height() == 0


def test_that_the_graph_asks_when_it_is_shown_and_is_walked_with_the_arrow_keys(qtbot: QtBot) -> None:
    desk = Desk().open()
    asked: list[object] = []
    panel, states = made(desk, [], asked)
    state = states.graph
    qtbot.addWidget(panel)
    panel.resize(280, 420)
    panel.show()
    assert asked == []
    assert panel.figure_spec() is None
    qtbot.mouseClick(panel.modes["graph"], Qt.MouseButton.LeftButton)
    (request,) = asked
    assert isinstance(request, ShowGraph)
    state.handle(GraphShown(number=request.number, position=0, graph=graph()))
    view, told = panel.graph.view, list[str]()
    panel.pointed.connect(told.append)
    assert panel.graph.note.text() == "Inputs shown: 100\u00a0% of the output."
    view.setFocus()
    for key, node in ((Qt.Key.Key_Left, 0), (Qt.Key.Key_Left, 2), (Qt.Key.Key_Up, 1), (Qt.Key.Key_Left, 3)):
        qtbot.keyClick(view, key)
        assert view.marked == node
    assert told[-1].startswith("“cat” at decoder input")
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.marked is None
    layout = view.layout_now()
    assert layout is not None
    qtbot.mouseMove(view, layout.nodes[2].toPoint())
    assert view.marked == 2
    spec = panel.figure_spec()
    assert spec is not None
    assert (spec.view, spec.graph) == ("graph", graph())
    painted = []
    for node in (2, 1, None, 2):
        view._mark(node)
        painted.append(view.grab().toImage())
    assert painted[0] == painted[3]
    assert len({bytes(picture.constBits()) for picture in painted}) == 3
    for palette in (LIGHT, DARK):
        apply_theme(panel, palette)
        assert not view.grab().isNull()
    panel.show_mode("table")
    assert not panel.export_button.isEnabled()


def test_that_the_rows_of_a_deep_graph_keep_their_names_wherever_it_is_scrolled(qtbot: QtBot) -> None:
    desk = Desk().open()
    asked: list[Any] = []
    panel, states = made(desk, [], asked)
    qtbot.addWidget(panel)
    panel.resize(280, 420)
    panel.show_mode("graph")
    panel.show()
    few = graph()
    levels = (*few.levels, *(f"decoder {k}" for k in range(2, 40)))
    output = replace(few.nodes[0], level=len(levels) - 1)
    deep = replace(few, levels=levels, nodes=(output, *few.nodes[1:]))
    states.graph.handle(GraphShown(number=asked[0].number, position=0, graph=deep))
    view, area = panel.graph.view, panel.graph.area
    layout = view.layout_now()
    assert layout is not None
    rows = QRect(0, 40, round(layout.label_right), area.viewport().height() - 40)  # below the levels
    bar = area.horizontalScrollBar()
    qtbot.waitUntil(lambda: bar.value() > 0)  # at the output
    seen = []
    for place in (0, 1, 50, bar.maximum()):
        bar.setValue(place)
        seen.append(area.viewport().grab(rows).toImage())
    assert all(picture == seen[0] for picture in seen)


def test_that_the_table_asks_for_nothing_while_the_graph_is_shown(qtbot: QtBot) -> None:
    desk = Desk().open()
    asked: list[object] = []
    panel, states = made(desk, asked)
    across = states.across
    qtbot.addWidget(panel)
    panel.show_mode("graph")
    panel.show()
    across.choose(2)
    assert asked == []
    panel.show_mode("table")
    assert [type(one) for one in asked] == [ShowInfluence]
