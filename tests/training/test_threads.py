"""The number of threads: the quickest of those tried, kept for whoever goes on, and no trace else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from attnscope.records import Started, Step
from attnscope.training import (
    TrainingRun,
    Way,
    descent,
    kept_way,
    loop,
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
    descent.keep_way(tmp_path, way)
    assert kept_way(tmp_path) == way


def test_that_a_number_kept_by_an_older_version_is_of_threads_in_products(tmp_path: Path) -> None:
    (tmp_path / descent.THREADS_NAME).write_bytes(b"2\n")
    assert kept_way(tmp_path) == TWO


@pytest.mark.parametrize(
    "text", [b"", b"many", b"-3", b"1e9", b"\xff\xfe", b"2 4", b" by rows", b"0 by rows"]
)
def test_that_a_number_that_cannot_be_is_tried_anew(text: bytes, tmp_path: Path) -> None:
    (tmp_path / descent.THREADS_NAME).write_bytes(text)
    assert kept_way(tmp_path) is None


def _run(folder: Path, choose: bool) -> tuple[list[float], Way | None]:
    torch.set_num_threads(2)
    run = TrainingRun(parse_recipe(RECIPE), folder, "cpu")
    n = run.choose_threads() if choose else None
    return [event.loss for event in run.events() if isinstance(event, Step)], n


@pytest.mark.slow
def test_that_the_trial_changes_no_number_of_the_run_and_its_choice_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(work: Callable[[Way], object], ways: list[Way]) -> Way:
        for way in ways:
            work(way)
        return ways[-1]

    monkeypatch.setattr(loop, "quickest_way", choose)
    plain, _ = _run(tmp_path / "plain", choose=False)
    tried, n = _run(tmp_path / "tried", choose=True)
    assert tried == plain
    assert n == kept_way(tmp_path / "tried") == TWO
    assert kept_way(tmp_path / "plain") is None


@pytest.mark.slow
def test_that_a_run_with_a_kept_number_takes_it_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_work: Callable[[Way], object], _ways: list[Way]) -> Way:
        raise AssertionError("tried again")

    monkeypatch.setattr(loop, "quickest_way", refuse)
    (tmp_path / "run").mkdir()
    torch.set_num_threads(2)
    run = TrainingRun(parse_recipe(RECIPE), tmp_path / "run", "cpu")
    descent.keep_way(tmp_path / "run", ONE)
    assert run.choose_threads() == ONE
    assert torch.get_num_threads() == 1
    list(run.events())


@pytest.mark.slow
def test_that_one_thread_is_not_tried_against_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "quickest_way", None)
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
    monkeypatch.setattr(loop, "quickest_way", lambda work, ways: Way(2, True))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        events = train(RECIPE, tmp_path / "run")
        assert isinstance(next(events), Started)
        assert torch.get_num_threads() == 1
        events.close()
        assert torch.get_num_threads() == 2
        assert kept_way(tmp_path / "run") == Way(2, True)
    finally:
        torch.set_num_threads(before)
