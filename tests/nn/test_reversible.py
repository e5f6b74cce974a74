"""Reversible layers: against loops in float64, against plain autograd, and back to what was read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from slow_transformer import SlowDecoder, SlowPass
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope.errors import RecipeError
from attnscope.nn import (
    ModelConfig,
    Transformer,
    additions_of,
    build_own,
    build_rule,
    count_parameters,
    dropping,
    through_reversible,
)

SIZES = {
    "vocab_size": 13, "d_model": 16, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 16, "position": "learned", "residual": "reversible",
}  # fmt: skip
FORMS = ("decoder", "encoder", "encoder-decoder")
OPTIONS: list[dict[str, object]] = [
    {},
    {"dropout": 0.3},
    {"dropout": 0.2, "attention_dropout": 0.4},
    {"norm_place": "sandwich", "norm": "rms"},
    {"norm": "none"},
    {"has_feed_forward": False},
    {"shared_layers": True},
    {"position": "t5"},
    {"position": "shaw"},
    {"position": "rotary", "activation": "swiglu", "bias": False},
    {"score": "cosine"},
    {"score": "additive"},
    {"mask": "window", "window": 2},
    {"n_layers": 1, "embedding_norm": True, "n_decoder_layers": None},
]


def config_of(form: str, **choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, "form": form, **choices})


def filled(config: ModelConfig) -> Transformer:
    module = build_own(config, seed=0)
    assert isinstance(module, Transformer)
    for k, parameter in enumerate(module.parameters()):
        parameter.data += 0.05 * torch.sin(torch.arange(parameter.numel()).reshape(parameter.shape) * 0.7 + k)
    return module.double().train()


def texts(form: str) -> dict[str, torch.Tensor]:
    ids = torch.arange(2 * 9).reshape(2, 9) * 5 % 13
    valid = torch.ones(2, 9, dtype=torch.bool)
    valid[1, 7:] = False
    target = {"target_ids": (ids[:, :6] + 3) % 13} if form == "encoder-decoder" else {}
    return {"ids": ids, "valid": valid, **target}


def gradients(module: Transformer, form: str, **more: object) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The logits and every gradient, always with the same dice."""
    with dropping.own_dice(5):
        out = module(**texts(form), **more)
    found = torch.autograd.grad((out * out.cos()).sum(), [*module.parameters()])
    return out.detach(), [*found]


class SlowReversible(SlowDecoder):
    def run(self, ids):
        weights = self.weights
        rows = [
            weights["tokens.weight"][id] + weights["decoder_embedding.positions.weight"][i]
            for i, id in enumerate(ids)
        ]
        one, two, found = np.stack(rows) / 2, np.stack(rows) / 2, SlowPass()
        for layer in range(self.config.n_layers):
            name = f"decoder.{layer}"
            one = one + self.attention(self.norm(two, f"{name}.attention_norm"), layer, found)
            two = two + self.feed_forward(self.norm(one, f"{name}.feed_forward_norm"), layer, found)
        found.logits = self.norm(one + two, "decoder_norm") @ weights["tokens.weight"].T
        return found


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_that_two_streams_take_turns_as_the_loops_in_float64_say(n_layers: int) -> None:
    model = tiny_model("decoder", n_layers=n_layers, residual="reversible")
    ids = model.encode(SENTENCE).source.ids
    np.testing.assert_allclose(model.trace(SENTENCE).logits, SlowReversible(model).run(ids).logits, atol=2e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_that_what_is_worked_out_again_has_the_gradients_of_plain_autograd(
    form: str, options: dict[str, object]
) -> None:
    module = filled(config_of(form, **options))
    found, of_found = gradients(module, form)
    with dropping.own_dice(5):
        expected = plain(module, form)
    of_expected = torch.autograd.grad((expected * expected.cos()).sum(), [*module.parameters()])
    torch.testing.assert_close(found, expected.detach(), atol=1e-12, rtol=1e-10)
    for name, one, other in zip(dict(module.named_parameters()), of_found, of_expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8, msg=lambda m, at=name: f"{at}: {m}")


def plain(module: Transformer, form: str) -> torch.Tensor:
    """The same pass with everything kept, each branch with the dice that it would have."""
    given = texts(form)
    kept = Transformer._through

    def through(self, blocks, x, choices, found=None):
        additions = additions_of(blocks, choices)
        a = b = x / 2
        for addition, seed in zip(additions, [dropping.new_seed() for _ in additions], strict=True):
            a, b = addition.ahead(a, b, seed)
        return a + b

    try:
        Transformer._through = through
        return module(**given)
    finally:
        Transformer._through = kept


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("share", [0.0, 0.3])
@torch.no_grad()
def test_that_what_a_layer_read_is_found_again(
    dtype: torch.dtype, most: float, form: str, share: float
) -> None:
    module = filled(config_of(form, n_layers=6, dropout=share, n_decoder_layers=None)).to(dtype)
    blocks = module.decoder if form == "decoder" else module.encoder
    draw = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, 2, 9, 16, generator=draw, dtype=dtype)
    additions = additions_of(blocks, {"rule": build_rule(is_causal=form == "decoder", key_valid=None)})
    read = []
    for seed, addition in enumerate(additions):
        read.append((a, b))
        a, b = addition.ahead(a, b, seed)
    for seed, addition in reversed([*enumerate(additions)]):
        a, b = addition.back(a, b, seed)
        for found, expected in zip((a, b), read[seed], strict=True):
            scale = expected.abs().max()
            assert (found - expected).abs().max() <= most * scale, (addition.name, found - expected)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_that_its_gradient_is_that_of_its_differences(share: float) -> None:
    sizes = {"n_layers": 2, "d_model": 4, "n_heads": 2, "n_kv_heads": 2, "d_ff": 3, "n_decoder_layers": 2}
    module = filled(config_of("encoder-decoder", dropout=share, **sizes))
    rule = build_rule(is_causal=True, key_valid=None)
    draw = torch.Generator().manual_seed(1)
    x, memory = (torch.randn(1, n, 4, generator=draw, dtype=torch.float64) for n in (3, 2))
    up = module.decoder[0].feed_forward.up.weight

    def out(x: torch.Tensor, memory: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        choices = {"rule": rule, "memory": memory, "memory_rule": build_rule(is_causal=False, key_valid=None)}
        with dropping.own_dice(3):
            return through_reversible(module.decoder, x, choices)

    # The weight is changed in its place, where the layer finds it, as its differences are taken.
    assert torch.autograd.gradcheck(out, (x.requires_grad_(), memory.requires_grad_(), up))


@pytest.mark.parametrize("form", FORMS)
def test_that_depth_costs_no_kept_numbers(form: str) -> None:
    kept = {(n, way): kept_numbers(form, n, way) for n in (2, 6) for way in ("plain", "reversible")}
    assert kept[6, "plain"] > 2.2 * kept[2, "plain"]
    assert kept[6, "reversible"] == kept[2, "reversible"]


def kept_numbers(form: str, n_layers: int, way: str) -> int:
    module = build_own(config_of(form, n_layers=n_layers, residual=way), seed=0).train()
    own = {p.untyped_storage().data_ptr() for p in [*module.parameters(), *module.buffers()]}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), dropping.own_dice(1):
        module(**texts(form))
    return sum(t.numel() for address, t in kept.items() if address not in own)


@pytest.mark.parametrize("form", FORMS)
def test_that_it_is_the_same_after_it_was_saved_and_its_maps_are_those_of_each_pass(
    form: str, tmp_path: Path
) -> None:
    model = tiny_model(form, residual="reversible")
    target = target_of(form)
    trace = model.trace(SENTENCE, target=target)
    assert trace.check().worst <= trace.check().tolerance
    model.save(tmp_path / "m")
    again = at.load(tmp_path / "m", device="cpu")
    assert again.own.config == model.own.config
    np.testing.assert_array_equal(again.trace(SENTENCE, target=target).logits, trace.logits)
    assert count_parameters(model.own.config).total == sum(p.numel() for p in model.own.module.parameters())


def test_that_what_does_not_go_with_it_is_refused() -> None:
    for choices in (
        {"has_residual": False},
        {"norm_place": "post"},
        {"norm": "batch"},
        {"n_experts": 2},
    ):
        with pytest.raises(RecipeError, match=r"beside residual"):
            config_of("encoder", **choices)
    with pytest.raises(RecipeError, match="copies_source"):
        config_of("encoder-decoder", copies_source=True)
