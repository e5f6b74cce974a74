import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from attnscope.nn import ModelConfig, Norm, Transformer, build_transformer, empty_own

FORMS = ["encoder", "decoder", "encoder-decoder"]
POSITIONS = ["sinusoidal", "learned", "rotary", "none"]
TINY = ModelConfig(form="decoder", vocab_size=13, d_model=16, n_layers=2, n_heads=4, d_ff=24, max_tokens=12)


class Looker:
    def __init__(self, gates: dict | None = None, wanted: bool = True) -> None:
        self.gates, self.wanted, self.records = gates or {}, wanted, {}

    def gate(self, site):
        return self.gates.get(site)

    def edits(self, site):
        return None

    def wants(self, site):
        return self.wanted

    def record(self, site, call, **facts):
        self.records[site] = {"q": call.q, "k": call.k, "v": call.v, **facts}


def run(model: Transformer, ids: Tensor, **options) -> Tensor:
    if model.config.form == "encoder-decoder":
        options.setdefault("target_ids", ids)
    with torch.no_grad():
        return model(ids, **options)


def some_ids(batch: int, n_tokens: int) -> Tensor:
    return (torch.arange(batch * n_tokens).reshape(batch, n_tokens) * 7 + 3) % 13


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("position", POSITIONS)
def test_that_padding_on_the_right_changes_no_token(form, position, fill_with_ramp, assert_close):
    model = Transformer(replace(TINY, form=form, position=position)).eval()
    fill_with_ramp(model)
    ids = some_ids(1, 5)
    padded = torch.cat((ids, torch.zeros(1, 4, dtype=torch.int64)), dim=1)
    valid = torch.arange(9)[None] < 5
    options = {"target_ids": padded, "target_valid": valid} if form == "encoder-decoder" else {}
    assert_close(run(model, padded, valid=valid, **options)[:, :5], run(model, ids), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh", "swiglu"])
def test_that_every_choice_runs_backwards_and_is_seen(form, position, norm, norm_place, activation):
    choices = {"form": form, "position": position, "norm": norm, "norm_place": norm_place}
    config = replace(TINY, activation=activation, n_kv_heads=2, **choices)
    model = build_transformer(config, seed=1)
    ids = some_ids(2, 4)
    target = {"target_ids": some_ids(2, 3)} if form == "encoder-decoder" else {}
    looker = Looker()
    logits = model(ids, probe=looker, **target)
    logits.logsumexp(-1).sum().backward()
    assert logits.shape == (2, 3 if target else 4, 13)
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    assert list(looker.records) != []
    assert set(looker.records) == {site.key for site in model.sites()}
    with torch.no_grad():
        assert torch.allclose(model(ids, **target), logits, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        {name: value}
        for name in (
            "bias",
            "tie_embeddings",
            "scale_embeddings",
            "embedding_norm",
            "transform_head",
            "output_bias",
        )
        for value in (True, False)
    ],
    ids=str,
)
@pytest.mark.parametrize("form", FORMS)
def test_that_every_flag_takes_both_values(flags, form):
    model = build_transformer(replace(TINY, form=form, **flags), seed=1)
    logits = run(model, some_ids(2, 5))
    assert logits.shape == (2, 5, 13)
    assert bool(logits.isfinite().all())


@pytest.mark.parametrize("position", POSITIONS)
def test_that_a_causal_model_ignores_the_future(position, fill_with_ramp):
    model = Transformer(replace(TINY, position=position))
    fill_with_ramp(model)
    ids = some_ids(1, 8)
    changed = ids.clone()
    changed[0, 5:] = 1
    before, after = run(model, ids), run(model, changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("position", POSITIONS)
def test_that_only_an_encoder_without_positions_is_blind_to_order(position, fill_with_ramp):
    model = Transformer(replace(TINY, form="encoder", position=position))
    fill_with_ramp(model)
    found, swapped = run(model, torch.tensor([[1, 2, 3, 4]])), run(model, torch.tensor([[2, 1, 3, 4]]))
    assert torch.allclose(found[:, 3], swapped[:, 3], atol=1e-5) == (position == "none")


@pytest.mark.parametrize("form", FORMS)
def test_that_a_gate_of_zero_is_the_head_cut_from_the_output_projection(form, fill_with_ramp, assert_close):
    config = replace(TINY, form=form)
    model, cut = Transformer(config), Transformer(config)
    fill_with_ramp(model)
    cut.load_state_dict(model.state_dict())
    ids = some_ids(2, 6)
    d_head = config.head_width
    for site in model.sites():
        gate = torch.ones(4)
        gate[2] = 0.0
        gated = run(model, ids, probe=Looker({site.key: gate}, wanted=False))
        block = (cut.encoder if site.stack == "encoder" else cut.decoder)[site.layer]
        attention = block.cross if site.stack == "cross" else block.attention
        kept = attention.output.weight.data.clone()
        attention.output.weight.data[:, 2 * d_head : 3 * d_head] = 0.0
        assert_close(gated, run(cut, ids), atol=2e-6)
        attention.output.weight.data.copy_(kept)
        assert not torch.equal(gated, run(model, ids))


def test_that_gates_of_one_change_nothing(fill_with_ramp):
    model = Transformer(TINY)
    fill_with_ramp(model)
    ids = some_ids(2, 6)
    ones = {site.key: torch.ones(4) for site in model.sites()}
    assert torch.equal(run(model, ids), run(model, ids, probe=Looker(ones, wanted=False)))


def test_that_the_sites_are_encoder_then_decoder_then_cross():
    config = replace(TINY, form="encoder-decoder", n_layers=1, n_decoder_layers=2, n_kv_heads=2)
    sites = empty_own(config).sites()
    keys = [("encoder", 0), ("decoder", 0), ("decoder", 1), ("cross", 0), ("cross", 1)]
    assert [site.key for site in sites] == keys
    assert {(site.n_heads, site.n_kv_heads) for site in sites} == {(4, 2)}


@pytest.mark.parametrize(("form", "place"), list(itertools.product(FORMS, ["pre", "post"])))
def test_that_a_seed_gives_the_same_model_and_leaves_the_random_state_alone(form, place):
    config = replace(TINY, form=form, norm_place=place, scale_embeddings=place == "post")
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second, other = (build_transformer(config, seed) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), state)
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name)), name
        assert torch.equal(parameter, other.get_parameter(name)) == (parameter.ndim == 1), name


@pytest.mark.parametrize("d_model", [64, 256])
def test_that_a_pre_norm_model_starts_like_gpt_2(d_model):
    config = ModelConfig(form="decoder", vocab_size=500, d_model=d_model, n_layers=8, tie_embeddings=False)
    model = build_transformer(config, 0)
    std = 0.02 * (768 / d_model) ** 0.5
    block = model.decoder[3]
    assert float(block.attention.qkv.weight.detach().std()) == pytest.approx(std, rel=0.05)
    assert float(block.attention.output.weight.detach().std()) == pytest.approx(
        std / 4, rel=0.05
    )  # sqrt(2 · 8)
    assert float(block.feed_forward.down.weight.detach().std()) == pytest.approx(std / 4, rel=0.05)
    assert float(model.tokens.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(model.head.weight.detach().std()) == pytest.approx(std, rel=0.05)
    assert bool((block.attention_norm.weight == 1).all())
    assert bool((block.attention.qkv.bias == 0).all())


def test_that_a_decoder_with_cross_attention_has_three_projections_a_layer():
    config = ModelConfig(form="encoder-decoder", vocab_size=50, d_model=192, n_layers=3, n_decoder_layers=12)
    model = build_transformer(config, 0)
    for module, n_branches in ((model.encoder[0].attention, 6), (model.decoder[0].cross, 36)):
        expected = 0.02 * 2 / n_branches**0.5
        assert float(module.output.weight.detach().std()) == pytest.approx(expected, rel=0.05)


def test_that_a_post_norm_model_starts_with_xavier_bounds_for_each_matrix():
    config = replace(TINY, d_model=64, n_kv_heads=2, norm_place="post", scale_embeddings=True, vocab_size=500)
    model = build_transformer(config, 0)
    weight = model.decoder[0].attention.qkv.weight
    for part, n_rows in ((weight[:64], 64), (weight[64:96], 32), (weight[96:], 32)):
        assert float(part.detach().abs().max()) == pytest.approx((6 / (64 + n_rows)) ** 0.5, rel=0.02)
    assert float(model.tokens.weight.detach().std()) == pytest.approx(1 / 8, rel=0.05)


@pytest.mark.parametrize("position", POSITIONS)
def test_that_tables_are_not_saved_and_come_back_after_an_empty_start(position, assert_close):
    model = build_transformer(replace(TINY, position=position), 0)
    assert not any("rotary" in name or "sinus" in name for name in model.state_dict())
    again = empty_own(model.config)
    again.load_state_dict(model.state_dict())
    ids = some_ids(1, 12)
    assert_close(run(again, ids), run(model, ids), atol=0)


def test_that_a_network_without_memory_is_not_filled(monkeypatch):
    for name in ("uniform_", "normal_"):
        monkeypatch.setattr(torch.Tensor, name, lambda *_, **__: pytest.fail("filled in vain"))
    for values in ({}, {"body": "lstm", "form": "encoder-decoder", "n_heads": 1, "score": "dot"}):
        empty_own(replace(TINY, **values))


def test_that_dropout_acts_in_training_only():
    model = build_transformer(replace(TINY, dropout=0.3), 0)
    ids = some_ids(1, 6)
    assert not torch.equal(run(model, ids), run(model, ids))
    model.eval()
    assert torch.equal(run(model, ids), run(model, ids))


@pytest.mark.parametrize("position", ["learned", "rotary"])
@pytest.mark.parametrize("is_seen", [False, True])
def test_that_bfloat16_autocast_stays_near_float32(position, is_seen, assert_close):
    model = build_transformer(
        replace(TINY, position=position, form="encoder-decoder", n_kv_heads=2), 0
    ).eval()
    ids = some_ids(2, 6)
    valid = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    probe = Looker() if is_seen else None
    expected = run(model, ids, valid=valid)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(model, ids, valid=valid, probe=probe)
    assert_close(found.float(), expected, atol=0.05)  # 8 bits, a few layers deep


def test_that_the_pooler_reads_the_first_token():
    model = build_transformer(replace(TINY, form="encoder", has_pooler=True, n_segments=2), 0)
    hidden = model.encode(some_ids(2, 5), segments=torch.tensor([[0, 0, 1, 1, 1]] * 2))
    assert torch.equal(model.pool(hidden), torch.tanh(model.pooler(hidden[:, 0])))


def test_that_a_call_against_the_form_is_refused():
    ids = some_ids(1, 4)
    decoder, encoder, both = (
        build_transformer(replace(TINY, form=form), 0) for form in ("decoder", "encoder", "encoder-decoder")
    )
    for call in (
        lambda: decoder.encode(ids),
        lambda: encoder.decode(ids),
        lambda: both.decode(ids),
        lambda: decoder.decode(ids, memory=torch.zeros(1, 4, 16)),
        lambda: both(ids),
        lambda: decoder(ids, target_ids=ids),
        lambda: decoder(ids, segments=ids),
        lambda: encoder(ids, segments=ids),
        lambda: encoder.pool(torch.zeros(1, 4, 16)),
        lambda: decoder(some_ids(1, 13)),
        lambda: decoder(ids[:, :0]),
        lambda: decoder(ids[0]),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()


def test_that_the_root_mean_square_of_a_bfloat16_product_is_taken_in_float32() -> None:
    norm = Norm("rms", 6, epsilon=1e-6, has_bias=False)
    product = torch.linspace(-3.0, 2.0, 24).reshape(4, 6).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):  # torch warns of a product and a weight of two kinds
        found = norm(product)
    exact = product.double()
    exact = exact / (exact.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-6)
