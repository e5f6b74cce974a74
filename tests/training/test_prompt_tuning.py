"""Prompt tuning: only the tokens in front of the text learn, and a model goes on from them."""

from pathlib import Path

import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.models import load, read_source
from attnscope.records import Evaluated, Finished
from attnscope.training import learned_parameters, parse_recipe, train

COPY = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 16
max_tokens = 40

[data]
kind = "task"
task = "copy"
form = "decoder"
max_words = 5
n_examples = 40

[objective]
kind = "causal"

[training]
n_steps = 4
batch_size = 4
evaluate_every = 2
save_every = 4
name = "base"
"""


def start_of(folder: Path, n: int = 3) -> dict[str, str]:
    return {"start.from": str(folder), "start.prompt_tokens": str(n), "training.name": "prompted"}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "run"
    assert isinstance(list(train(COPY, folder, "cpu"))[-1], Finished)
    return folder


@pytest.mark.slow
def test_that_only_the_prompt_learns_and_is_seen_in_the_maps(base: Path, tmp_path: Path) -> None:
    events = list(train(COPY, tmp_path / "run", "cpu", start_of(base)))
    assert isinstance(events[-1], Finished)
    before = read_source(str(base))[0].module.state_dict()
    after = load(tmp_path / "run", "cpu")
    weights = after.own.module.state_dict()
    assert {*weights} - {*before} == {"memory.weight"}
    assert all(torch.equal(weights[name], before[name]) for name in before)
    again = list(train(COPY, tmp_path / "again", "cpu", start_of(base) | {"training.n_steps": "1"}))
    assert isinstance(again[-1], Finished)
    first = load(tmp_path / "again", "cpu").own.module.state_dict()["memory.weight"]
    assert not torch.equal(first, weights["memory.weight"])
    trace = after.trace("a b = a b")
    assert [token.piece for token in trace.source.tokens[:4]] == ["<m1>", "<m2>", "<m3>", "<s>"]
    assert trace.weights(("decoder", 0), 0)[5, :3].min() > 0
    assert after.own.card.training["prompt_tokens"] == 3


@pytest.mark.slow
def test_that_a_run_is_resumed_and_gone_on_from_with_its_prompt(base: Path, tmp_path: Path) -> None:
    long = start_of(base) | {"training.n_steps": "8", "schedule.kind": "constant", "training.save_every": "4"}
    whole = list(train(COPY, tmp_path / "whole", "cpu", long))
    half = long | {"training.n_steps": "4"}
    list(train(COPY, tmp_path / "parts", "cpu", half))
    parts = list(train(COPY, tmp_path / "parts", "cpu", long))
    assert [e.loss for e in whole if isinstance(e, Evaluated)][-1] == pytest.approx(
        [e.loss for e in parts if isinstance(e, Evaluated)][-1], rel=1e-6
    )
    more = {"start.from": str(tmp_path / "whole"), "training.n_steps": "1", "training.evaluate_every": "1"}
    events = list(train(COPY, tmp_path / "more", "cpu", more | {"optimizer.learning_rate": "1e-9"}))
    found = load(tmp_path / "more", "cpu").own.module.memory.weight
    told = load(tmp_path / "whole", "cpu").own.module.memory.weight
    torch.testing.assert_close(found, told, atol=1e-6, rtol=0)
    assert isinstance(events[-1], Finished)


def test_that_the_plan_counts_what_the_prompt_learns(base: Path) -> None:
    recipe = parse_recipe(COPY, overrides=start_of(base, 5))
    assert recipe.model.memory_tokens == 5
    assert learned_parameters(recipe) == 5 * 16


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"start.from": ""}, "start.prompt_tokens"),
        ({"start.lora_rank": "2"}, "start.lora_rank"),
        ({"start.reinit_layers": "1"}, "start.reinit_layers"),
        ({"start.prompt_tokens": "-1"}, "start.prompt_tokens"),
        ({"start.prompt_tokens": "40"}, "model.memory_tokens"),
        ({"model.memory_tokens": "2"}, "start.prompt_tokens"),
        ({"gates.l0_penalty": "0.1"}, "gates.l0_penalty"),
        ({"training.sharded": "true"}, "training.sharded"),
    ],
)
def test_that_what_does_not_go_together_is_refused(base: Path, changes: dict[str, str], key: str) -> None:
    with pytest.raises(RecipeError, match=key):
        parse_recipe(COPY, overrides=start_of(base) | changes)


@pytest.mark.slow
def test_that_memory_tokens_are_learned_along_with_a_model(tmp_path: Path) -> None:
    list(train(COPY, tmp_path / "run", "cpu", {"model.memory_tokens": "2", "training.n_steps": "2"}))
    model = load(tmp_path / "run", "cpu")
    assert len(model.encode("a b = a b").source) == 2 + 6
    assert model.generate("a b =", max_tokens=3) is not None
