"""On a projector the pictures of labs say all that they say: no caption, name or word of theirs is cut."""

from collections.abc import Callable

import pytest
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.labs import LABS, Lab
from attnscope.widgets.labs.lab_view import LabView

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
    axis = view.chart_panels[2].plot.getPlotItem().getAxis("bottom")
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    with QPainter(image) as painter:
        _, _, words = axis.generateDrawSpecs(painter)
    assert [word for _, _, word in words] == ["at once", "parts", "ckpt", "bf16"]
