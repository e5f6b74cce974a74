"""Frames around heads: the menu of numbers, the legend, the colours in the grid."""

import pytest
from curve_samples import HEADS, CurvesDesk, importance
from pytestqt.qtbot import QtBot

from attnscope.figures import DARK, LIGHT, ramp_colour
from attnscope.viewmodels import ViewState
from attnscope.widgets import apply_theme
from attnscope.widgets.explore import GridPanel

pytestmark = pytest.mark.qt


def test_that_the_menu_frames_the_heads_and_the_legend_says_what_it_is(qtbot: QtBot) -> None:
    desk, view = CurvesDesk().loaded(), ViewState()
    tints = desk.tints
    panel = GridPanel(desk.session, view, tints)
    qtbot.addWidget(panel)
    panel.resize(420, 420)
    panel.show()
    assert panel.legend.isHidden()
    desk.heads.rank((importance(),))
    panel.frames_button.fill()
    keys = [action.data() for action in panel.frames_button.menu().actions() if action.data() is not None]
    assert keys[0] == ""
    assert keys[-1] == "table:importance_gradient"
    next(a for a in panel.frames_button.menu().actions() if a.data() == keys[-1]).trigger()
    assert panel.legend.isVisible()
    head = HEADS[-1]
    desk.session.select_stack("cross")
    layout = panel.grid.layout_now()
    place = layout.place(head)
    assert place is not None
    box = layout.box(*place)
    for palette in (LIGHT, DARK):
        apply_theme(panel, palette)
        image = panel.grid.grab().toImage()
        edge = image.pixelColor(round(box.right() + 1), round(box.center().y()))
        assert edge.name() == ramp_colour(palette, 1.0)
    view.set_hovered_head(head)
    assert not panel.legend.grab().isNull()
    tints.choose("")
    assert panel.legend.isHidden()
