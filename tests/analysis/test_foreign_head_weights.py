"""Matrices of heads of Hugging Face's models in every layout, what they say of tokens, and rank collapse."""

from collections.abc import Callable
from typing import Any

import hf_tiny
import numpy as np
import pytest
import torch
from foreign_models import CLEAN, foreign, target_of
from references import ov_matrix, qk_matrix
from torch import Tensor

from attnscope.analysis import (
    factors_of,
    head_circuit,
    rank_collapse,
    residual_ratio,
    site_spectrum,
    weights_of,
)
from attnscope.errors import UserError
from attnscope.models.huggingface import anatomy
from attnscope.records import HeadCircuit, HeadRef

pytestmark = pytest.mark.filterwarnings("ignore")
FAMILIES = (*hf_tiny.ENCODERS, *hf_tiny.DECODERS, *hf_tiny.ENCODER_DECODERS)
Rows = dict[str, Tensor]


def apart(attention: Any, names: tuple[str, ...], head: int, *, group: int = 1, d: int = 8) -> Rows:
    """Rows of matrices of their own; `group` heads share keys and values."""
    heads = (head, head // group, head // group)
    return {
        part: getattr(attention, name).weight[d * h : d * h + d].double()
        for part, name, h in zip("qkv", names, heads, strict=True)
    }


def gpt2_rows(model: Any, head: int) -> Rows:
    columns = model.transformer.h[1].attn.c_attn.weight.double()
    return {p: columns[:, 32 * i + 8 * head : 32 * i + 8 * head + 8].T for i, p in enumerate("qkv")}


def neox_rows(model: Any, head: int) -> Rows:
    rows = model.gpt_neox.layers[1].attention.query_key_value.weight.double().reshape(4, 3, 8, 32)
    return dict(zip("qkv", rows[head], strict=True))


def qwen3_rows(model: Any, head: int) -> Rows:
    attention = model.model.layers[1].self_attn
    found = apart(attention, ("q_proj", "k_proj", "v_proj"), head, group=2, d=16)
    norms = {"q": attention.q_norm.weight, "k": attention.k_norm.weight, "v": torch.ones(16)}
    return {part: rows * norms[part].double()[:, None] for part, rows in found.items()}


def gemma3_rows(model: Any, head: int) -> Rows:
    attention = model.model.layers[1].self_attn
    found = apart(attention, ("q_proj", "k_proj", "v_proj"), head, group=2)
    norms = {"q": 1 + attention.q_norm.weight, "k": 1 + attention.k_norm.weight, "v": torch.ones(8)}
    return {part: rows * norms[part].double()[:, None] for part, rows in found.items()}


def opt_rows(model: Any, head: int) -> Rows:
    found = apart(model.model.decoder.layers[1].self_attn, ("q_proj", "k_proj", "v_proj"), head)
    return found | {"q": found["q"] * 8**-0.5}  # the scale is in the queries


LAYOUTS: dict[str, Callable[[Any, int], Rows]] = {
    "bert": lambda m, h: apart(m.bert.encoder.layer[1].attention.self, ("query", "key", "value"), h),
    "gpt2": gpt2_rows,
    "gpt_neox": neox_rows,
    "llama": lambda m, h: apart(m.model.layers[1].self_attn, ("q_proj", "k_proj", "v_proj"), h, group=2),
    "qwen3": qwen3_rows,
    "gemma3": gemma3_rows,
    "opt": opt_rows,
}


@pytest.mark.parametrize("family", LAYOUTS)
def test_that_the_rows_of_a_head_are_those_of_its_family_s_layout(family: str) -> None:
    weights = weights_of(foreign(family), foreign(family).sites[1].key)
    module = hf_tiny.build(family)
    for head in range(4):
        with torch.no_grad():
            expected = LAYOUTS[family](module, head)
        for part, rows in expected.items():
            torch.testing.assert_close(getattr(weights, part)[head], rows, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_that_spectra_of_every_family_are_those_of_its_products(family: str) -> None:
    model = foreign(family)
    site = model.sites[-1]
    found = site_spectrum(model, site.key)
    d_head = 16 if family == "qwen3" else 8
    assert found.single.shape == (4, d_head)
    product = qk_matrix(model, site.heads[3]).numpy()
    weights = weights_of(model, site.key)
    values = np.linalg.svd(product, compute_uv=False)[:d_head]
    np.testing.assert_allclose(found.single[3], values / abs(weights.scale), rtol=1e-6, atol=1e-9)


def test_that_all_sites_of_an_encoder_decoder_have_spectra() -> None:
    model = foreign("t5")
    assert all(site_spectrum(model, site.key, "ov").site == site for site in model.sites)


def test_that_scores_of_first_tokens_are_those_of_the_rows() -> None:
    """T5 has neither biases of its products nor rotary turns: q · k of the trace itself."""
    model = foreign("t5")
    site = model.sites[0]
    record = model.trace_site(site.key, CLEAN, "a bird").records[site.key]
    weights, module = weights_of(model, site.key), model.network.module  # type: ignore[attr-defined]
    with torch.no_grad():
        x = module.shared.weight[list(model.encode(CLEAN, "a bird").source.ids)]
        x = module.encoder.block[0].layer[0].layer_norm(x).double()
    for head in range(4):
        q, k = (np.asarray(one, np.float64).reshape(4, 4, 8)[head] for one in (record.q, record.k))
        expected = x @ weights.q[head].T @ weights.k[head] @ x.T
        np.testing.assert_allclose(q @ k.T, expected.numpy(), atol=1e-4)


def test_that_the_circuits_of_gpt2_and_gemma_are_slow_products() -> None:
    for family in ("gpt2", "gemma3"):
        model, module = foreign(family), hf_tiny.build(family)
        head = HeadRef(stack="decoder", layer=1, head=2)
        with torch.no_grad():
            if family == "gpt2":
                read = module.transformer.h[1].ln_1(module.transformer.wte.weight).double()
                last = module.transformer.ln_f.weight.double()
            else:
                read = module.model.layers[1].input_layernorm(module.model.embed_tokens.weight * 32**0.5)
                read, last = read.double(), 1 + module.model.norm.weight.double()
            told = module.lm_head.weight.double() * last
        if family == "gpt2":
            told = told - told.mean(dim=-1, keepdim=True)
        left, right = factors_of(model, head, "qk")
        torch.testing.assert_close(
            (left @ right.T).double(), read @ qk_matrix(model, head) @ read.T, rtol=1e-4, atol=1e-3
        )
        left, right = factors_of(model, head, "ov")
        product = read @ ov_matrix(model, head) @ told.T
        torch.testing.assert_close((left @ right.T).double(), product, rtol=1e-4, atol=1e-4)
        *_, found = head_circuit(model, head, "ov", top=1)
        assert isinstance(found, HeadCircuit)
        place = int(product.argmax())
        assert (found.largest[0].first.id, found.largest[0].second.id) == divmod(place, hf_tiny.N_PIECES)


@pytest.mark.parametrize("family", ["t5", "bart"])
@torch.no_grad()
def test_that_a_cross_head_reads_source_tokens_as_the_encoder_hands_them_over(family: str) -> None:
    """Its queries come from the decoder, keys and values from the encoder: slow products of the modules."""
    model, module = foreign(family), hf_tiny.build(family).double()
    place = HeadRef(stack="cross", layer=1, head=2)
    if family == "t5":
        block, embeddings = module.decoder.block[1], module.shared.weight
        attention, names, output = block.layer[1].EncDecAttention, ("q", "k", "v"), "o"
        source = module.encoder.final_layer_norm(embeddings)
        queries = block.layer[1].layer_norm(embeddings)
        told = module.lm_head.weight * module.decoder.final_layer_norm.weight
        scale = 1.0
    else:
        body = module.model
        layer, attention = body.decoder.layers[1], body.decoder.layers[1].encoder_attn
        names, output, told, scale = (
            ("q_proj", "k_proj", "v_proj"),
            "out_proj",
            module.lm_head.weight,
            8**-0.5,
        )
        source = body.encoder.layernorm_embedding(body.encoder.embed_tokens.weight)
        entered = body.decoder.layernorm_embedding(body.decoder.embed_tokens.weight)
        queries = layer.self_attn_layer_norm(entered)
    rows = apart(attention, names, place.head)
    columns = getattr(attention, output).weight[:, 8 * place.head : 8 * place.head + 8]
    expected = {
        "ov": (source @ rows["v"].T) @ (told @ columns).T,
        "qk": scale * (queries @ rows["q"].T) @ (source @ rows["k"].T).T,
    }
    for kind, product in expected.items():
        left, right = factors_of(model, place, kind)  # type: ignore[arg-type]
        torch.testing.assert_close((left @ right.T).double(), product, rtol=1e-4, atol=1e-4, msg=kind)


def test_that_bert_s_heads_read_embeddings_through_their_norm() -> None:
    model, module = foreign("bert"), hf_tiny.build("bert")
    head = HeadRef(stack="encoder", layer=1, head=2)
    with torch.no_grad():
        embeddings = module.bert.embeddings
        read = embeddings.LayerNorm(embeddings.word_embeddings.weight).double()
    left, right = factors_of(model, head, "qk")
    expected = read @ qk_matrix(model, head) @ read.T
    torch.testing.assert_close((left @ right.T).double(), expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_that_circuits_of_bert_albert_and_electra_go_through_embedding_and_output_layers() -> None:
    """ALBERT's and ELECTRA's embeddings are widened by a product; all have a layer before the output."""
    for family in ("bert", "albert", "electra"):
        model, module = foreign(family), hf_tiny.build(family)
        if family == "bert":
            part, head = module.bert.embeddings, module.cls.predictions
            read, dense, norm = (
                part.LayerNorm(part.word_embeddings.weight),
                head.transform.dense,
                head.transform.LayerNorm,
            )
            rows = head.decoder.weight
        elif family == "albert":
            part, head = module.albert.embeddings, module.predictions
            read = module.albert.encoder.embedding_hidden_mapping_in(
                part.LayerNorm(part.word_embeddings.weight)
            )
            dense, norm, rows = head.dense, head.LayerNorm, head.decoder.weight
        else:
            part, head = module.electra.embeddings, module.generator_predictions
            read = module.electra.embeddings_project(part.LayerNorm(part.word_embeddings.weight))
            dense, norm, rows = head.dense, head.LayerNorm, module.generator_lm_head.weight
        told = rows.double() * norm.weight.double()
        told = (told - told.mean(dim=-1, keepdim=True)) @ dense.weight.double()
        place = HeadRef(stack="encoder", layer=0, head=2)
        left, right = factors_of(model, place, "ov")
        expected = read.double() @ ov_matrix(model, place) @ told.T
        torch.testing.assert_close((left @ right.T).double(), expected, rtol=1e-4, atol=1e-4, msg=family)
        left, right = factors_of(model, place, "qk")
        expected = read.double() @ qk_matrix(model, place) @ read.double().T
        torch.testing.assert_close((left @ right.T).double(), expected, rtol=1e-4, atol=1e-4, msg=family)
        assert isinstance(list(head_circuit(model, place, "ov", top=1))[-1], HeadCircuit)


def test_that_rows_that_are_nowhere_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anatomy, "_factors", lambda network, d_head: (0.5,))
    with pytest.raises(UserError, match=r"Gemma2ForCausalLM.*no matrix gives the numbers of q of decoder"):
        weights_of(foreign("gemma2"), foreign("gemma2").sites[0].key)


def test_that_queries_behind_a_norm_that_takes_their_mean_away_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No rows times a weight are such queries; Qwen3's own norm, which takes none away, is no hindrance."""
    network = foreign("qwen3").network
    norm = torch.nn.LayerNorm(16, bias=False).requires_grad_(False)
    norm.weight.copy_(torch.linspace(0.5, 1.5, 16))
    monkeypatch.setitem(network.module.model.layers[1].self_attn._modules, "q_norm", norm)  # type: ignore[attr-defined]
    anatomy.head_rows(network, ("decoder", 0))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no matrix gives the numbers of q"):
        anatomy.head_rows(network, ("decoder", 1))  # type: ignore[arg-type]


# -- rank collapse ----------------------------------------------------------------------------------


def slow_ratios(step: Callable[[int, Tensor], Tensor], x: Tensor) -> list[float]:
    found = [residual_ratio(x[0])]
    for layer in range(2):
        x = step(layer, x)
        found.append(residual_ratio(x[0]))
    return found


@torch.no_grad()
def test_that_foreign_collapse_equals_a_slow_version() -> None:
    """GPT-2 before norms, NeoX side by side, DistilBERT behind norms; attention by the library itself."""
    ids = torch.tensor([foreign("gpt2").encode(CLEAN).source.ids])
    module = hf_tiny.build("gpt2").transformer
    x = module.wte(ids) + module.wpe(torch.arange(4))

    def gpt2(layer: int, x: Tensor, skip: float, feed: float) -> Tensor:
        block = module.h[layer]
        x = skip * x + attended(block.attn, block.ln_1(x))
        return x if not feed else skip * x + block.mlp(block.ln_2(x))

    check_collapse("gpt2", gpt2, x)
    neox = hf_tiny.build("gpt_neox").gpt_neox

    def parallel(layer: int, x: Tensor, skip: float, feed: float) -> Tensor:
        block, angles = neox.layers[layer], neox.rotary_emb(x, torch.arange(4)[None])
        change = attended(block.attention, block.input_layernorm(x), position_embeddings=angles)
        return skip * x + change + feed * block.mlp(block.post_attention_layernorm(x))

    check_collapse("gpt_neox", parallel, neox.embed_in(ids))
    distil = hf_tiny.build("distilbert").distilbert

    def post(layer: int, x: Tensor, skip: float, feed: float) -> Tensor:
        block = distil.transformer.layer[layer]
        x = block.sa_layer_norm(skip * x + block.attention(x, attention_mask=None)[0])
        return x if not feed else block.output_layer_norm(skip * x + block.ffn(x))

    check_collapse("distilbert", post, distil.embeddings(ids))


def attended(attention: Any, x: Tensor, **others: Any) -> Tensor:
    mask = torch.full((4, 4), torch.finfo(torch.float32).min).triu(1)[None, None]
    return attention(x, attention_mask=mask, **others)[0]


def check_collapse(family: str, step: Callable[..., Tensor], x: Tensor) -> None:
    for curve in rank_collapse(foreign(family), CLEAN):
        parts = (float(curve.has_skips), float(curve.has_feed_forward))
        expected = slow_ratios(lambda layer, x, parts=parts: step(layer, x, *parts), x)
        np.testing.assert_allclose(curve.ratios, expected, rtol=1e-4, err_msg=f"{family} {curve.label}")


@pytest.mark.parametrize("family", ["albert", "gemma2", "opt", "phi", "mt5"])
def test_that_taking_out_parts_of_a_layer_changes_what_comes_after_it(family: str) -> None:
    curves = rank_collapse(foreign(family), CLEAN, target_of(family))
    assert len({curve.ratios[0] for curve in curves}) == 1
    assert len({round(curve.ratios[2], 6) for curve in curves}) == 4


def test_that_a_sum_of_something_else_than_the_two_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = foreign("gpt_neox").network.module.gpt_neox.layers[0]  # type: ignore[attr-defined]
    monkeypatch.setitem(layer._modules, "post_mlp_dropout", torch.nn.Tanh())
    with pytest.raises(UserError, match="decoder layer 0 were behind other parts"):
        rank_collapse(foreign("gpt_neox"), CLEAN)


def test_that_layers_whose_skips_are_elsewhere_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.analysis.collapse._ADDS", frozenset())
    with pytest.raises(UserError, match="the sums of decoder layer 0 were behind nothing"):
        rank_collapse(foreign("llama"), CLEAN)
