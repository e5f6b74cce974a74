"""The tab of pruning curves: run, hover, click, remove, export."""

import dataclasses
from pathlib import Path

import pytest
from curve_samples import CurvesDesk, curve
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from attnscope.figures import DARK
from attnscope.records import METRICS, RANKINGS, CurvesNews, MeasureCurves
from attnscope.viewmodels.heads import PointRef
from attnscope.widgets import apply_theme
from attnscope.widgets.heads import PruningPage

pytestmark = pytest.mark.qt


class Page:
    def __init__(self, qtbot: QtBot) -> None:
        self.desk = CurvesDesk().loaded()
        self.paths = {"open": "", "save": "", "table": ""}
        self.widget = PruningPage(
            self.desk.curves,
            table_path=lambda: self.paths["table"],
            ask_open=lambda *_: self.paths["open"],
            ask_save=lambda *_: self.paths["save"],
        )
        qtbot.addWidget(self.widget)
        self.widget.resize(900, 560)
        self.widget.show()


@pytest.fixture
def page(qtbot: QtBot) -> Page:
    return Page(qtbot)


def test_that_the_lists_of_rankings_and_metrics_are_what_is_offered(
    monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    slope = {"name": "by-slope", "title": "by slope", "tip": "Scores by slope."}
    monkeypatch.setitem(RANKINGS, "by-slope", dataclasses.replace(RANKINGS["gradient"], **slope))
    monkeypatch.setitem(
        METRICS, "margin", dataclasses.replace(METRICS["loss"], name="margin", title="margin")
    )
    page = Page(qtbot)
    box = page.widget.rankings["by-slope"]
    assert (box.text(), "by slope." in box.toolTip()) == ("by slope", True)
    assert page.desk.curves.metrics[-1] == "margin"
    page.desk.curves.choose_metric("margin")
    assert "margin" in page.widget._metric.text()


def test_that_choices_reach_the_pass_and_it_can_be_cancelled(page: Page, qtbot: QtBot) -> None:
    widget, state = page.widget, page.desk.curves
    first = page.desk.asked[-1]
    assert isinstance(first, MeasureCurves)  # of itself, as soon as it is seen
    assert (first.rankings, first.max_texts, first.n_random) == (("gradient", "random"), 8, 1)
    assert not first.is_rescored
    assert (state.max_texts, state.n_random, state.is_rescored) == (100, 3, True)
    qtbot.mouseClick(widget.stop_button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(widget.rankings["learned"], Qt.MouseButton.LeftButton, pos=QPoint(8, 10))
    widget._amount.setValue(30)
    page.paths["table"] = "/data/a.txt"
    widget._on_texts_chosen("table")
    qtbot.mouseClick(widget.run_button, Qt.MouseButton.LeftButton)
    asked = page.desk.asked[-1]
    assert isinstance(asked, MeasureCurves)
    assert (asked.rankings, asked.max_texts, asked.path) == (
        ("gradient", "learned", "random"),
        30,
        "/data/a.txt",
    )
    state.handle(CurvesNews(number=asked.number, what="gradient: scoring heads", fraction=0.3, left_s=12.0))
    assert widget.stop_button.isVisible()
    qtbot.mouseClick(widget.stop_button, Qt.MouseButton.LeftButton)
    assert state.job.phase == "stopped"
    for key, source in (("samples", "samples"), ("own", "own")):
        widget._on_texts_chosen(key)
        assert state.source == source
    page.paths["open"] = "/data/trees.conllu"
    widget._on_texts_chosen("file")
    assert state.path == "/data/trees.conllu"


def test_that_a_first_look_says_that_it_is_one_and_a_run_is_none(page: Page, qtbot: QtBot) -> None:
    widget, state = page.widget, page.desk.curves
    page.desk.measure(curve(), curve("random", slope=2.0))
    assert state.is_first
    assert "a first look, heads scored once: Run reads up to 100" in widget._statement_now()
    spec = widget.figure_spec()
    assert spec is not None
    assert spec.caption is not None
    assert "a first look" in spec.caption.note
    qtbot.mouseClick(widget.run_button, Qt.MouseButton.LeftButton)
    asked = page.desk.asked[-1]
    assert isinstance(asked, MeasureCurves)
    assert (asked.max_texts, asked.n_random, asked.is_rescored) == (100, 3, True)
    page.desk.measure(curve())
    assert not state.is_first
    assert "first look" not in widget._statement_now()


def test_that_a_point_of_a_model_that_labels_texts_counts_per_text(page: Page) -> None:
    page.desk.measure(dataclasses.replace(curve(), is_per_text=True))
    page.desk.curves.hover(PointRef(curve=page.desk.curves.curves[0], index=1))
    assert page.widget.curves.panel.unit.text().startswith("nats per text; ")


def test_that_a_point_tells_about_itself_and_a_click_loads_it(page: Page, qtbot: QtBot) -> None:
    widget, desk = page.widget, page.desk
    desk.measure(curve(), curve("random", slope=2.0), curve("random", seed=1, slope=3.0))
    found = PointRef(curve=desk.curves.curves[0], index=3)
    place = widget.curves.plot.place_of(found).toPoint()
    assert widget.curves.plot.point_at(widget.curves.plot.place_of(found)) == found
    qtbot.mouseMove(widget.curves.plot.viewport(), place)
    desk.curves.hover(found)
    panel = widget.curves.panel
    assert panel.title.text() == "6 of 12 heads off"
    assert panel.value.text() == "loss 6.50 (6.25–7.00)"
    assert panel.taken.text() == "decoder  L1H0, L1H1"
    assert not panel.remove_button.isVisible()
    qtbot.mouseClick(widget.curves.plot.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert len(desk.session.gates.off()) == 6
    assert panel.loaded.text() == "Loaded: 6 heads off by gradient"
    with qtbot.waitSignal(widget.remove_wanted):
        panel.remove_button.click()
    with qtbot.waitSignal(widget.explore_wanted):
        panel.explore_button.click()
    desk.session.undo()
    assert panel.again_button.isVisible()
    assert "No longer loaded" in panel.loaded.text()


def test_that_keys_walk_the_points(page: Page, qtbot: QtBot) -> None:
    desk = page.desk
    desk.measure(curve(), curve("learned", slope=2.0))
    plot = page.widget.curves.plot
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down):
        qtbot.keyClick(plot, key)
    assert desk.curves.hovered == PointRef(curve=desk.curves.curves[1], index=1)
    qtbot.keyClick(plot, Qt.Key.Key_Return)
    assert len(desk.session.gates.off()) == 2


def test_that_logarithm_and_theme_keep_points_where_they_are_drawn(page: Page) -> None:
    page.desk.measure(curve())
    page.widget.curves.log.click()
    found = PointRef(curve=page.desk.curves.curves[0], index=2)
    assert page.widget.curves.plot.point_at(page.widget.curves.plot.place_of(found)) == found
    apply_theme(page.widget, DARK)
    assert not page.widget.grab().isNull()


def test_that_numbers_and_figure_are_exported(page: Page, tmp_path: Path) -> None:
    assert page.widget.figure_spec() is None
    page.desk.measure(curve())
    page.paths["save"] = str(tmp_path / "curves.csv")
    page.widget._on_export_numbers()
    assert len((tmp_path / "curves.csv").read_text(encoding="utf-8").splitlines()) == 8
    spec = page.widget.figure_spec()
    assert spec is not None
    assert spec.charts[0].title == "Loss as heads are removed, 7 texts"
