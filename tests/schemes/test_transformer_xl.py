"""Transformer-XL's scores against the paper's four terms in float64, and against XLNet of the library."""

import math

import numpy as np
import pytest
import torch
from slow_site import filled, seen_and_slow
from tiny_models import tiny_model

from attnscope.analysis import position_tables
from attnscope.errors import RecipeError
from attnscope.models import own_cost
from attnscope.nn import ModelConfig, build_transformer
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES

SIZES = {
    "vocab_size": 13, "d_model": 12, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 11, "position": "transformer-xl",
}  # fmt: skip


def sinusoid(distance: int, d_model: int) -> torch.Tensor:
    angles = [distance / 10000.0 ** (2 * k / d_model) for k in range(math.ceil(d_model / 2))]
    values = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    return torch.tensor(values[:d_model], dtype=torch.float64)


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("score", ["scaled-dot", "dot", "general"])
@pytest.mark.parametrize(("max_distance", "widths"), [(128, {}), (3, {}), (4, {"d_model": 9, "d_head": 5})])
def test_that_a_score_is_the_sum_of_the_four_terms(
    form: str, score: str, max_distance: int, widths: dict[str, int]
) -> None:
    values = {**SIZES, **widths, "form": form, "score": score, "max_distance": max_distance}
    config = ModelConfig.from_dict(values)
    model = filled(config)
    scoring = (model.decoder or model.encoder)[0].attention.scoring
    scale = config.head_width**-0.5 if score == "scaled-dot" else 1.0
    u, v, w = (getattr(scoring, name).double() for name in ("u", "v", "relative"))

    def slow(q, k, head, i, j):
        if score == "general":
            q = q @ scoring.bilinear[head].double()
        r = w[head] @ sinusoid(max(-max_distance, min(max_distance, i - j)), config.d_model)
        return scale * (q @ k + q @ r + u[head] @ k + v[head] @ r)

    found, expected = seen_and_slow(model, torch.arange(11)[None] % 13, slow)
    torch.testing.assert_close(found.double(), expected, atol=3e-5, rtol=0)


@pytest.mark.parametrize("clamp", [-1, 4])
def test_that_attention_is_that_of_xlnet(clamp: int) -> None:
    """The library's layer with our weights; without segments, and before its norm."""
    xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    d_model, n_heads, n = 12, 3, 9
    config = ModelConfig.from_dict(
        {**SIZES, "form": "encoder", "n_heads": n_heads, "n_kv_heads": n_heads, "bias": False,
         "max_distance": 128 if clamp < 0 else clamp}
    )  # fmt: skip
    model = filled(config)
    block = model.encoder[0]
    theirs = xlnet.XLNetConfig(
        vocab_size=13, d_model=d_model, n_layer=1, n_head=n_heads, d_inner=10, clamp_len=clamp, dropout=0.0
    )
    library, site = xlnet.XLNetModel(theirs).eval(), block.attention
    layer = library.layer[0].rel_attn
    q, k, v = site.qkv.weight.T.unflatten(1, (3, n_heads, -1)).unbind(1)  # each [d_model, H, D]
    scoring = site.scoring
    given = {"q": q, "k": k, "v": v, "r": scoring.relative.permute(2, 0, 1)}
    given |= {"r_w_bias": scoring.u, "r_r_bias": scoring.v}
    given["o"] = site.output.weight.unflatten(1, (n_heads, -1))
    x = torch.sin(torch.arange(n * d_model, dtype=torch.float32) ** 2).reshape(n, 1, d_model)
    with torch.no_grad():
        for name, values in given.items():
            getattr(layer, name).copy_(values)
        r = library.relative_positional_encoding(n, n, bsz=1)
        keys = torch.einsum("ibh,hnd->ibnd", r, layer.r)
        heads = [torch.einsum("ibh,hnd->ibnd", x, getattr(layer, name)) for name in "qkv"]
        expected = torch.einsum("ibnd,hnd->ibh", layer.rel_attn_core(*heads, keys), layer.o)
        found = site(x.transpose(0, 1), rule=model.self_mask.rule(n, n, is_causal=False))
    torch.testing.assert_close(found[0], expected[:, 0], atol=1e-5, rtol=0)


def test_that_every_part_of_it_has_its_gradient() -> None:
    scheme, generator = POSITIONS["transformer-xl"], torch.Generator().manual_seed(0)
    shapes = scheme.site_shapes(n_heads=2, d_head=3, d_model=5, reach=4)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes.values()]
    q = torch.randn(1, 2, 4, 3, generator=generator, dtype=torch.float64)

    def products(q, *learned):
        by_name = dict(zip(shapes, learned, strict=True))
        return scheme.score_distances(by_name, scheme.site_queries(by_name, q), 4)

    given = tuple(values.requires_grad_() for values in (q, *drawn))
    assert torch.autograd.gradcheck(products, given)
    assert products(*given).shape == (1, 2, 4, 9)


@pytest.mark.parametrize("score", [name for name, score in SCORES.items() if not score.is_bilinear])
def test_that_a_score_that_is_no_product_is_refused(score: str) -> None:
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "form": "decoder", "score": score})
    assert "transformer-xl needs a score that is a product" in caught.value.expected


def test_that_its_keys_of_distances_cost_what_one_matrix_product_costs() -> None:
    config, plain = (
        ModelConfig.from_dict({**SIZES, "form": "decoder", "max_distance": 4, "position": name})
        for name in ("transformer-xl", "none")
    )
    more = own_cost(config, 11).forward - own_cost(plain, 11).forward
    assert more == 2 * 12 * 9 * (11 + 12)  # the 9 distances: with each query, and once with the matrix


def test_that_the_page_shows_what_any_query_adds_for_keys_back() -> None:
    model = tiny_model("decoder", position="transformer-xl", max_distance=5)
    (table,) = position_tables(["model"], 8, 2, model)
    scoring = model.own.module.decoder[0].attention.scoring
    v, w = scoring.v.detach().double(), scoring.relative.detach().double()
    expected = [[float(v[h] @ w[h] @ sinusoid(min(back, 5), 16)) for h in range(4)] for back in range(8)]
    np.testing.assert_allclose(table.matrix, expected, atol=1e-6)
    assert table.axes == ("head", "tokens back")


def test_that_the_first_steps_are_those_of_a_matrix_as_wide_as_a_key() -> None:
    model = build_transformer(ModelConfig.from_dict({**SIZES, "form": "decoder", "d_model": 48}), seed=0)
    scoring = model.decoder[0].attention.scoring
    assert float(scoring.relative.detach().std()) == pytest.approx(48**-0.5, rel=0.1)
    assert float(scoring.u.detach().std()) == pytest.approx(0.02, rel=0.4)
