"""PyTorch's own attention layers, library models and our own models, recorded."""

import itertools

import hf_tiny
import pytest
import torch
from torch import nn

import attnscope

CASES = [
    case
    for case in itertools.product((False, True), (False, True), (None, 6), ("no", "bool", "float", "3d"),
                                  ("no", "bool", "float"))
    if {case[3], case[4]} not in ({"bool", "float"}, {"3d", "float"})
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("needs_weights", [True, False])
@pytest.mark.parametrize("is_batch_first", [True, False])
def test_that_a_layers_own_weights_are_recorded_with_every_mask_and_key(
    needs_weights: bool, is_batch_first: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    for has_bias, has_zero, d_key, mask, padding in CASES:
        layer = nn.MultiheadAttention(
            8, 2, add_bias_kv=has_bias, add_zero_attn=has_zero, batch_first=is_batch_first,
            kdim=d_key, vdim=d_key,
        ).eval()  # fmt: skip
        for bias in (layer.in_proj_bias, layer.out_proj.bias):
            nn.init.normal_(bias, generator=generator)  # new layers have zeros there
        q, k = (torch.randn(3, n, d, generator=generator) for n, d in ((4, 8), (5, d_key or 8)))
        cells = {
            "no": None,
            "bool": torch.rand(4, 5, generator=generator) > 0.6,
            "float": torch.randn(4, 5, generator=generator),
            "3d": torch.rand(6, 4, 5, generator=generator) > 0.6,
        }[mask]
        if cells is not None and cells.dtype == torch.bool:
            cells[..., 0] = False
        pads = {
            "no": None,
            "bool": torch.tensor([[False, False, False, True, True]] * 3),
            "float": torch.randn(3, 5, generator=generator),
        }[padding]
        if not is_batch_first:
            q, k = q.transpose(0, 1), k.transpose(0, 1)
        options = {"attn_mask": cells, "key_padding_mask": pads, "average_attn_weights": False}
        plain, _ = layer(q, k, k, need_weights=needs_weights, **options)
        _, theirs = layer(q, k, k, **options)
        with attnscope.record(layer, row=2) as recording:
            out, _ = layer(q, k, k, need_weights=needs_weights, **options)
        trace = recording.trace()
        assert torch.equal(out, plain)
        found = trace.all_weights(0).nan_to_num(0.0)
        torch.testing.assert_close(found, theirs[2].detach(), atol=3e-6, rtol=0)
        assert trace.check().is_good
        extra = ["bias key"] * has_bias + ["zero key"] * has_zero
        assert [t.piece for t in trace.tokens(0)[1][5:]] == extra


@pytest.mark.parametrize("needs_weights", [True, False])
def test_that_the_hint_of_a_causal_mask_is_followed_as_the_layer_does(needs_weights: bool) -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(1, 4, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    with attnscope.record(layer) as recording:
        layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=needs_weights)
    trace = recording.trace()
    assert trace.sites[0].stack == "decoder"
    assert trace.check().is_good
    assert trace.records["decoder", 0].rule.is_causal


@pytest.mark.parametrize("needs_weights", [True, False])
@pytest.mark.parametrize("is_padded", [True, False])
def test_that_the_hint_counts_just_where_the_layer_leaves_the_mask_aside(
    needs_weights: bool, is_padded: bool
) -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(1, 4, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    mask[3, 0] = -torch.inf  # which a causal mask would allow
    padding = torch.tensor([[0.0, -torch.inf, 0.0, 0.0]]) if is_padded else None
    options = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": True}
    with attnscope.record(layer) as recording:
        layer(x, x, x, need_weights=needs_weights, **options)
    trace = recording.trace()
    seen = trace.all_weights(0).nan_to_num(0.0) > 0
    expected = torch.ones(4, 4, dtype=torch.bool).tril()
    if needs_weights or is_padded:
        expected[3, 0] = False
    if is_padded:
        expected[:, 1] = False
    assert torch.equal(seen, expected.expand(2, 4, 4))
    assert trace.check().is_good


def test_that_masks_of_true_and_false_given_to_the_function_itself_mean_what_they_do_there() -> None:
    layer, x = nn.MultiheadAttention(8, 2).eval(), torch.randn(4, 1, 8)
    mask = torch.ones(4, 4, dtype=torch.bool).triu(diagonal=1)
    arguments = (x, x, x, 8, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, True, 0.0,
                 layer.out_proj.weight, layer.out_proj.bias)  # fmt: skip
    options = {"training": False, "attn_mask": mask, "average_attn_weights": False}
    _, theirs = nn.functional.multi_head_attention_forward(*arguments, **options)
    with attnscope.record() as recording:
        nn.functional.multi_head_attention_forward(*arguments, **options)
    trace = recording.trace()
    found = trace.all_weights(0).nan_to_num(0.0)
    torch.testing.assert_close(found, theirs[0].detach(), atol=1e-6, rtol=0)
    assert trace.check().is_good


def test_that_texts_without_a_batch_and_static_keys_are_recorded() -> None:
    layer, x = nn.MultiheadAttention(8, 2).eval(), torch.randn(4, 8)
    _, theirs = layer(x, x, x, average_attn_weights=False)
    with attnscope.record(layer) as recording:
        layer(x, x, x)
    torch.testing.assert_close(recording.trace().all_weights(0), theirs.detach(), atol=1e-6, rtol=0)
    static, y = torch.randn(2, 6, 4), x[:, None]
    arguments = (y, y, y, 8, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0,
                 layer.out_proj.weight, layer.out_proj.bias)  # fmt: skip
    options = {"training": False, "static_k": static, "static_v": static, "average_attn_weights": False}
    _, theirs = nn.functional.multi_head_attention_forward(*arguments, **options)
    with attnscope.record() as recording:
        nn.functional.multi_head_attention_forward(*arguments, **options)
    trace = recording.trace()
    torch.testing.assert_close(trace.all_weights(0), theirs[0].detach(), atol=1e-6, rtol=0)
    assert trace.check().is_good


def test_that_a_whole_transformer_has_its_three_stacks() -> None:
    model = nn.Transformer(8, 2, 2, 2, 16, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    for n_source in (4, 6):  # as many tokens on both sides, and not
        with attnscope.record(model) as recording:
            model(torch.randn(1, n_source, 8), torch.randn(1, 4, 8), tgt_mask=mask)
        trace = recording.trace([f"s{i}" for i in range(n_source)], [f"t{i}" for i in range(4)])
        assert [site.key for site in trace.sites] == list(
            itertools.product(("encoder", "decoder", "cross"), (0, 1))
        )
        assert trace.recorded is not None
        assert trace.recorded.site_name(("cross", 1)) == "decoder.layers.1.multihead_attn"
        queries, keys = trace.tokens(("cross", 0))
        assert (queries[0].piece, keys[0].piece) == ("t0", "s0")
        assert trace.check().is_good


def test_that_the_output_is_the_same_bit_by_bit_and_so_are_gradients() -> None:
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), 2, enable_nested_tensor=False
    )
    x = torch.randn(1, 4, 8)

    def train() -> list[torch.Tensor]:
        model.zero_grad()
        torch.manual_seed(1)
        out = model(x)
        out.sum().backward()
        return [out.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    plain = train()
    with attnscope.record(model) as recording:
        recorded = train()
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
    trace = recording.trace()
    assert not trace.check().is_evaluation_mode
    assert trace.recorded is not None
    assert "dropped 0.5" in trace.recorded.notes[0]


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_that_a_library_model_is_recorded_as_it_tells_itself(kind: str) -> None:
    model = hf_tiny.build(kind)
    ids = torch.arange(3, 9)[None]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = model(input_ids=ids, output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
        plain = model(input_ids=ids)[0]
        with attnscope.record(model) as recording:
            out = model(input_ids=ids)[0]
    assert torch.equal(plain, out)
    trace = recording.trace()
    assert {site.stack for site in trace.sites} == {"decoder" if kind == "gpt2" else "encoder"}
    for layer, weights in enumerate(theirs):
        found = trace.all_weights(layer).nan_to_num(0.0)
        torch.testing.assert_close(found, weights[0], atol=1e-6, rtol=0)


def test_that_our_own_model_is_recorded_as_it_is_traced() -> None:
    model = attnscope.load("grammar")
    own = model.trace("the white cat sleeps")
    assert own.target is not None
    module = model.own.module
    with torch.no_grad(), attnscope.record(module) as recording:
        memory = module.encode(torch.tensor([own.source.ids]))
        module.decode(torch.tensor([own.target.ids]), memory=memory)
    trace = recording.trace(own.source, own.target)  # type: ignore[arg-type]
    assert [site.key for site in trace.sites] == [site.key for site in own.sites]
    for site in own.sites:
        torch.testing.assert_close(
            trace.all_weights(site), own.all_weights(site), atol=1e-6, rtol=0, equal_nan=True
        )
