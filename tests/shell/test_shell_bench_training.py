"""The bench of training: loops in turns, rivals at their best, rows that can fail."""

import json
from pathlib import Path

import pytest
import torch

from attnscope import boot
from attnscope.errors import UserError
from attnscope.training import parse_recipe, prepare
from bench import training
from bench.report import Measurement, NotRun
from bench.training import ALONE, MOST_WORSE, OURS, TARGET, Turns, is_judged, rows
from bench.training_loops import MOST_S, N_TOKENS, N_WINDOWS, RECIPE, TEXT, OwnLoop, PlainLoop, answers


class Clocked:
    """A loop whose steps are counted."""

    n_steps = 0

    def step(self) -> None:
        self.n_steps += 1

    def loss(self) -> float:
        return 1.5

    def words(self) -> str:
        return "threads: 2 by rows"


def test_that_a_loop_makes_the_steps_it_is_asked_for_and_tells_its_loss() -> None:
    loop = Clocked()
    took, end = (json.loads(line) for line in answers(loop, iter(["3\n", "loss\n"])))
    assert loop.n_steps == len(took) == 3
    assert end == {"loss": 1.5, "words": "threads: 2 by rows", "n_steps": 3}


def test_that_a_turn_of_slow_steps_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 2))
    monkeypatch.setattr("bench.training_loops.time.perf_counter", lambda: float(next(now)))
    (line,) = answers(Clocked(), iter(["8\n"]))
    took = json.loads(line)
    assert took == [2.0, 2.0]
    assert sum(took[:-1]) < MOST_S


@pytest.mark.slow
def test_that_every_loop_learns_the_same_characters(tmp_path: Path) -> None:
    n = torch.get_num_threads()
    text = "the quick brown fox jumps over the lazy dog\n" * 60
    (tmp_path / TEXT).write_text(text)
    try:
        for loop in (OwnLoop(tmp_path, "cpu", 2), PlainLoop(tmp_path, "plain", 1)):
            begun = None
            for _ in range(4):
                loop.step()
                loop.step()
                begun = begun or loop.loss()
            assert loop.loss() < begun
    finally:
        torch.set_num_threads(n)


def test_that_the_best_rival_counts_and_each_promise_can_be_missed() -> None:
    turns = {
        OURS: [0.03, 0.03, 0.03],
        ALONE: [0.02, 0.02, 0.02],
        "plain PyTorch loop, 1 thread": [0.08, 0.08, 0.08],
        "plain PyTorch loop, 2 threads": [0.05, 0.05, 0.04],
        "Hugging Face GPT-2, 1 thread": [0.01, 0.01, 0.01],
    }
    ends = {name: {"loss": 2.0, "words": "", "n_steps": 24} for name in turns}
    found = {row.name: row for row in rows(turns, ends) if isinstance(row, Measurement)}
    best = found["training, step / that of plain PyTorch loop, 2 threads"]
    assert best.value == pytest.approx(0.6)
    assert best.target == TARGET
    assert best.is_met is False
    assert found[f"training, step / that of {ALONE}"].is_met is False
    assert found["training, AttnScope"].value == pytest.approx(25_600)
    assert "loss 2.000" in found["training, AttnScope"].note


@pytest.mark.parametrize(("ours", "is_met"), [(1.99, True), (2.0 + MOST_WORSE / 2, True), (2.2, False)])
def test_that_a_loss_worse_than_that_of_others_is_a_missed_promise(ours: float, is_met: bool) -> None:
    losses = {
        OURS: ours,
        ALONE: 1.0,
        "plain PyTorch loop, 1 thread": 2.0,
        "Hugging Face GPT-2, 1 thread": 1.0,
    }
    turns = {name: [0.03] for name in losses}
    ends = {name: {"loss": loss, "words": "", "n_steps": 24} for name, loss in losses.items()}
    ends["plain PyTorch loop, 2 threads"] = {"loss": 0.5, "words": "", "n_steps": 40}
    turns["plain PyTorch loop, 2 threads"] = [0.1]
    (row,) = (row for row in rows(turns, ends) if isinstance(row, Measurement) and row.unit == "nats")
    assert row.value == pytest.approx(ours - 2.0)
    assert row.is_met is is_met
    for name in list(ends)[2:]:
        ends[name]["n_steps"] = 8
    assert any("24 steps" in row.reason for row in rows(turns, ends) if isinstance(row, NotRun))


@pytest.mark.slow
def test_that_the_loss_of_every_loop_is_over_the_same_characters(
    tmp_path: Path,
) -> None:
    n = torch.get_num_threads()
    lines = [f"{i} Été: “the” quick\tbrown fox, {'x' * (i % 7)}!" for i in range(2_500)]
    (tmp_path / TEXT).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    try:
        ours = prepare(parse_recipe(RECIPE.format(n_steps=2), base_folder=tmp_path))
        reading = ours.tokenizer.entries.reading
        asked = [reading(int(id)).text for batch in ours.batches.evaluation() for id in batch.labels]
        theirs = PlainLoop(tmp_path, "plain", 1)
        assert len(asked) == N_WINDOWS * N_TOKENS
        assert asked == [theirs.characters[int(id)] for id in theirs.windows()[1].flatten()]
    finally:
        torch.set_num_threads(n)


def test_that_a_turn_that_some_loops_no_longer_have_counts_for_the_others() -> None:
    plain = "plain PyTorch loop, 1 thread"
    turns = {OURS: [0.02, 0.02, 0.02, 0.02], ALONE: [0.03, 0.03], plain: [0.1, 0.1, 0.1, 0.02]}
    ends = {name: {"loss": 2.0, "words": "", "n_steps": 24} for name in turns}
    found = {row.name: row for row in rows(turns, ends) if isinstance(row, Measurement)}
    assert found[f"training, step / that of {ALONE}"].n_samples == 2
    assert found[f"training, step / that of {plain}"].n_samples == 4


def test_that_loops_beside_go_on_until_it_is_clear_which_limits_are_kept() -> None:
    plain = "plain PyTorch loop, 1 thread"
    judged = {OURS: [0.02, 0.021], ALONE: [0.03, 0.03], plain: [0.1, 0.1]}
    assert is_judged(judged)
    assert not is_judged({**judged, plain: [0.041, 0.039]})
    assert not is_judged({**judged, ALONE: [0.02, 0.0199]})


def test_that_a_rival_has_none_of_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    class Process:
        def __init__(self, _words: list[str], env: dict[str, str], **_choices: object) -> None:
            seen.update(env)

    monkeypatch.setattr(training.subprocess, "Popen", Process)
    ours = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1", "KMP_BLOCKTIME": "0", "PATH": "here"}
    monkeypatch.setattr(boot, "environment", lambda: ours)
    Turns("plain", "folder", variables={})
    assert seen == {"PATH": "here"}


@pytest.mark.slow
def test_that_a_loop_that_cannot_begin_is_an_error(tmp_path: Path) -> None:
    with (
        Turns("a loop", str(tmp_path / "nowhere"), "plain", "1", "2", variables={}) as loop,
        pytest.raises(UserError, match="a loop of the bench"),
    ):
        loop.ask("1")
