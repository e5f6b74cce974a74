"""Recurrent bodies train as Transformers do: from a recipe, the same bits each time, stopped or not."""

from pathlib import Path

import pytest
import torch

import attnscope as at
from attnscope.errors import RecipeError
from attnscope.records import Started, Step
from attnscope.training import TrainingRun, parse_recipe, read_run, write_recipe

pytestmark = pytest.mark.slow

BODIES = (
    {"model.body": "gru", "model.d_ff": "512", "model.score": "additive", "model.dropout": "0.2"},
    {"model.body": "lstm", "model.d_ff": "512", "model.feeds_context": "false", "model.local_reach": "2"},
    {"model.body": "gru", "model.d_ff": "512", "model.has_attention": "false"},
)


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_that_a_stopped_recurrent_run_goes_on_to_the_same_bits(
    task_recipe: str, tmp_path: Path, body: dict[str, str]
) -> None:
    recipe = parse_recipe(task_recipe, overrides=body)
    assert parse_recipe(write_recipe(recipe)) == recipe
    straight = [e.loss for e in TrainingRun(recipe, tmp_path / "a", "cpu").events() if isinstance(e, Step)]
    run, losses = TrainingRun(recipe, tmp_path / "b", "cpu"), []
    for event in run.events():
        if isinstance(event, Step):
            losses.append(event.loss)
            if event.step == 3:
                run.request_stop()
                assert run.model.trace("a b c", "c b a").check().is_good
    again = TrainingRun(recipe, tmp_path / "b", "cpu").events()
    losses += [event.loss for event in again if isinstance(event, Step)]
    assert losses == straight
    first, second = (at.load(tmp_path / name).own.module.state_dict() for name in "ab")
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_that_a_recipe_may_not_set_what_cells_ignore(task_recipe: str) -> None:
    cells = {"model.body": "gru", "model.d_ff": "512", "model.score": "additive"}
    for name, value in (("position", "rotary"), ("mask", "window"), ("norm_place", "post"), ("d_ff", "64")):
        with pytest.raises(RecipeError, match=rf"model\.{name} is .*{value}.*gru.* do not use it"):
            parse_recipe(task_recipe, overrides={**cells, f"model.{name}": value})
    with pytest.raises(RecipeError, match=r"d_ff = 512, mask = .full., or left out"):
        parse_recipe(task_recipe, overrides={**cells, "model.d_ff": "64", "model.mask": "window"})
    for name, value in (("position", "none"), ("has_feed_forward", "false"), ("n_heads", "4")):
        parse_recipe(task_recipe, overrides={**cells, f"model.{name}": value})


def test_that_a_run_of_an_older_version_goes_on_without_the_keys_its_cells_ignore(
    task_recipe: str, tmp_path: Path
) -> None:
    cells = {**BODIES[0], "schedule.kind": "constant"}
    straight = list(at.train(task_recipe, tmp_path / "straight", "cpu", cells))
    run = tmp_path / "run"
    list(at.train(task_recipe, run, "cpu", {**cells, "training.n_steps": "3"}))
    old = (run / "recipe.toml").read_text().replace("d_ff = 512", "d_ff = 64")
    old = old.replace('position = "learned"', 'position = "rotary"')
    (run / "recipe.toml").write_text(old)
    with pytest.raises(RecipeError, match="do not use it"):
        parse_recipe(old)
    assert 'position = "rotary"' not in read_run(run).recipe
    events = list(at.train(run / "recipe.toml", run, "cpu", {"training.n_steps": "6"}))
    assert isinstance(events[0], Started)
    assert events[0].note.startswith("Resumed at step 3. Removed from the recipe")
    assert "model.d_ff = 64, model.position = rotary." in events[0].note
    losses = [event.loss for event in straight if isinstance(event, Step)]
    assert [event.loss for event in events if isinstance(event, Step)] == losses[3:]
    assert parse_recipe((run / "recipe.toml").read_text()).model.d_ff == 512


@pytest.mark.parametrize(
    ("key", "value"), [("training.checkpointing", "true"), ("start.lora_rank", "2")], ids=str
)
def test_that_a_recipe_refuses_beside_cells_what_only_a_transformer_has(
    task_recipe: str, key: str, value: str
) -> None:
    cells = {"model.body": "gru", "model.d_ff": "512", "start.from": "a-model"}
    with pytest.raises(RecipeError, match=rf'{key} is {value}\..*only a Transformer has it.*"gru"'):
        parse_recipe(task_recipe, overrides={**cells, key: value})
