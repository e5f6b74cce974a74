"""Recipes on paper: sizes of the literature, memory that fits or not, and speed."""

import dataclasses
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope import paths
from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.nn import PRESETS
from attnscope.records import Plan
from attnscope.training import (
    Recipe,
    Watch,
    look_bytes,
    pace_of,
    parse_recipe,
    plan_recipe,
    prepare,
    preset_rows,
    read_recipe,
    step_flops,
    write_recipe,
)
from attnscope.viewmodels.training import new_recipe, with_model, with_written_value

CPU = torch.device("cpu")
TEXT = """
[model]
d_model = 64
n_layers = 4
n_heads = 4
d_ff = 128
max_tokens = 64
[data]
kind = "text"
path = "some.txt"
[objective]
kind = "causal"
[tokenizer]
vocab_size = 512
[training]
n_steps = 100
batch_size = 32
save_every = 40
precision = "float32"
"""


@pytest.fixture
def recipe() -> Recipe:
    return parse_recipe(TEXT)


def plan_of(recipe: Recipe, available: int = 10**12) -> Plan:
    return plan_recipe(recipe, CPU, available=available)


def test_that_a_plan_counts_by_hand(recipe: Recipe) -> None:
    plan = plan_of(recipe)
    layer = 2 * 2 * 64 + (64 * 192 + 192) + (64 * 64 + 64) + (64 * 128 + 128) + (128 * 64 + 64)
    assert plan.n_parameters == 512 * 64 + 64 * 64 + 4 * layer + 2 * 64
    matrices = 4 * (64 * 192 + 64 * 64 + 2 * 64 * 128) + 64 * 512
    forward = 2 * 64 * matrices + 4 * 4 * (64 * 65 // 2) * 64
    whole = 2 * 64 * matrices + 4 * 4 * 64 * 64 * 64
    assert plan.flops_a_step in (3 * 32 * forward, 3 * 32 * whole)
    assert plan.tokens_a_step == 32 * 64
    assert plan.n_checkpoints == 4  # steps 0, 40, 80 and 100
    assert plan.disk_bytes == 4 * 4 * plan.n_parameters + 3 * 8 * plan.n_parameters
    assert dict(plan.memory)["moments of the optimiser"] == 8 * plan.n_parameters


def test_that_a_plan_counts_what_other_threads_and_texts_take(recipe: Recipe, tmp_path: Path) -> None:
    n = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        parts = dict(plan_of(recipe).memory)
        again = replace(recipe, training=replace(recipe.training, checkpointing=True))
        assert "gradients of other threads" not in dict(plan_of(again).memory)
    finally:
        torch.set_num_threads(n)
    assert parts["gradients of other threads"] >= 3 * parts["gradients"]
    assert "what it learns from" not in parts
    (tmp_path / "text").write_bytes(bytes(1000))
    there = replace(recipe, data=replace(recipe.data, path=str(tmp_path / "text")))
    assert dict(plan_of(there).memory)["what it learns from"] >= 9 * 1000  # 8 bytes for each token


def test_that_computing_blocks_again_costs_a_forward_pass_more(recipe: Recipe) -> None:
    again = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, checkpointing=True))
    assert step_flops(again, 64) == pytest.approx(step_flops(recipe, 64) * 4 / 3)
    assert plan_of(again).memory_bytes < plan_of(recipe).memory_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_that_a_preset_written_into_a_recipe_is_that_model(name: str) -> None:
    row = next(row for row in preset_rows() if row.name == name)
    text = with_written_value(with_model(TEXT, row.keys), "objective", "kind", f'"{row.objective}"')
    text = with_written_value(text, "tokenizer", "vocab_size", str(row.vocab_size))
    text = with_written_value(text, "data", "kind", '"pairs"' if row.objective == "translation" else '"text"')
    assert parse_recipe(text).model == PRESETS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt-2-large", "bert-base-masked", "transformer-base", "t5-small"])
def test_that_a_new_recipe_of_a_preset_lacks_but_its_data(name: str) -> None:
    row = next(row for row in preset_rows() if row.name == name)
    found = parse_recipe(new_recipe(row), needs_data=False)
    assert found.model == PRESETS[name]
    plan = plan_of(found)
    assert plan.n_parameters == row.n_parameters
    assert "data.path is empty" in plan.notes[0]
    with pytest.raises(RecipeError, match=r"data\.path is empty"):
        parse_recipe(new_recipe(row))


@pytest.mark.parametrize(
    "name",
    ["addition", "entailment", "induction-memory", "largest-inducing", "reverse-deep", "next-sentence"],
)
def test_that_the_tokens_of_a_step_are_those_of_the_batches(name: str) -> None:
    whole = read_recipe(paths.resources_folder() / "recipes" / f"{name}.toml")
    recipe = replace(whole, data=replace(whole.data, n_examples=1000))
    batches = prepare(recipe).batches
    read = [batches.draw(np.random.default_rng((1, step)), 0.0).n_tokens for step in range(1, 31)]
    assert plan_of(recipe).tokens_a_step == pytest.approx(
        np.mean(read) * recipe.training.accumulate, rel=0.03
    )


def test_that_a_plan_says_which_data_cannot_be_read(tmp_path: Path) -> None:
    text = (
        '[data]\nkind = "{kind}"\npath = "{path}"\n[objective]\nkind = "{objective}"\n[model]\nd_model = 8\n'
        "n_layers = 1\nn_heads = 2\nd_ff = 8\nmax_tokens = 8\n{more}\n[training]\nn_steps = 1\n"
    )
    (tmp_path / "pictures").mkdir()
    missing = text.format(kind="text", path=tmp_path / "none.txt", objective="causal", more="")
    assert "none.txt cannot be read: it does not exist." in plan_of(parse_recipe(missing)).notes[0]
    folder = text.format(
        kind="pictures", path=tmp_path / "pictures", objective="classification", more="patch_size = 4"
    )
    assert not any("To run it needs data" in note for note in plan_of(parse_recipe(folder)).notes)


def test_that_the_speed_of_an_earlier_run_is_taken(recipe: Recipe, tmp_path: Path) -> None:
    run = tmp_path / "before"
    run.mkdir()
    (run / "recipe.toml").write_text(write_recipe(recipe))
    lines = [{"attempt": 1, "event": "started", "device": "cpu"}]
    lines += [{"attempt": 1, "event": "step", "step": i, "tokens_per_s": 1000.0} for i in range(1, 9)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pace = pace_of(recipe, CPU, [tmp_path])
    assert "before" in pace.words
    plan = plan_recipe(recipe, CPU, pace=pace)
    assert plan.seconds is not None
    assert plan.seconds[1] - plan.beside_seconds == pytest.approx(100 * 32 * 64 / 1000.0)
    assert plan.seconds[0] < plan.seconds[1] < plan.seconds[2]


def test_that_without_an_earlier_run_products_are_timed(recipe: Recipe, tmp_path: Path) -> None:
    pace = pace_of(recipe, CPU, [tmp_path, tmp_path / "missing"])
    assert pace.flops_per_s > 1e6
    assert "measured" in pace.words


def test_that_the_command_line_plans_without_a_run_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "copy", "--plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fits"] is True
    assert told["n_parameters"] == sum(told["parameters"].values())
    assert main(["train", "copy", "--plan", "--set", "training.batch_size=65536"]) in (0, 2)
    assert main(["train", "copy"]) == 2


def test_that_the_command_line_lists_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--presets"]) == 0
    text = capsys.readouterr().out
    assert "transformer-base" in text
    assert "63,082,496" in text
    assert re.search(r"transformer-base .* 65 M .* 4\.5 M pairs +8 P100, 12 hours", text)
    assert main(["info"]) == 2


@pytest.mark.slow
def test_that_a_preset_is_shown_and_planned_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "gpt-2-large"]) == 0
    told = capsys.readouterr().out
    assert "774,030,080" in told
    assert "d_model" in told
    assert "forward pass" in told
    assert main(["info", "gpt-2", "--json"]) == 0
    assert sum(json.loads(capsys.readouterr().out)["parts"].values()) == 124_439_808
    assert main(["train", "gpt-2", "--plan", "--set", "training.batch_size=1"]) in (0, 2)
    assert "124,439,808" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["revers"], "Did you mean reverse?"),
        (["copy", "--set", "model.n_layrs=2"], "key 'n_layrs'. Did you mean n_layers? Remove"),
        (["copy", "--set", "training.n_step=2"], "Did you mean n_steps?"),
        (["copy", "--set", "trainig.n_steps=2"], "Did you mean training.n_steps?"),
        (["copy", "--set", "model.preset=gpt-2"], "attnscope info --presets"),
    ],
)
def test_that_a_misspelt_name_is_answered_with_the_near_one(
    capsys: pytest.CaptureFixture[str], words: list[str], found: str
) -> None:
    assert main(["train", *words, "--plan"]) == 2
    assert found in capsys.readouterr().err


def test_that_cells_are_given_time_for_each_token_and_no_transformers_speed(
    recipe: Recipe, tmp_path: Path
) -> None:
    cells = parse_recipe(
        '[model]\nbody = "gru"\nd_model = 16\nn_heads = 1\n'
        '[data]\nkind = "task"\ntask = "reverse"\n[objective]\nkind = "translation"\n'
        "[training]\nn_steps = 9\nbatch_size = 2\n"
    )
    pace, n_tokens = pace_of(cells, CPU, []), plan_of(cells).mean_tokens
    assert plan_of(cells).flops_a_step / pace.flops_per_s > n_tokens * 0.0009
    run = tmp_path / "before"
    run.mkdir()
    (run / "recipe.toml").write_text(write_recipe(recipe))
    lines = [{"event": "started", "device": "cpu"}, *[{"event": "step", "tokens_per_s": 1000.0}] * 8]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "before" in pace_of(recipe, CPU, [tmp_path]).words
    assert "before" not in pace_of(cells, CPU, [tmp_path]).words


def test_that_a_plan_counts_what_is_kept_of_watched_sentences(recipe: Recipe) -> None:
    """n_steps 100 and save_every 40: besides checkpoints steps 1, 2, 5, 10, 20 and 50 are looked at."""
    watching = replace(recipe, watch=(Watch(text="O Romeo, Romeo!"),))
    more = plan_of(watching).disk_bytes - plan_of(recipe).disk_bytes
    assert more == (4 + 6) * look_bytes(watching)
    assert look_bytes(recipe) == 0


def test_that_a_kept_look_is_no_larger_than_planned(tmp_path: Path) -> None:
    text = (paths.resources_folder() / "films" / "reverse" / "recipe.toml").read_text(encoding="utf-8")
    files = (paths.resources_folder() / "films" / "reverse" / "probes").glob("*.safetensors")
    largest = max(path.stat().st_size for path in files)
    assert 0.3 * look_bytes(parse_recipe(text)) < largest <= look_bytes(parse_recipe(text))
