"""Direct logit attribution of models of Hugging Face's library, against slow versions of the formulas."""

from typing import Any

import hf_tiny
import numpy as np
import pytest
import torch
from foreign_models import CLEAN, foreign, target_of
from torch import Tensor

from attnscope.analysis import attribute_logits
from attnscope.errors import UserError
from attnscope.models.huggingface import anatomy, bent_step
from attnscope.records import Attribution, Gates

pytestmark = pytest.mark.filterwarnings("ignore")
FAMILIES = (*hf_tiny.ENCODERS, *hf_tiny.DECODERS, *hf_tiny.ENCODER_DECODERS)
ANSWERS = (7, 5)


def parts_of(family: str, position: int = 1, **choices: Any) -> Attribution:
    return attribute_logits(
        foreign(family), CLEAN, target_of(family), position=position, answer=7, other=5, **choices
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_that_the_parts_of_every_family_add_up_to_its_logits(family: str) -> None:
    model, found = foreign(family), parts_of(family)
    logits = model.trace(CLEAN, target_of(family)).logits[1].astype(np.float64)
    assert found.difference == pytest.approx(logits[7] - logits[5], abs=2e-5)
    assert found.total == pytest.approx(found.difference, abs=2e-5)
    predicting = {"encoder"} if family in hf_tiny.ENCODERS else {"decoder", "cross"}
    heads = [one.head for one in found.contributions if one.head]
    assert set(heads) == {h for site in model.sites if site.stack in predicting for h in site.heads}
    assert len(heads) == len(set(heads))
    labels = [one.label for one in found.contributions if one.kind == "feed-forward"]
    assert labels == ["L0 feed-forward", "L1 feed-forward"]
    assert found.contributions[0].label == "token"
    assert min(abs(one.value) for one in found.contributions if one.head) > 1e-6


def test_that_a_gated_head_adds_nothing_and_the_rest_adds_up() -> None:
    head = foreign("llama").sites[1].heads[2]
    found = parts_of("llama", gates=Gates.of({head: 0.0}))
    assert next(one.value for one in found.contributions if one.head == head) == 0.0
    assert found.total == pytest.approx(found.difference, abs=2e-5)
    assert found.difference != pytest.approx(parts_of("llama").difference, abs=1e-3)


def kept_vectors(model: Any, places: dict[str, str], ids: Tensor) -> dict[str, Tensor]:
    """What modules of the library's own model read or gave at position 1, float64."""
    kept: dict[str, Tensor] = {}

    def keep(name: str, what: str) -> Any:
        def hook(_: Any, given: Any, output: Any) -> None:
            kept[name] = (given[0] if what == "read" else output)[0, 1].detach().double()

        return hook

    handles = [model.get_submodule(n).register_forward_hook(keep(n, what)) for n, what in places.items()]
    with torch.no_grad():
        model(ids)
    for handle in handles:
        handle.remove()
    return kept


def ids_of(family: str) -> Tensor:
    return torch.tensor([foreign(family).encode(CLEAN).source.ids])


def before_norm(u: Tensor, norm: Any, x: Tensor) -> tuple[Tensor, float]:
    """The direction before a LayerNorm with the scale that x gives it, and what its bias adds."""
    scale = 1 / torch.sqrt(((x - x.mean()) ** 2).mean() + norm.eps)
    through = u * norm.weight.double() * scale
    return through - through.mean(), float(norm.bias.double() @ u)


@torch.no_grad()
def test_that_every_part_of_gpt2_equals_a_slow_version() -> None:
    model, ids = hf_tiny.build("gpt2"), ids_of("gpt2")
    body = model.transformer
    places = {"transformer.ln_f": "read", "transformer.wte": "gave"}
    for layer in range(2):
        places |= {f"transformer.h.{layer}.attn.c_proj": "read", f"transformer.h.{layer}.mlp": "gave"}
    kept = kept_vectors(model, places, ids)
    u = (model.lm_head.weight[7] - model.lm_head.weight[5]).double()
    u, last_bias = before_norm(u, body.ln_f, kept["transformer.ln_f"])
    expected = {"token": kept["transformer.wte"] @ u, "position": body.wpe.weight[1].double() @ u}
    for layer in range(2):
        projection, joined = body.h[layer].attn.c_proj, kept[f"transformer.h.{layer}.attn.c_proj"]
        for head in range(4):
            rows = slice(8 * head, 8 * head + 8)
            expected[f"L{layer}H{head}"] = joined[rows] @ projection.weight[rows].double() @ u
        expected[f"L{layer} decoder bias"] = projection.bias.double() @ u
        expected[f"L{layer} feed-forward"] = kept[f"transformer.h.{layer}.mlp"] @ u
    found = {one.label: one.value for one in parts_of("gpt2").contributions}
    assert found == pytest.approx(
        {name: float(value) for name, value in expected.items()} | {"last norm bias": last_bias}, abs=1e-5
    )


@torch.no_grad()
def test_that_every_part_of_bert_equals_a_slow_version() -> None:
    """A post-norm stack under a head with GELU: every norm's scale and the factor Φ(x) stay as they were."""
    model, ids = hf_tiny.build("bert"), ids_of("bert")
    head, layers = model.cls.predictions, model.bert.encoder.layer
    places = {"cls.predictions.transform.LayerNorm": "read", "cls.predictions.transform.dense": "gave"}
    places |= {"bert.embeddings.LayerNorm": "read"}
    for layer in range(2):
        name = f"bert.encoder.layer.{layer}"
        places |= {f"{name}.attention.output.dense": "read", f"{name}.attention.output.LayerNorm": "read"}
        places |= {f"{name}.output.dense": "gave", f"{name}.output.LayerNorm": "read"}
    kept = kept_vectors(model, places, ids)
    u = (head.decoder.weight[7] - head.decoder.weight[5]).double()
    expected = {"output bias": [float(head.decoder.bias[7] - head.decoder.bias[5])]}
    x = kept["cls.predictions.transform.dense"]
    u, bias = before_norm(u, head.transform.LayerNorm, kept["cls.predictions.transform.LayerNorm"])
    expected["output norm bias"] = [bias]
    u = u * 0.5 * (1 + torch.erf(x / 2**0.5))  # GELU(x) = x · Φ(x)
    expected["output layer bias"] = [float(head.transform.dense.bias.double() @ u)]
    u = u @ head.transform.dense.weight.double()
    for layer in (1, 0):
        part, name = layers[layer], f"bert.encoder.layer.{layer}"
        u, bias = before_norm(u, part.output.LayerNorm, kept[f"{name}.output.LayerNorm"])
        expected[f"L{layer} feed-forward"] = [float(kept[f"{name}.output.dense"] @ u)]
        u, other = before_norm(u, part.attention.output.LayerNorm, kept[f"{name}.attention.output.LayerNorm"])
        expected[f"L{layer} norm bias"] = [other, bias]
        dense, joined = part.attention.output.dense, kept[f"{name}.attention.output.dense"]
        for index in range(4):
            rows = slice(8 * index, 8 * index + 8)
            expected[f"L{layer}H{index}"] = [float(dense.weight[:, rows].double() @ joined[rows] @ u)]
        expected[f"L{layer} encoder bias"] = [float(dense.bias.double() @ u)]
    embeddings = model.bert.embeddings
    u, bias = before_norm(u, embeddings.LayerNorm, kept["bert.embeddings.LayerNorm"])
    expected["embedding norm bias"] = [bias]
    expected["token"] = [float(embeddings.word_embeddings.weight[ids[0, 1]].double() @ u)]
    expected["position"] = [float(embeddings.position_embeddings.weight[1].double() @ u)]
    expected["segment"] = [float(embeddings.token_type_embeddings.weight[0].double() @ u)]
    found: dict[str, list[float]] = {}
    attribution = parts_of("bert")
    for one in attribution.contributions:
        found.setdefault(one.label, []).append(one.value)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, abs=1e-5), name
    assert "activation (GELUActivation)" in attribution.note


@torch.no_grad()
def test_that_a_head_of_gemma2_goes_through_the_norm_behind_it_and_through_the_cap() -> None:
    model, ids = hf_tiny.build("gemma2"), ids_of("gemma2")
    names = ("model.layers.1.self_attn.o_proj", "model.layers.1.post_attention_layernorm", "model.norm")
    kept = kept_vectors(model, dict.fromkeys(names, "read") | {"lm_head": "gave"}, ids)
    attention, last, cap = model.model.layers[1], model.model.norm, model.config.final_logit_softcapping

    def before(u: Tensor, norm: Any, x: Tensor) -> Tensor:
        return u * (1 + norm.weight.double()) / torch.sqrt((x**2).mean() + norm.eps)

    factor = cap * torch.tanh(kept["lm_head"] / cap) / kept["lm_head"]
    u = factor[7] * model.lm_head.weight[7].double() - factor[5] * model.lm_head.weight[5].double()
    u = before(u, last, kept["model.norm"])
    u = before(u, attention.post_attention_layernorm, kept["model.layers.1.post_attention_layernorm"])
    found = {one.label: one.value for one in parts_of("gemma2").contributions}
    for head in range(4):
        rows = slice(8 * head, 8 * head + 8)
        joined = kept["model.layers.1.self_attn.o_proj"][rows]
        weight = attention.self_attn.o_proj.weight[:, rows].double()
        assert found[f"L1H{head}"] == pytest.approx(float(weight @ joined @ u), abs=1e-5)
    assert "cap" in parts_of("gemma2").note


def test_that_an_activation_is_known_though_its_kernel_rounds_narrow_rows_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The GELU of torch, within the head of BERT, gives other last digits for one column than for all."""
    forward = torch.nn.functional.gelu

    def rounded(x: Tensor, **choices: Any) -> Tensor:
        return forward(x, **choices) + (1e-6 if x.shape[-1] == 1 else 0.0)

    monkeypatch.setattr(torch.nn.functional, "gelu", rounded)
    found = parts_of("bert")
    assert found.total == pytest.approx(found.difference, abs=2e-5)
    assert "GELU" in found.note


def test_that_what_bends_the_way_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = foreign("gpt2").network.module  # type: ignore[attr-defined]
    monkeypatch.setitem(module.transformer._modules, "ln_f", torch.nn.Softmax(dim=-1))
    with pytest.raises(UserError, match=r"GPT2LMHeadModel.*SoftmaxBackward0 stands between"):
        parts_of("gpt2")


def test_that_a_layer_whose_feed_forward_part_is_not_known_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anatomy, "FEED_FORWARDS", {"nothing of this name": ""})
    monkeypatch.setattr(anatomy, "_KNOWN", {})
    with pytest.raises(UserError, match="feed-forward part of decoder layer 0 was not found"):
        parts_of("llama")


def test_that_a_part_which_swallows_the_stream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anatomy, "FEED_FORWARDS", {"ln_2": ""})  # a norm of the stream, not a part beside it
    monkeypatch.setattr(anatomy, "_KNOWN", {})
    with pytest.raises(UserError, match=r"not linear|do not reach|add up"):
        parts_of("gpt2")


def test_that_layers_which_reach_the_output_through_others_alone_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here the second layer gives on what it adds, without the stream: the parts add up all the same."""
    block = foreign("gpt2").network.module.transformer.h[1]  # type: ignore[attr-defined]

    def without_stream(x: Tensor, *_: Any, **__: Any) -> Tensor:
        return block.attn(block.ln_1(x))[0] + block.mlp(block.ln_2(x))

    monkeypatch.setattr(block, "forward", without_stream)
    with pytest.raises(UserError, match="the heads of decoder layer 0 reach the output by others alone"):
        parts_of("gpt2")


def test_that_parts_that_do_not_add_up_are_refused() -> None:
    block = foreign("gpt2").network.module.transformer.h[1]  # type: ignore[attr-defined]
    more = torch.arange(32.0).sin()  # from nowhere: neither a bias nor a part
    handle = block.register_forward_hook(
        lambda _, __, given: (given[0] + more, *given[1:]) if isinstance(given, tuple) else given + more
    )
    try:
        with pytest.raises(UserError, match="they add up to"):
            parts_of("gpt2")
    finally:
        handle.remove()


def test_that_a_part_of_a_name_that_stands_twice_is_not_taken_for_the_feed_forward_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anatomy, "_KNOWN", {})
    for block in foreign("gpt2").network.module.transformer.h:  # type: ignore[attr-defined]
        monkeypatch.setitem(block._modules, "side", torch.nn.ModuleDict({"mlp": torch.nn.Identity()}))
    with pytest.raises(UserError, match="feed-forward part of decoder layer 0 was not found"):
        parts_of("gpt2")


def test_that_contributions_say_where_in_the_model_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    module = foreign("marian").network.module  # type: ignore[attr-defined]
    constant = torch.linspace(-1.0, 2.0, hf_tiny.N_PIECES)[None]
    monkeypatch.setitem(module._buffers, "final_logits_bias", constant)
    found = parts_of("marian")
    assert found.total == pytest.approx(found.difference, abs=1e-4)
    by_label = {one.label: one for one in found.contributions}
    assert by_label["output bias"].value == pytest.approx(float(constant[0, 7] - constant[0, 5]), abs=1e-6)
    for layer in range(2):
        for head in range(4):
            own, cross = (by_label[f"{stack} L{layer}H{head}"] for stack in ("decoder", "cross"))
            assert (own.stack, own.layer, own.head.head) == ("decoder", layer, head)  # type: ignore[union-attr]
            assert (cross.stack, cross.layer, cross.head.stack) == ("cross", layer, "cross")  # type: ignore[union-attr]
    layers = {one.layer for one in found.contributions if one.kind == "embedding"}
    assert layers == {-1}
    assert "embedding norm bias" in {one.label for one in parts_of("bart").contributions}


def test_that_products_of_two_sources_are_no_linear_step() -> None:
    a, b, constant = (torch.ones(2, requires_grad=True) for _ in range(3))
    assert bent_step(((a + b) * constant).sum(), [a, b]) == ""
    assert bent_step((a * b).sum(), [a, b]).startswith("Mul")
    assert bent_step((constant / a).sum(), [a, b]).startswith("Div")
    assert bent_step((a.exp() + b).sum(), [a, b]).startswith("Exp")
