"""The Kernels page: every lab opens, answers its controls, is exported, and measures without waiting."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QComboBox, QLineEdit
from pytestqt.qtbot import QtBot
from session_samples import Desk

from attnscope.figures.colours import DARK, LIGHT
from attnscope.figures.export import save
from attnscope.settings import Settings
from attnscope.viewmodels.labs.cost import MEASURED, CostPoint
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.training import TrainingState
from attnscope.widgets.jump_slider import JumpSlider
from attnscope.widgets.kernels_page import LABS, KernelsPage
from attnscope.widgets.labs.cost_view import CostMeter, make_cost_view
from attnscope.widgets.main_window import MainWindow

pytestmark = pytest.mark.qt


_GATE = threading.Event()
_GATE.set()


def quick_costs(d_model: int) -> Iterator[CostPoint]:
    for n in MEASURED:
        _GATE.wait(0.1)
        yield CostPoint(n_tokens=n, d_model=d_model, attention_ms=n * n / 100, recurrent_ms=float(n))


@pytest.fixture
def page(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> KernelsPage:
    monkeypatch.setitem(LABS, "Cost by length", lambda palette: make_cost_view(palette, quick_costs))
    page = KernelsPage(LIGHT)
    qtbot.addWidget(page)
    page.resize(900, 540)
    page.show()
    return page


@pytest.mark.parametrize("name", list(LABS))
def test_that_each_lab_is_drawn_changed_and_exported(page: KernelsPage, name: str, tmp_path: Path) -> None:
    page.tabs[name].click()
    lab = page.labs[name]
    assert lab.isVisible()
    assert lab.sentence.text()
    before = lab.grab().toImage()
    page.set_theme(DARK)
    assert lab.grab().toImage() != before
    for control in lab.rows.values():
        if isinstance(control.field, JumpSlider) and control.isVisible():
            control.field.setValue((control.field.value() + 1) % (control.field.maximum() + 1))
    assert lab.reset_button.isEnabled()
    assert not lab.grab().isNull()
    for ending in ("csv", "svg"):
        spec = page.figure_spec()
        assert spec is not None
        assert save(spec, tmp_path / f"lab.{ending}").stat().st_size > 500
    lab.reset_button.click()
    assert lab.plan.is_example(lab.lab.choice, lab.plan.example)


def test_that_the_query_is_dragged_and_the_score_chosen(page: KernelsPage, qtbot: QtBot) -> None:
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


def test_that_a_cell_under_the_cursor_is_told(page: KernelsPage, qtbot: QtBot) -> None:
    page.show_lab("Masks")
    lab = page.labs["Masks"]
    with qtbot.waitSignal(page.hover_text) as told:
        lab.cell_panels[0].hovered.emit(0, 5)
    assert told.args == ["query 0 → key 5  global  ·  query 0 → key 5  1 layer"]
    assert not lab.rows["dilation"].isVisible()
    assert lab.rows["block"].isVisible()


def test_that_words_are_typed_and_compared(page: KernelsPage, qtbot: QtBot) -> None:
    page.show_lab("Order")
    lab = page.labs["Order"]
    edit = lab.rows["B"].field
    assert isinstance(edit, QLineEdit)
    qtbot.keyClicks(edit, " too")
    assert "same words" in lab.sentence.text()
    assert not lab.grab().isNull()


def test_that_costs_are_measured_in_a_thread_that_ends_when_nobody_looks(
    page: KernelsPage, qtbot: QtBot
) -> None:
    page.show_lab("Cost by length")
    lab = page.labs["Cost by length"]
    meter = lab.findChild(CostMeter)
    qtbot.waitUntil(lambda: not meter.is_busy and len(lab.lab.choice.points) == len(MEASURED))
    assert "until T ≈ 100" in lab.sentence.text()
    _GATE.clear()
    lab.rows["Measure again"].field.click()
    qtbot.waitUntil(lambda: meter.is_busy)
    assert "0 of 8" in lab.sentence.text()
    page.hide()
    assert not meter.is_busy
    _GATE.set()
    page.show()
    qtbot.waitUntil(lambda: not meter.is_busy and len(lab.lab.choice.points) == len(MEASURED))


def test_that_the_window_turns_to_the_page_and_offers_its_figure(qtbot: QtBot, tmp_path: Path) -> None:
    numbers = Numbers()
    training = TrainingState(lambda request: None, numbers)
    positions = PositionsState(lambda request: None, numbers)
    window = MainWindow(Desk().open().session, training, positions, Settings(theme="light"))
    qtbot.addWidget(window)
    window.show()
    assert "lab" not in window.offered_figures()
    window.actions_by_name["page-kernels"].trigger()
    assert window.kernels_page.isVisible()
    path = window.export_current(tmp_path / "lab.svg")
    assert b"kernel regression" in path.read_bytes()
