"""On a projector the pictures of labs say all that they say: no caption, name or word of theirs is cut."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from PySide6.QtWidgets import QApplication, QGraphicsSimpleTextItem
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.labs import LABS, Lab
from attnscope.widgets.labs import LabView

pytestmark = [pytest.mark.qt, pytest.mark.slow]


@pytest.mark.parametrize("theme", ["light", "projector"])
def test_that_no_caption_of_a_lab_is_cut(start: Callable[..., Program], qtbot: QtBot, theme: str) -> None:
    program = start("grammar", theme=theme)
    program.window.actions_by_name["page-labs"].trigger()
    cut = []
    for name in (name for name, lab in LABS.items() if isinstance(lab, Lab)):
        program.window.pages.labs.show_lab(name)
        QApplication.processEvents()
        (view,) = (one for one in program.window.findChildren(LabView) if one.isVisible())
        assert view.plan.name == name
        for panel in view.chart_panels:
            said, whole = panel.caption.text(), panel.caption.full_text()
            cut += [f"{name}: {said} of {whole}"] * (said != whole)
    assert not cut


@pytest.mark.parametrize("theme", ["light", "dark", "projector"])
def test_that_the_first_and_last_names_of_an_axis_are_written(
    start: Callable[..., Program], qtbot: QtBot, theme: str
) -> None:
    program = start("grammar", theme=theme)
    program.window.actions_by_name["page-labs"].trigger()
    program.window.pages.labs.show_lab("Precision and accumulation")
    QApplication.processEvents()
    (view,) = (one for one in program.window.findChildren(LabView) if one.isVisible())
    plot = view.chart_panels[2].plot
    top = plot.getPlotItem().getAxis("bottom").sceneBoundingRect().top()
    written = [
        item
        for item in plot.getPlotItem().childItems()
        if isinstance(item, QGraphicsSimpleTextItem) and item.isVisible()
        if item.sceneBoundingRect().top() >= top  # those above name the lines
    ]
    assert [item.text() for item in written] == ["at once", "parts", "ckpt", "bf16"]
    places = [item.sceneBoundingRect() for item in written]
    assert all(plot.sceneRect().contains(place) for place in places)
    assert not any(one.intersects(other) for one, other in pairwise(places))
