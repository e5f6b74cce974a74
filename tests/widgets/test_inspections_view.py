"""Inside a run's steps: the numbers, the picture, the cursor, and the tab that comes with them."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from attnscope.figures import FigureSpec, field_words, inspection_charts, render
from attnscope.records import (
    UPDATE_BINS,
    ChartField,
    InspectionHistory,
    InspectionsShown,
    Request,
    ShowInspections,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.session import Recents
from attnscope.viewmodels.training import (
    InspectionsState,
    SweepState,
    TrainingState,
    nearest_step,
    still_shares,
    typical_updates,
)
from attnscope.widgets.training import INSIDE, TrainingPage

N_BINS = len(UPDATE_BINS) - 1


def history(n_steps: int = 3) -> InspectionHistory:
    counts = np.zeros((N_BINS, n_steps))
    counts[20], counts[25, -1] = 30, 70
    return InspectionHistory(
        steps=10.0 * np.arange(1, n_steps + 1),
        learning_rates=np.full(n_steps, 1e-3),
        n_still=np.full(n_steps, 10.0),
        layers=("tokens", "encoder L0"),
        gradient_norms=np.array([[1.0] * n_steps, [0.1] * n_steps]),
        update_norms=np.ones((2, n_steps)),
        update_counts=counts,
        moved_norms=np.array([[2.0] * n_steps, [np.nan] * n_steps]),
        norms=("encoder L0 attention",),
        norm_inputs=np.full((1, n_steps), 3.0),
        n_steps_seen=n_steps,
    )


def test_that_the_typical_update_halves_the_weights_that_moved() -> None:
    found = typical_updates(history())
    sizes = np.repeat(10.0 ** (UPDATE_BINS[20] + 0.2 * (np.arange(30) + 0.5) / 30), 1)
    more = 10.0 ** (UPDATE_BINS[25] + 0.2 * (np.arange(70) + 0.5) / 70)
    assert found[0] == pytest.approx(np.median(sizes), rel=1e-2)
    assert found[-1] == pytest.approx(np.median(np.concatenate([sizes, more])), rel=1e-2)
    still = dataclasses.replace(history(), update_counts=np.zeros((N_BINS, 3)))
    assert np.isnan(typical_updates(still)).all()
    assert still_shares(history()).tolist() == [0.25, 0.25, pytest.approx(10 / 110)]
    assert nearest_step(history(), 16.0) == 1


def test_that_each_pixel_of_the_field_shows_the_nearest_step_and_its_bin() -> None:
    field = ChartField(
        xs=np.array([0.0, 10.0, 40.0]),
        edges=np.array([0.0, 1.0, 2.0]),
        values=np.array([[0, 1, 2], [100, 0, 10]]),
        unit="weights",
    )
    columns, rows = np.array([1.0, 9.0, 24.0, 26.0]), np.array([2.5, 1.5, 0.5, -0.5])
    words = field_words(field, columns=columns, rows=rows, background=7)
    assert (words[0] == 7).all()
    assert (words[3] == 7).all()
    assert words[1, 1] == words[1, 2] == words[2, 0] == 7
    assert len({int(words[1, 0]), int(words[1, 3]), int(words[2, 1]), int(words[2, 3])}) == 4
    np.testing.assert_array_equal(words[:, 1], words[:, 2])


def test_that_what_has_added_up_is_drawn_only_where_it_is_known() -> None:
    assert [chart.title for chart in inspection_charts(history())] == [
        "Gradients by layer",
        "Sizes of updates",
        "Accumulated update",
        "Inputs of the norms",
    ]
    older = dataclasses.replace(
        history(), moved_norms=np.full((2, 3), np.nan), norms=(), norm_inputs=np.zeros((0, 3))
    )
    assert [chart.title for chart in inspection_charts(older)] == ["Gradients by layer", "Sizes of updates"]


@pytest.mark.qt
def test_that_the_tab_comes_with_inspections_and_its_cursor_moves_by_key(
    qtbot: QtBot, tmp_path: Path
) -> None:
    posted: list[Request] = []
    state = TrainingState(Requests(posted.append), clock=lambda: 100.0)
    page = TrainingPage(state, SweepState(state), Recents())
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    state.run.folder = str(tmp_path)
    state.tick()
    state.tick()
    asked = [request for request in posted if isinstance(request, ShowInspections)]
    assert [request.folder for request in asked] == [str(tmp_path)]
    assert page.upper_tabs.tabs[INSIDE].isHidden()
    seen = dataclasses.replace(history(), n_steps_seen=2001)
    state.handle(InspectionsShown(number=asked[0].number, folder=str(tmp_path), version=9, history=seen))
    assert not page.upper_tabs.tabs[INSIDE].isHidden()
    page.upper_tabs.show_panel(INSIDE)
    assert page._inside.run_name.text().startswith("Run test_th")
    assert page._inside.run_name.text().endswith(" · 3 of 2,001 steps")
    said: list[str] = []
    page.hover_text.connect(said.append)
    plot = page._inside.plot
    plot.setFocus()
    qtbot.keyClick(plot, Qt.Key.Key_Left)
    assert said[-1].startswith("step 20 · gradient norm tokens 1")
    qtbot.keyClick(plot, Qt.Key.Key_Home)
    assert said[-1].startswith("step 10 ·")
    assert not plot.grab().isNull()
    spec = page.figure_spec()
    assert isinstance(spec, FigureSpec)
    lines = render(spec, "csv").decode().splitlines()
    assert '"Gradients by layer","encoder L0","20","0.1","step","norm before clipping"' in lines
    assert any(
        line.startswith('"Sizes of updates","weights, 1e-05 to 1.58e-05","10","30",') for line in lines
    )
    assert '"Accumulated update","tokens","20","2","step","‖θ_t − θ_0‖"' in lines
    assert '"Inputs of the norms","encoder L0 attention","20","3","step","root mean square"' in lines
    assert render(spec, "svg").startswith(b"<?xml")
    page._inside.choose("moved")
    names = [[series.name for series in chart.series] for chart in page._inside.plot._charts]
    assert names == [["tokens", "L0"], ["tokens", "L0"], ["L0 attention"]]  # there is one stack alone
    assert page._inside.plot.toolTip().count("DeepNet") == 1
    plot.grab()
    for k, told in enumerate(("gradient norm tokens 1", "accumulated update tokens 2", "input of the norm")):
        place = plot._layouts[k].plot.center().toPoint()
        qtbot.mouseMove(plot, place)
        assert told in said[-1]
    state.run.folder = ""
    state.tick()
    assert page.upper_tabs.tabs[INSIDE].isHidden()
    assert page.upper_tabs.is_shown("Curves")


def test_that_the_end_of_a_live_run_is_read_at_once() -> None:
    posted: list[Request] = []
    clock = iter(range(1000))
    state = InspectionsState(Requests(posted.append), lambda: next(clock) * 0.1)

    def answer() -> None:
        request = posted[-1]
        assert isinstance(request, ShowInspections)
        state.handle(InspectionsShown(number=request.number, folder="run", version=1, history=history()))

    state.want("run", is_live=True)
    state.want("run", is_live=False)  # the run ends while the answer is under way
    assert len(posted) == 1
    answer()
    state.want("run", is_live=False)
    assert len(posted) == 2
    answer()
    state.want("run", is_live=False)
    assert len(posted) == 2
