"""The number of threads: the quickest of those tried, kept for whoever goes on, and no trace else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from attnscope.records.training import Started, Step
from attnscope.training import loop, threads
from attnscope.training.loop import TrainingRun
from attnscope.training.recipe import parse_recipe
from attnscope.training.threads import kept_threads, quickest_threads

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
    """Work takes as long as it is told for each number of threads."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.now, self._seconds, self.tried = 0.0, seconds, []

    def __call__(self) -> float:
        return self.now

    def work(self) -> None:
        self.tried.append(torch.get_num_threads())
        self.now += self._seconds[self.tried[-1]]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    n = torch.get_num_threads()
    yield
    torch.set_num_threads(n)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({1: 0.02, 2: 0.03}, 1),
        ({1: 0.02, 2: 0.0195}, 1),  # as quick with one
        ({1: 0.03, 2: 0.02}, 2),
        ({1: 0.05, 2: 0.03, 4: 0.02}, 4),
        ({1: 0.05, 2: 0.02, 4: 0.04}, 2),
        ({1: 60.0, 2: 30.0}, 2),
    ],
)
def test_that_the_quickest_number_is_found_and_nothing_left_changed(
    seconds: dict[int, float], expected: int
) -> None:
    before = torch.get_num_threads()
    clock = Clock(seconds)
    assert quickest_threads(clock.work, max(seconds), clock=clock) == expected
    assert torch.get_num_threads() == before
    assert set(clock.tried) == set(seconds)
    assert clock.now < 60.0 * 6 or max(seconds.values()) < 60.0  # long steps are tried twice each, no more
    if max(seconds.values()) >= 60.0:
        assert len(clock.tried) == 2 * len(seconds)


@pytest.mark.parametrize("text", [b"", b"many", b"-3", b"1e9", b"\xff\xfe", b"2 4"])
def test_that_a_number_that_cannot_be_is_tried_anew(text: bytes, tmp_path: Path) -> None:
    (tmp_path / threads.NAME).write_bytes(text)
    assert kept_threads(tmp_path) == 0


def _run(folder: Path, choose: bool) -> tuple[list[float], int]:
    torch.set_num_threads(2)
    run = TrainingRun(parse_recipe(RECIPE), folder, "cpu")
    n = run.choose_threads() if choose else 0
    return [event.loss for event in run.events() if isinstance(event, Step)], n


def test_that_the_trial_changes_no_number_of_the_run_and_its_choice_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(work: Callable[[], object], most: int) -> int:
        for _ in range(3):
            work()
        return most

    monkeypatch.setattr(loop, "quickest_threads", choose)
    plain, _ = _run(tmp_path / "plain", choose=False)
    tried, n = _run(tmp_path / "tried", choose=True)
    assert tried == plain
    assert n == kept_threads(tmp_path / "tried") == 2
    assert kept_threads(tmp_path / "plain") == 0


def test_that_a_run_with_a_kept_number_takes_it_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_work: Callable[[], object], _most: int) -> int:
        raise AssertionError("tried again")

    monkeypatch.setattr(loop, "quickest_threads", refuse)
    (tmp_path / "run").mkdir()
    torch.set_num_threads(2)
    run = TrainingRun(parse_recipe(RECIPE), tmp_path / "run", "cpu")
    threads.keep_threads(tmp_path / "run", 1)
    assert run.choose_threads() == torch.get_num_threads() == 1
    list(run.events())


def test_that_one_thread_is_not_tried_against_itself(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    run = TrainingRun(parse_recipe(RECIPE), tmp_path / "run", "cpu")
    assert run.choose_threads() == 1
    assert kept_threads(tmp_path / "run") == 0
    list(run.events())


def _precision_note(folder: Path, n_steps: int, monkeypatch: pytest.MonkeyPatch, *, is_quick: bool) -> str:
    """What a run says of its products on a CPU that has bfloat16, quick or not; it is made to `n_steps`."""
    monkeypatch.setattr(loop, "has_quick_bfloat16", lambda _device: is_quick)
    monkeypatch.setattr(loop, "has_bfloat16_instructions", lambda: True)
    recipe = parse_recipe(RECIPE.replace("n_steps = 3", f"n_steps = {n_steps}"))
    run = TrainingRun(recipe, folder, "cpu", may_lengthen=True)
    (note,) = [event.note for event in run.events() if isinstance(event, Started)]
    return note


@pytest.mark.parametrize("is_quick", [True, False])
def test_that_a_resumed_run_multiplies_in_the_precision_it_began_with(
    is_quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = _precision_note(tmp_path / "run", 2, monkeypatch, is_quick=is_quick)
    resumed = _precision_note(tmp_path / "run", 3, monkeypatch, is_quick=not is_quick)
    assert ("bfloat16" in begun) is ("bfloat16" in resumed) is is_quick


def test_that_a_run_of_an_older_version_goes_on_in_the_precision_of_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _precision_note(tmp_path / "run", 2, monkeypatch, is_quick=True)
    (tmp_path / "run" / threads.PRECISION_NAME).unlink()
    assert "bfloat16" in _precision_note(tmp_path / "run", 3, monkeypatch, is_quick=False)
