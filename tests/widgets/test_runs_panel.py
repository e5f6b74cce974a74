"""The list of runs, the scaling plot and the cost line as a person meets them."""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from attnscope import paths
from attnscope.records import (
    OpenRuns,
    Plan,
    PlanRecipe,
    RecipePlanned,
    Request,
    RunLines,
    RunsOpened,
    RunSummary,
    Site,
    SiteGrid,
    TraceText,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.session import Recents
from attnscope.viewmodels.training import SweepState, TrainingState
from attnscope.widgets import PlainLabel, apply_theme, palette_for
from attnscope.widgets.training import (
    SCALING,
    CostBar,
    RunPanel,
    RunsPanel,
    RunsTable,
    TrainingPage,
    WatchPanel,
)

sys.path.append(str(Path(__file__).parents[1] / "viewmodels"))
from training_fakes import Clock, traced

pytestmark = pytest.mark.qt
NOTHING = RunLines(steps=np.zeros(0), values=np.zeros(0))


def summary(name: str, size: int) -> RunSummary:
    return RunSummary(
        folder=f"/runs/{name}",
        name=name,
        end="done",
        step=10,
        n_steps=10,
        n_parameters=size,
        n_body=size,
        last_loss=10.0 * size**-0.1,
        best_loss=10.0 * size**-0.1,
        best_step=10,
        n_tokens=1000.0,
        flops=6.0 * size * 1000,
        seconds=1.0,
        validation=NOTHING,
        recipe=f"[model]\nd_model = {size}\n",
    )


class Desk:
    """A training page with three finished runs listed."""

    def __init__(self, qtbot: QtBot) -> None:
        self.posted: list[Request] = []
        self.state = TrainingState(Requests(self.posted.append), clock=Clock())
        self.page = TrainingPage(self.state, SweepState(self.state), Recents())
        qtbot.addWidget(self.page)
        self.page.resize(1200, 760)
        self.page.show()

    def list_runs(self) -> None:
        self.state.runs.add("/runs")
        number = [r for r in self.posted if isinstance(r, OpenRuns)][-1].number
        runs = (summary("a", 100), summary("b", 1000), summary("c", 10_000))
        self.state.handle(RunsOpened(number=number, folders=("/runs",), runs=runs))


@pytest.fixture
def desk(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(paths, "runs_folder", lambda: tmp_path / "runs")
    made = Desk(qtbot)
    yield made
    made.page.hide()


def test_that_a_first_visit_shows_neither_scaling_nor_runs(desk: Desk) -> None:
    assert not desk.page.scaling.isVisible()
    assert not desk.page.findChild(RunsPanel).isVisible()


def test_that_scaling_opens_on_a_kept_sweep_with_the_published_law_until_there_are_runs_of_ones_own(
    desk: Desk, qtbot: QtBot
) -> None:
    qtbot.mouseClick(desk.page.upper_tabs.tabs[SCALING], Qt.MouseButton.LeftButton)
    view, spec = desk.page.scaling, desk.page.figure_spec()
    assert spec is not None
    size = spec.charts[0]
    points = next(series for series in size.series if series.style == "points")
    assert len(points.xs) == 5
    assert "Kaplan 2020" in [series.name for series in size.series]
    assert "(weak" not in size.y_label
    assert "R²" in size.y_label
    assert spec.caption.note.startswith("Runs: d_model=8, d_model=12, d_model=16, d_model=24, d_model=32.")
    said = next(label for label in view.findChildren(PlainLabel) if "kept sweep" in label.text())
    assert said.isVisible()
    view.plot.grab()
    with qtbot.assertNotEmitted(view.run_clicked):
        place = QPointF(view.plot._places[1]).toPoint()
        qtbot.mouseClick(view.plot, Qt.MouseButton.LeftButton, pos=place)
    desk.list_runs()
    spec = desk.page.figure_spec()
    assert spec is not None
    assert "Kaplan 2020" not in [series.name for series in spec.charts[0].series]
    assert spec.caption.note == "Runs: a, b, c."
    assert not said.isVisible()


def test_that_the_published_law_stays_as_a_person_left_it(desk: Desk, qtbot: QtBot) -> None:
    desk.page.upper_tabs.show_panel(SCALING)
    view = desk.page.scaling
    assert view.published.isChecked()
    qtbot.mouseClick(view.published, Qt.MouseButton.LeftButton)
    assert not view.published.isChecked()
    desk.list_runs()
    assert not view.published.isChecked()
    qtbot.mouseClick(view.published, Qt.MouseButton.LeftButton)
    desk.state.runs.choose("/runs/b")
    assert view.published.isChecked()


def test_that_space_ticks_and_enter_puts_the_recipe_into_the_editor(desk: Desk, qtbot: QtBot) -> None:
    desk.list_runs()
    desk.page.lower_tabs.show_panel("Runs")
    table = desk.page.findChild(RunsTable)
    table.setCurrentIndex(table.model().index(1, 0))
    qtbot.keyClick(table, Qt.Key.Key_Space)
    assert [row.is_shown for row in desk.state.runs.table.rows] == [True, False, True]
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert desk.state.recipe.text == "[model]\nd_model = 1000\n"
    assert desk.state.runs.chosen == "/runs/b"
    assert desk.state.place.folder.endswith("b")


def test_that_a_point_of_the_scaling_plot_is_a_run(desk: Desk, qtbot: QtBot) -> None:
    desk.list_runs()
    desk.page.upper_tabs.show_panel(SCALING)
    view = desk.page.scaling
    view.plot.grab()
    place = view.plot._places[1]
    with qtbot.waitSignal(view.run_clicked) as heard:
        qtbot.mouseClick(view.plot, Qt.MouseButton.LeftButton, pos=QPointF(place).toPoint())
    assert heard.args == ["/runs/b"]
    spec = desk.page.figure_spec()
    assert spec is not None
    assert [chart.title for chart in spec.charts] == ["Size", "Data", "Compute"]


def test_that_the_published_law_is_laid_over_the_runs_and_named_in_the_figure(
    desk: Desk, qtbot: QtBot
) -> None:
    desk.list_runs()
    desk.page.upper_tabs.show_panel(SCALING)
    view = desk.page.scaling
    qtbot.mouseClick(view.published, Qt.MouseButton.LeftButton)
    assert not view.plot.grab().isNull()
    spec = desk.page.figure_spec()
    assert spec is not None
    assert all("Kaplan 2020" in [series.name for series in chart.series] for chart in spec.charts)
    assert "the slopes compare, the heights do not" in spec.caption.note


def test_that_a_recipe_too_large_says_what_it_needs_and_what_to_change(desk: Desk) -> None:
    desk.state.recipe.edit("[training]\nbatch_size = 64\n")
    desk.state.tick()
    number = [r for r in desk.posted if isinstance(r, PlanRecipe)][-1].number
    plan = Plan(
        name="x", n_parameters=10, parameters=(), n_sequences=64, n_tokens=1, mean_tokens=1.0, n_steps=1,
        tokens_a_step=64.0, flops_a_step=1.0, memory=(("weights", 400),), available_bytes=100, device="cpu",
        precision="float32", pace=None, n_checkpoints=1, checkpoint_bytes=40, disk_bytes=40,
        free_disk_bytes=None,
    )  # fmt: skip
    desk.state.handle(RecipePlanned(number=number, plan=plan))
    bar = desk.page.findChild(CostBar)
    problem = next(label for label in bar.findChildren(QLabel) if label.text().startswith("Does not fit"))
    assert problem.isVisible()
    assert "it needs 400 bytes of memory and 100 bytes are free" in problem.text()
    assert "training.batch_size" in problem.text()
    parts = (("what it learns from", 500), ("weights", 400))
    desk.state.handle(RecipePlanned(number=number, plan=dataclasses.replace(plan, memory=parts)))
    assert "learn from a smaller file" in problem.text()
    assert "batch_size" not in problem.text()
    desk.state.handle(RecipePlanned(number=number, plan=dataclasses.replace(plan, available_bytes=10_000)))
    assert not problem.isVisible()


def test_that_a_folder_without_a_run_is_told_of_each_time_it_is_added(qtbot: QtBot) -> None:
    posted: list[Request] = []
    state = TrainingState(Requests(posted.append), clock=Clock())
    panel = RunsPanel(state)
    qtbot.addWidget(panel)
    state.runs.changed.connect(panel.show_runs)
    told: list[tuple[str, str]] = []
    panel.failed.connect(lambda *words: told.append(words))
    for left_out in (("/empty: no run there or below",),) * 2 + ((),):
        panel._add("/empty")  # what both buttons do once a folder is chosen
        request = posted[-1]
        assert isinstance(request, OpenRuns)
        for _ in range(2):  # the list is read again while a run grows: once is enough
            state.handle(
                RunsOpened(number=request.number, folders=request.folders, runs=(), left_out=left_out)
            )
    subject, why = "list of runs", "/empty: no run there or below"
    assert told == [(subject, why), (subject, why), (subject, "")]  # a good folder takes the message away


def test_that_a_single_head_is_drawn_once(qtbot: QtBot) -> None:
    state = TrainingState(Requests(lambda _: None), clock=Clock())
    panel = WatchPanel(state, None)
    qtbot.addWidget(panel)
    request = TraceText(number=1, text="a b", model="x")
    reply = traced(request)
    for n_heads in (1, 2):
        site = Site(stack="encoder", layer=0, n_heads=n_heads, n_kv_heads=n_heads)
        levels = np.zeros((n_heads, 2, 2), dtype=np.uint8)
        grid = SiteGrid(site=site, n_queries=2, n_keys=2, levels=levels, peaks=np.ones(n_heads))
        state.watch.traced = dataclasses.replace(reply, grids=(grid,))
        state.watch.head = site.heads[0]
        panel.show_state()
        thumbnails = panel.splitter().widget(0)
        assert thumbnails.isHidden() == (n_heads == 1)


def test_that_no_button_of_the_run_is_cut_in_large_type(qtbot: QtBot) -> None:
    state = TrainingState(Requests(lambda _: None), clock=Clock())
    window = QWidget()
    qtbot.addWidget(window)
    large = palette_for("projector")
    panel = RunPanel(state, SweepState(state), Recents(), window)
    try:
        apply_theme(window, large)
        state.place.choose(str(paths.resources_folder()))
        panel.resize(panel.minimumWidth(), 700)
        window.show()
        for button in panel.findChildren(QPushButton):
            if button.isVisible():
                assert button.width() >= button.sizeHint().width(), button.text()
    finally:
        apply_theme(window, palette_for("light"))


def test_that_no_cell_of_a_short_column_is_cut(qtbot: QtBot) -> None:
    desk = Desk(qtbot)
    apply_theme(desk.page, palette_for("light"))
    desk.page.lower_tabs.show_panel("Runs")
    desk.list_runs()
    table = desk.page.findChild(RunsTable)
    for k in range(1, table.model().columnCount()):
        assert table.columnWidth(k) >= table.sizeHintForColumn(k), table.model().headerData(
            k, Qt.Orientation.Horizontal
        )
