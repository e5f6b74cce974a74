"""The tab of heads that attend alike: compare, click a pair, walk."""

import numpy as np
import pytest
from curve_samples import HEADS, CurvesDesk
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from session_samples import state_of

from attnscope.figures import DARK, LIGHT
from attnscope.records import (
    CompareHeads,
    ComparingNews,
    Failed,
    HeadPairs,
    HeadRef,
    HeadsCompared,
    ModelLoaded,
    StopWork,
)
from attnscope.widgets import apply_theme
from attnscope.widgets.heads import SHARE_ROLE, AlikePage

pytestmark = pytest.mark.qt
SHOWN = HEADS[:4]


AWAY = np.array([[0, 0.5, 0.2, 0.1], [0.5, 0, 0.6, 0.3], [0.2, 0.6, 0, 0.0008], [0.1, 0.3, 0.0008, 0]])


def pairs() -> HeadPairs:
    return HeadPairs(stack="encoder", heads=SHOWN, divergences=AWAY, n_queries=9, n_texts=1)


class Page:
    def __init__(self, qtbot: QtBot) -> None:
        self.desk = CurvesDesk().loaded()
        self.asked: list[object] = []
        self.state = state_of("alike", self.asked.append, session=self.desk.session)
        self.widget = AlikePage(self.state, table_path=lambda: "/data/a.txt", ask_open=lambda *_: "")
        qtbot.addWidget(self.widget)
        self.widget.resize(900, 560)
        self.widget.show()

    def compare(self) -> None:
        self.state.run()
        asked = self.asked[-1]
        assert isinstance(asked, CompareHeads)
        self.state.handle(ComparingNews(number=asked.number, n_done=1, n_total=2))
        self.state.handle(HeadsCompared(number=asked.number, pairs=pairs(), texts="a text"))

    def row(self, k: int) -> tuple[str, ...]:
        return tuple(self.widget.table.item(k, at).text() for at in range(3))


def test_that_the_pairs_most_alike_stand_first_and_a_click_selects_both(qtbot: QtBot) -> None:
    page = Page(qtbot)
    page.state.choose_stack("encoder")
    page.compare()
    table = page.widget.table
    assert [page.row(k) for k in range(table.rowCount())] == [
        ("L1H0", "L1H1", "0.000800"),
        ("L0H0", "L1H1", "0.100"),
        ("L0H0", "L1H0", "0.200"),
        ("L0H1", "L1H1", "0.300"),
        ("L0H0", "L0H1", "0.500"),
        ("L0H1", "L1H0", "0.600"),
    ]
    shares = [table.item(k, 2).data(SHARE_ROLE) for k in (0, 5)]
    np.testing.assert_allclose(shares, [0.0008 / np.log(2), 0.6 / np.log(2)])
    place = table.visualItemRect(table.item(1, 0)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert page.desk.session.selection == (SHOWN[0], SHOWN[3])
    assert (
        page.widget._nearest.full_text()
        == "L1H1 attends most like L1H0 (0.000800), L0H0 (0.100), L0H1 (0.300)"
    )
    for palette in (DARK, LIGHT):
        apply_theme(page.widget, palette)
        assert not page.widget.grab().isNull()
    assert page.state.statement.startswith("every pair; encoder, a text: 1 text, 9 queries")


def test_that_of_very_many_pairs_the_first_are_listed(qtbot: QtBot) -> None:
    page = Page(qtbot)
    heads = tuple(HeadRef(stack="encoder", layer=k // 8, head=k % 8) for k in range(32))
    away = np.abs(np.subtract.outer(np.arange(32.0), np.arange(32.0))) / 100
    page.state.run()
    found = HeadPairs(stack="encoder", heads=heads, divergences=away, n_queries=9, n_texts=1)
    page.state.handle(HeadsCompared(number=page.asked[-1].number, pairs=found, texts="a text"))  # type: ignore[attr-defined]
    assert page.widget.table.rowCount() == 200
    values = [value for _first, _second, value in page.state.pairs()]
    assert values == sorted(away[np.triu_indices(32, k=1)])[:200]
    assert page.state.statement.startswith("the 200 most alike of 496 pairs")


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
    assert page.asked[-1] == StopWork(number=page.asked[-1].number, work="CompareHeads")
    page.widget._on_texts_chosen("shown")
    page.widget.run_button.click()
    number = page.asked[-1].number  # type: ignore[attr-defined]
    page.state.handle(Failed(number=number, request="CompareHeads", message="Too few heads."))
    assert page.state.job.error == "Too few heads."
    page.compare()
    page.state.handle(ModelLoaded(number=1, info=page.desk.model))
    assert page.state.found is None
