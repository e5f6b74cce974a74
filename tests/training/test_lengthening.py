"""Going on with a finished run: the same bits where the schedule allows it, else a note says what jumps."""

import argparse
import math
from pathlib import Path

import pytest
import torch

from attnscope.cli import train as command
from attnscope.cli.train import resumed_words
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.models import load, read_model_folder
from attnscope.records import Finished, Started, Step, TrainingEvent
from attnscope.training import differences, length_note, parse_recipe, read_recipe, read_run, train

pytestmark = pytest.mark.slow


def _arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["train", *words])


def _train(recipe: str, out: Path, n_steps: int, *, may_lengthen: bool = False, **more: str) -> list:
    overrides = {"training.n_steps": str(n_steps), **{k.replace("__", "."): v for k, v in more.items()}}
    return list(train(recipe, out, "cpu", overrides, may_lengthen=may_lengthen))


def _started(events: list[TrainingEvent]) -> Started:
    assert isinstance(events[0], Started)
    return events[0]


@pytest.mark.parametrize("kind", ["constant", "noam", "warming"])
def test_that_a_lengthened_run_is_one_that_was_so_long_from_the_start(
    task_recipe: str, tmp_path: Path, kind: str
) -> None:
    wishes = {"schedule__kind": kind}
    if kind == "warming":  # while the rate rises, no schedule looks at the length
        wishes = {"schedule__kind": "cosine", "schedule__warmup_steps": "4"}
    straight = _train(task_recipe, tmp_path / "straight", 7, **wishes)
    first = _train(task_recipe, tmp_path / "run", 4, **wishes)
    assert isinstance(first[-1], Finished)
    assert first[-1].reason == "done"
    arguments = _arguments("--resume", str(tmp_path / "run"), "--steps", "7")
    assert arguments.run(arguments) == 0
    weights = [
        read_model_folder(tmp_path / name / "checkpoints" / "7").module.state_dict()
        for name in ("straight", "run")
    ]
    for name, expected in weights[0].items():
        assert torch.equal(expected, weights[1][name]), name
    record = read_run(tmp_path / "run")
    assert [e for e in record.events if isinstance(e, Step) and e.step > 4] != []
    rates = [e.learning_rate for e in straight if isinstance(e, Step)]
    assert [e.learning_rate for e in record.events if isinstance(e, Step)] == rates
    note = [e for e in record.events if isinstance(e, Started)][-1].note
    assert "now 7 steps long instead of 4" in note
    assert "as if it had been this long from the start" in note
    assert "n_steps = 7" in record.recipe
    assert load(tmp_path / "run").own.card.training["n_steps"] == 7


def test_that_a_falling_schedule_becomes_that_of_the_new_length_and_a_note_says_so(
    task_recipe: str, tmp_path: Path
) -> None:
    wishes = {"schedule__kind": "linear", "schedule__warmup_steps": "0", "optimizer__learning_rate": "0.01"}
    first = _train(task_recipe, tmp_path / "run", 4, **wishes)
    assert [e.learning_rate for e in first if isinstance(e, Step)] == pytest.approx(
        [0.0075, 0.005, 0.0025, 0]
    )
    more = _train(task_recipe, tmp_path / "run", 8, may_lengthen=True, **wishes)
    rates = [e.learning_rate for e in more if isinstance(e, Step)]
    assert rates == pytest.approx([0.01 * (8 - step) / 8 for step in (5, 6, 7, 8)])
    note = _started(more).note
    assert "linear schedule of 8 steps: it goes from 0 at step 4 to 0.00375 at the next" in note
    assert "would have different weights" in note


def test_that_nobody_makes_such_a_run_longer_by_accident(task_recipe: str, tmp_path: Path) -> None:
    _train(task_recipe, tmp_path / "run", 2, schedule__kind="cosine")
    before = (tmp_path / "run" / "recipe.toml").read_bytes()
    with pytest.raises(RecipeError, match="--resume"):
        _train(task_recipe, tmp_path / "run", 3, schedule__kind="cosine")
    with pytest.raises(RecipeError, match="different recipe"):  # nothing else may change along
        _train(
            task_recipe, tmp_path / "run", 3, may_lengthen=True, schedule__kind="cosine", training__seed="9"
        )
    assert (tmp_path / "run" / "recipe.toml").read_bytes() == before


def test_that_resuming_from_its_folder_alone_needs_no_recipe(task_recipe: str, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    (tmp_path / "recipe.toml").write_text(task_recipe, encoding="utf-8")
    arguments = _arguments(str(tmp_path / "recipe.toml"), "--out", run, "--until", "2")
    assert arguments.run(arguments) == 0
    arguments = _arguments("--resume", run)
    assert arguments.run(arguments) == 0
    assert load(run).own.card.training["step"] == 6
    assert read_recipe(tmp_path / "run" / "recipe.toml").training.n_steps == 6


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (("--resume", "RUN", "--steps", "2"), UserError, "has already completed 2 steps"),
        (("--resume", "nowhere", "--steps", "9"), LoadError, "nowhere holds no run"),
        (("--resume", "RUN", "--out", "other"), UserError, "--out was given too"),
        (("--resume", "RUN", "--seeds", "3"), UserError, "--seeds was given too"),
        (("--steps", "9"), UserError, "There is no recipe"),
        (("induction", "--steps", "9", "--set", "training.n_steps=8"), UserError, "length is given twice"),
        ((), UserError, "There is no recipe"),
    ],
    ids=["too short", "no run", "two folders", "several seeds", "steps alone", "two lengths", "nothing"],
)
def test_that_what_cannot_go_on_is_told(
    task_recipe: str, tmp_path: Path, words: tuple[str, ...], kind: type[UserError], said: str
) -> None:
    _train(task_recipe, tmp_path / "run", 2)
    arguments = _arguments(*(str(tmp_path / "run") if word == "RUN" else word for word in words))
    with pytest.raises(kind, match=said):
        arguments.run(arguments)


def test_that_a_new_run_has_the_steps_that_are_asked_for(tmp_path: Path) -> None:
    arguments = _arguments("copy", "--steps", "3", "--out", str(tmp_path / "run"))
    assert arguments.run(arguments) == 0
    assert load(str(tmp_path / "run")).own.card.training["step"] == 3
    assert read_recipe(tmp_path / "run" / "recipe.toml").training.n_steps == 3


WARMUP, RATE = 3, 0.01


def _rate(kind: str, step: int, n_steps: int) -> float:
    """A step's learning rate: a straight rise, then what the kind says; Noam as in equation 3."""
    if kind == "noam":
        return 16**-0.5 * min(step**-0.5, step * WARMUP**-1.5)
    if step <= WARMUP:
        return RATE * step / WARMUP
    if kind == "trapezoid":
        return RATE * min(1.0, (n_steps - step) / (0.4 * n_steps))
    done = (step - WARMUP) / (n_steps - WARMUP)
    return (
        RATE * {"constant": 1.0, "linear": 1.0 - done, "cosine": (1.0 + math.cos(math.pi * done)) / 2}[kind]
    )


def _recipes(text: str, kind: str, **more: str) -> tuple:
    choices = {
        "schedule.kind": kind,
        "schedule.warmup_steps": str(WARMUP),
        "optimizer.learning_rate": str(RATE),
        "schedule.decay_share": "0.4",
    }
    more = {k.replace("__", "."): v for k, v in more.items()}
    lengths = ("8", "12")
    return tuple(parse_recipe(text, overrides={**choices, **more, "training.n_steps": n}) for n in lengths)


@pytest.mark.parametrize("kind", ["constant", "noam", "linear", "cosine", "trapezoid"])
def test_that_the_note_promises_the_same_weights_just_where_every_rate_was_the_same(
    task_recipe: str, kind: str
) -> None:
    earlier, longer = _recipes(task_recipe, kind)
    for step in range(1, 9):
        is_same = all(_rate(kind, t, 8) == _rate(kind, t, 12) for t in range(1, step + 1))
        note = length_note(earlier, longer, step)
        assert ("as if it had been this long from the start" in note) == is_same, step
        assert ("would have different weights" in note) != is_same, step
        rates = (
            f"from {_rate(kind, step, 8):.3g} at step {step} to {_rate(kind, step + 1, 12):.3g} at the next"
        )
        assert (rates in note) != is_same, step
    assert length_note(longer, longer, 5) == ""


def test_that_a_pool_of_repeated_words_follows_the_length_whatever_the_rate_does(tiny_recipe: str) -> None:
    for kind, step in (("constant", 5), ("cosine", 2), ("linear", 0)):
        note = length_note(*_recipes(tiny_recipe, kind, data__repeated_share="0.5"), step)
        assert "From here on, the pool of repeated words is that of the new length." in note
        assert "as if it had been this long" not in note
        assert ("it goes from" in note) == (kind == "cosine")  # a run without a step has no rate before


def test_that_a_run_may_become_longer_and_never_shorter(task_recipe: str) -> None:
    earlier, longer = _recipes(task_recipe, "cosine")
    assert differences(earlier, longer, may_lengthen=True) == ()
    assert differences(earlier, longer) == ("training.n_steps: was 8, now 12",)
    assert differences(longer, earlier, may_lengthen=True) == ("training.n_steps: was 12, now 8",)


def test_that_the_words_of_a_resumed_run_ask_for_it_again() -> None:
    for words in (["--resume", "my run", "--steps", "9"], ["--resume", "my run"]):
        assert resumed_words(_arguments(*words)) == words
    assert resumed_words(_arguments("induction", "--out", "x")) == []
