"""An optimiser is one file: recipes, training, resuming, the cost and help have it."""

import sys
from pathlib import Path

import pytest
import torch
from added_files import look_also_in
from torch import nn

from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.schemes import optimizers, schemes_of
from attnscope.schemes.optimizers import OPTIMIZERS, OptimizerScheme
from attnscope.training import (
    OptimizerPart,
    Recipe,
    build_optimizer,
    moment_bytes,
    parse_recipe,
    restore_tensors,
    tensors_of,
)
from attnscope.viewmodels import read_help

RESOURCES = Path(__file__).parents[2] / "resources"
ADDED = """
from attnscope.schemes.optimizers.optimizer import OptimizerScheme


class SignOfMomentum(OptimizerScheme):
    name, title, order = "signs", "signs", 99
    words, source = "the sign of the momentum", "this test"
    choices = ("beta1",)

    def n_kept(self, part):
        return 1

    def update(self, parameter, gradient, kept, group):
        momentum = kept.setdefault("momentum", gradient.new_zeros(gradient.shape))
        momentum.lerp_(gradient, 1 - group["beta1"])
        parameter.sub_(momentum.sign(), alpha=group["lr"])
"""


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "schemes"
    folder.mkdir()
    (folder / "signs.py").write_text(ADDED, encoding="utf-8")
    look_also_in(folder, optimizers, monkeypatch)
    try:
        found = schemes_of("attnscope.schemes.optimizers", OptimizerScheme)
    finally:
        sys.modules.pop("attnscope.schemes.optimizers.signs", None)
    assert list(found) == [*OPTIMIZERS, "signs"]
    monkeypatch.setitem(OPTIMIZERS, "signs", found["signs"])


def _recipe(kind: str) -> Recipe:
    text = (RESOURCES / "recipes" / "copy.toml").read_text(encoding="utf-8")
    return parse_recipe(text, overrides={"optimizer.kind": kind})


def test_that_recipes_cost_and_help_know_it() -> None:
    recipe = _recipe("signs")
    assert recipe.optimizer.kind == "signs"
    assert moment_bytes(recipe) == 4
    with pytest.raises(RecipeError) as caught:
        _recipe("sign")
    assert caught.value.expected.endswith('"signs"')
    (recipes,) = (page for page in read_help(RESOURCES / "help") if page.name == "recipes")
    assert "- `signs`: the sign of the momentum (this test), `beta1`" in recipes.text


def test_that_its_steps_are_those_of_its_file_and_go_on_where_they_were() -> None:
    part = OptimizerPart(kind="signs", learning_rate=0.125, beta1=0.5)
    module, again = nn.Linear(2, 1), nn.Linear(2, 1)
    weight = torch.tensor([[1.0, -2.0]])
    with torch.no_grad():
        module.weight.copy_(weight)
    optimizer = build_optimizer(module, part)
    module.weight.grad = torch.tensor([[3.0, -1.0]])
    optimizer.step()
    assert module.weight.tolist() == [[0.875, -1.875]]
    again.load_state_dict(module.state_dict())
    other = build_optimizer(again, part)
    restore_tensors(other, again, tensors_of(optimizer, module))
    for one, steps in ((module, optimizer), (again, other)):
        one.weight.grad = torch.tensor([[-1.0, -1.0]])  # the momentum is [0.25, -0.75]: the past still counts
        steps.step()
        assert one.weight.tolist() == [[0.75, -1.75]]


def test_that_a_tiny_model_is_trained_with_it(tmp_path: Path) -> None:
    changes = ("optimizer.kind=signs", "optimizer.learning_rate=0.001", "model.d_model=16", "model.d_ff=16")
    steps = ("data.n_examples=50", "training.n_steps=2", "training.evaluate_every=2", "training.batch_size=2")
    given = [word for change in (*changes, *steps) for word in ("--set", change)]
    assert main(["--device", "cpu", "train", "copy", "--out", str(tmp_path / "run"), *given]) == 0
