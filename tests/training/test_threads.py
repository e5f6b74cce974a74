"""The number of threads: the quickest of those tried, kept for whoever goes on, and no trace else."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import torch

from attnscope.records import Started, Step
from attnscope.training import (
    TrainingRun,
    Way,
    descent,
    kept_ways,
    parse_recipe,
    quickest_way,
    train,
    ways_up_to,
)

RECIPE = """
[model]
d_model = 8
n_layers = 1
n_heads = 2
d_ff = 8
dropout = 0.2
[data]
kind = "task"
task = "copy"
n_examples = 40
[objective]
kind = "translation"
[training]
n_steps = 3
batch_size = 4
"""


class Clock:
    """Work takes as long as it is told for each way, the longer the later its round is in `slow_rounds`."""

    def __init__(self, seconds: dict[Way, float], slow_rounds: dict[int, float] | None = None) -> None:
        self.now, self._seconds, self.tried = 0.0, seconds, []
        self._slow = slow_rounds or {}

    def __call__(self) -> float:
        return self.now

    def work(self, way: Way) -> None:
        assert torch.get_num_threads() == way.in_products
        n_round = len(self.tried) // len(self._seconds)
        self.tried.append(way)
        self.now += self._seconds[way] * self._slow.get(n_round, 1.0)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    n = torch.get_num_threads()
    yield
    torch.set_num_threads(n)


ONE, TWO, FOUR, ROWS = Way(), Way(2), Way(4), Way(2, True)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({ONE: 0.02, TWO: 0.03}, ONE),
        ({ONE: 0.02, TWO: 0.0185}, ONE),  # hardly quicker than one
        ({ONE: 0.03, TWO: 0.02}, TWO),
        ({ONE: 0.05, TWO: 0.03, FOUR: 0.02}, FOUR),
        ({ONE: 0.05, TWO: 0.02, FOUR: 0.04}, TWO),
        ({ONE: 0.05, ROWS: 0.03, TWO: 0.029}, ROWS),
        ({ONE: 0.05, ROWS: 0.03, TWO: 0.02}, TWO),
        ({ONE: 60.0, TWO: 30.0}, TWO),
    ],
)
def test_that_the_quickest_way_is_found_and_nothing_left_changed(
    seconds: dict[Way, float], expected: Way
) -> None:
    before = torch.get_num_threads()
    clock = Clock(seconds)
    assert quickest_way(clock.work, list(seconds), clock=clock) == expected
    assert torch.get_num_threads() == before
    assert set(clock.tried) == set(seconds)
    assert clock.now < 60.0 * 6 or max(seconds.values()) < 60.0  # long steps are tried twice each, no more
    if max(seconds.values()) >= 60.0:
        assert len(clock.tried) == 2 * len(seconds)


def test_that_bad_moments_do_not_choose_a_way() -> None:
    clock = Clock({ONE: 0.02, ROWS: 0.021}, {i: 30.0 - i for i in (2, 3, 5, 8, 9)})
    assert quickest_way(clock.work, [ONE, ROWS], clock=clock) == ONE


@pytest.mark.parametrize(
    ("most", "n_rows", "expected"),
    [
        (1, 12, [ONE]),
        (2, 12, [ONE, ROWS, TWO]),
        (2, 0, [ONE, TWO]),
        (8, 6, [ONE, Way(4, True), FOUR, Way(8)]),
        (3, 3, [ONE, Way(3, True), Way(3)]),
    ],
)
def test_that_no_more_threads_have_rows_than_there_are(most: int, n_rows: int, expected: list[Way]) -> None:
    assert ways_up_to(most, n_rows) == expected


@pytest.mark.parametrize("way", [ONE, TWO, ROWS])
def test_that_a_kept_way_is_read_as_it_was(way: Way, tmp_path: Path) -> None:
    descent.keep_ways(tmp_path, {1: way})
    assert kept_ways(tmp_path) == {1: way}


def test_that_a_number_kept_by_an_older_version_is_of_threads_in_products(tmp_path: Path) -> None:
    (tmp_path / descent.THREADS_NAME).write_bytes(b"2\n")
    assert kept_ways(tmp_path) == {1: TWO}


@pytest.mark.parametrize(
    "text",
    [b"2\n1 from step many\n", b"", b"many", b"-3", b"1e9", b"\xff\xfe", b"2 4", b" by rows", b"0 by rows"],
)
def test_that_a_number_that_cannot_be_is_tried_anew(text: bytes, tmp_path: Path) -> None:
    (tmp_path / descent.THREADS_NAME).write_bytes(text)
    assert kept_ways(tmp_path) == {}


def test_that_ways_are_kept_with_the_step_from_which_they_were_taken(tmp_path: Path) -> None:
    ways = {1: ROWS, 120: ONE, 700: TWO}
    descent.keep_ways(tmp_path, ways)
    assert (tmp_path / descent.THREADS_NAME).read_text() == "2 by rows\n1 from step 120\n2 from step 700\n"
    assert kept_ways(tmp_path) == ways
    taken = [descent.way_at(ways, step) for step in (1, 119, 120, 699, 700, 10**6)]
    assert taken == [ROWS, ROWS, ONE, ONE, TWO, TWO]
    assert descent.way_at({}, 1) is None


def _due_after(lookout: descent.Lookout, seconds: Iterable[float]) -> list[int]:
    """The steps after which the ways are to be tried; none changes what is taken."""
    due = []
    for n, token_s in enumerate(seconds, 1):
        if lookout.is_due(token_s):
            due.append(n)
            lookout.tried(has_changed=False)
    return due


def test_that_ways_are_tried_again_when_steps_have_become_slow_and_not_otherwise() -> None:
    even = [1.0, 1.3, 0.9, 1.2] * 500
    assert _due_after(descent.Lookout([ONE, ROWS, TWO]), even) == []
    assert _due_after(descent.Lookout([ONE, ROWS, TWO]), [*even, 9.0, 9.0, 9.0, *even]) == []  # a bad moment
    (due,) = _due_after(descent.Lookout([ONE, ROWS, TWO]), [*even, *(2 * s for s in even)])
    assert 2000 < due <= 2008
    # what stays slow is what is usual from then on; and a trial may take a tenth of the steps before it
    assert _due_after(descent.Lookout([ONE, ROWS, TWO]), [*even[:9], *[2.0] * 600]) == [120]


def test_that_a_changed_way_is_looked_at_again_now_and_then() -> None:
    lookout = descent.Lookout([ONE, ROWS, TWO])
    lookout.tried(has_changed=True)
    assert _due_after(lookout, [1.0] * 1300) == [600, 1200]
    assert lookout.ways(TWO) == [TWO, ONE, ROWS]
    for _ in range(200):
        lookout.tried(has_changed=True)
    assert _due_after(lookout, [1.0] * 1300) == []  # it is no use


class Slowed:
    """A lookout that wants the ways tried after the second and the fourth step of a run."""

    def __init__(self, run: TrainingRun) -> None:
        self._run = run

    def is_due(self, _token_s: float) -> bool:
        return self._run.step in (2, 4)

    def ways(self, now: Way) -> list[Way]:
        return [now, ONE, ROWS]

    def tried(self, *, has_changed: bool) -> None:
        assert has_changed


def _changing(folder: Path, n_steps: int, monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """The losses of a run, until it has so many steps, whose ways are tried after the second and fourth."""
    torch.set_num_threads(2)
    overrides = {"training.n_steps": "6", "training.save_every": "1"}
    run = TrainingRun(parse_recipe(RECIPE, overrides=overrides), folder, "cpu")
    monkeypatch.setattr(descent, "Lookout", lambda _ways: Slowed(run))
    monkeypatch.setattr(
        descent, "quickest_way", lambda _work, ways, n_rounds: ROWS if ways[0] == ONE else ONE
    )
    run.choose_threads()
    losses = {}
    for event in run.events():
        if isinstance(event, Step):
            losses[event.step] = event.loss
            if event.step == n_steps:
                run.request_stop()
    assert torch.get_num_threads() == 2
    return losses


@pytest.mark.slow
def test_that_a_run_takes_another_way_when_it_is_slow_and_a_resumed_one_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _changing(tmp_path / "whole", 6, monkeypatch)
    ways = {1: ROWS, 3: ONE, 5: ROWS}
    assert kept_ways(tmp_path / "whole") == ways
    for n in (1, 3):  # stopped before the first change, and between both
        folder = tmp_path / f"after {n}"
        begun = _changing(folder, n, monkeypatch)
        resumed = _changing(folder, 6, monkeypatch)
        assert {**begun, **resumed} == whole
        assert kept_ways(folder) == ways
    # an older checkpoint: the same changes at the same steps, untried
    folder = tmp_path / "older"
    _changing(folder, 1, monkeypatch)
    descent.keep_ways(folder, ways)
    resumed = _changing(folder, 6, monkeypatch)
    assert resumed == {step: loss for step, loss in whole.items() if step > 1}


def _run(folder: Path, choose: bool) -> tuple[list[float], Way | None]:
    torch.set_num_threads(2)
    run = TrainingRun(parse_recipe(RECIPE), folder, "cpu")
    n = run.choose_threads() if choose else None
    return [event.loss for event in run.events() if isinstance(event, Step)], n


@pytest.mark.slow
def test_that_the_trial_changes_no_number_of_the_run_and_its_choice_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(work: Callable[[Way], object], ways: list[Way], **_kwargs: int) -> Way:
        for way in ways:
            work(way)
        return ways[-1]

    monkeypatch.setattr(descent, "quickest_way", choose)
    plain, _ = _run(tmp_path / "plain", choose=False)
    tried, n = _run(tmp_path / "tried", choose=True)
    assert tried == plain
    assert n == TWO
    assert kept_ways(tmp_path / "tried") == {1: TWO}
    assert kept_ways(tmp_path / "plain") == {}


@pytest.mark.slow
def test_that_a_run_with_a_kept_number_takes_it_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_work: Callable[[Way], object], _ways: list[Way], **_kwargs: int) -> Way:
        raise AssertionError("tried again")

    monkeypatch.setattr(descent, "quickest_way", refuse)
    (tmp_path / "run").mkdir()
    torch.set_num_threads(2)
    run = TrainingRun(parse_recipe(RECIPE), tmp_path / "run", "cpu")
    descent.keep_ways(tmp_path / "run", {1: ONE})
    assert run.choose_threads() == ONE
    assert torch.get_num_threads() == 1
    list(run.events())


@pytest.mark.slow
def test_that_one_thread_is_not_tried_against_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "quickest_way", None)
    torch.set_num_threads(1)
    run = TrainingRun(parse_recipe(RECIPE), tmp_path / "run", "cpu")
    assert run.choose_threads() == ONE
    list(run.events())


def _precision_note(folder: Path, n_steps: int, monkeypatch: pytest.MonkeyPatch, *, is_quick: bool) -> str:
    """What a run says of its products on a CPU that has bfloat16, quick or not; it is made to `n_steps`."""
    monkeypatch.setattr(descent, "has_quick_bfloat16", lambda _device: is_quick)
    monkeypatch.setattr(descent, "has_bfloat16_instructions", lambda: True)
    recipe = parse_recipe(RECIPE.replace("n_steps = 3", f"n_steps = {n_steps}"))
    run = TrainingRun(recipe, folder, "cpu", may_lengthen=True)
    (note,) = [event.note for event in run.events() if isinstance(event, Started)]
    return note


@pytest.mark.slow
@pytest.mark.parametrize("is_quick", [True, False])
def test_that_a_resumed_run_multiplies_in_the_precision_it_began_with(
    is_quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = _precision_note(tmp_path / "run", 2, monkeypatch, is_quick=is_quick)
    resumed = _precision_note(tmp_path / "run", 3, monkeypatch, is_quick=not is_quick)
    assert ("bfloat16" in begun) is ("bfloat16" in resumed) is is_quick


@pytest.mark.slow
def test_that_a_run_of_an_older_version_goes_on_in_the_precision_of_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _precision_note(tmp_path / "run", 2, monkeypatch, is_quick=True)
    (tmp_path / "run" / descent.PRECISION_NAME).unlink()
    assert "bfloat16" in _precision_note(tmp_path / "run", 3, monkeypatch, is_quick=False)


def test_that_python_trains_in_the_quickest_way_and_gives_the_threads_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descent, "quickest_way", lambda work, ways, n_rounds: Way(2, True))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        events = train(RECIPE, tmp_path / "run")
        assert isinstance(next(events), Started)
        assert torch.get_num_threads() == 1
        events.close()
        assert torch.get_num_threads() == 2
        assert kept_ways(tmp_path / "run") == {1: Way(2, True)}
    finally:
        torch.set_num_threads(before)
