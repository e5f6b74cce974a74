"""The watched sentence: few requests, the newest picture, replay over checkpoints."""

import math
from dataclasses import replace

import numpy as np
import pytest
from training_fakes import Clock, started, steps, traced

from attnscope.records import (
    TRAINING_MODEL,
    Failed,
    Finished,
    HeadRef,
    OutputWritten,
    Request,
    RunOpened,
    Saved,
    Site,
    SiteGrid,
    Stack,
    StartTraining,
    TraceText,
    TrainingNews,
    Watched,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.training import (
    LIVE_INTERVAL_S,
    PLAY_INTERVAL_S,
    TrainingState,
    telling_head,
    telling_stack,
)

RECIPE = '[[watch]]\ntext = "the cat sat"\n'


class Desk:
    """A run in progress that watches a sentence."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.posted: list[Request] = []
        self.state = TrainingState(Requests(self.posted.append), clock=self.clock)
        self.watch = self.state.watch
        self.state.recipe.edit(RECIPE)
        self.state.place.choose("run")
        self.state.start()
        self.last = 0
        self.news(started())

    @property
    def traces(self) -> list[TraceText]:
        return [request for request in self.posted if isinstance(request, TraceText)]

    def news(self, *events: object) -> None:
        number = next(r.number for r in self.posted if isinstance(r, StartTraining))
        self.state.handle(TrainingNews(number=number, events=events))  # type: ignore[arg-type]

    def step(self) -> None:
        self.last += 1
        self.news(*steps(self.last, self.last))

    def answer(self) -> None:
        request = self.traces[-1]
        self.state.handle(traced(request, step=self.last))

    def save(self, *numbers: int) -> None:
        self.news(*(Saved(step=n, folder=f"run/{n}") for n in numbers))

    def settle(self) -> None:
        """Answer until nothing is asked any more."""
        n_seen = -1
        while n_seen != len(self.traces):
            n_seen = len(self.traces)
            self.answer()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_that_the_recipe_s_sentence_is_watched_unless_one_was_typed(desk: Desk) -> None:
    assert desk.watch.text == "the cat sat"
    desk.watch.set_text("my own")
    desk.state.recipe.edit('[[watch]]\ntext = "another"\n')
    assert desk.watch.text == "my own"


@pytest.mark.slow
def test_that_a_thousand_steps_in_a_second_ask_at_most_three_times(desk: Desk) -> None:
    desk.settle()
    n_before = len(desk.traces)
    for _ in range(1000):
        desk.clock.now += 0.001
        desk.step()
        desk.state.tick()
        if desk.traces[-1].number != (desk.watch.traced.number if desk.watch.traced else 0):
            desk.answer()
    assert 1 <= len(desk.traces) - n_before <= 3
    assert all(request.model == TRAINING_MODEL for request in desk.traces)


def test_that_nothing_is_asked_while_an_answer_is_outstanding(desk: Desk) -> None:
    n_before = len(desk.traces)
    for _ in range(20):
        desk.clock.now += LIVE_INTERVAL_S
        desk.step()
        desk.state.tick()
        desk.watch.set_text(f"words {desk.last}")
    assert len(desk.traces) == max(1, n_before)


def test_that_an_answer_that_got_lost_is_asked_for_again(desk: Desk) -> None:
    n_before = len(desk.traces)
    desk.clock.now += 60.0
    desk.state.tick()
    assert len(desk.traces) == n_before + 1


def test_that_nothing_is_asked_without_news(desk: Desk) -> None:
    desk.settle()
    n_before = len(desk.traces)
    for _ in range(20):
        desk.clock.now += LIVE_INTERVAL_S
        desk.state.tick()
    assert len(desk.traces) == n_before


def test_that_nothing_is_asked_while_nobody_looks_or_there_is_no_sentence(desk: Desk) -> None:
    desk.settle()
    n_before = len(desk.traces)
    desk.watch.set_watched(False)
    desk.clock.now += LIVE_INTERVAL_S
    desk.step()
    assert len(desk.traces) == n_before
    desk.watch.set_text("  ")
    desk.watch.set_watched(True)
    assert len(desk.traces) == n_before


def test_that_the_first_picture_chooses_the_cross_stack_and_asks_for_its_head(desk: Desk) -> None:
    desk.answer()
    assert desk.watch.stack == "cross"
    assert desk.watch.head == HeadRef(stack="cross", layer=1, head=0)
    assert desk.traces[-1].heads == (desk.watch.head,)
    desk.answer()
    assert desk.watch.head_map is not None
    assert not desk.watch.is_stale


def test_that_another_stack_keeps_the_head_it_can(desk: Desk) -> None:
    desk.settle()
    desk.watch.choose_head(HeadRef(stack="cross", layer=1, head=1))
    desk.watch.choose_stack("encoder")
    assert desk.watch.head == HeadRef(stack="encoder", layer=0, head=1)
    assert len(desk.watch.grids) == 1


def test_that_a_failed_picture_is_told_and_the_old_one_stays_dimmed(desk: Desk) -> None:
    desk.settle()
    shown = desk.watch.traced
    desk.watch.set_text("☃")
    desk.state.handle(Failed(number=desk.traces[-1].number, request="TraceText", message="Too odd."))
    assert desk.watch.note == "Too odd."
    assert desk.watch.traced is shown
    assert desk.watch.is_stale
    n_before = len(desk.traces)
    desk.step()
    assert len(desk.traces) == n_before


def test_that_the_slider_asks_for_the_right_folder(desk: Desk) -> None:
    desk.save(10, 20, 30)
    desk.settle()
    assert desk.watch.replay.n_places == 4
    assert desk.watch.replay.slider_place == 3
    desk.watch.replay.go_to(1)
    assert desk.traces[-1].model == "run/20"
    assert desk.watch.replay.checkpoint is not None
    assert desk.watch.replay.checkpoint.step == 20
    desk.settle()
    desk.watch.replay.go_to(3)
    assert desk.watch.replay.checkpoint is None
    assert desk.watch.replay.slider_place == 3


def test_that_dragging_over_many_checkpoints_asks_only_for_the_last(desk: Desk) -> None:
    desk.save(*range(10, 1010, 10))
    desk.settle()
    n_before = len(desk.traces)
    for place in range(100):
        desk.watch.replay.go_to(place)
    desk.settle()
    assert [request.model for request in desk.traces[n_before:]] == ["run/10", "run/1000"]


def test_that_a_checkpoint_seen_before_is_not_asked_for_again_until_it_is_replaced(desk: Desk) -> None:
    desk.save(10, 20)
    desk.settle()
    for place in (0, 1, 0):
        desk.watch.replay.go_to(place)
        desk.settle()
    n_before = len(desk.traces)
    desk.watch.replay.go_to(1)
    assert len(desk.traces) == n_before
    assert not desk.watch.is_stale
    desk.save(10)
    desk.watch.replay.go_to(0)
    assert desk.traces[-1].model == "run/10"
    assert len(desk.traces) == n_before + 1


def test_that_the_replay_waits_for_each_picture_and_ends_at_the_last(desk: Desk) -> None:
    desk.save(10, 20, 30)
    desk.settle()
    desk.news(Finished(step=30, reason="done"))
    desk.settle()
    assert desk.watch.replay.slider_place == 2
    n_before = len(desk.traces)
    desk.watch.replay.play()
    for _ in range(3):
        desk.clock.now += PLAY_INTERVAL_S
        desk.state.tick()
    assert desk.watch.replay.slider_place == 0
    for _ in range(8):
        if desk.traces[-1].number != (desk.watch.traced.number if desk.watch.traced else 0):
            desk.answer()
        desk.clock.now += PLAY_INTERVAL_S
        desk.state.tick()
    assert [request.model for request in desk.traces[n_before:]] == ["run/10", "run/20"]
    assert desk.watch.replay.slider_place == 2
    assert not desk.watch.replay.is_playing


def test_that_a_new_checkpoint_leaves_the_slider_where_the_person_put_it(desk: Desk) -> None:
    desk.save(10, 20)
    desk.watch.replay.go_to(0)
    desk.save(5)
    assert desk.watch.replay.checkpoint is not None
    assert desk.watch.replay.checkpoint.step == 10
    assert [c.step for c in desk.watch.replay.checkpoints] == [5, 10, 20]


def test_that_checkpoints_after_a_resume_are_superseded(desk: Desk) -> None:
    desk.save(10, 20, 30)
    desk.watch.replay.go_to(2)
    desk.news(started(20))
    assert [c.step for c in desk.watch.replay.checkpoints] == [10, 20]
    assert desk.watch.replay.slider_place <= 1


def test_that_an_old_answer_is_dropped(desk: Desk) -> None:
    desk.settle()
    old = desk.traces[-1]
    desk.watch.set_text("another text")
    desk.state.handle(traced(old, step=1))
    assert desk.watch.is_stale


def test_that_what_a_watched_model_writes_comes_after_its_maps(desk: Desk) -> None:
    desk.watch.set_watched(True)
    desk.answer()
    shown = desk.watch.traced
    assert shown is not None
    comparison = replace(shown.comparison, after=replace(shown.comparison.after, generated="on the mat"))
    desk.state.handle(OutputWritten(number=shown.number, comparison=comparison))
    assert desk.watch.traced is not None
    assert desk.watch.traced.comparison.after.generated == "on the mat"


def test_that_steps_without_a_model_are_places_for_the_watched_sentence_alone(desk: Desk) -> None:
    desk.news(
        Watched(step=1, file="run/probes/1.safetensors"), Watched(step=5, file="run/probes/5.safetensors")
    )
    desk.save(10)
    desk.watch.replay.go_to(0)
    desk.settle()
    assert [c.step for c in desk.watch.replay.checkpoints] == [1, 5, 10]
    assert desk.traces[-1].model == "run/probes/1.safetensors"
    desk.watch.set_text("the dog ran")
    assert [c.step for c in desk.watch.replay.checkpoints] == [10]
    assert desk.watch.replay.checkpoint is not None
    assert desk.watch.replay.checkpoint.step == 10  # the nearest that can read it
    desk.watch.set_text("the cat sat")
    assert [c.step for c in desk.watch.replay.checkpoints] == [1, 5, 10]


def test_that_a_checkpoint_takes_the_place_of_what_was_kept_of_its_step(desk: Desk) -> None:
    desk.news(Watched(step=5, file="run/probes/5.safetensors"))
    desk.save(5)
    desk.news(Watched(step=5, file="run/probes/5.safetensors"))
    assert [(c.folder, c.has_model) for c in desk.watch.replay.checkpoints] == [("run/5", True)]


def test_that_the_checkpoints_of_a_folder_are_told_of_at_once(desk: Desk) -> None:
    seen: list[int] = []

    def note() -> None:
        seen.append(len(desk.watch.replay.checkpoints))

    desk.watch.changed.connect(note)
    checkpoints = ((10, "run/10"), (20, "run/20"), (30, "run/30"))
    desk.watch.replay.add_told(
        RunOpened(number=1, folder="run", recipe="", events=(), checkpoints=checkpoints)
    )
    assert seen == [3]


def slow_information(levels: np.ndarray) -> float:
    """The mutual information of query and key in bits, cell by cell, every query that looks as likely."""
    rows = [[max(int(level) - 1, 0) for level in row] for row in levels]
    rows = [[cell / sum(row) for cell in row] for row in rows if sum(row)]
    told = 0.0
    for row in rows:
        for j, p in enumerate(row):
            if p:
                told += p / len(rows) * math.log2(p / (sum(other[j] for other in rows) / len(rows)))
    return told


def grid_of(layer: int, levels: np.ndarray) -> SiteGrid:
    n_heads, n_queries, n_keys = levels.shape
    site = Site(stack="encoder", layer=layer, n_heads=n_heads, n_kv_heads=n_heads)
    return SiteGrid(site=site, n_queries=n_queries, n_keys=n_keys, levels=levels, peaks=np.ones(n_heads))


def test_that_the_telling_head_is_the_one_whose_weights_depend_most_on_the_query() -> None:
    ramp = (np.arange(2 * 3 * 5 * 4) * 37 % 255 + 1).astype(np.uint8).reshape(2, 3, 5, 4)
    ramp[0, 1, 2] = 0  # a query that looks at nothing
    grids = [grid_of(layer, levels) for layer, levels in enumerate(ramp)]
    told = {head: slow_information(ramp[head.layer, head.head]) for g in grids for head in g.site.heads}
    best = max(told, key=lambda head: told[head])
    assert sorted(told.values())[-2] < 0.95 * told[best]  # no other tells as much
    assert telling_head(grids) == best


def test_that_of_heads_that_tell_as_much_the_first_of_the_latest_layer_is_chosen() -> None:
    same = np.tile(np.where(np.eye(4, dtype=bool), 255, 1).astype(np.uint8), (2, 1, 1))
    nothing = np.zeros((2, 4, 4), np.uint8)
    assert telling_head([grid_of(0, same), grid_of(1, same)]) == HeadRef(stack="encoder", layer=1, head=0)
    assert telling_head([grid_of(0, same), grid_of(1, nothing)]) == HeadRef(stack="encoder", layer=0, head=0)
    assert telling_head([grid_of(0, nothing)]) == HeadRef(stack="encoder", layer=0, head=0)
    assert telling_head([]) is None


def test_that_the_stack_shown_first_is_one_whose_queries_may_choose() -> None:
    alone = grid_of(0, np.eye(4, dtype=np.uint8)[None] * 255)  # a window of 0: each token sees itself
    pool = replace(grid_of(0, np.full((1, 1, 4), 60, np.uint8)), site=site_in("pool"))
    cross = replace(grid_of(0, np.full((1, 3, 4), 60, np.uint8)), site=site_in("cross"))
    free = grid_of(0, np.full((1, 4, 4), 60, np.uint8))
    assert telling_stack([alone, pool]) == "pool"
    assert telling_stack([free, pool]) == "encoder"
    assert telling_stack([free, pool, cross]) == "cross"
    assert telling_stack([alone]) == "encoder"
    assert telling_stack([]) is None


def site_in(stack: Stack) -> Site:
    return Site(stack=stack, layer=0, n_heads=1, n_kv_heads=1)


def test_that_a_run_that_is_over_opens_on_its_telling_head_until_the_person_chooses(desk: Desk) -> None:
    watch = desk.watch
    diagonal = np.where(np.eye(3, dtype=bool), 255, 1).astype(np.uint8)
    even = np.full((3, 3), 100, np.uint8)

    def answer() -> None:
        reply = traced(desk.traces[-1])
        told = tuple(
            replace(grid, levels=np.stack([even, diagonal if grid.site.layer == 0 else even]))
            for grid in reply.grids
        )
        desk.state.handle(replace(reply, grids=told))

    watch.begin_run(is_live=False)
    checkpoints = ((1, "run/1"), (2, "run/2"))
    watch.set_watched(True)
    watch.replay.add_told(
        RunOpened(number=1, folder="run", recipe=RECIPE, events=(), checkpoints=checkpoints)
    )
    watch.replay.go_to(1)
    answer()
    assert watch.head == HeadRef(stack="cross", layer=0, head=1)
    watch.choose_head(HeadRef(stack="cross", layer=1, head=0))
    watch.replay.go_to(0)
    answer()
    assert watch.head == HeadRef(stack="cross", layer=1, head=0)


@pytest.mark.parametrize(
    ("named", "head"),
    [
        ("cross:L1H1", HeadRef(stack="cross", layer=1, head=1)),
        ("encoder:L0H1", HeadRef(stack="encoder", layer=0, head=1)),
        ("cross:L9H0", HeadRef(stack="cross", layer=1, head=0)),  # no such layer: what tells most
        ("", HeadRef(stack="cross", layer=1, head=0)),
    ],
)
def test_that_a_run_opens_on_the_head_that_its_recipe_names(desk: Desk, named: str, head: HeadRef) -> None:
    watch = desk.watch
    watch.begin_run(is_live=False)
    watch.open_on(named)
    watch.set_watched(True)
    watch.replay.add_told(
        RunOpened(number=1, folder="run", recipe=RECIPE, events=(), checkpoints=((1, "run/1"),))
    )
    watch.replay.go_to(0)
    desk.state.handle(traced(desk.traces[-1]))
    assert watch.head == head
    assert watch.stack == head.stack
    watch.begin_run(is_live=False)
    assert watch._first_head == ""
