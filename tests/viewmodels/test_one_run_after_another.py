"""What stays and what changes on the training page when another run is opened, started, or cannot be."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from attnscope.records import (
    Evaluated,
    Failed,
    Finished,
    FollowRun,
    HeadRef,
    OpenRun,
    OpenRuns,
    Request,
    RunLines,
    RunMark,
    RunNews,
    RunOpened,
    RunsOpened,
    RunSummary,
    RunWriter,
    Site,
    StartTraining,
    TraceText,
    TrainingNews,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.training import LIVE_INTERVAL_S, TrainingState

sys.path.append(str(Path(__file__).parent))
from training_fakes import Clock, started, steps, traced

FIRST, OTHER = '[[watch]]\ntext = "the cat sat"\n', '[[watch]]\ntext = "speak speak"\n'
WRITER = RunWriter(pid=7, host="here", since=0.0, is_here=True, silent_s=0.1)


class Room:
    """A training state whose requests are answered by hand."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.posted: list[Request] = []
        self.state = TrainingState(Requests(self.posted.append), clock=self.clock)
        self.watch = self.state.watch

    def newest(self, kind: type) -> Request:
        return [request for request in self.posted if isinstance(request, kind)][-1]

    @property
    def trace(self) -> TraceText:
        request = self.newest(TraceText)
        assert isinstance(request, TraceText)
        return request

    def open_run(self, *checkpoints: int, n_steps: int = 30, n_bad_lines: int = 0) -> None:
        self.state.reading.open("old")
        self.state.handle(
            RunOpened(
                number=self.newest(OpenRun).number,
                folder="old",
                recipe=FIRST,
                events=(started(n_steps=n_steps), *steps(1, 30)),
                checkpoints=tuple((step, f"old/{step}") for step in checkpoints),
                n_bad_lines=n_bad_lines,
            )
        )

    def settle(self) -> None:
        """Answer until nothing is asked any more."""
        answered = 0
        while self.trace.number != answered:
            answered = self.trace.number
            self.state.handle(traced(self.trace, step=1))

    def start_another(self) -> None:
        self.state.recipe.edit(OTHER)
        self.state.place.choose("new")
        self.state.start()
        self.news(dataclasses.replace(started(), folder="new"))

    def news(self, *events: object) -> None:
        self.state.handle(TrainingNews(number=self.newest(StartTraining).number, events=events))  # type: ignore[arg-type]

    def told(self, *checkpoints: int, is_restart: bool = False, n_bad_lines: int = 0) -> None:
        """What the process that writes the opened run tells next."""
        self.clock.now += 20.0
        self.state.tick()
        self.state.handle(
            RunNews(
                number=self.newest(FollowRun).number,
                folder="old",
                events=(started(n_steps=900),) if is_restart else (),
                checkpoints=tuple((step, f"old/{step}") for step in checkpoints),
                mark=RunMark(n_bytes=7),
                writer=WRITER,
                is_restart=is_restart,
                n_bad_lines=n_bad_lines,
            )
        )


@pytest.fixture
def room() -> Room:
    return Room()


def test_that_an_opened_and_a_followed_run_say_which_lines_could_not_be_read(room: Room) -> None:
    room.open_run(10)
    assert "cannot be read" not in room.state.run.status.detail
    room.open_run(10, n_bad_lines=1)
    assert room.state.run.status.detail.endswith(
        "1 line of its metrics.jsonl cannot be read and is left out."
    )
    room.told(n_bad_lines=2)
    assert "3 lines of its metrics.jsonl cannot be read and are left out." in room.state.run.status.detail
    room.told(is_restart=True, n_bad_lines=1)
    assert " 1 line of" in room.state.run.status.detail
    room.open_run(10)
    assert "cannot be read" not in room.state.run.status.detail


def test_that_a_model_of_another_form_is_not_asked_for_the_head_of_the_one_before(room: Room) -> None:
    room.open_run(10)
    room.settle()
    assert room.watch.head == HeadRef(stack="cross", layer=1, head=0)
    room.start_another()
    room.clock.now += LIVE_INTERVAL_S
    room.news(*steps(1, 1))
    assert room.trace.model == "training"
    assert room.trace.heads == ()
    reply = traced(room.trace, step=1)
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    grid = dataclasses.replace(reply.grids[0], site=site)
    room.state.handle(dataclasses.replace(reply, grids=(grid,)))
    assert room.watch.head == HeadRef(stack="decoder", layer=0, head=0)
    assert room.watch.stacks == ("decoder",)
    room.clock.now += LIVE_INTERVAL_S
    room.state.tick()
    assert room.trace.heads == (room.watch.head,)


def test_that_a_head_that_the_next_model_has_too_stays_chosen(room: Room) -> None:
    room.open_run(10)
    room.settle()
    room.watch.choose_head(HeadRef(stack="encoder", layer=0, head=1))
    room.start_another()
    room.news(*steps(1, 1))
    room.settle()
    assert room.watch.head == HeadRef(stack="encoder", layer=0, head=1)


@pytest.mark.parametrize("first", [(), (10,)], ids=["before its first checkpoint", "after it"])
def test_that_a_followed_run_stays_at_its_newest_checkpoint(room: Room, first: tuple[int, ...]) -> None:
    room.open_run(*first, n_steps=900)
    room.told(*first, is_restart=True)
    room.told(20)
    room.told(30)
    room.settle()
    assert room.watch.replay.checkpoint is not None
    assert room.watch.replay.checkpoint.step == 30
    assert room.trace.model == "old/30"


def test_that_a_followed_run_stays_where_the_slider_was_put(room: Room) -> None:
    room.open_run(10, 20, n_steps=900)
    room.told(10, 20, is_restart=True)
    room.watch.replay.go_to(0)
    room.told(30)
    assert room.watch.replay.checkpoint is not None
    assert room.watch.replay.checkpoint.step == 10
    room.watch.replay.go_to(2)
    room.told(40)
    assert room.watch.replay.checkpoint.step == 40


def test_that_no_two_runs_that_are_drawn_have_one_colour(room: Room) -> None:
    room.open_run(10)
    room.state.tick()
    request = room.newest(OpenRuns)
    assert isinstance(request, OpenRuns)
    room.state.handle(RunsOpened(number=request.number, folders=request.folders, runs=(_summary(),)))
    room.start_another()
    room.news(*steps(1, 3))
    room.state.tick()
    shown = room.state.runs.shown
    assert {run.name for run in shown} == {"old", "new"}
    assert len({run.colour for run in shown}) == 2


def test_that_a_run_that_ends_is_listed_and_its_accuracy_told(room: Room) -> None:
    room.start_another()
    room.news(*steps(1, 3))
    room.state.tick()
    n_asked = sum(isinstance(request, OpenRuns) for request in room.posted)
    room.news(Evaluated(step=3, loss=0.5, accuracy=0.987), Finished(step=3, reason="done"))
    room.state.tick()
    assert sum(isinstance(request, OpenRuns) for request in room.posted) == n_asked + 1
    assert room.newest(OpenRuns).folders == ("new",)
    assert room.state.run.status.title == "Finished: 3 steps · accuracy 98.7 %"


def test_that_a_folder_without_a_run_leaves_the_open_one_complete(room: Room) -> None:
    room.open_run(10)
    assert room.state.is_complete
    for _ in range(2):
        room.state.reading.open("nowhere")
        room.state.handle(Failed(number=room.newest(OpenRun).number, request="OpenRun", message="No run."))
        assert room.state.run.status.detail == "No run."
        assert room.state.is_complete
        assert not room.state.can_start


def test_that_another_recipe_leaves_the_sentence_until_start(room: Room) -> None:
    room.open_run(10)
    room.settle()
    n_posted = len(room.posted)
    room.state.recipe.edit(OTHER)
    assert room.watch.text == "the cat sat"
    assert not any(isinstance(request, TraceText) for request in room.posted[n_posted:])
    room.start_another()
    assert room.watch.text == "speak speak"


def _summary() -> RunSummary:
    nothing = RunLines(steps=np.zeros(0), values=np.zeros(0))
    return RunSummary(
        folder="old",
        name="old",
        end="done",
        step=30,
        n_steps=30,
        n_parameters=10,
        n_body=9,
        last_loss=1.0,
        best_loss=1.0,
        best_step=30,
        n_tokens=100.0,
        flops=1e6,
        seconds=1.0,
        validation=nothing,
        recipe=FIRST,
    )
