"""What is under way: collected from every state, in the order it began, and stopped one by one."""

import time
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from session_samples import Desk, states_of

from attnscope.records import (
    BleuQuestion,
    GradientQuestion,
    LoadModel,
    MeasureHeads,
    MeasuringNews,
    ModelLoaded,
    ModifyQuestion,
    Progress,
    Request,
    StopWork,
)
from attnscope.viewmodels import WorkState, experiment_jobs, watch_heads, watch_session
from attnscope.widgets.window import WorkLine


class Bench:
    """A session with the passes of the Heads page, and what they have posted and cancelled."""

    def __init__(self) -> None:
        self.desk = Desk().open()
        self.posted: list[Request] = []
        self.cancelled: list[int] = []
        states = states_of(self.desk.session, worker=self.posted.append)
        self.heads, self.curves = states.heads, states.curves
        self.work = WorkState()
        watch_session(self.work, self.desk.session, self.cancelled.append)
        watch_heads(
            self.work,
            self.heads,
            self.curves,
            states.alike,
        )

    def begin(self) -> None:
        self.curves.run()
        self.heads.run()

    def news(self, n_done: int) -> None:
        number = next(r.number for r in self.posted if isinstance(r, MeasureHeads))
        self.heads.handle(MeasuringNews(number=number, what="Reading", n_done=n_done, n_total=8))

    def names(self) -> list[str]:
        return [job.name for job in self.work.jobs]


def test_that_jobs_are_listed_as_they_began_with_how_far_they_are() -> None:
    bench = Bench()
    assert bench.work.summary == ""
    bench.begin()
    bench.news(2)
    assert bench.names() == ["Pruning curves", "Measuring heads"]
    assert [job.what for job in bench.work.jobs] == ["waiting for its turn", "Reading: 2 of 8"]
    assert bench.work.jobs[1].percent == "25 %"
    assert bench.work.summary == "2 tasks: Pruning curves"
    bench.work.stop("Pruning curves")
    assert bench.work.summary == "Measuring heads 25 %"
    bench.work.stop("Measuring heads")
    assert bench.work.jobs == ()
    assert bench.posted[-1] == StopWork(number=bench.posted[-1].number, work="MeasureHeads")


def test_that_news_that_change_nothing_are_not_told() -> None:
    bench = Bench()
    bench.begin()
    told: list[str] = []
    bench.work.changed.connect(lambda: told.append(bench.work.summary))
    bench.news(2)
    bench.news(2)
    assert told == ["2 tasks: Pruning curves"]


def test_that_opening_a_model_can_be_given_up_and_one_that_comes_all_the_same_is_taken() -> None:
    bench = Bench()
    session = bench.desk.session
    session.opening.load("large")
    request = next(r for r in bench.desk.posted if isinstance(r, LoadModel))
    session.handle(Progress(number=request.number, what="Reading weights", fraction=0.5))
    assert bench.work.summary == "Opening a model 50 %"
    bench.work.stop("Opening a model")
    assert bench.cancelled == [request.number]
    assert session.opening.busy is None
    assert session.model is not None
    session.handle(Progress(number=request.number, what="Reading weights", fraction=0.6))
    assert bench.work.jobs == ()
    session.handle(ModelLoaded(number=request.number, info=bench.desk.model))
    assert session.traced is None  # the worker had it already: it is the open one


@pytest.mark.qt
def test_that_the_line_waits_a_moment_and_its_list_stops_each_job_by_key(qtbot: QtBot) -> None:
    bench = Bench()
    line = WorkLine(bench.work)
    qtbot.addWidget(line)
    bench.begin()
    assert line.isHidden()
    began = time.monotonic()
    qtbot.waitUntil(lambda: not line.isHidden(), timeout=3000)
    assert time.monotonic() - began > 0.2
    line.show()
    line.open_list()
    rows = line.list.rows
    assert [*rows] == ["Pruning curves", "Measuring heads"]
    qtbot.keyClick(rows["Pruning curves"].stop_button, Qt.Key.Key_Space)
    assert [*line.list.rows] == ["Measuring heads"]
    assert line.button.text() == "Measuring heads ▴"
    bench.work.stop("Measuring heads")
    assert not line.list.empty.isHidden()
    assert line.isHidden()
    qtbot.keyClick(line.list, Qt.Key.Key_Escape)
    assert not line.list.isVisible()


@pytest.mark.qt
def test_that_a_bar_stands_in_the_line_while_a_long_text_is_traced(qtbot: QtBot) -> None:
    bench = Bench()
    line = WorkLine(bench.work)
    qtbot.addWidget(line)
    session = bench.desk.session
    session.texts.set_text("a long text")
    (request,) = bench.desk.traces()
    qtbot.waitUntil(lambda: not line.isHidden(), timeout=3000)
    assert line.bar.isHidden()  # nothing is known yet
    session.handle(Progress(number=request.number, what="layer 3 of 4, about 2 s left", fraction=0.75))
    assert not line.bar.isHidden()
    assert line.bar.value() == 750
    assert "layer 3 of 4" in line.button.text()
    bench.desk.answer()
    assert line.isHidden()


def test_that_an_experiment_has_the_name_of_its_lab() -> None:
    asked = (
        BleuQuestion(),
        GradientQuestion(),
        ModifyQuestion(),
        ModifyQuestion(only=("sinusoidal", "learned")),
    )
    experiments = SimpleNamespace(under_way=tuple((question, 3, 60) for question in asked))
    names = [job.name for job in experiment_jobs(experiments)()]  # type: ignore[arg-type]
    assert names == [
        "Lab: BLEU",
        "Lab: Norms before or after",
        "Lab: Modifications",
        "Lab: Learned positions, row E",
    ]
