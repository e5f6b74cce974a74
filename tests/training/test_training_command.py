"""`attnscope train`: what it prints, what it leaves, and how it ends."""

import argparse
import json
import re
import zlib
from pathlib import Path

import pytest
import torch

from attnscope.cli import train as command
from attnscope.counting import shell_line
from attnscope.errors import LoadError, RecipeError
from attnscope.models import load
from attnscope.records import Step
from attnscope.training import find_recipe

pytestmark = pytest.mark.slow


def _arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")  # as the program's own parser has it
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["train", *words])


@pytest.fixture
def recipe_file(tmp_path: Path, task_recipe: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(task_recipe, encoding="utf-8")
    return path


def test_that_training_ends_with_0_and_a_run_folder(recipe_file: Path, tmp_path: Path) -> None:
    arguments = _arguments(str(recipe_file), "--out", str(tmp_path / "run"), "--device", "cpu")
    assert arguments.run(arguments) == 0
    assert load(tmp_path / "run").own.card.training["step"] == 6


def test_that_a_run_that_has_ended_says_what_can_be_done_with_it(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "my run")
    words = (str(recipe_file), "--out", run, "--device", "cpu")
    for more, told in ((("--until", "2"), "attnscope train --resume"), ((), "attnscope open")):
        arguments = _arguments(*words, *more)
        assert arguments.run(arguments) == 0
        assert capsys.readouterr().err.splitlines()[-1].endswith(f"{told} {shell_line([run])}")


def test_that_json_gives_one_event_a_line(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = _arguments(
        str(recipe_file), "--out", str(tmp_path / "run"), "--json", "--set", "training.n_steps=2"
    )
    assert arguments.run(arguments) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [e["event"] for e in events] == [
        "Started",
        "Saved",
        "Step",
        "Step",
        "Evaluated",
        "Saved",
        "Finished",
    ]
    assert events[-1]["reason"] == "done"


def test_that_an_export_is_a_model_folder_with_a_card(recipe_file: Path, tmp_path: Path) -> None:
    words = (str(recipe_file), "--out", str(tmp_path / "run"), "--export", str(tmp_path / "model"))
    arguments = _arguments(*words, "--set", "training.name=backwards")
    assert arguments.run(arguments) == 0
    model = load(tmp_path / "model")
    assert model.info.name == "backwards"
    for part in ("# backwards", "attnscope train", "training.name=backwards", "Seed 3", "Validation loss"):
        assert part in model.own.card.text


def test_that_the_card_of_a_translator_tells_bleu_on_what_training_never_saw(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    lines = (f"{n} red cats see a dog\t{n} rote Katzen sehen einen Hund\n" for n in range(40))
    pairs.write_text("".join(lines), encoding="utf-8")
    changes = {
        "data.path": pairs,
        "data.validation_share": 0.2,
        "tokenizer.vocab_size": 300,
        "model.d_model": 16,
        "model.d_ff": 16,
        "training.n_steps": 1,
        "training.batch_size": 4,
        "schedule.warmup_steps": 1,
    }
    words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    out = ("--out", str(tmp_path / "run"), "--export", str(tmp_path / "model"))
    arguments = _arguments("english-french", *out, *words)
    assert arguments.run(arguments) == 0
    card = load(tmp_path / "model").own.card.text
    n_kept = sum(zlib.crc32(f"{n} red cats see a dog".encode()) % 5 == 0 for n in range(40))
    assert re.search(
        rf"BLEU \d+\.\d( \(.*\))?, greedy, all references .*; .* {n_kept} held-out sentences", card
    )
    assert "On 60 everyday pairs, aligned by hand:" in card
    assert "95 % bootstrap interval over 60 pairs" in card


def test_that_an_export_in_half_precision_is_half_as_large_and_opens_in_float32(
    recipe_file: Path, tmp_path: Path
) -> None:
    words = (str(recipe_file), "--out", str(tmp_path / "run"), "--export", str(tmp_path / "model"), "--half")
    arguments = _arguments(*words)
    assert arguments.run(arguments) == 0
    whole = load(tmp_path / "run").own.module.state_dict()
    half = load(tmp_path / "model")
    assert "in float16" in half.own.card.text
    assert half.info.note == ""
    for name, weight in half.own.module.state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, whole[name].half().float())
    size = (tmp_path / "model" / "model.safetensors").stat().st_size
    n_header = 8 + int.from_bytes((tmp_path / "model" / "model.safetensors").read_bytes()[:8], "little")
    assert size - n_header == 2 * sum(weight.numel() for weight in whole.values())


def test_that_a_built_in_recipe_is_found_by_its_name(tmp_path: Path) -> None:
    assert find_recipe("copy").name == "copy.toml"
    assert find_recipe("copy").is_file()
    assert find_recipe("no such recipe") == Path("no such recipe")


def test_that_an_override_without_a_value_is_a_recipe_error() -> None:
    assert command.read_overrides(["a.b = 1", "c.d=x=y"]) == {"a.b": "1", "c.d": "x=y"}
    with pytest.raises(RecipeError) as caught:
        command.read_overrides(["training.n_steps"])
    assert "section.key=value" in str(caught.value)


def test_that_a_missing_recipe_is_a_load_error(tmp_path: Path) -> None:
    arguments = _arguments(str(tmp_path / "none.toml"), "--out", str(tmp_path / "run"))
    with pytest.raises(LoadError):
        arguments.run(arguments)


def test_that_a_diverged_run_ends_with_2(
    recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.training.loop.learning_rate_at", lambda step, recipe: 1e30)
    arguments = _arguments(str(recipe_file), "--out", str(tmp_path / "run"))
    assert arguments.run(arguments) == 2


def test_that_the_bar_says_how_far_and_how_long() -> None:
    teller = command._BarTeller()
    teller._n_steps = 200
    step = Step(step=50, loss=1.25, learning_rate=1e-3, gradient_norm=1.0, tokens_per_s=12_345.6)
    line = teller.bar(step, elapsed_s=30.0)
    assert "validation" not in line
    for part in ("50/200", "loss 1.2500", "12,346 tokens/s", "1:30 left", "██████····"):
        assert part in line


def test_that_a_run_that_is_to_stop_early_is_told_the_time_until_then() -> None:
    teller = command._BarTeller(until=60)
    teller._n_steps = 200
    step = Step(step=50, loss=1.25, learning_rate=1e-3, gradient_norm=1.0, tokens_per_s=9.0)
    assert "50/200" in teller.bar(step, elapsed_s=30.0)
    assert "0:06 left" in teller.bar(step, elapsed_s=30.0)


def test_that_a_loss_is_told_with_its_unit_and_an_accuracy_as_one(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = _arguments(str(recipe_file), "--out", str(tmp_path / "run"))
    assert arguments.run(arguments) == 0
    told = capsys.readouterr().err
    assert re.search(r"step \d+ of \d+: validation \d\.\d{4} nats per [a-z ]*token, accuracy \d+\.\d %", told)
    assert re.search(r"done at step \d+\. validation \d\.\d{4} nats per ", told)
