"""Several runs side by side: what is listed, filtered, sorted, followed and drawn; and plans as one types."""

import dataclasses
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from attnscope.paths import resources_folder
from attnscope.records import (
    Evaluated,
    Failed,
    FollowRun,
    OpenRuns,
    Pace,
    PlanRecipe,
    PresetRow,
    PresetsShown,
    Published,
    RecipePlanned,
    Request,
    RunLines,
    RunMark,
    RunNews,
    RunsOpened,
    RunSummary,
    RunWriter,
    Step,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.training import (
    Drawing,
    RunCurves,
    RunRow,
    TrainingState,
    csv_of_table,
    differing_keys,
    is_match,
    lines_of,
    rate_words,
    settings_of,
    sorted_rows,
    take_preset,
    value_at,
    with_model,
)

sys.path.append(str(Path(__file__).parent))
from training_fakes import Clock, plan, started, steps

WRITER = RunWriter(pid=1234, host="here", since=0.0, is_here=True, silent_s=0.1)
NOTHING = RunLines(steps=np.zeros(0), values=np.zeros(0))


def test_that_a_table_for_machines_has_whole_numbers_whole() -> None:
    run = dataclasses.replace(summary("a", loss=0.25), n_parameters=1_300_000_123, last_loss=math.nan)
    row = RunRow(summary=run, colour=0, is_shown=True, settings=())
    columns = ("step", "last loss", "best loss", "accuracy", "parameters")
    assert [row.plain_cell(column) for column in columns] == ["100", "", "0.25", "", "1300000123"]


def test_that_the_accuracy_of_a_run_is_a_column_to_sort_by() -> None:
    rows = [
        RunRow(
            summary=dataclasses.replace(summary(name), last_accuracy=accuracy),
            colour=0,
            is_shown=True,
            settings=(),
        )
        for name, accuracy in (("a", 0.5), ("b", math.nan), ("c", 0.98765))
    ]
    assert [row.cell("accuracy") for row in rows] == ["50.0 %", "–", "98.8 %"]
    assert [row.summary.name for row in sorted_rows(rows, "accuracy", is_descending=True)] == ["c", "a", "b"]
    assert rows[2].plain_cell("accuracy") == "0.98765"


def summary(name: str, *, loss: float = 1.0, end: str = "done", recipe: str = "") -> RunSummary:
    return RunSummary(
        folder=f"/runs/{name}",
        name=name,
        end=end,
        step=100,
        n_steps=100,
        n_parameters=1000,
        n_body=900,
        last_loss=loss,
        best_loss=loss,
        best_step=90,
        n_tokens=6400.0,
        flops=6.4e9,
        seconds=50.0,
        validation=NOTHING,
        recipe=recipe or f'[model]\nn_layers = {len(name)}\n[training]\nname = "{name}"\nseed = 0\n',
    )


class Room:
    """A training state with its requests kept."""

    def __init__(self) -> None:
        self.posted: list[Request] = []
        self.clock = Clock()
        self.state = TrainingState(Requests(self.posted.append), clock=self.clock)
        self.runs = self.state.runs

    def newest(self, kind: type) -> Request:
        return [request for request in self.posted if isinstance(request, kind)][-1]

    def list(self, *summaries: RunSummary) -> None:
        self.runs.add("/runs")
        self.answer(*summaries)

    def answer(self, *summaries: RunSummary) -> None:
        request = self.newest(OpenRuns)
        self.state.handle(RunsOpened(number=request.number, folders=request.folders, runs=summaries))

    def answer_following(
        self, *events: object, writer: RunWriter | None = None, is_restart: bool = True
    ) -> str:
        """Answer the newest FollowRun; gives its folder."""
        request = self.newest(FollowRun)
        self.state.handle(
            RunNews(
                number=request.number,
                folder=request.folder,
                events=events,
                checkpoints=(),
                mark=RunMark(n_bytes=7),
                writer=writer,
                is_restart=is_restart,
            )
        )
        return request.folder


@pytest.fixture
def room() -> Room:
    return Room()


def test_that_a_folder_without_runs_is_forgotten_for_the_next_one(room: Room) -> None:
    room.runs.add("/wrong")
    asked = room.newest(OpenRuns)
    room.state.handle(Failed(number=asked.number, request="OpenRuns", message="There is no run in /wrong."))
    assert room.runs.note == "There is no run in /wrong."
    room.list(summary("a"))
    assert room.newest(OpenRuns).folders == ("/runs",)
    assert room.runs.note == ""


def test_that_runs_are_filtered_by_name_and_by_recipe_value(room: Room) -> None:
    room.list(summary("a"), summary("bb"), summary("cc"))
    room.runs.table.filter("n_layers=2")
    assert [row.summary.name for row in room.runs.table.rows] == ["bb", "cc"]
    room.runs.table.filter("n_layers=2 c")
    assert [row.summary.name for row in room.runs.table.rows] == ["cc"]
    assert room.runs.n_listed == 3


def test_that_the_best_loss_of_the_run_in_training_is_never_above_its_last(room: Room) -> None:
    """Its folder is read from time to time only; its curves are known here, step by step."""
    room.list(summary("a", loss=1.0))
    curves = RunCurves()
    looks = (
        Evaluated(step=step, loss=loss, accuracy=0.5) for step, loss in ((50, 0.75), (75, 0.5), (99, 0.625))
    )
    curves.add([started(), *steps(1, 100), *looks])
    room.runs.set_own("/runs/a", curves, is_live=True)
    (row,) = room.runs.table.rows
    assert [row.cell(column) for column in ("last loss", "best loss")] == ["0.6250", "0.5000"]
    assert row.summary.best_step == 75


def test_that_unknown_losses_are_last_whichever_way_runs_are_sorted(room: Room) -> None:
    room.list(summary("a", loss=2.0), summary("b", loss=math.nan), summary("c", loss=1.0))
    room.runs.table.sort_by("best loss")
    assert [row.summary.name for row in room.runs.table.rows] == ["c", "a", "b"]
    room.runs.table.sort_by("best loss")
    assert [row.summary.name for row in room.runs.table.rows] == ["a", "c", "b"]


def test_that_only_keys_that_differ_among_the_drawn_runs_are_columns(room: Room) -> None:
    room.list(summary("a"), summary("bb"), summary("cc"))
    assert room.runs.table.columns[7:] == ("model.n_layers",)
    room.runs.show("/runs/a", False)
    assert room.runs.table.columns[7:] == ()
    header, rows = room.runs.table.cells()
    assert header[0] == "run"
    assert rows[0][-1] == "/runs/a"


def test_that_a_run_keeps_its_colour_and_a_removed_one_stays_away(room: Room) -> None:
    room.list(summary("a"), summary("b"), summary("c"))
    colour = room.runs.drawn.colour_of("/runs/c")
    room.runs.remove("/runs/b")
    room.runs.tick()
    request = room.newest(OpenRuns)
    room.state.handle(
        RunsOpened(number=request.number, folders=("/runs",), runs=(summary("a"), summary("b"), summary("c")))
    )
    assert [row.summary.name for row in room.runs.table.rows] == ["a", "c"]
    assert room.runs.drawn.colour_of("/runs/c") == colour
    assert len({room.runs.drawn.colour_of(row.folder) for row in room.runs.table.rows}) == 2


def test_that_shown_runs_are_followed_one_at_a_time_and_their_curves_grow(room: Room) -> None:
    room.list(summary("a"), summary("b"))
    room.state.follower.tick()
    n_posted = len(room.posted)
    room.state.follower.tick()
    assert len(room.posted) == n_posted  # the answer is waited for
    first = room.answer_following(started(), *steps(1, 5))
    room.state.follower.tick()
    second = room.answer_following(started(), *steps(1, 9), writer=WRITER)
    assert {first, second} == {"/runs/a", "/runs/b"}
    lengths = {run.folder: len(run.curves.train_loss) for run in room.runs.shown}
    assert lengths == {first: 5, second: 9}
    room.clock.now += 1.0
    room.state.follower.tick()
    again = room.newest(FollowRun)
    assert (again.folder, again.mark) == (second, RunMark(n_bytes=7))  # only the live one, from where it was
    room.answer_following(*steps(10, 12), writer=WRITER, is_restart=False)
    assert len(room.runs.drawn.curves_of(second).train_loss) == 12


def test_that_a_run_of_another_process_is_followed_and_start_waits(room: Room) -> None:
    from attnscope.records import OpenRun, RunOpened

    room.state.reading.open("/runs/live")
    number = room.newest(OpenRun).number
    room.state.handle(
        RunOpened(
            number=number,
            folder="/runs/live",
            recipe="[a]\n",
            events=(started(), *steps(1, 3)),
            checkpoints=(),
        )
    )
    assert room.state.can_start
    room.state.follower.tick()
    room.answer_following(started(), *steps(1, 4), writer=WRITER)
    assert room.state.is_followed
    assert not room.state.can_start
    assert "1234" in room.state.run.status.detail
    assert room.state.run.step == 4
    room.clock.now += 1.0
    room.state.follower.tick()
    room.answer_following(*steps(5, 6), is_restart=False)
    assert room.state.can_start
    assert room.state.run.step == 6
    assert "Ended" in room.state.run.status.title


def test_that_tokens_time_and_operations_are_sums_over_steps(room: Room) -> None:
    room.list(summary("a"))
    room.state.follower.tick()
    told = [
        Step(
            step=i,
            loss=1.0 / i,
            learning_rate=0.1,
            gradient_norm=1.0,
            tokens_per_s=100.0 * i,
            n_tokens=10 * i,
        )
        for i in range(1, 6)
    ]
    room.answer_following(started(), *told, Evaluated(step=4, loss=0.5, accuracy=0.5))
    run = room.runs.shown[0]
    expected = {"tokens": [10, 30, 60, 100, 150], "time": [0.1, 0.2, 0.3, 0.4, 0.5]}
    expected["compute"] = [n * 6.4e9 / 6400 for n in expected["tokens"]]
    for axis, places in expected.items():
        found = run.axis.places(run.curves.train_loss, axis, run.scale)
        np.testing.assert_allclose(found, places)
        at = run.axis.places(run.curves.validation_loss, axis, run.scale)
        np.testing.assert_allclose(at, places[3:4])
    assert value_at(run, run.curves.train_loss, "tokens", 55.0) == pytest.approx(1 / 3)
    places = (-math.inf, 0.0, 44.0, 149.0, 151.0, math.inf)  # the newest is asked for by infinity
    found = [value_at(run, run.curves.train_loss, "tokens", place) for place in places]
    np.testing.assert_allclose(found, [1 / n for n in (1, 1, 2, 5, 5, 5)])
    again = run.axis.places(run.curves.validation_loss, "tokens", run.scale)
    assert again is run.axis.places(run.curves.validation_loss, "tokens", run.scale)  # not worked out twice
    run.curves.add((Evaluated(step=5, loss=0.4, accuracy=0.5),))
    found = run.axis.places(run.curves.validation_loss, "tokens", run.scale)
    np.testing.assert_allclose(found, [100, 150])


def test_that_the_chosen_run_is_drawn_last_and_strongest(room: Room) -> None:
    room.list(summary("a"), summary("b"), summary("c"))
    for _ in range(3):
        room.state.follower.tick()
        room.answer_following(started(), *steps(1, 20), Evaluated(step=10, loss=1.0, accuracy=0.5))
    room.runs.choose("/runs/b")
    lines = lines_of(room.runs.shown, "loss", Drawing(smoothing=0.5))
    assert [line.name for line in lines if line.is_strong] == ["b"]
    assert lines[-1].name == "b"
    assert {line.kind for line in lines} == {"train", "validation"}
    assert len({line.colour for line in lines}) == 3


def test_that_names_and_descriptions_are_no_differences() -> None:
    one, two = (
        settings_of('[training]\nname = "a"\nseed = 1\n'),
        settings_of('[training]\nname = "b"\nseed = 2\n'),
    )
    assert differing_keys([one, two]) == ("training.seed",)
    assert is_match("seed=2", "x", two)
    assert csv_of_table(("a",), (("=1+1",),)) == "a\n'=1+1\n"


def test_that_a_plan_is_asked_for_once_the_person_pauses(room: Room) -> None:
    state = room.state
    state.recipe.edit("[model]\n")
    state.tick()
    assert isinstance(room.posted[-1], PlanRecipe)
    n_posted = len(room.posted)
    for letter in "abc":
        state.recipe.edit(f"[model]\n# {letter}\n")
        room.clock.now += 0.1
        state.tick()
    assert len(room.posted) == n_posted
    room.clock.now += 0.3
    state.tick()
    request = room.newest(PlanRecipe)
    assert len(room.posted) == n_posted + 1
    assert request.recipe == "[model]\n# c\n"
    state.handle(RecipePlanned(number=request.number - 1, plan=None, problem="old"))
    assert state.planning.problem == ""
    state.handle(RecipePlanned(number=request.number, plan=plan()))
    assert state.planning.plan == plan()


def test_that_the_cost_of_another_recipe_does_not_wait_for_its_time(room: Room) -> None:
    state = room.state
    pace = Pace(flops_per_s=1.0, doubt=2.0, words="measured")
    state.recipe.edit("[model]\n")
    state.tick()
    state.handle(RecipePlanned(number=room.newest(PlanRecipe).number, plan=plan(pace=pace)))
    state.recipe.edit("[model]\n# a\n")
    room.clock.now += 1.0
    state.tick()
    number = room.newest(PlanRecipe).number
    state.handle(RecipePlanned(number=number, plan=plan(n_parameters=20)))
    assert state.planning.plan == plan(pace=pace)  # the same recipe: its time does not blink while one types
    state.handle(RecipePlanned(number=number, plan=plan(n_parameters=20, name="y")))
    assert state.planning.plan == plan(n_parameters=20, name="y")


def test_that_a_recipe_that_was_refused_starts_only_once_it_is_another(room: Room) -> None:
    state = room.state
    state.recipe.edit('[model]\nn_heads = 3\n\n[data]\nkind = "task"\ntask = "copy"\n')
    state.tick()
    assert state.can_start
    number = room.newest(PlanRecipe).number
    state.handle(RecipePlanned(number=number, plan=None, problem="d_model is no multiple of n_heads"))
    assert not state.can_start
    state.recipe.edit('[model]\nn_heads = 4\n\n[data]\nkind = "task"\ntask = "copy"\n')
    state.tick()
    assert state.can_start


def test_that_a_preset_replaces_the_model_and_keeps_comments(room: Room) -> None:
    room.state.recipe.edit('[model]\n# mine\nmask = "window"\n\n[objective]\nkind = "masked"\n')
    room.state.planning.ask_presets()
    row = PresetRow(
        name="p", objective="causal", n_layers=1, d_model=8, d_ff=8, n_heads=1, n_tokens=8, vocab_size=99,
        n_parameters=1, flops_a_token=1.0, training_bytes=16, batch_bytes=1, keys=(("d_model", "8"),),
        published=Published(parameters="1", data="words", hardware="", source="a paper"),
    )  # fmt: skip
    number = room.posted[-1].number
    room.state.handle(PresetsShown(number=number, rows=(row,), available_bytes=1, device="cpu"))
    take_preset(room.state, room.state.planning.presets[0])
    assert room.state.recipe.text == (
        '[model]\n# mine\nd_model = 8\n\n[objective]\nkind = "causal"\n\n[tokenizer]\nvocab_size = 99\n'
    )
    assert with_model("", (("d_model", "8"),)) == "[model]\nd_model = 8\n\n"
    room.state.recipe.edit('[data]\nkind = "task"\ntask = "reverse"\n')
    take_preset(room.state, row)
    assert "reverse" not in room.state.recipe.text
    assert (room.state.recipe.name, Path(room.state.place.folder).name) == ("p", "p")
    assert not room.state.can_start
    room.state.recipe.set_data_path("x.txt")
    assert room.state.can_start


def test_that_a_plan_that_lacks_memory_does_not_fit() -> None:
    assert plan().fits
    assert not dataclasses.replace(plan(), available_bytes=39).fits
    assert not dataclasses.replace(plan(), free_disk_bytes=39).fits_disk


def test_that_the_list_comes_back_at_the_next_start_without_what_is_gone() -> None:
    room = Room()
    room.runs.add("/gone")
    room.list(summary("a"), summary("b"), summary("c"))
    room.runs.show("/runs/b", False)
    room.runs.remove("/runs/c")
    assert room.runs.remembered == (("/runs",), ("/runs/c",), ("/runs/b",))
    later = Room()
    later.runs.restore(*room.runs.remembered)
    assert later.runs.remembered == room.runs.remembered  # the page was never looked at
    assert not later.posted
    later.state.tick()
    request = later.newest(OpenRuns)
    assert request.folders == ("/runs",)
    runs = (summary("a"), summary("b"), summary("c"))
    later.state.handle(RunsOpened(number=request.number, folders=request.folders, runs=runs))
    assert [(row.summary.name, row.is_shown) for row in later.runs.table.rows] == [("a", True), ("b", False)]
    assert later.runs.remembered == room.runs.remembered


def test_that_a_law_is_fitted_through_all_runs_of_a_large_folder_but_those_that_were_unticked(
    room: Room,
) -> None:
    every = tuple(summary(letter) for letter in "abcdefghijkl")
    room.list(*every)
    assert [run.name for run in room.runs.summaries] == list("abcdefgh")  # more curves are a tangle
    assert room.runs.fitted == every
    room.runs.show("/runs/b", False)
    room.runs.show("/runs/k", True)
    assert [run.name for run in room.runs.fitted] == list("acdefghijkl")
    later = Room()
    later.runs.restore(*room.runs.remembered)
    later.state.tick()
    request = later.newest(OpenRuns)
    later.state.handle(RunsOpened(number=request.number, folders=request.folders, runs=every))
    assert [run.name for run in later.runs.fitted] == list("acdefghijkl")
    room.runs.show_only("/runs/c")
    assert [run.name for run in room.runs.fitted] == ["c"]
    room.runs.show_all(False)
    assert room.runs.fitted == ()


def test_that_a_plan_says_its_learning_rate_in_words() -> None:
    assert rate_words(plan(rates=((1, 0.1), (10, 1.0), (20, 0.0)))) == (
        "rises to 1 at step 10, falls to 0 at step 20"
    )
    assert rate_words(plan(rates=((1, 3e-5), (20, 3e-5)))) == "3·10⁻⁵"
    assert rate_words(plan(rates=((1, 0.003), (20, 0.003)))) == "0.003"
    assert rate_words(plan()) == ""


def test_that_a_kept_run_leaves_the_list_when_one_of_its_name_begins_which_then_is_in_it() -> None:
    room, folder = Room(), str(resources_folder() / "films" / "reverse")
    kept, begun = RunCurves(), RunCurves()
    kept.add(steps(1, 3))
    room.runs.set_own(folder, kept, is_live=False)
    film = dataclasses.replace(summary("reverse"), folder=folder)
    room.answer(film)
    assert [run.folder for run in room.runs.shown] == [folder]
    room.runs.set_own("/runs/reverse", begun, is_live=True)
    assert [run.folder for run in room.runs.shown] == ["/runs/reverse"]
    room.runs.tick()
    assert room.newest(OpenRuns).folders == (folder,)  # nothing is written yet
    begun.add(steps(1, 3))
    room.clock.now += 10.0
    room.runs.tick()
    assert room.newest(OpenRuns).folders == ("/runs/reverse",)
    room.answer(summary("reverse", end="running"))
    assert [row.folder for row in room.runs.table.rows] == ["/runs/reverse"]
