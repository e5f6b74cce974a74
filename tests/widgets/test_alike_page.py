"""The tab of heads that attend alike: compare, hover, click, walk."""

import numpy as np
import pytest
from curve_samples import HEADS, CurvesDesk
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from attnscope.figures.colours import DARK, LIGHT
from attnscope.records.messages import Failed, ModelLoaded
from attnscope.records.redundancy import (
    CompareHeads,
    ComparingNews,
    HeadPlane,
    HeadsCompared,
    StopComparing,
)
from attnscope.viewmodels.heads.alike import AlikeState
from attnscope.viewmodels.numbers import Numbers
from attnscope.widgets.heads.alike_page import AlikePage
from attnscope.widgets.labels import PlainLabel

pytestmark = pytest.mark.qt
SHOWN = HEADS[:4]


def plane() -> HeadPlane:
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.02, 0.98]])
    away = ((places[:, None] - places[None]) ** 2).sum(axis=-1)
    return HeadPlane(
        stack="encoder",
        heads=SHOWN,
        divergences=away,
        places=places,
        clusters=(0, 1, 2, 2),
        shown_share=0.5,
        n_queries=9,
        n_texts=1,
    )


class Page:
    def __init__(self, qtbot: QtBot) -> None:
        self.desk = CurvesDesk().loaded()
        self.asked: list[object] = []
        self.state = AlikeState(self.desk.session, self.asked.append, Numbers())
        self.widget = AlikePage(self.state, LIGHT, table_path=lambda: "/data/a.txt", ask_open=lambda *_: "")
        qtbot.addWidget(self.widget)
        self.widget.resize(900, 560)
        self.widget.show()

    def compare(self) -> None:
        self.state.run()
        asked = self.asked[-1]
        assert isinstance(asked, CompareHeads)
        self.state.handle(ComparingNews(number=asked.number, n_done=1, n_total=2))
        self.state.handle(HeadsCompared(number=asked.number, plane=plane(), texts="a text"))

    @property
    def side(self) -> list[str]:
        return [label.text() for label in self.widget._side.widget().findChildren(PlainLabel)]


def test_that_a_click_selects_a_head_and_the_side_names_the_nearest(qtbot: QtBot) -> None:
    page = Page(qtbot)
    page.state.choose_stack("encoder")
    page.compare()
    view = page.widget.plane
    for head in SHOWN:
        assert view.head_at(view.place_of(head)) == head
    qtbot.mouseMove(view, view.place_of(SHOWN[1]).toPoint())
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=view.place_of(SHOWN[0]).toPoint())
    assert page.desk.session.primary == SHOWN[0]
    page.state.hover(SHOWN[2])
    assert "encoder L1H0" in page.side
    assert any(said.startswith("L1H1   0.0008") for said in page.side)
    assert "Group 3: 2 heads" in page.side
    assert "Group 1: 1 head" in page.side
    page.state.hover(None)
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert page.desk.session.primary == SHOWN[1]
    for palette in (DARK, LIGHT):
        page.widget.set_theme(palette)
        assert not page.widget.grab().isNull()
    assert "50%" in page.state.statement


def test_that_a_pass_is_cancelled_fails_and_is_forgotten_with_its_model(qtbot: QtBot) -> None:
    page = Page(qtbot)
    assert isinstance(page.asked[-1], CompareHeads)  # of itself, as soon as it is seen
    page.widget.stop_button.click()
    page.widget._on_texts_chosen("table")
    page.state.run()
    asked = page.asked[-1]
    assert isinstance(asked, CompareHeads)
    assert (asked.source, asked.path) == ("file", "/data/a.txt")
    page.widget.stop_button.click()
    assert isinstance(page.asked[-1], StopComparing)
    page.widget._on_texts_chosen("shown")
    page.widget.run_button.click()
    number = page.asked[-1].number  # type: ignore[attr-defined]
    page.state.handle(Failed(number=number, request="CompareHeads", message="Too few heads."))
    assert page.state.error == "Too few heads."
    page.compare()
    page.state.handle(ModelLoaded(number=1, info=page.desk.model))
    assert page.state.plane is None
