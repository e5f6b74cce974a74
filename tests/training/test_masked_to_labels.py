"""A masked model that becomes a classifier: its tokenizer and weights are taken, the labels' head is new."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.models import load, read_model_folder
from attnscope.training import TrainingRun, learned_parameters, parse_recipe, recipe_on_paper, train

pytestmark = pytest.mark.slow

MOODS = "".join(f"{mood}\tthe {mood} cat sat {k} times\n" for k in range(12) for mood in ("glad", "sad"))
CLASSIFY = """
[start]
from = "{start}"

[data]
kind = "labelled"
path = "{data}"
validation_share = 0.25

[objective]
kind = "classification"

[training]
n_steps = 1
batch_size = 4
"""


def _weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return read_model_folder(run / "checkpoints" / str(step)).module.state_dict()


def _recipe(tmp_path: Path, start: Path, name: str = "moods", text: str = MOODS) -> str:
    data = tmp_path / f"{name}.tsv"
    data.write_text(text)
    return CLASSIFY.format(start=start, data=data)


def test_that_a_masked_model_becomes_a_classifier_and_one_of_more_labels_after(
    tiny_recipe: str, tmp_path: Path
) -> None:
    masked, told = tmp_path / "masked", tmp_path / "told"
    list(train(tiny_recipe, masked, "cpu", {"objective.kind": "masked", "training.n_steps": "1"}))
    list(train(_recipe(tmp_path, masked), told, "cpu"))
    before, after = _weights(masked, 1), _weights(told, 0)
    shared = [name for name in after if name in before]
    assert all(torch.equal(after[name], before[name]) for name in shared)
    assert any(name.startswith("encoder.0.attention") for name in shared)
    assert any(after[name].shape[0] == 2 for name in set(after) - set(before))
    assert load(told, device="cpu").info.labels == ("glad", "sad")
    first, second = (
        read_model_folder(run / "checkpoints" / "1").tokenizer.encode("the cat").ids for run in (masked, told)
    )
    assert list(first) == list(second)
    more = MOODS + "".join(f"odd\tthe odd cat sat {k} times\n" for k in range(12))
    list(train(_recipe(tmp_path, told, "more", more), tmp_path / "third", "cpu"))
    assert load(tmp_path / "third", device="cpu").info.labels == ("glad", "odd", "sad")
    third = _weights(tmp_path / "third", 0)
    trained = _weights(told, 1)
    assert {name for name in third if third[name].shape != trained[name].shape} == {
        name for name in third if third[name].shape[:1] == (3,)
    }


def test_that_the_labels_are_learned_along_with_low_rank_adapters(tiny_recipe: str, tmp_path: Path) -> None:
    masked, told = tmp_path / "masked", tmp_path / "told"
    list(train(tiny_recipe, masked, "cpu", {"objective.kind": "masked", "training.n_steps": "1"}))
    low_rank = {"start.lora_rank": "1", "training.n_steps": "2", "schedule.kind": "constant"}
    run = TrainingRun(parse_recipe(_recipe(tmp_path, masked), overrides=low_rank), told, "cpu")
    n_learning = sum(p.numel() for p in run.model.own.module.parameters() if p.requires_grad)
    n_labels = run.model.own.config.n_labels
    list(run.events())
    before, after = _weights(told, 0), _weights(told, 2)
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert {"head.labels.weight", "head.labels.bias"} <= changed
    assert not any(name.startswith(("tokens", "encoder_embedding")) or ".ff" in name for name in changed)
    paper = recipe_on_paper(run.recipe)
    paper = replace(paper, model=replace(paper.model, n_labels=n_labels))
    assert learned_parameters(paper) == n_learning


def test_that_a_decoder_is_told_how_it_can_tell_labels(tiny_recipe: str, tmp_path: Path) -> None:
    causal = tmp_path / "causal"
    list(train(tiny_recipe, causal, "cpu", {"training.n_steps": "1"}))
    recipe = _recipe(tmp_path, causal)
    with pytest.raises(RecipeError, match=r'Set model\.form = "decoder" to let it predict labels'):
        list(train(recipe, tmp_path / "no", "cpu"))
    list(train(recipe, tmp_path / "yes", "cpu", {"model.form": "decoder"}))
    assert load(tmp_path / "yes", device="cpu").info.labels == ("glad", "sad")
