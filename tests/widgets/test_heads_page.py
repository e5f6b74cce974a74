"""The Heads page: a table that sorts, selects and exports, and the card beside it."""

import json
from pathlib import Path

import numpy as np
import pytest
from heads_fakes import HeadsDesk
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from attnscope.figures import DARK
from attnscope.records import CardShown, HeadCard, MeasureHeads, MeasuringNews, ShowCard, TellingText
from attnscope.viewmodels.session import Placeholder
from attnscope.widgets import PlainLabel, StateCard, apply_theme
from attnscope.widgets.heads import HeadsPage, bar_shares

pytestmark = pytest.mark.qt


class Page:
    def __init__(self, qtbot: QtBot) -> None:
        self.desk = HeadsDesk()
        self.desk.open()
        self.paths = {"open": "", "save": ""}
        self.widget = HeadsPage(
            self.desk.state,
            ask_open=lambda *_: self.paths["open"],
            ask_save=lambda *_: self.paths["save"],
        )
        qtbot.addWidget(self.widget)
        self.widget.resize(1100, 600)
        self.widget.show()

    @property
    def rows(self) -> list[str]:
        model = self.widget.table.model()
        return [str(model.index(row, 0).data()) for row in range(model.rowCount())]

    @property
    def card_texts(self) -> list[str]:
        return [label.text() for label in self.widget.card.findChildren(PlainLabel)]


@pytest.fixture
def page(qtbot: QtBot) -> Page:
    return Page(qtbot)


def test_that_a_pass_is_run_watched_and_cancelled(page: Page, qtbot: QtBot) -> None:
    widget, desk = page.widget, page.desk
    assert not widget.stop_button.isVisible()
    qtbot.mouseClick(widget.run_button, Qt.MouseButton.LeftButton)
    number = desk.newest(MeasureHeads).number  # type: ignore[attr-defined]
    assert widget.stop_button.isVisible()
    assert not widget.run_button.isEnabled()
    desk.state.handle(MeasuringNews(number=number, what="Measuring heads", n_done=3, n_total=10))
    qtbot.mouseClick(widget.stop_button, Qt.MouseButton.LeftButton)
    assert desk.state.phase == "stopped"
    assert widget.run_button.isEnabled()


def test_that_a_click_on_a_columns_name_sorts_and_one_on_a_row_selects(page: Page, qtbot: QtBot) -> None:
    desk, table = page.desk, page.widget.table
    desk.measure()
    assert len(page.rows) == 12
    assert page.rows[0] == "encoder L0H0"
    names = [str(table.model().headerData(k, Qt.Orientation.Horizontal)) for k in range(6)]
    header = table.horizontalHeader()
    place = header.sectionViewportPosition(names.index("first")) + 10
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place, 8))
    assert desk.state.order.sorted_by == "first"
    second = table.model().index(1, 0)
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=table.visualRect(second).center())
    assert desk.session.primary == desk.state.table.heads[desk.state.order.rows[1]]
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert desk.session.primary == desk.state.table.heads[desk.state.order.rows[2]]
    assert table.currentIndex().row() == 2


def test_that_the_card_shows_texts_as_they_are_and_leads_to_explore(page: Page, qtbot: QtBot) -> None:
    desk = page.desk
    desk.measure()
    desk.state.select(1)
    head = desk.state.table.heads[1]
    text = TellingText(
        number=0,
        source="<b>a</b> b",
        target="c",
        queries=("<b>", "b"),
        keys=("<b>", "b"),
        edges=((1, 0, 0.875),),
    )
    card = HeadCard(head=head, sentence="attends somewhere", roles=(), texts=(text,), statement="4 texts")
    desk.state.handle(CardShown(number=desk.newest(ShowCard).number, card=card))  # type: ignore[attr-defined]
    assert "Attends somewhere." in page.card_texts
    assert "“<b>a</b> b”" in page.card_texts
    assert any("0.88" in said or "0.87" in said for said in page.card_texts)
    with qtbot.waitSignal(page.widget.explore_wanted):
        page.widget.card.look_wanted.emit(0)
    assert desk.session.text == "<b>a</b> b"


def test_that_the_table_is_exported_as_it_is_shown(page: Page, tmp_path: Path, qtbot: QtBot) -> None:
    desk = page.desk
    desk.measure()
    desk.state.order.sort_by("entropy")
    page.paths["save"] = str(tmp_path / "heads.csv")
    page.widget._on_export()
    lines = (tmp_path / "heads.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 13
    assert lines[0].startswith("stack,layer,head,best_offset,what_it_does,previous,previous_low")
    page.paths["save"] = str(tmp_path / "heads.json")
    page.widget._on_export()
    found = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))
    first = desk.state.table.heads[desk.state.order.rows[0]]
    assert (found["heads"][0]["stack"], found["heads"][0]["head"]) == (first.stack, first.head)
    page.paths["save"] = str(tmp_path / "none" / "heads.csv")
    with qtbot.waitSignal(page.widget.failed):
        page.widget._on_export()


def test_that_texts_are_chosen_and_a_theme_is_taken(page: Page) -> None:
    page.paths["open"] = "/data/trees.conllu"
    page.widget._on_texts_chosen("file")
    assert page.desk.state.texts.path == "/data/trees.conllu"
    page.widget._on_texts_chosen("own")
    assert page.desk.state.texts.path == ""
    page.desk.measure()
    apply_theme(page.widget, DARK)
    assert not page.widget.grab().isNull()


def test_that_a_columns_menu_asks_for_frames(page: Page, qtbot: QtBot) -> None:
    page.desk.measure()
    table = page.widget.table
    header = table.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(3) + 10, 8)
    with qtbot.waitSignal(table.frames_wanted) as wanted:
        header.customContextMenuRequested.emit(place)
        menu = next(menu for menu in table.findChildren(QMenu) if menu.isVisible())
        menu.actions()[0].trigger()
        menu.close()
    assert wanted.args == [table.model().column_name(3)]


def test_that_a_bar_of_a_share_stands_for_the_number_itself() -> None:
    values = np.array([[0.02, 2.0], [np.nan, 4.0], [0.01, 1.0]])
    found = bar_shares(values, np.array([1.0, -np.inf]))
    np.testing.assert_allclose(found, [[0.02, 0.5], [np.nan, 1.0], [0.01, 0.25]])


def test_that_heads_of_one_stack_go_without_its_name(page: Page) -> None:
    page.desk.open("decoder")
    page.desk.measure()
    assert page.rows[:2] == ["L0H0", "L0H1"]


def test_that_a_sentence_in_empty_space_has_even_lines_once_it_is_seen(qtbot: QtBot) -> None:
    card = StateCard()
    qtbot.addWidget(card)
    card.resize(900, 400)
    words = "A sentence of so many words that it takes more than a single line, and one word would be alone."
    card.show_stage(Placeholder(kind="empty", title="Nothing yet", hint=words))
    (hint,) = (label for label in card.findChildren(PlainLabel) if label.text() == words)
    card.show()
    room, wrap = QRect(0, 0, hint.width() - 2, 10_000), Qt.TextFlag.TextWordWrap
    n_px = hint.fontMetrics().boundingRect(room, wrap, words).height()
    narrower = hint.fontMetrics().boundingRect(room.adjusted(0, 0, -1, 0), wrap, words).height()
    assert narrower > n_px
    card.show_stage(Placeholder(kind="empty", title="Nothing yet", hint="Short."))
    assert hint.width() < room.width()
