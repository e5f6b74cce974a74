"""The view into a head: what is painted where, what mouse and keys do, what is exported."""

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from inside_samples import inside
from PySide6.QtCore import QPointF, QRectF, Qt
from pytestqt.qtbot import QtBot
from session_samples import Desk, info, states_of

from attnscope import Caption
from attnscope.figures import DARK, LIGHT, render, suggested_name
from attnscope.figures.views import MAX_PLAIN, InsideFigure, InsidePart, inside_layout, pooled
from attnscope.records import InsideShown, ShowInside, Token
from attnscope.viewmodels import ViewState
from attnscope.viewmodels.causes import STEPS
from attnscope.widgets import apply_theme
from attnscope.widgets.explore import HeadPanel
from attnscope.widgets.window import reasons

pytestmark = pytest.mark.qt


@pytest.fixture
def shown(qtbot: QtBot) -> tuple[HeadPanel, Any, list[ShowInside], ViewState]:
    desk = Desk().open(info("decoder"))
    asked: list[ShowInside] = []
    states, view = states_of(desk.session, worker=asked.append), ViewState()  # type: ignore[arg-type]
    panel, state = HeadPanel(states, view), states.inside
    qtbot.addWidget(panel)
    panel.resize(620, 420)
    panel.show()
    assert asked == []
    view.show_view("inside")
    state.handle(InsideShown(number=asked[-1].number, inside=inside()))
    return panel, state, asked, view


def test_that_arrows_walk_steps_queries_and_keys(qtbot: QtBot, shown: tuple) -> None:  # type: ignore[type-arg]
    panel, state, asked, view = shown
    picture = panel.inside.picture
    qtbot.keyClick(picture, Qt.Key.Key_Right)
    assert state.step == "scale"
    assert panel.inside.steps["scale"].isChecked()
    qtbot.keyClick(picture, Qt.Key.Key_Up)
    assert (state.query, asked[-1].query) == (1, 1)
    assert panel.inside.query.text().endswith("query 1 of 0–3")
    qtbot.keyClick(picture, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    assert view.highlight.key == inside().keys[state.row]
    panel.inside.steps["values"].click()
    assert state.step == "values"
    assert panel.inside.note.isHidden()


def test_that_the_cursor_lights_key_and_dimension_everywhere(qtbot: QtBot, shown: tuple) -> None:  # type: ignore[type-arg]
    panel, state, _, view = shown
    picture = panel.inside.picture
    layout = picture.layout_now()
    strip = layout.column("products")
    place = QPointF(strip.left + 2.5 * strip.width / strip.n_cells, layout.row_rect(0).center().y())
    assert layout.hit(place).dimension == 2
    qtbot.mouseMove(picture.viewport(), place.toPoint())
    qtbot.waitUntil(lambda: (state.row, state.pointed.dimension) == (0, 2))
    assert (view.highlight.query, view.highlight.key) == (1, 0)
    assert view.cell.weight == pytest.approx(float(inside().weight[0]))
    qtbot.mouseDClick(picture.viewport(), Qt.MouseButton.LeftButton, pos=place.toPoint())
    assert state.query == 0


def test_that_every_step_and_theme_paints_other_pixels(shown: tuple) -> None:  # type: ignore[type-arg]
    panel, state, _, _ = shown
    seen = set()
    for palette in (LIGHT, DARK):
        apply_theme(panel, palette)
        for step in STEPS:
            state.choose_step(step)
            image = panel.inside.picture.grab().toImage()
            seen.add(bytes(image.constBits()))
    assert len(seen) == 2 * len(STEPS)


def test_that_up_to_64_dimensions_have_a_pixel_each_and_more_are_pooled(qapp: object) -> None:
    for d, n_pooled in ((4, 1), (64, 1), (128, 2)):
        for width in (330, 620, 1000):
            layout = inside_layout(QRectF(0, 0, width, 400), inside(n=3, d=d))
            column = layout.column("products")
            assert column.right <= width
            assert column.width >= min(d, MAX_PLAIN)
            assert column.n_pooled <= n_pooled
    values = np.array([[1.0, -3.0, 0.5, 0.25, -2.0]], dtype=np.float32)
    np.testing.assert_array_equal(pooled(values, 3), [[-3.0, 0.5, -2.0]])


def test_that_long_heads_scroll_to_the_key_that_is_written_out(shown: tuple) -> None:  # type: ignore[type-arg]
    panel, state, asked, _ = shown
    state.walk_queries(-1)
    weight = np.full(60, 0.001)
    weight[59] = 0.941
    many = dataclasses.replace(inside(n=60, is_masked=False), weight=weight)
    state.handle(InsideShown(number=asked[-1].number, inside=many))
    layout = panel.inside.picture.layout_now()
    assert state.row == 59
    assert layout.field.top() <= layout.row_rect(59).top()
    assert layout.row_rect(59).bottom() <= layout.field.bottom() + 1


def test_that_one_query_says_that_it_is_off_and_nothing_where_it_is_exact(qapp: object) -> None:
    for error, words in ((1e-7, ""), (0.5, "⚠ off by 5e-01")):
        one = dataclasses.replace(inside(), output_error=error)
        drawn = render(InsideFigure(inside=InsidePart(inside=one, step="product", row=0)), "svg").decode()
        assert ("exact" in drawn, words in drawn) == (False, True)
        assert ("⚠" in drawn) == bool(words)


def test_that_the_inside_is_a_figure_with_all_its_numbers(qapp: object) -> None:
    part = InsidePart(inside=inside(), step="softmax", row=0)
    spec = InsideFigure(inside=part, caption=Caption(model="m"), height_mm=90, dpi=50)
    assert b"softmax" in render(spec, "svg")
    assert render(spec, "png")[1:4] == b"PNG"
    lines = render(spec, "csv").decode().splitlines()
    n, d = 3, 4
    assert len(lines) == 1 + 4 + 3 * d + n * (5 + 4 * d)
    assert suggested_name(spec) == "m-inside-decoder-l0h1-query-1.svg"
    assert "weighted" in np.load(io.BytesIO(render(spec, "npz")))


def test_that_the_button_goes_on_to_the_layer_of_head_and_query(qtbot: QtBot, shown: tuple) -> None:  # type: ignore[type-arg]
    panel, state, _, _ = shown
    told: list[object] = []
    panel.inside.layer_asked.connect(told.append)
    state.choose_query(1)
    panel.inside.layer.click()
    head = state._session.primary
    assert dict(told[0]) == {"layer": head.layer, "token": 1, "stack": "decoder"}
    qtbot.keyClick(panel.inside.picture, Qt.Key.Key_Enter)
    assert len(told) == 2


def test_that_the_title_says_what_is_written_however_narrow_it_is(qapp: object) -> None:
    token = Token(id=1, piece="vieille", read="est")
    spec = InsideFigure(inside=InsidePart(inside=inside(query_token=token)), height_mm=90)
    wide, narrow = (render(dataclasses.replace(spec, width_mm=mm), "svg").decode() for mm in (174, 95))
    assert "reading" in wide
    assert "reading" not in narrow
    for drawn in (wide, narrow):
        assert "writing" in drawn
        assert "vieille" in drawn


def test_that_steps_are_offered_only_where_the_model_knows_them(qtbot: QtBot) -> None:
    desk = Desk().open(info("decoder"))
    panel = HeadPanel(states_of(desk.session), ViewState())
    qtbot.addWidget(panel)
    button = panel.heading.inside_button
    for has_gates in (False, True):
        desk.open(dataclasses.replace(info("decoder"), name="reformer", has_gates=has_gates))
        assert button.isEnabled() == has_gates
        assert ("only the weights are known" in button.toolTip()) != has_gates
        assert reasons(desk.session)["inside"] == desk.session.model.no_inside
