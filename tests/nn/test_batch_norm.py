"""Batch norm against torch's own: in training, without padding, afterwards; and what a recipe says of it."""

from pathlib import Path

import pytest
import torch

import attnscope
from attnscope.errors import RecipeError
from attnscope.nn import ModelConfig, Norm, build_own
from attnscope.records import Started
from attnscope.training import ALONE, Recipe, TrainingRun, can_divide, parse_recipe, plan_recipe

RECIPES = Path(__file__).parents[2] / "resources" / "recipes"
SIZES = {
    "form": "encoder",
    "vocab_size": 9,
    "d_model": 6,
    "n_layers": 2,
    "n_heads": 2,
    "d_ff": 8,
    "norm": "batch",
}


def _reference(d: int, *, has_bias: bool) -> torch.nn.BatchNorm1d:
    made = torch.nn.BatchNorm1d(d, eps=1e-5, momentum=0.1).double()
    with torch.no_grad():
        made.weight.copy_(torch.linspace(0.5, 2.0, d))
        made.bias.copy_(torch.linspace(-1.0, 1.0, d) * has_bias)
    return made


def _stream(n_rows: int, n_tokens: int, d: int, shift: float = 0.0) -> torch.Tensor:
    numbers = torch.arange(n_rows * n_tokens * d, dtype=torch.float64)
    return (torch.sin(1.3 * numbers + shift) * (1 + numbers % d)).reshape(n_rows, n_tokens, d)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("lengths", [(4, 4, 4), (4, 2, 1), (1, 3, 4)])
def test_that_it_is_torchs_batch_norm_over_the_tokens_that_are_no_padding(
    has_bias: bool, lengths: tuple[int, ...]
) -> None:
    d, expected = 5, _reference(5, has_bias=has_bias)
    norm = Norm("batch", d, epsilon=1e-5, has_bias=has_bias).double()
    with torch.no_grad():
        norm.weight.copy_(expected.weight)
        if has_bias:
            norm.bias.copy_(expected.bias)
    valid = torch.arange(4) < torch.tensor(lengths)[:, None]
    for step in range(3):
        x = _stream(3, 4, d, shift=step).requires_grad_()
        y = x.detach().clone().requires_grad_()
        norm.valid = None if valid.all() else valid
        found, right = norm(x)[valid], expected(y[valid])
        torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-9)
        weights = torch.linspace(-1.0, 1.0, found.numel(), dtype=torch.float64).reshape(found.shape)
        (found * weights).sum().backward()
        (right * weights).sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(norm.weight.grad, expected.weight.grad, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(norm.running["running_mean"], expected.running_mean)
    torch.testing.assert_close(norm.running["running_variance"], expected.running_var)
    x = _stream(2, 3, d, shift=9.0)
    found, right = norm.eval()(x), expected.eval()(x.reshape(6, d)).reshape(2, 3, d)
    torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-9)
    frozen = x[0, 0] * norm.scheme.gain(norm) + (
        0.0 if norm.scheme.added(norm) is None else norm.scheme.added(norm)
    )
    torch.testing.assert_close(frozen, right[0, 0], rtol=1e-9, atol=1e-9)


def test_that_its_gradient_is_that_of_differences() -> None:
    norm = Norm("batch", 3, epsilon=1e-5, has_bias=True).double()
    norm.valid = torch.tensor([[True, True], [True, False]])
    x = _stream(2, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: norm(x), (x,))


def test_that_padding_changes_nothing_in_an_encoder() -> None:
    module = build_own(ModelConfig.from_dict(SIZES), 0).double().train()
    ids = torch.tensor([[1, 2, 3, 4, 0, 0], [5, 6, 7, 8, 0, 0]])
    valid = torch.tensor([[True] * 4 + [False] * 2] * 2)
    bare = module.encode(ids[:, :4])
    padded = module.encode(ids, valid=valid)[:, :4]
    torch.testing.assert_close(padded, bare, rtol=1e-9, atol=1e-9)


def test_that_a_text_is_read_alike_alone_and_among_others_once_it_is_trained() -> None:
    module = build_own(ModelConfig.from_dict(SIZES), 0).eval()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    torch.testing.assert_close(module.encode(ids)[:1], module.encode(ids[:1]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["decoder", "encoder-decoder"])
def test_that_a_decoder_has_none(form: str) -> None:
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "form": form})
    assert "a decoder would see those it has to predict" in caught.value.expected


def _recipe(**changes: str) -> Recipe:
    small = {"model.norm": "batch", "model.d_model": "8", "model.d_ff": "8", "data.n_examples": "40"}
    steps = {"training.n_steps": "3", "training.evaluation_batches": "1", "training.save_every": "3"}
    named = {name.replace("__", "."): value for name, value in changes.items()}
    text = (RECIPES / "reverse-labels.toml").read_text(encoding="utf-8")
    return parse_recipe(text, overrides={**small, **steps, "training.batch_size": "4", **named})


@pytest.mark.parametrize("key", ["sharded", "checkpointing"])
def test_that_it_needs_a_batch_as_a_whole(key: str) -> None:
    with pytest.raises(RecipeError, match=f"training.{key} is true"):
        _recipe(**{f"training__{key}": "true"})
    assert not can_divide(_recipe(), torch.device("cpu"), ALONE)


def test_that_a_run_warns_of_it_keeps_its_statistics_and_trying_threads_changes_none(tmp_path: Path) -> None:
    recipe = _recipe()
    assert any("LayerNorm" in note for note in plan_recipe(recipe, torch.device("cpu")).notes)
    run = TrainingRun(recipe, tmp_path / "run", "cpu")
    (norm, *_) = (m for m in run.model.own.module.modules() if isinstance(m, Norm))
    run.choose_threads()
    assert norm.running["running_mean"].tolist() == [0.0] * 8
    events = list(run.events())
    assert any(isinstance(event, Started) and "Batch norm ties" in event.note for event in events)
    opened = attnscope.load(str(tmp_path / "run"))
    (kept, *_) = (m for m in opened.own.module.modules() if isinstance(m, Norm))
    assert torch.equal(kept.running["running_mean"], norm.running["running_mean"])
    assert float(kept.running["running_mean"].abs().max()) > 0
