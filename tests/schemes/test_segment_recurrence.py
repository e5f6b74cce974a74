"""Segment recurrence against Transformer-XL run segment by segment with its memory, slowly, in float64."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from slow_site import filled
from tiny_models import SENTENCE, tiny_model

from attnscope.errors import RecipeError
from attnscope.models import own_cost
from attnscope.nn import ModelConfig, RelativeBias, Segments, build_self_mask
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES
from attnscope.training import Batch, loss_sum

SIZES = {
    "vocab_size": 13, "d_model": 12, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 24, "mask": "segment-recurrence", "segment_tokens": 4, "segment_memory": 4,
    "position": "transformer-xl", "max_distance": 32,
}  # fmt: skip
IDS = torch.arange(2 * 11).reshape(2, 11) * 5 % 13


def config_of(form: str = "decoder", **choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, "form": form, **choices})


def is_seen(i: int, j: int, size: int, memory: int) -> bool:
    start = i // size * size
    return start - memory <= j < start + size


@pytest.mark.parametrize(("size", "memory"), list(itertools.product([1, 3, 4, 10, 30], [0, 1, 4, 7, 40])))
@pytest.mark.parametrize("is_causal", [False, True])
def test_that_a_query_sees_its_segment_and_what_that_remembers(
    size: int, memory: int, is_causal: bool
) -> None:
    config = config_of(
        "decoder" if is_causal else "encoder", max_tokens=60, segment_tokens=size, segment_memory=memory
    )
    mask = build_self_mask(config, 60)
    for n_queries, n_keys in ((11, 11), (1, 1), (3, 14), (1, 20)):
        found = mask.rule(n_queries, n_keys, is_causal=is_causal).allowed(n_queries, n_keys)[0, 0]
        for row in range(n_queries):
            i = n_keys - n_queries + row
            expected = [is_seen(i, j, size, memory) and (j <= i or not is_causal) for j in range(n_keys)]
            assert found[row].tolist() == expected
    for n in (1, 2, 7, 12, 37):
        assert mask.count(n) == sum(is_seen(i, j, size, memory) for i in range(n) for j in range(n))


def slow_text(model, ids: torch.Tensor, *, size: int, memory: int) -> torch.Tensor:
    """Dai et al. 2019, section 3.3: one segment after the other, with post-norm, in float64 [T, d]."""
    config = model.config
    d_head, n_groups = config.head_width, config.n_heads // config.kv_heads
    reach = config.max_distance
    distance = torch.arange(reach, -reach - 1, -1, dtype=torch.float64)[:, None]
    angle = distance * 10000.0 ** (-torch.arange(0, config.d_model, 2).double() / config.d_model)
    table = torch.cat((angle.sin(), angle.cos()), dim=1).float().double()  # models keep float32
    remembered = [torch.zeros(0, config.d_model, dtype=torch.float64) for _ in model.decoder]
    outs = []
    for segment in ids.split(size):
        h = model.tokens.weight[segment]
        for layer, block in enumerate(model.decoder):
            site, past = block.attention, remembered[layer].detach()
            both = torch.cat((past, h))
            remembered[layer] = both[max(0, len(both) - memory) :]
            rows = F.linear(both, site.qkv.weight, site.qkv.bias).unflatten(-1, (-1, d_head))
            heads = []
            for head in range(config.n_heads):
                kv = config.n_heads + head // n_groups
                q, k, v = (rows[:, n] for n in (head, kv, kv + config.kv_heads))
                u, w, r = (getattr(site.scoring, name)[head] for name in ("u", "v", "relative"))
                said = []
                for i in range(len(past), len(both)):
                    scores = [
                        (q[i] + u) @ k[j] + (q[i] + w) @ (r @ table[reach - min(i - j, reach)])
                        for j in range(i + 1)
                    ]
                    weights = torch.softmax(torch.stack(scores) / math.sqrt(d_head), dim=0)
                    said.append(weights @ v[: i + 1])
                heads.append(torch.stack(said))
            change = F.linear(torch.cat(heads, dim=1), site.output.weight, site.output.bias)
            h = F.layer_norm(h + change, (config.d_model,), *norm_of(block.attention_norm), 1e-5)
            up = F.gelu(F.linear(h, block.feed_forward.up.weight, block.feed_forward.up.bias))
            change = F.linear(up, block.feed_forward.down.weight, block.feed_forward.down.bias)
            h = F.layer_norm(h + change, (config.d_model,), *norm_of(block.feed_forward_norm), 1e-5)
        outs.append(h)
    return torch.cat(outs)


def norm_of(norm) -> tuple[torch.Tensor, torch.Tensor]:
    return norm.weight, norm.bias


@pytest.mark.parametrize(("size", "memory"), [(4, 4), (4, 0), (3, 5), (1, 2), (5, 30), (4, 3), (11, 4)])
def test_that_a_text_and_its_gradients_are_those_of_transformer_xl(size: int, memory: int) -> None:
    """Outputs, and the gradient of every parameter: none goes into what is remembered."""
    config = config_of(segment_tokens=size, segment_memory=memory, norm_place="post")
    model = filled(config).double()
    slow = torch.stack([slow_text(model, text, size=size, memory=memory) for text in IDS])
    aim = torch.linspace(-1, 1, slow.numel(), dtype=torch.float64).reshape(slow.shape).sin()
    expected = torch.autograd.grad((slow * aim).sum(), list(model.parameters()), allow_unused=True)
    for is_training in (False, True):
        found = model.train(is_training).decode(IDS)
        torch.testing.assert_close(found, slow, atol=1e-10, rtol=0)
    gradients = torch.autograd.grad((found * aim).sum(), list(model.parameters()), allow_unused=True)
    for name, one, other in zip(dict(model.named_parameters()), gradients, expected, strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7, msg=name)


@pytest.mark.parametrize("position", list(POSITIONS))
@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_segments_laid_into_the_batch_give_what_the_whole_text_gives(position: str, form: str) -> None:
    valid = torch.ones(2, 11, dtype=torch.bool)
    valid[1, 7:] = False
    for size, memory in ((4, 4), (3, 7), (2, 1), (4, 0)):
        config = config_of(form, position=position, segment_tokens=size, segment_memory=memory, d_head=4)
        model = filled(config).double()
        read = model.decode if form == "decoder" else model.encode
        whole, laid_out = (read(IDS, valid=valid) for _ in (model.eval(), model.train()))
        torch.testing.assert_close(laid_out[valid], whole[valid], atol=1e-10, rtol=0)


@pytest.mark.parametrize("score", [name for name, one in SCORES.items() if name != "general"])
def test_that_every_score_reads_segments(score: str) -> None:
    model = filled(config_of(position="none", score=score)).double()
    whole, laid_out = (model.decode(IDS) for _ in (model.eval(), model.train()))
    torch.testing.assert_close(laid_out, whole, atol=1e-9, rtol=0)


def test_that_nothing_flows_back_into_a_memory_and_matrices_learn_from_it() -> None:
    config = config_of(n_layers=1, position="none", norm="none")
    model = filled(config).train()
    x = torch.randn(1, 8, 12, generator=torch.Generator().manual_seed(2)).requires_grad_()
    site = model.decoder[0].attention
    rule = model.self_mask.rule(8, 8, is_causal=True)
    site(x, rule=rule)[:, 4:].sum().backward()
    assert not x.grad[0, :4].any()
    assert x.grad[0, 4:].any()
    seen = site.qkv.weight.grad.clone()
    site.qkv.weight.grad = None
    short = model.self_mask.rule(4, 4, is_causal=True)
    site(x[:, 4:].detach(), rule=short).sum().backward()
    assert (seen - site.qkv.weight.grad).abs().max() > 1e-3
    inside = torch.autograd.gradcheck(
        lambda one: site.double()(one, rule=rule)[:, :4], x.detach().double().requires_grad_()
    )
    assert inside


def test_that_gates_close_heads_while_segments_are_learned() -> None:
    model = tiny_model("decoder", **{k: SIZES[k] for k in ("mask", "segment_tokens", "segment_memory")})
    module, ids = model.own.module.train(), IDS[:, :9]
    n = ids.numel()
    for gate in (torch.tensor([0.0, 1.0, 1.0, 0.5]), torch.rand(2, 4)):
        gates = {("decoder", 0): gate}
        batch = Batch(ids=ids, scored=torch.arange(n), labels=torch.zeros(n, dtype=torch.int64), gates=gates)
        torch.testing.assert_close(loss_sum(module.train(), batch), loss_sum(module.eval(), batch))


def test_that_a_bias_by_distance_keeps_its_distances() -> None:
    values = torch.arange(-10.0, 11.0)[None]  # of each distance that distance: 11 queries, 11 keys
    segments = Segments(size=4, memory=3)
    q, k = torch.zeros(1, 1, 11, 2), torch.zeros(1, 1, 11, 2)
    rule = build_self_mask(config_of(segment_memory=3), 24).rule(11, 11, is_causal=True)
    _, _, bias = segments.fold((q, k, k), (k, k), rule, RelativeBias(values=values))
    cells = bias.part(4, 7, slice(None), slice(None))[0, 0]
    assert cells.tolist() == [[j - 3 - i for j in range(7)] for i in range(4)]


def test_that_cost_counts_what_segments_see() -> None:
    with_memory, alone = (own_cost(config_of(segment_memory=m), 20).forward for m in (4, 0))
    assert with_memory - alone == 2 * 4 * 12 * (4 * 4 * 4)  # four of five segments see four more


def test_that_impossible_numbers_are_refused() -> None:
    with pytest.raises(RecipeError) as caught:
        config_of(segment_tokens=24)
    assert caught.value.expected == "less than max_tokens, which is 24: several make a text"
    for key, value in (("segment_tokens", 0), ("segment_memory", -1)):
        with pytest.raises(RecipeError, match=key):
            config_of(**{key: value})


def test_that_a_map_shows_the_segment_before_and_nothing_earlier() -> None:
    model = tiny_model("decoder", mask="segment-recurrence", segment_tokens=3, segment_memory=2)
    weights = model.trace(SENTENCE).weights(("decoder", 1), 2)
    n = len(weights)
    seen = [[is_seen(i, j, 3, 2) and j <= i for j in range(n)] for i in range(n)]
    np.testing.assert_array_equal(~np.isnan(weights), seen)
