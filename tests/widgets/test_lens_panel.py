"""The layers panel: asks when it is seen, paints what came, tells about cells."""

from typing import Any

import pytest
from lens_samples import table
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot
from session_samples import Desk, state_of

from attnscope.figures import DARK, LIGHT
from attnscope.records import LensShown, ShowLens
from attnscope.widgets import FormulaLabel, apply_theme
from attnscope.widgets.causes import LensPanel

pytestmark = pytest.mark.qt


@pytest.fixture
def desk() -> Desk:
    return Desk().open()


@pytest.fixture
def shown(qtbot: QtBot, desk: Desk) -> tuple[LensPanel, Any, list[ShowLens]]:
    asked: list[ShowLens] = []
    state = state_of("lens", asked.append, session=desk.session)
    panel = LensPanel(state)
    qtbot.addWidget(panel)
    panel.resize(280, 300)
    panel.show()
    return panel, state, asked


def test_that_the_panel_asks_when_it_is_first_seen(
    shown: tuple[LensPanel, Any, list[ShowLens]], desk: Desk
) -> None:
    panel, state, asked = shown
    assert len(asked) == 1
    assert panel.note.text() == "Reading the layers…"
    state.handle(LensShown(number=asked[0].number, table=table()))
    assert not panel.note.isVisible()
    panel.hide()
    desk.session.texts.set_text("another text")
    desk.answer()
    assert len(asked) == 1


def test_that_cells_lie_where_they_are_painted(shown: tuple[LensPanel, Any, list[ShowLens]]) -> None:
    panel, state, asked = shown
    state.handle(LensShown(number=asked[0].number, table=table()))
    grid = panel.grid
    assert grid.cell_at(5, 30) is None
    assert grid.cell_at(grid.width() - 5, 5) is None
    assert grid.cell_at(grid.width() - 5, 30) == (1, 0)
    assert grid.cell_at(70, 30) == (0, 0)
    for palette in (LIGHT, DARK):
        apply_theme(panel, palette)
        image = grid.grab().toImage()
        weak, strong = (QColor(image.pixel(x, 26)) for x in (70, grid.width() - 8))
        assert weak != strong


def test_that_the_button_names_what_the_cells_show(
    shown: tuple[LensPanel, Any, list[ShowLens]],
) -> None:
    panel, state, _ = shown
    assert panel.colour.text() == "tokens ▾"
    state.choose_colour("kl")
    assert panel.colour.text() == "KL, nats ▾"


def test_that_formula_and_source_stand_below_the_table(
    shown: tuple[LensPanel, Any, list[ShowLens]], qtbot: QtBot
) -> None:
    panel, state, asked = shown
    state.handle(LensShown(number=asked[0].number, table=table()))
    (formula,) = panel.area.findChildren(FormulaLabel)
    (source,) = panel.area.findChildren(QLabel)
    assert source.text() == "nostalgebraist 2020"
    assert panel.area.isAncestorOf(panel.grid)
    qtbot.waitUntil(lambda: panel.grid.y() + panel.grid.height() <= formula.y() < source.y())
