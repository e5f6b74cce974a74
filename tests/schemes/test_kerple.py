"""KERPLE's logarithmic bias against equation 7 of Chi et al. 2022, number by number in float64."""

import math

import numpy as np
import pytest
import torch
from slow_site import filled, seen_and_slow
from tiny_models import tiny_model

from attnscope.analysis import position_tables
from attnscope.nn import ModelConfig, build_transformer
from attnscope.schemes.positions import POSITIONS

SIZES = {
    "vocab_size": 13, "d_model": 12, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 11, "position": "kerple",
}  # fmt: skip


def slow_bias(r1: float, r2: float, distance: int) -> float:
    return -r1 * math.log(1.0 + r2 * abs(distance))


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("score", ["scaled-dot", "dot"])
def test_that_attention_is_that_of_the_equation(form: str, score: str) -> None:
    config = ModelConfig.from_dict({**SIZES, "form": form, "score": score})
    model, scale = filled(config), 1.0 if score == "dot" else config.head_width**-0.5
    learned = model.decoder_relative or model.encoder_relative
    r1, r2 = (getattr(learned, name).exp().tolist() for name in ("log_r1", "log_r2"))

    def slow(q, k, head, i, j):
        return scale * (q @ k) + slow_bias(r1[head], r2[head], i - j)

    found, expected = seen_and_slow(model, torch.arange(11)[None] % 13, slow)
    torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=0)


def test_that_its_numbers_have_their_gradient_and_stay_above_0() -> None:
    scheme, config = POSITIONS["kerple"], ModelConfig.from_dict({**SIZES, "form": "decoder"})
    distance = torch.arange(-7, 4)
    given = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([-9.0, 0.3], [0.2, -2.0])]

    def bias(log_r1, log_r2):
        return scheme.bias({"log_r1": log_r1, "log_r2": log_r2}, distance, config, is_causal=True)

    assert torch.autograd.gradcheck(bias, tuple(given))
    found = bias(*given)
    assert (found <= 0).all()
    assert (found[:, 7] == 0).all()
    assert (found[:, :7].diff() > 0).all()
    torch.testing.assert_close(found[:, 8:], found[:, [6, 5, 4]])


def test_that_it_starts_within_the_ranges_of_the_paper() -> None:
    model = build_transformer(ModelConfig.from_dict({**SIZES, "form": "decoder", "n_heads": 12}), seed=0)
    r1, r2 = (getattr(model.decoder_relative, name).exp() for name in ("log_r1", "log_r2"))
    for values, most in ((r1, 2.0), (r2, 1.0)):
        assert ((values >= 0.01 - 1e-6) & (values <= most)).all()
        assert len(set(values.tolist())) > 6


def test_that_the_page_shows_what_is_added_for_keys_back() -> None:
    model = tiny_model("decoder", position="kerple")
    (table,) = position_tables(["model"], 40, 2, model)
    learned = model.own.module.decoder_relative
    r1, r2 = (getattr(learned, name).exp().tolist() for name in ("log_r1", "log_r2"))
    expected = [[slow_bias(r1[h], r2[h], back) for h in range(4)] for back in range(40)]
    np.testing.assert_allclose(table.matrix, expected, rtol=1e-6)
    assert table.axes == ("head", "tokens back")
    assert table.note.startswith("−r₁ · ln(1 + r₂ · distance), the decoder's.")


def test_that_it_is_read_past_the_trained_length() -> None:
    model = tiny_model("decoder", position="kerple")
    module = model.own.module
    assert module.can_read_past
    ids = torch.arange(24)[None] % 9
    within = module.decode(ids)
    module.reach_past(60)
    torch.testing.assert_close(
        module.decode(torch.arange(60)[None] % 9)[:, :9], within[:, :9], atol=1e-5, rtol=0
    )
