"""Gates of heads learned in training: their distribution, their penalty, what a checkpoint keeps of them."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.cli.main import main
from attnscope.errors import LoadError, RecipeError
from attnscope.models import load
from attnscope.records import HeadRef, Site, Step
from attnscope.training import Batch, GatesPart, HeadGates, parse_recipe, read_run, train

CLOSING = {
    "gates.l0_penalty": "1.0",
    "gates.learning_rate": "0.5",
    "model.n_layers": "2",
    "schedule.kind": "constant",
}
SITES = (Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2),)
BATCH = Batch(ids=torch.zeros(500, 3), scored=torch.zeros(0), labels=torch.zeros(0))


def test_that_gates_are_drawn_from_the_hard_concrete_distribution() -> None:
    gates = HeadGates(SITES, GatesPart(l0_penalty=0.1), torch.device("cpu"))
    drawn = gates.onto(BATCH, np.random.default_rng(0)).gates
    assert drawn is not None
    z = drawn["decoder", 0]
    u = np.random.default_rng(0).random((500, 2), dtype=np.float32).clip(1e-6, 1 - 1e-6).astype(np.float64)
    s = 1 / (1 + np.exp(-(np.log(u) - np.log(1 - u) + 2.0) * 1.5))
    np.testing.assert_allclose(z.detach().numpy(), np.clip(s * 1.2 - 0.1, 0, 1), atol=1e-5)
    both = HeadGates((*SITES, replace(SITES[0], layer=1)), GatesPart(l0_penalty=0.1), torch.device("cpu"))
    assert torch.equal(both.onto(BATCH, np.random.default_rng(0)).gates["decoder", 0], z)  # bit by bit
    chance = 1 / (1 + math.exp(-(2.0 - 2 / 3 * math.log(0.1 / 1.1))))
    assert gates.expected_open() == pytest.approx(2 * chance, rel=1e-6)


def test_that_the_penalty_alone_closes_every_head() -> None:
    gates = HeadGates(SITES, GatesPart(l0_penalty=1.0, learning_rate=0.5), torch.device("cpu"))
    before = gates.expected_open()
    for _ in range(12):
        gates.zero_gradients()
        gates.learn()
    assert gates.expected_open() < 0.2 * before
    heads = tuple(HeadRef(stack="decoder", layer=0, head=head) for head in (0, 1))
    assert gates.closed() == heads
    settled = gates.settled_onto(BATCH).gates
    assert settled is not None
    assert settled["decoder", 0].tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_that_closed_heads_are_off_when_opened_and_can_be_removed(
    tiny_recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    steps = [e for e in train(tiny_recipe, run, "cpu", CLOSING) if isinstance(e, Step)]
    opened = [step.open_heads for step in steps]
    assert all(a is not None and b is not None and b < a for a, b in pairwise(opened))
    assert [e.open_heads for e in read_run(run).events if isinstance(e, Step)] == opened
    model = load(run, device="cpu")
    closed = model.info.gates.off()
    assert len(closed) == 4
    assert model.info.note == "Its training closed 4 heads: they are off."
    assert model.trace("Speak, speak.").gates == model.info.gates
    assert model.gates().frozen() == model.info.gates
    off, on = model.predict("Speak"), model.predict("Speak", gates=type(model.info.gates)())
    assert off != on
    small = str(tmp_path / "small")
    assert main(["prune", str(run), "-o", small, "--device", "cpu"]) == 0
    assert "4 heads" in capsys.readouterr().out
    smaller = load(small, device="cpu")
    assert smaller.sites == ()
    assert not smaller.info.gates
    before, after = off.predictions[0].candidates[0], smaller.predict("Speak").predictions[0].candidates[0]
    assert after.token == before.token
    assert after.probability == pytest.approx(before.probability, rel=1e-5)


@pytest.mark.slow
def test_that_only_the_stacks_named_have_gates(task_recipe: str, tmp_path: Path) -> None:
    changes = {"gates.l0_penalty": "1.0", "gates.stacks": "cross", "gates.learning_rate": "1.0"}
    list(train(task_recipe, tmp_path / "run", "cpu", changes))
    closed = load(tmp_path / "run", device="cpu").info.gates.off()
    assert {head.stack for head in closed} == {"cross"}


@pytest.mark.slow
def test_that_gates_are_resumed_to_the_bit(tiny_recipe: str, tmp_path: Path) -> None:
    straight = [e for e in train(tiny_recipe, tmp_path / "a", "cpu", CLOSING) if isinstance(e, Step)]
    list(train(tiny_recipe, tmp_path / "b", "cpu", {**CLOSING, "training.n_steps": "3"}))
    rest = [e for e in train(tiny_recipe, tmp_path / "b", "cpu", CLOSING) if isinstance(e, Step)]
    assert [(e.loss, e.open_heads) for e in rest] == [(e.loss, e.open_heads) for e in straight[3:]]


def test_that_a_state_of_other_heads_is_refused() -> None:
    gates = HeadGates(SITES, GatesPart(l0_penalty=1.0), torch.device("cpu"))
    other = (Site(stack="decoder", layer=0, n_heads=3, n_kv_heads=3),)
    with pytest.raises(LoadError, match="decoder L0"):
        gates.restore(HeadGates(other, GatesPart(l0_penalty=1.0), torch.device("cpu")).tensors())


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"gates.l0_penalty": "-1"}, "gates.l0_penalty is -1"),
        ({"gates.stacks": "cross"}, 'gates.stacks is "cross"'),
        ({"gates.learning_rate": "0"}, "gates.learning_rate is 0"),
    ],
)
def test_that_impossible_gates_are_refused(tiny_recipe: str, changes: dict[str, str], found: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(tiny_recipe, overrides=changes)
    assert found in str(caught.value)
