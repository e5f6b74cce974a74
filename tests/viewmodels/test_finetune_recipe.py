"""The recipe that goes on from the open model."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from session_samples import info

from attnscope.records import Sample
from attnscope.training import parse_recipe
from attnscope.viewmodels.training import finetune_recipe, why_not_finetune

TEXT = 'He said "no" \\ café 😀\t\x7f.'


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        ("causal", "text"),
        ("masked", "text"),
        ("span-corruption", "text"),
        ("translation", "pairs"),
        ("classification", "labelled"),
        ("representations", "text"),
    ],
)
def test_that_it_is_a_recipe_of_the_models_own_kind(objective: str, kind: str) -> None:
    model = replace(
        info(), objective=objective, name='my "model"\n', samples=(Sample(text=TEXT, target="x"),)
    )
    table = tomllib.loads(finetune_recipe(model))
    assert table["data"] == {"kind": kind, "path": ""}
    assert table["start"]["from"] == model.source
    assert table["training"]["name"] == 'my "model"\n-further'
    assert table["watch"] == [{"text": TEXT, "target": "x"}]
    assert "model" not in table
    assert "tokenizer" not in table


def test_that_it_trains_with_data(tmp_path: Path) -> None:
    model = replace(info(), objective="causal", source="stories", samples=())
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be\n" * 50, encoding="utf-8")
    recipe = parse_recipe(finetune_recipe(model), overrides={"data.path": str(text)})
    assert recipe.start.source == "stories"
    assert recipe.model.position == "rotary"


def test_that_only_models_of_texts_are_trained_further() -> None:
    assert "Open a model" in why_not_finetune(None)
    assert "reads no text" in why_not_finetune(replace(info(), reads="picture"))
    assert "reads no text" in why_not_finetune(replace(info(), reads="attention"))
    assert why_not_finetune(info()) == ""
