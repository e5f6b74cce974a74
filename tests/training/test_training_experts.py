"""Experts in a run: their balance is learned, and is no part of the loss that is reported."""

from pathlib import Path

import pytest

from attnscope.records import Step
from attnscope.training import parse_recipe, train


@pytest.mark.slow
def test_that_the_balance_is_learned_and_not_reported(tiny_recipe: str, tmp_path: Path) -> None:
    losses = {}
    for weight in ("0", "10"):
        changes = {"model.n_experts": "4", "model.balance_weight": weight, "training.n_steps": "2"}
        events = list(train(tiny_recipe, tmp_path / weight, "cpu", changes))
        losses[weight] = [event.loss for event in events if isinstance(event, Step)]
    assert losses["0"][0] == losses["10"][0]
    assert losses["0"][1] != losses["10"][1]


def test_that_a_recipe_names_experts(tiny_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe, overrides={"model.n_experts": "4", "model.experts_per_token": "2"})
    assert (recipe.model.n_experts, recipe.model.experts_per_token) == (4, 2)
