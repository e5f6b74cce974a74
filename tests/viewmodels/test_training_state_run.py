"""Runs: start, pause, resume, stop, end, failure, and what the state says about each."""

from dataclasses import replace
from pathlib import Path

import pytest
from told import names_told
from training_fakes import Clock, started, steps

from attnscope.paths import resources_folder
from attnscope.records import (
    ControlTraining,
    Failed,
    Finished,
    OpenRun,
    Progress,
    Ready,
    Request,
    RunOpened,
    Saved,
    SaveFailed,
    StartTraining,
    TrainingEvent,
    TrainingNews,
)
from attnscope.training import SchedulePart
from attnscope.viewmodels import Requests
from attnscope.viewmodels.training import StepPace, TrainingState
from attnscope.widgets.training import DEFAULT_SCHEDULE, DEFAULT_WARMUP, longer_words


class Desk:
    """A state, what it posted and what it told."""

    def __init__(self, out: Path) -> None:
        self.clock = Clock()
        self.posted: list[Request] = []
        self.state = TrainingState(Requests(self.posted.append), clock=self.clock)
        self.told = names_told(self.state.changed)
        self.state.recipe.edit("a = 1\n")
        self.state.place.choose(str(out))

    def all_of(self, kind: type) -> list[Request]:
        return [request for request in self.posted if isinstance(request, kind)]

    def news(self, *events: TrainingEvent, is_paused: bool = False) -> None:
        number = self.all_of(StartTraining)[-1].number
        self.state.handle(TrainingNews(number=number, events=events, is_paused=is_paused))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "run")


def test_that_start_carries_the_recipe_the_folder_and_the_device(desk: Desk) -> None:
    desk.state.place.set_device("cpu")
    desk.state.start()
    (request,) = desk.all_of(StartTraining)
    assert isinstance(request, StartTraining)
    assert (request.recipe, request.out, request.device) == ("a = 1\n", desk.state.place.folder, "cpu")
    assert desk.state.run.status.phase == "starting"


def test_that_a_second_start_is_ignored(desk: Desk) -> None:
    desk.state.start()
    desk.state.start()
    desk.news(started())
    desk.state.start()
    assert len(desk.all_of(StartTraining)) == 1


def test_that_a_broken_recipe_cannot_be_started(desk: Desk) -> None:
    desk.state.recipe.edit("a = ")
    desk.state.start()
    assert not desk.state.can_start
    assert not desk.posted


def test_that_a_failed_start_leaves_everything_editable(desk: Desk) -> None:
    desk.state.recipe.edit("[model]\nn_heads = 5\n")
    desk.state.start()
    number = desk.posted[-1].number
    message = "model.n_heads is 5. Expected: a divisor of 64. Change it."
    desk.state.handle(Failed(number=number, request="StartTraining", message=message))
    assert desk.state.run.status.phase == "failed"
    assert desk.state.run.status.detail == message
    assert desk.state.recipe.marked_line == 2
    assert desk.state.can_start
    desk.state.recipe.edit("[model]\nn_heads = 4\n")
    desk.state.start()
    assert len(desk.all_of(StartTraining)) == 2


def test_that_failures_of_others_are_passed_over(desk: Desk) -> None:
    desk.state.start()
    desk.state.handle(Failed(number=9999, request="LoadModel", message="no"))
    desk.state.handle(Failed(number=0, request="?", message="no"))
    assert desk.state.run.status.phase == "starting"


def test_that_news_of_an_older_run_is_dropped(desk: Desk) -> None:
    desk.state.start()
    number = desk.posted[-1].number
    desk.state.handle(TrainingNews(number=number + 1, events=(started(), *steps(1, 5))))
    assert desk.state.run.status.phase == "starting"
    assert len(desk.state.run.curves.train_loss) == 0


def test_that_a_run_goes_from_start_to_finish_through_every_phase(desk: Desk) -> None:
    state = desk.state
    state.start()
    state.handle(Progress(number=desk.posted[-1].number, what="Reading the data"))
    assert state.run.status.detail == "Reading the data"
    desk.news(started(n_steps=1000), *steps(1, 10))
    assert (state.run.status.phase, state.run.status.title) == ("running", "Step 10 of 1,000")
    assert state.run.fraction == pytest.approx(0.01)
    state.pause()
    assert state.run.status.phase == "pausing"
    desk.news(*steps(11, 11))
    assert state.run.status.phase == "pausing"
    desk.news(is_paused=True)
    assert (state.run.status.phase, state.run.status.can_resume, state.run.status.can_pause) == (
        "paused",
        True,
        False,
    )
    state.resume()
    desk.news(*steps(12, 20))
    assert state.run.status.phase == "running"
    state.stop()
    assert state.run.status.phase == "stopping"
    desk.news(*steps(21, 21), Saved(step=21, folder="run/21"), Finished(step=21, reason="stopped"))
    assert (state.run.status.phase, state.run.status.title) == ("finished", "Stopped at step 21")
    actions = [request.action for request in desk.all_of(ControlTraining)]
    assert actions == ["pause", "resume", "stop"]
    assert state.can_start


def test_that_a_finished_run_can_be_followed_by_another(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), *steps(1, 3), Saved(step=3, folder="run/3"), Finished(step=3, reason="done"))
    assert desk.state.run.status.title == "Finished: 3 steps"
    desk.state.place.choose(desk.state.place.folder + "-2")
    desk.state.start()
    assert len(desk.state.run.curves.train_loss) == 0
    assert desk.state.watch.replay.checkpoints == ()


def test_that_divergence_is_told_with_its_note(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), *steps(1, 3), Finished(step=3, reason="diverged", note="The loss is NaN."))
    assert (desk.state.run.status.phase, desk.state.run.status.detail) == ("diverged", "The loss is NaN.")
    desk.state.start()
    desk.news(started(), Finished(step=0, reason="diverged"))
    assert "learning rate" in desk.state.run.status.detail


def test_that_a_run_that_breaks_off_says_where(desk: Desk) -> None:
    desk.state.start()
    number = desk.posted[-1].number
    desk.news(started(), *steps(1, 7))
    desk.state.handle(Failed(number=number, request="StartTraining", message="Out of memory."))
    assert desk.state.run.status.title == "The run was interrupted at step 7"
    assert len(desk.state.run.curves.train_loss) == 7


def test_that_a_failed_save_warns_until_one_succeeds(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), SaveFailed(step=5, reason="No space left on device."))
    assert "step 5" in desk.state.run.save_warning
    assert "tried again" in desk.state.run.save_warning
    desk.news(Saved(step=6, folder="run/6"))
    assert desk.state.run.save_warning == ""


def test_that_starting_in_a_folder_with_a_run_reads_its_history_first(desk: Desk) -> None:
    folder = Path(desk.state.place.folder)
    folder.mkdir()
    (folder / "recipe.toml").write_text("a = 1\n", encoding="utf-8")
    assert desk.state.place.holds_run
    desk.state.start()
    assert [type(request) for request in desk.posted] == [OpenRun, StartTraining]
    events = (started(), *steps(1, 50))
    desk.state.handle(
        RunOpened(
            number=desk.posted[0].number,
            folder="x",
            recipe="b = 2",
            events=events,
            checkpoints=((40, "x/40"),),
        )
    )
    desk.news(started(40), *steps(41, 45))
    assert desk.state.recipe.text == "a = 1\n"
    assert desk.state.run.curves.train_loss.steps.tolist() == list(range(1, 46))
    assert [c.step for c in desk.state.watch.replay.checkpoints] == [40]


def test_that_an_opened_run_is_shown_and_can_go_on(desk: Desk) -> None:
    desk.state.reading.open("old/run")
    (request,) = desk.posted
    events = (started(n_steps=80), *steps(1, 50))
    checkpoints = ((20, "old/run/20"), (40, "old/run/40"))
    desk.state.handle(
        RunOpened(
            number=request.number, folder="old/run", recipe="c = 3\n", events=events, checkpoints=checkpoints
        )
    )
    assert desk.state.run.status.title == "Run opened: 50 of 80 steps"
    assert desk.state.recipe.text == "c = 3\n"
    assert desk.state.place.folder == "old/run"
    assert [c.folder for c in desk.state.watch.replay.checkpoints] == ["old/run/20", "old/run/40"]
    assert desk.state.can_start


def test_that_a_run_that_cannot_be_opened_says_why(desk: Desk) -> None:
    desk.state.reading.open("nowhere")
    desk.state.handle(Failed(number=desk.posted[-1].number, request="OpenRun", message="No run there."))
    assert (desk.state.run.status.phase, desk.state.run.status.detail) == ("failed", "No run there.")


def test_that_no_run_is_opened_while_one_is_in_progress(desk: Desk) -> None:
    desk.state.start()
    desk.state.reading.open("old/run")
    assert not desk.all_of(OpenRun)


def test_that_devices_come_from_the_worker(desk: Desk) -> None:
    desk.state.handle(Ready(devices=("auto", "cpu", "cuda"), demo_models=()))
    assert desk.state.devices == ("auto", "cpu", "cuda")
    assert "devices" in desk.told


def test_that_a_fresh_run_folder_does_not_exist_yet(desk: Desk, private_folders: Path) -> None:
    first = Path(desk.state.place.fresh)
    first.mkdir(parents=True)
    second = Path(desk.state.place.fresh)
    assert first != second
    assert not second.exists()
    assert str(private_folders) in str(first)


def test_that_remaining_time_follows_the_pace() -> None:
    clock = Clock()
    pace = StepPace(clock)
    assert pace.remaining(100) == ""
    for i in range(5):
        pace.note(10 * i)
        clock.now += 1.0
    assert pace.remaining(100) == "about 10 s left"
    assert pace.remaining(0) == ""
    pace.restart()
    assert pace.remaining(100) == ""


def test_that_a_complete_run_goes_on_for_more_steps_and_says_so_in_its_recipe(desk: Desk) -> None:
    state = desk.state
    state.start()
    folder = Path(state.place.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text("a = 1\n", encoding="utf-8")
    state.lengthen(5)  # nothing to make longer yet
    begun = replace(started(n_steps=3), folder=str(folder))
    desk.news(begun, *steps(1, 3), Finished(step=3, reason="done"))
    assert (state.can_start, state.can_lengthen) == (False, True)
    state.lengthen(5)
    first, second = desk.all_of(StartTraining)
    assert (first.may_lengthen, second.may_lengthen) == (False, True)
    assert "n_steps = 8" in second.recipe
    assert second.out == first.out
    desk.state.handle(Failed(number=second.number, request="StartTraining", message="The data changed."))
    assert (state.can_start, state.can_lengthen) == (False, True)  # it can be tried again
    state.lengthen(5)
    desk.news(replace(started(3, n_steps=8), folder=str(folder)), *steps(4, 8))
    assert state.run.curves.train_loss.steps.tolist() == list(range(1, 9))


def test_that_the_words_about_more_steps_follow_the_schedule() -> None:
    steady = longer_words('[schedule]\nkind = "noam"\n', 100, 50)
    assert "150 steps long" in steady
    assert "as if it had been that long from the start" in steady
    for text in ("", '[schedule]\nkind = "linear"\n'):
        assert "jumps at step 102" in longer_words(text, 101, 50)
        assert "warm-up is not over" in longer_words(text, 100, 50)
    pool = longer_words('[schedule]\nkind = "noam"\n[data]\nrepeated_share = 0.5\n', 100, 50)
    assert "jumps" not in pool
    assert "different weights" in pool
    assert (SchedulePart().kind, SchedulePart().warmup_steps) == (DEFAULT_SCHEDULE, DEFAULT_WARMUP)


def test_that_a_run_whose_recipe_watches_nothing_forgets_the_sentence_of_another(desk: Desk) -> None:
    desk.state.take_recipe('[[watch]]\ntext = "q w e"\ntarget = "e w q"\n', "first")
    assert (desk.state.watch.text, desk.state.watch.target) == ("q w e", "e w q")
    desk.state.reading.open("old/run")
    desk.state.handle(
        RunOpened(
            number=desk.posted[-1].number, folder="old/run", recipe="c = 3\n", events=(), checkpoints=()
        )
    )
    assert (desk.state.watch.text, desk.state.watch.target) == ("", None)


FILM = RunOpened(
    number=1,
    folder="kept/reverse",
    recipe='[[watch]]\ntext = "a b"\n',
    events=(started(n_steps=50), *steps(1, 50)),
    checkpoints=(),
    probes=((1, "kept/reverse/probes/1.safetensors"), (50, "kept/reverse/probes/50.safetensors")),
)


def test_that_a_kept_run_is_shown_and_the_recipe_and_its_place_stay(desk: Desk) -> None:
    folder, recipe = desk.state.place.folder, desk.state.recipe.text
    desk.state.reading.show_film("kept/reverse")
    (request,) = desk.posted
    desk.state.handle(replace(FILM, number=request.number))
    assert (desk.state.place.folder, desk.state.recipe.text) == (folder, recipe)
    assert len(desk.state.run.curves.train_loss) == 50
    assert [c.step for c in desk.state.watch.replay.checkpoints] == [1, 50]
    assert desk.posted[1].text == "a b"
    assert desk.state.run.status.title == "An earlier run: reverse"
    assert desk.state.run.status.detail.startswith(f"There is none of {desk.state.recipe.name}. Replay below")
    assert desk.state.can_start
    desk.state.start()
    assert len(desk.state.run.curves.train_loss) == 0
    assert desk.state.watch.replay.checkpoints == ()
    assert desk.state.run.folder == folder


def test_that_a_kept_run_gives_way_to_that_of_another_recipe_and_to_a_run_of_ones_own(desk: Desk) -> None:
    for name in ("kept/reverse", "kept/reverse", "kept/labels"):
        desk.state.reading.show_film(name)
        desk.state.handle(replace(FILM, number=desk.posted[-1].number, folder=name))
    asked = [request.folder for request in desk.posted if isinstance(request, OpenRun)]
    assert asked == ["kept/reverse", "kept/labels"]
    assert desk.state.run.status.title == "An earlier run: labels"
    desk.state.open_recipe(str(resources_folder() / "recipes" / "sort.toml"))
    desk.state.reading.show_film("kept/labels")
    assert desk.state.run.status.detail.startswith(
        "There is none of sort. Replay below how it learned in 50 steps."
    )
    desk.state.start()
    desk.news(started(), *steps(1, 3))
    n_asked = len(desk.posted)
    desk.state.reading.show_film("kept/reverse")
    assert len(desk.posted) == n_asked


def test_that_a_run_begun_meanwhile_is_not_replaced_by_a_kept_one(desk: Desk) -> None:
    desk.state.reading.show_film("kept/reverse")
    desk.state.start()
    desk.news(started(), *steps(1, 3))
    desk.state.handle(replace(FILM, number=desk.posted[0].number))
    assert desk.state.run.status.phase == "running"
    assert len(desk.state.run.curves.train_loss) == 3
