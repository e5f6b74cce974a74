"""The Labs page: every lab opens, answers its controls, is exported, and asks or measures without waiting."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QComboBox, QLineEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from session_samples import Desk, lab_states, states_of

from attnscope.figures import DARK, save
from attnscope.labs import LABS, LabEntry
from attnscope.labs.cost import MEASURED, CostPoint
from attnscope.records import ExperimentNews, GradientCurve, GradientFinding, Request, RunExperiment, StopWork
from attnscope.settings import Settings
from attnscope.viewmodels import LabStates, ViewState, page_named
from attnscope.viewmodels.session import LookSaved
from attnscope.widgets import JumpSlider, PlainLabel, apply_theme
from attnscope.widgets.labs import CostMeter, LabsPage, LabView, lab_offers, make_cost_view, make_lab
from attnscope.widgets.window import MainWindow

pytestmark = pytest.mark.qt


_GATE = threading.Event()
_GATE.set()


def quick_costs(d_model: int) -> Iterator[CostPoint]:
    for n in MEASURED:
        _GATE.wait(0.1)
        yield CostPoint(n_tokens=n, d_model=d_model, attention_ms=n * n / 100, recurrent_ms=float(n))


@pytest.fixture
def page(qtbot: QtBot) -> LabsPage:
    def make(entry: LabEntry, states: LabStates) -> QWidget:
        is_cost = entry.name == "Cost by length"
        return make_cost_view(entry, quick_costs) if is_cost else make_lab(entry, states)

    page = LabsPage(lab_states(), make=make)
    qtbot.addWidget(page)
    page.resize(900, 540)
    page.show()
    return page


PLANS = tuple(entry for entry in LABS.values() if entry.group != "Tokens")
"""The labs that are plans; those of tokens have views and tests of their own."""


def test_that_the_source_of_a_lab_stands_with_its_formula(page: LabsPage) -> None:
    for name in ("Kernel regression", "Merges replayed"):
        page.show_lab(name)
        shown = [label.text() for label in page.labs[name].findChildren(PlainLabel)]
        assert LABS[name].source in shown


@pytest.mark.parametrize("entry", PLANS, ids=lambda entry: entry.name)
def test_that_each_lab_is_drawn_changed_and_exported(page: LabsPage, entry: LabEntry, tmp_path: Path) -> None:
    page.show_lab(entry.name)
    lab = page.labs[entry.name]
    assert isinstance(lab, LabView)
    assert lab.isVisible()
    assert lab.sentence.text()
    before = lab.grab().toImage()
    apply_theme(page, DARK)
    assert lab.grab().toImage() != before
    for control in lab.rows.values():
        if isinstance(control.field, JumpSlider) and control.isVisible():
            control.field.setValue((control.field.value() + 1) % (control.field.maximum() + 1))
    assert lab.foot.reset_button.isEnabled()
    assert not lab.grab().isNull()
    for ending in ("csv", "svg"):
        spec = page.figure_spec()
        assert spec is not None
        assert save(spec, tmp_path / f"lab.{ending}").stat().st_size > 500
    lab.foot.reset_button.click()
    assert lab.plan.is_example(lab.lab.choice)


def test_that_the_query_is_dragged_and_the_score_chosen(page: LabsPage, qtbot: QtBot) -> None:
    page.show_lab("Kernel regression")
    lab = page.labs["Kernel regression"]
    plot = lab.chart_panels[0].plot
    view = plot.getPlotItem().getViewBox()
    place = plot.mapFromScene(view.sceneBoundingRect().center())
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place.x(), place.y()))
    assert lab.lab.choice.query == pytest.approx(0.0, abs=0.05)
    score = lab.rows["score"].field
    assert isinstance(score, QComboBox)
    score.setCurrentIndex(score.findData("dot"))
    score.activated.emit(score.currentIndex())
    assert "longest keys win" in lab.sentence.text()


def test_that_a_cell_under_the_cursor_is_told(page: LabsPage, qtbot: QtBot) -> None:
    page.show_lab("Masks as structure")
    lab = page.labs["Masks as structure"]
    with qtbot.waitSignal(page.hover_text) as told:
        lab.cell_panels[0].hovered.emit(0, 5)
    assert told.args == ["query 0 → key 5  global  ·  query 0 → key 5  1 layer"]
    assert not lab.rows["dilation"].isVisible()
    assert lab.rows["block"].isVisible()


def test_that_words_are_typed_and_compared(page: LabsPage, qtbot: QtBot) -> None:
    page.show_lab("Order blindness")
    lab = page.labs["Order blindness"]
    edit = lab.rows["B"].field
    assert isinstance(edit, QLineEdit)
    qtbot.keyClicks(edit, " too")
    assert "same words" in lab.sentence.text()
    assert not lab.grab().isNull()


def test_that_costs_are_measured_in_a_thread_that_ends_when_nobody_looks(
    page: LabsPage, qtbot: QtBot
) -> None:
    page.show_lab("Cost by length")
    lab = page.labs["Cost by length"]
    meter = lab.findChild(CostMeter)
    qtbot.waitUntil(lambda: not meter.is_busy and len(lab.lab.choice.points) == len(MEASURED))
    assert "until T ≈ 100" in lab.sentence.text()
    _GATE.clear()
    lab.findChild(QPushButton, "again").click()
    qtbot.waitUntil(lambda: meter.is_busy)
    assert "0 of 8" in lab.sentence.text()
    page.hide()
    assert not meter.is_busy
    _GATE.set()
    page.show()
    qtbot.waitUntil(lambda: not meter.is_busy and len(lab.lab.choice.points) == len(MEASURED))


def test_that_the_window_turns_to_the_page_and_offers_its_figure(qtbot: QtBot, tmp_path: Path) -> None:
    window = MainWindow(states_of(Desk().open().session), Settings(theme="light"))
    qtbot.addWidget(window)
    window.show()
    assert "lab" not in window.offered_figures()
    window.actions_by_name["page-labs"].trigger()
    assert window.pages.labs.isVisible()
    path = window.export_current(tmp_path / "lab.svg")
    assert b"kernel regression" in path.read_bytes()
    window.view.show_saved(LookSaved(page="explore"))
    window.view.show_saved(LookSaved(page="kernels"))
    assert window.view.page == "labs"
    for name, page_key in (("kernels", "labs"), ("labs", "labs"), ("nowhere", None)):
        assert page_named(name) == page_key


def test_that_the_list_is_walked_with_keys_and_passes_headings_over(page: LabsPage, qtbot: QtBot) -> None:
    names = [entry.name for entry in page.entries]
    page.list.setFocus()
    seen = [page.shown]
    for _ in names[1:]:
        qtbot.keyClick(page.list, Qt.Key.Key_Down)
        seen.append(page.shown)
    assert seen == names
    assert len(set(names)) == len(names)


def test_that_the_palette_turns_to_a_lab_and_a_lab_to_its_page(page: LabsPage, qtbot: QtBot) -> None:
    view = ViewState()
    offers = {offer.item.title: offer for offer in lab_offers(page, view)}
    offers["Lab: Rank collapse"].run()
    assert (view.page, page.shown) == ("labs", "Rank collapse")
    page.show_lab("Past the trained length")
    with qtbot.waitSignal(page.page_wanted) as wanted:
        page.labs["Past the trained length"].page_button.click()
    assert wanted.args == ["positions"]


def test_that_a_lab_asks_while_it_is_looked_at_and_shows_what_comes(qtbot: QtBot) -> None:
    asked: list[Request] = []
    states = states_of(Desk().open().session, worker=asked.append).labs
    state, page = states.experiments, LabsPage(states)
    qtbot.addWidget(page)
    page.resize(900, 540)
    page.show()
    page.show_lab("Norms before or after")
    lab = page.labs["Norms before or after"]
    (request,) = asked
    assert isinstance(request, RunExperiment)
    curves = tuple(
        GradientCurve(place=place, n_layers=12, norms=(size,) * 12)
        for place, size in (("post", 2.0), ("pre", 0.5))
    )
    finding = GradientFinding(question=request.question, curves=curves)
    state.handle(ExperimentNews(number=request.number, n_done=1, n_total=3, finding=finding))
    assert "only norms after need warm-up" in lab.sentence.text()
    assert lab.sentence.text().endswith("Measured here now (1 of 3)…")
    state.handle(ExperimentNews(number=request.number, n_done=3, n_total=3, finding=finding, is_done=True))
    assert "4 times the gradient" in lab.sentence.text()
    assert not lab.foot.reset_button.isEnabled()
    assert np.isfinite(lab.plan.charts(lab.lab.shown)[0].series[0].ys).all()
    lab.rows["layers L"].field.setValue(0)
    qtbot.waitUntil(lambda: len(asked) == 2)
    assert asked[1].question.n_layers == 2
    assert lab.foot.reset_button.isEnabled()
    page.hide()
    assert isinstance(asked[2], StopWork)


def test_that_charts_of_a_narrow_lab_stand_two_in_a_row(page: LabsPage, qtbot: QtBot) -> None:
    page.show()
    page.show_lab("Scaling by √d")
    lab = page.labs["Scaling by √d"]
    for width, n_abreast in ((1300, 3), (800, 2), (1300, 3)):
        page.resize(width, 760)
        qtbot.waitUntil(lambda n=n_abreast: len({p.x() for p in lab.chart_panels}) == n, timeout=2000)
        assert len({panel.y() for panel in lab.chart_panels}) == 6 // n_abreast
        assert all(panel.isVisible() for panel in lab.chart_panels)


def test_that_the_list_is_a_box_above_the_lab_where_there_is_little_room(
    page: LabsPage, qtbot: QtBot
) -> None:
    page.show()
    page.resize(1300, 760)
    assert page.list.isVisible()
    assert not page.box.isVisible()
    page.resize(900, 760)
    assert not page.list.isVisible()
    assert page.box.isVisible()
    page.box.setFocus()
    qtbot.keyClick(page.box, Qt.Key.Key_Down)
    assert page.shown == page.box.currentData() == page.entries[1].name
    page.resize(1300, 760)
    assert page.list.currentItem().text() == page.shown


def test_that_what_is_set_in_a_lab_is_undone_by_button(page: LabsPage) -> None:
    page.show()
    page.show_lab("Masks as structure")
    lab = page.labs["Masks as structure"]
    example, slider = lab.lab.choice, lab.rows["window"].field
    assert not lab.foot.undo_button.isEnabled()
    slider.setValue(4)
    slider.setValue(7)  # one drag
    lab.rows["also causal"].field.click()
    assert (lab.lab.choice.window, lab.lab.choice.is_causal) == (7, True)
    for _ in range(2):
        lab.foot.undo_button.click()
    assert lab.lab.choice == example
    assert not lab.foot.undo_button.isEnabled()
    lab.foot.redo_button.click()
    assert lab.lab.choice.window == 7
    assert slider.value() == 7
    lab.foot.reset_button.click()
    assert lab.lab.choice == example
    lab.foot.undo_button.click()  # a reset is a step too
    assert lab.lab.choice.window == 7
