"""The writing panel: what the person does becomes an intent, what was written is shown."""

from dataclasses import replace

import pytest
from generation_samples import WritingDesk
from PySide6.QtCore import Qt
from session_samples import states_of

from attnscope.figures import COLOUR_MAPS, DARK, LIGHT, contrast
from attnscope.records import Candidate, Failed, Token, WriteSettings
from attnscope.viewmodels import NO_HIGHLIGHT, Highlight, ViewState
from attnscope.widgets import apply_theme
from attnscope.widgets.explore import AlternativeTable, ExplorePage, GenerationPanel, probability_colour
from attnscope.widgets.explore.generation_panel import _INKS

pytestmark = pytest.mark.qt


def make(qtbot, desk: WritingDesk) -> tuple[GenerationPanel, ViewState]:
    view = ViewState()
    panel = GenerationPanel(desk.state, desk.session, view)
    qtbot.addWidget(panel)
    panel.resize(300, 600)
    panel.show()
    return panel, view


def test_that_the_button_writes_and_then_stops(qtbot):
    desk = WritingDesk()
    panel, _ = make(qtbot, desk)
    assert panel.write.text() == "Generate"
    assert not panel.strip.isVisible()
    qtbot.mouseClick(panel.write, Qt.MouseButton.LeftButton)
    desk.tell_news(2)
    assert panel.write.text() == "Stop"
    assert panel.progress.isVisible()
    assert len(panel.strip.chips()) == 2
    assert not panel.form.isEnabled()
    qtbot.mouseClick(panel.write, Qt.MouseButton.LeftButton)
    assert desk.cancelled
    assert panel.write.text() == "Generate"
    assert panel.use.isEnabled()


def test_that_arrow_keys_walk_the_tokens_and_light_their_rows(qtbot):
    desk = WritingDesk().write()
    desk.session.select_stack("decoder")
    panel, view = make(qtbot, desk)
    for _ in range(2):
        qtbot.keyClick(panel.strip, Qt.Key.Key_Right)
    assert desk.state.step == 1
    assert view.highlight == Highlight(query=4)
    assert panel.alternatives.isVisible()
    view.set_highlight(Highlight(query=1, key=1))
    view.set_highlight(NO_HIGHLIGHT)
    assert view.highlight == Highlight(query=4)
    qtbot.keyClick(panel.strip, Qt.Key.Key_Escape)
    assert desk.state.step is None
    assert view.highlight == NO_HIGHLIGHT
    assert not panel.alternatives.isVisible()


def test_that_what_was_drawn_with_stands_beside_the_models_own(qtbot):
    table = AlternativeTable()
    qtbot.addWidget(table)
    rows = tuple(
        Candidate(token=Token(id=k, piece=piece), probability=p, chance=chance)
        for k, (piece, p, chance) in enumerate((("the", 0.6, 0.9), ("a", 0.2, 0.1), ("my", 0.1, 0.0)))
    )
    plain = tuple(replace(row, chance=None) for row in rows)
    table.show_rows(plain, 0)
    low = table.height()
    assert table.accessibleDescription() == "the: 0.600; a: 0.200; my: 0.100"
    table.show_rows(rows, 0)
    assert table.height() > low  # the names of the columns
    assert table.accessibleDescription() == (
        "the: 0.600, drawn with 0.900; a: 0.200, drawn with 0.100; my: 0.100, cut off"
    )
    assert "top-p" in table.toolTip()
    assert not table.grab().isNull()


def test_that_a_click_on_a_chip_or_a_node_of_the_best_path_chooses_its_step(qtbot):
    desk = WritingDesk().write(WriteSettings(mode="beams"))
    panel, _ = make(qtbot, desk)
    qtbot.mouseClick(panel.strip, Qt.MouseButton.LeftButton, pos=panel.strip.chip_rect(2).center().toPoint())
    assert desk.state.step == 2
    best = [node for node in panel.tree.placed() if node.kind == "best"]
    place = panel.tree.node_rect(best[1]).center().toPoint()
    qtbot.mouseClick(panel.tree, Qt.MouseButton.LeftButton, pos=place)
    assert desk.state.step == 1
    dropped = next(node for node in panel.tree.placed() if node.kind == "dropped")
    place = panel.tree.node_rect(dropped).center().toPoint()
    qtbot.mouseClick(panel.tree, Qt.MouseButton.LeftButton, pos=place)
    assert desk.state.step == 1
    assert f"log p of the text  {best[0].node.total:.4g} nats".replace("-", "−") in best[0].sentence


def test_that_the_form_shows_the_fields_of_the_mode_and_sets_them(qtbot):
    desk = WritingDesk()
    panel, _ = make(qtbot, desk)
    boxes = panel.form.boxes
    assert not boxes["temperature"].isVisible()
    qtbot.mouseClick(panel.form.modes["sample"], Qt.MouseButton.LeftButton)
    assert boxes["temperature"].isVisible()
    assert not boxes["n_beams"].isVisible()
    boxes["temperature"].setValue(0.7)
    boxes["top_k"].setValue(5)
    assert desk.state.settings == WriteSettings(mode="sample", temperature=0.7, top_k=5)
    qtbot.mouseClick(panel.form.modes["beams"], Qt.MouseButton.LeftButton)
    assert boxes["n_beams"].isVisible()


def test_that_a_failure_stands_in_the_panel(qtbot):
    desk = WritingDesk()
    panel, _ = make(qtbot, desk)
    desk.state.write()
    message = "The text has 24 tokens, and the model can read no more."
    desk.state.handle(Failed(number=desk.request().number, request="WriteText", message=message))
    assert panel.summary.text() == message
    assert panel.summary.property("role") == "error"


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_that_every_part_paints_in_both_themes(qtbot, palette):
    desk = WritingDesk().write(WriteSettings(mode="beams"))
    panel, _ = make(qtbot, desk)
    desk.state.choose_step(1)
    apply_theme(panel, palette)
    panel.has_dropped.click()
    picture = panel.grab().toImage()
    assert picture.width() == 300
    assert "2 of 3" in panel.strip.tooltip_of(1)


@pytest.mark.parametrize("name", COLOUR_MAPS)
def test_that_pieces_can_be_read_on_every_colour(name):
    for k in range(11):
        fill = probability_colour(name, k / 10)
        assert max(contrast(ink, fill) for ink in _INKS) >= 4.3


def test_that_the_page_offers_writing_in_a_tab(qtbot):
    desk = WritingDesk()
    view = ViewState()
    page = ExplorePage(states_of(desk.session), view)
    qtbot.addWidget(page)
    page.show()
    assert page.output.isVisible()
    page.answers.show_panel("Write")
    assert page.generation.isVisible()
    assert not page.output.isVisible()
