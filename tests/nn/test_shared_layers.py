"""Layers that share their weights: against loops in float64, and against layers that are merely alike."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope.errors import RecipeError, UserError
from attnscope.models import prune_module
from attnscope.nn import ModelConfig, build_own, count_parameters
from attnscope.training import parse_recipe

SIZES = {
    "vocab_size": 13, "d_model": 12, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 16, "position": "learned", "shared_layers": True,
}  # fmt: skip
FORMS = ("decoder", "encoder", "encoder-decoder")


def config_of(form: str, **choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, "form": form, **choices})


def blocks_of(module):
    return [*module.encoder[1:], *module.decoder[1:]]


def is_shared(module) -> bool:
    return all(
        own is first
        for stack in (module.encoder, module.decoder)
        for block in stack[1:]
        for own, first in zip(block.parameters(), stack[0].parameters(), strict=True)
    )


@pytest.mark.parametrize("place", ["pre", "post", "sandwich"])
def test_that_a_shared_stack_is_one_layer_again_and_again(place: str) -> None:
    model = tiny_model("decoder", n_layers=3, shared_layers=True, norm_place=place)
    slow = SlowDecoder(model)
    for name in [name for name in slow.weights if name.startswith(("decoder.1.", "decoder.2."))]:
        del slow.weights[name]  # only the first layer's are read
    slow.weights = _OfFirst(slow.weights)
    ids = model.encode(SENTENCE).source.ids
    np.testing.assert_allclose(model.trace(SENTENCE).logits, slow.run(ids).logits, atol=2e-4)


class _OfFirst(dict):
    def __missing__(self, name: str):
        return self[".".join(["decoder", "0", *name.split(".")[2:]])]


@pytest.mark.parametrize("form", FORMS)
def test_that_its_gradient_is_the_sum_of_those_of_layers_that_are_merely_alike(form: str) -> None:
    shared = build_own(config_of(form), seed=2).double()
    apart = build_own(config_of(form, shared_layers=False), seed=0).double()
    apart.load_state_dict(shared.state_dict())
    ids = torch.arange(18).reshape(2, 9) % 13
    target = ids if form == "encoder-decoder" else None
    for module in (shared, apart):
        module(ids, target_ids=target).square().sum().backward()
    for name, parameter in shared.named_parameters():
        stack, _, rest = name.partition(".0.")
        alike = [f"{stack}.{i}.{rest}" for i in range(3)] if rest else [name]
        expected = sum(apart.get_parameter(one).grad for one in alike)
        torch.testing.assert_close(parameter.grad, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("form", FORMS)
def test_that_it_is_counted_filled_and_moved_as_one_layer(form: str, norm_place: str) -> None:
    config = config_of(form, norm_place=norm_place)
    module = build_own(config, seed=1)
    assert count_parameters(config).total == sum(p.numel() for p in module.parameters())
    assert is_shared(module)
    assert is_shared(copy.deepcopy(module).double())
    one = build_own(config_of(form, shared_layers=False, norm_place=norm_place), seed=1)
    for found, usual in ((module.decoder, one.decoder), (module.encoder, one.encoder)):
        for block, other in zip(found, usual, strict=True):  # no first weight was shrunk twice
            spread = block.attention.output.weight.std() / other.attention.output.weight.std()
            assert 0.7 < float(spread.detach()) < 1.4


def test_that_a_step_of_training_leaves_the_layers_alike() -> None:
    module = build_own(config_of("decoder"), seed=1)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    before = module.decoder[2].attention.qkv.weight.detach().clone()
    module(torch.arange(9)[None] % 13).square().sum().backward()
    optimizer.step()
    assert is_shared(module)
    assert (module.decoder[2].attention.qkv.weight != before).any()


@pytest.mark.parametrize("form", FORMS)
def test_that_it_is_traced_gated_by_layer_and_the_same_after_it_was_saved(form: str, tmp_path: Path) -> None:
    model = tiny_model(form, n_layers=3, shared_layers=True)
    trace = model.trace(SENTENCE, target_of(form))
    assert trace.check().is_good
    sites = [site for site in trace.sites if site.stack == ("encoder" if form == "encoder" else "decoder")]
    first, last = (trace.weights(site, 0) for site in (sites[0], sites[2]))
    assert np.nanmax(np.abs(first - last)) > 1e-3  # the same head, of another stream
    gates = model.gates()
    gates[sites[0].stack, 1, 2] = 0.0
    assert (model.trace(SENTENCE, target_of(form), gates).logits != trace.logits).any()
    model.save(tmp_path / "m")
    again = at.load(tmp_path / "m", device="cpu")
    assert is_shared(again.own.module)
    np.testing.assert_array_equal(again.trace(SENTENCE, target_of(form)).logits, trace.logits)


def test_that_no_single_layer_is_pruned_adapted_or_begun_anew() -> None:
    model = tiny_model("decoder", shared_layers=True)
    gates = model.gates()
    gates["decoder", 0, 1] = 0.0
    with pytest.raises(UserError, match="shared layers"):
        prune_module(model.own.module, gates.frozen())
    recipe = (Path(at.__file__).parents[1] / "resources" / "recipes" / "induction.toml").read_text()
    shared = recipe.replace("[model]", "[model]\nshared_layers = true")
    parse_recipe(shared)
    for changes in (
        "[start]\nfrom = 'x'\nlora_rank = 2\n",
        "[start]\nfrom = 'x'\nreinit_layers = 1\n",
    ):
        with pytest.raises(RecipeError, match="shared_layers"):
            parse_recipe(shared.replace("[data]", f"{changes}\n[data]"))
