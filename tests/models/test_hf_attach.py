"""Entering Hugging Face models: sites, notes, proofs, refusals by name, and leaving again."""

import re

import hf_tiny
import pytest
import torch
from torch import nn

from attnscope.errors import UserError
from attnscope.models.huggingface import NAME, attach, attend_module, interface
from attnscope.records import NO_GATES, Gates, HeadRef
from attnscope.trace import GateProbe, SiteTensors, TraceProbe, prove, site_weights
from attnscope.trace import record as record_file

hf = pytest.importorskip("transformers")

IDS = torch.arange(7)[None] * 3 + 5
SMALL = {
    "vocab_size": hf_tiny.N_PIECES,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    **hf_tiny.IDS,
}
BY_THEMSELVES = {
    "bloom": (lambda: hf.BloomForCausalLM(hf.BloomConfig(**SMALL)), "decoder"),
    "falcon": (lambda: hf.FalconForCausalLM(hf.FalconConfig(**SMALL)), "decoder"),
    "gpt_neo": (
        lambda: hf.GPTNeoForCausalLM(
            hf.GPTNeoConfig(
                vocab_size=60,
                hidden_size=32,
                num_layers=2,
                num_heads=4,
                attention_types=[[["global", "local"], 1]],
                window_size=3,
                **hf_tiny.IDS,
            )
        ),
        "decoder",
    ),
    **({"gptj": (hf_tiny.FAMILIES["gptj"], "decoder")} if hf_tiny.GPTJ_ATTENDS_BY_ITSELF else {}),
    "xlnet": (
        lambda: hf.XLNetLMHeadModel(
            hf.XLNetConfig(vocab_size=60, d_model=32, n_layer=2, n_head=4, d_inner=48)
        ),
        "encoder",
    ),
    "deberta_v2": (lambda: hf.DebertaV2ForMaskedLM(hf.DebertaV2Config(**hf_tiny.ENCODER)), "encoder"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_that_a_model_that_attends_by_itself_shows_its_own_weights_and_says_so(name):
    build, stack = BY_THEMSELVES[name]
    model = build().eval()
    hf_tiny.fill(model)
    attached = attach(model)
    assert not attached.has_gates
    assert type(model).__name__ in attached.note
    assert [site.key for site in attached.sites] == [(stack, 0), (stack, 1)]
    probe = TraceProbe(attached.sites, NO_GATES)
    with attached.probing(probe), torch.no_grad():
        expected = model(IDS).attentions
    for site, weights in zip(attached.sites, expected, strict=True):
        found = site_weights(probe.records[site.key])
        assert torch.equal(found.isnan(), weights[-1] == 0)
        assert float((found.nan_to_num(nan=0.0) - weights[-1]).abs().max()) <= 1e-6


def test_that_gates_are_refused_where_a_model_attends_by_itself():
    attached = attach(BY_THEMSELVES["bloom"][0]().eval())
    gates = Gates.of({HeadRef(stack="decoder", layer=1, head=0): 0.5})
    with (
        pytest.raises(UserError, match="BloomForCausalLM"),
        attached.probing(GateProbe(attached.sites, gates)),
    ):
        pass


REFUSED = {
    "nystromformer": (
        lambda: hf.NystromformerForMaskedLM(
            hf.NystromformerConfig(
                vocab_size=60,
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=4,
                intermediate_size=48,
                max_position_embeddings=64,
            )
        ),
        "approximated",
    ),
    "fnet": (
        lambda: hf.FNetForMaskedLM(
            hf.FNetConfig(vocab_size=60, hidden_size=32, num_hidden_layers=1, intermediate_size=48)
        ),
        "neither calls",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_that_a_model_without_maps_is_refused_by_name_and_reason(name):
    build, reason = REFUSED[name]
    model = build().eval()
    own = model.config._attn_implementation
    with pytest.raises(UserError, match=reason) as refusal:
        attach(model)
    assert type(model).__name__ in str(refusal.value)
    assert model.config._attn_implementation == own


def test_that_a_wrong_attention_is_never_shown_but_the_models_own_weights_with_the_difference(monkeypatch):
    interface.register()
    functions = hf.modeling_utils.AttentionInterface

    def wrong(module, query, key, value, attention_mask, **others):
        return attend_module(module, query, key, value, None, is_causal=False, **others)

    monkeypatch.setitem(functions._global_mapping, NAME, wrong)
    model = hf_tiny.build("gpt2")
    attached = attach(model)
    assert not attached.has_gates
    assert re.search(r"logits of GPT2LMHeadModel differ by 0\.\d+", attached.note)
    probe = TraceProbe(attached.sites, NO_GATES)
    with attached.probing(probe), torch.no_grad():
        model(IDS[:1])
    attached.detach()
    model.set_attn_implementation("eager")
    own = model(IDS[:1], output_attentions=True).attentions
    for site, weights in zip(attached.sites, own, strict=True):
        found = site_weights(probe.records[site.key]).nan_to_num(0.0)
        torch.testing.assert_close(found, weights[0], atol=1e-6, rtol=0)
        assert probe.records[site.key].proof.is_given  # nothing is claimed of outputs


def test_that_leaving_gives_the_model_its_own_attention_back():
    model = hf_tiny.build("clip")
    parts = (model.config, model.config.text_config, model.config.vision_config)
    own = [part._attn_implementation for part in parts]
    attached = attach(model)
    assert [part._attn_implementation for part in parts] == [NAME] * 3
    attached.detach()
    assert [part._attn_implementation for part in parts] == own


def test_that_training_mode_is_kept_and_recorded():
    model = hf_tiny.build("bert").train()
    attached = attach(model)
    assert model.training
    assert model.bert.encoder.layer[0].attention.self.training
    probe = TraceProbe(attached.sites, NO_GATES)
    with attached.probing(probe), torch.no_grad():
        model(IDS)
    assert all(record.proof.is_training for record in probe.records.values())


def test_that_two_towers_and_hybrid_layers_are_explained():
    assert "'decoder' is text_model" in attach(hf_tiny.build("clip")).note
    config = hf.JambaConfig(
        **{**hf_tiny.DECODER, "num_hidden_layers": 4},
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        use_mamba_kernels=False,
        mamba_d_state=4,
    )
    attached = attach(hf.JambaForCausalLM(config).eval())
    assert [site.layer for site in attached.sites] == [1, 3]
    assert "Of 4 layers 2" in attached.note


def test_that_passes_in_one_context_are_told_apart():
    model = hf_tiny.build("albert")
    attached = attach(model)
    probe = TraceProbe(attached.sites, NO_GATES)
    with attached.probing(probe), torch.no_grad():
        for _ in range(3):
            model(IDS)
        model.albert(IDS)
    assert len(probe.records) == 2


def test_that_a_module_not_seen_when_entering_is_refused():
    model = hf_tiny.build("bert")
    attached = attach(model)
    model.bert.encoder.layer.append(hf_tiny.build("bert").bert.encoder.layer[0])
    for part in model.bert.encoder.layer[2].modules():
        if hasattr(part, "config"):
            part.config = model.config
    with pytest.raises(UserError, match="more often"), attached.probing(GateProbe(attached.sites, NO_GATES)):
        model(IDS)


class Module(nn.Module):
    """A module as models hand it to the attention function."""

    is_causal = False


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ({"indices": torch.zeros(1)}, "indices"),
        ({"cache": object()}, "cache"),
        ({"sliding_window": 3}, "sliding_window=3"),
        ({"s_aux": torch.zeros(3)}, "s_aux"),
        ({"softcap": 2.0, "position_bias": torch.ones(1, 2, 5, 5)}, "softcap together"),
        ({"cu_seq_lens_q": torch.zeros(2)}, "cu_seq_lens_q"),
    ],
)
def test_that_an_argument_that_would_be_ignored_is_refused_by_name(others, named):
    q = torch.ones(1, 2, 5, 4)
    with pytest.raises(UserError, match=named):
        attend_module(Module(), q, q, q, None, **others)


def test_that_shapes_which_are_no_heads_are_refused():
    q, k = torch.ones(1, 3, 5, 4), torch.ones(1, 2, 5, 4)
    with pytest.raises(UserError, match=r"\[1, 3, 5, 4\]"):
        attend_module(Module(), q, k, k, None)


@pytest.mark.parametrize(("n_queries", "n_keys"), [(5, 5), (3, 5), (5, 3), (1, 5)])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("is_causal", [True, False])
def test_that_no_mask_means_what_it_means_to_the_librarys_fused_attention(
    n_queries, n_keys, has_bias, is_causal
):
    theirs = hf.integrations.sdpa_attention.sdpa_attention_forward
    module = Module().eval()
    q = torch.sin(torch.arange(2 * 2 * n_queries * 4.0) ** 1.5).reshape(2, 2, n_queries, 4)
    k = torch.cos(torch.arange(2 * 2 * n_keys * 4.0) ** 1.5).reshape(2, 2, n_keys, 4)
    others = {}
    if has_bias:
        others["position_bias"] = torch.sin(torch.arange(2 * n_queries * n_keys) ** 1.5).reshape(
            1, 2, n_queries, n_keys
        )
    expected = theirs(module, q, k, k, None, scaling=0.3, is_causal=is_causal, **others)[0]
    found = attend_module(module, q, k, k, None, scaling=0.3, is_causal=is_causal, **others)[0]
    assert float((found - expected).abs().max()) <= 1e-6


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_that_layers_that_are_alike_are_proved_in_one_go(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n_proved: list[int] = []

    def counting(sites: SiteTensors, **named: bool) -> object:
        n_proved.append(len(sites.q))
        return prove(sites, **named)

    monkeypatch.setattr(record_file, "prove", counting)
    model = hf_tiny.build(name).eval()
    attached = attach(model)
    probe = TraceProbe(attached.sites, NO_GATES)
    with torch.no_grad(), attached.probing(probe):
        model(input_ids=torch.tensor([[3, 1, 4, 1, 5]]))
    assert list(probe.records) == [site.key for site in attached.sites]
    assert n_proved == [len(attached.sites)]
