"""Which parts and patches made a class of a picture, against slow versions of the formulas."""

import numpy as np
import pytest
import torch
from hf_folders import make, save_folder
from picture_models import KINDS, build, opened, picture

from attnscope.analysis import (
    Patching,
    attribute_logits,
    head_circuit,
    patch_map,
    read_logits,
    relevance,
    resolve_token,
    site_spectrum,
    telling_position,
    weights_of,
)
from attnscope.errors import UserError
from attnscope.models import load
from attnscope.records import Gates, HeadRef, InfluenceMap, PatchMap

pytestmark = pytest.mark.filterwarnings("ignore")


def pixels_of(kind: str, path: str) -> torch.Tensor:
    network = opened(kind).network
    arguments = network.arguments(opened(kind).encode(path))  # type: ignore[attr-defined]
    return arguments["pixel_values"]  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_that_parts_and_patches_add_up_to_the_logits_of_classes(kind: str) -> None:
    with torch.no_grad():
        logits = build(kind)(pixel_values=pixels_of(kind, picture())).logits[0].double()
    found = attribute_logits(opened(kind), picture(), position=0, answer=2, other=1)
    assert found.difference == pytest.approx(float(logits[2] - logits[1]), abs=1e-5)
    assert found.total == pytest.approx(found.difference, abs=1e-5)
    heads = [one for one in found.contributions if one.head is not None]
    assert len(heads) == 8
    assert found.reads is not None
    assert found.reads.sum() == pytest.approx(sum(one.value for one in heads), abs=1e-5)
    assert len(found.reads) == len(opened(kind).encode(picture()).source)
    assert (found.answer.piece, found.other.piece) == ("LABEL_2", "LABEL_1")
    assert "embedding" in {one.label for one in found.contributions}


@torch.no_grad()
def test_that_every_part_and_patch_of_a_vit_equals_a_slow_version() -> None:
    """float64: the direction goes back through the last norm; a head reads each patch by its weight."""
    model, pixels = build("vit").double(), pixels_of("vit", picture()).double()
    kept: dict[str, torch.Tensor] = {}
    layers = model.vit.layers
    for number, layer in enumerate(layers):
        layer.attention.o_proj.register_forward_pre_hook(
            lambda _, given, number=number: kept.update({f"heads {number}": given[0]})
        )
        layer.attention.register_forward_pre_hook(
            lambda _, given, named, number=number: kept.update(
                {f"read {number}": given[0] if given else named["hidden_states"]}
            ),
            with_kwargs=True,
        )
    model.vit.layernorm.register_forward_pre_hook(lambda _, given: kept.update({"last": given[0]}))
    model(pixel_values=pixels)
    x, norm = kept["last"][0, 0], model.vit.layernorm
    u = model.classifier.weight[2] - model.classifier.weight[1]
    u = u * norm.weight / torch.sqrt(x.var(unbiased=False) + norm.eps)
    u = u - u.mean()
    expected, reads = {}, torch.zeros(10, dtype=torch.float64)
    for number, layer in enumerate(layers):
        attention, read = layer.attention, kept[f"read {number}"][0]
        for head in range(4):
            rows = slice(8 * head, 8 * head + 8)
            q, k, v = (
                (read @ getattr(attention, name).weight[rows].T + getattr(attention, name).bias[rows])
                for name in ("q_proj", "k_proj", "v_proj")
            )
            weights = torch.softmax(q @ k.T * 8**-0.5, dim=-1)[0]
            written = v @ attention.o_proj.weight[:, rows].T @ u
            expected[f"L{number}H{head}"] = float(weights @ written)
            reads += weights * written
    found = attribute_logits(opened("vit"), picture(), position=0, answer=2, other=1)
    values = {one.label: one.value for one in found.contributions if one.head is not None}
    assert values == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(found.reads, reads.numpy(), atol=1e-5)


def test_that_a_gated_head_reads_nothing() -> None:
    whole = attribute_logits(opened("vit"), picture(), position=0, answer=2, other=1)
    gates = Gates.of({HeadRef(stack="encoder", layer=1, head=h): 0.0 for h in range(4)})
    gated = attribute_logits(opened("vit"), picture(), position=0, answer=2, other=1, gates=gates)
    of_first = sum(one.value for one in gated.contributions if one.head is not None and one.layer == 0)
    assert gated.reads is not None
    assert gated.reads.sum() == pytest.approx(of_first, abs=1e-6)
    assert gated.difference != pytest.approx(whole.difference, abs=1e-4)


def slow_relevance(kind: str, answer: int, shares: np.ndarray) -> np.ndarray:
    """The rule with the library's own weights and their gradients: its eager attention, all in the graph."""
    model = build(kind)
    model.set_attn_implementation("eager")
    output = model(pixel_values=pixels_of(kind, picture()), output_attentions=True)
    gradients = torch.autograd.grad(output.logits[0, answer], output.attentions)
    total = torch.eye(output.attentions[0].shape[-1], dtype=torch.float64)
    for weights, gradient in zip(output.attentions, gradients, strict=True):
        total = total + (weights[0] * gradient[0]).clamp(min=0).mean(0).double() @ total
    found: np.ndarray = shares @ total.detach().numpy()
    return found


def test_that_relevance_to_patches_follows_the_rule_of_the_paper() -> None:
    """ViT reads its class off [CLS]; I-JEPA off the mean of all patches, whose norms come before."""
    only_first = np.eye(10)[0]
    found = relevance(opened("vit"), picture(), position=0, token_id=3)
    np.testing.assert_allclose(found.weights[0], slow_relevance("vit", 3, only_first), atol=1e-5)
    gained = relevance(opened("vit"), picture(), position=0, token_id=3, keeps_start=False)
    np.testing.assert_allclose(gained.weights[0], found.weights[0] - only_first, atol=1e-6)
    assert isinstance(found, InfluenceMap)
    assert found.about == 'logit of "LABEL_3" of the whole picture'


def test_that_a_mean_over_patches_is_read_in_equal_shares() -> None:
    """BEiT takes the mean before its last norm, so that the gradient is the same at every patch."""
    shares = np.array([0.0] + [1 / 9] * 9)
    start = relevance(opened("beit"), picture(), position=0, token_id=1).weights[0]
    gained = relevance(opened("beit"), picture(), position=0, token_id=1, keeps_start=False).weights[0]
    np.testing.assert_allclose(start - gained, shares, atol=1e-6)


@pytest.mark.parametrize("kind", ["vit", "dinov2"])
def test_that_a_picture_patched_with_itself_stays_and_all_of_the_first_layer_brings_it_back(
    kind: str,
) -> None:
    pair = ((picture(), None), (picture(24), None))
    *_, same = patch_map(opened(kind), *pair, Patching(kind="head", receiver="clean", position=0))
    assert isinstance(same, PatchMap)
    np.testing.assert_allclose(same.patched, 1.0, atol=1e-4)
    *_, stream = patch_map(opened(kind), *pair, Patching(position=0))
    assert isinstance(stream, PatchMap)
    assert stream.columns[-1] == "2,2"
    if kind == "vit":  # behind the last layer only [CLS] is read: before it no patch alone is nothing
        assert stream.patched.shape == (2, 10)
    assert float(np.abs(stream.patched).max()) > 1e-3


@pytest.mark.parametrize("kind", ["vit", "bare", "beit"])
def test_that_the_rows_and_spectra_of_heads_need_no_tokens(kind: str) -> None:
    model, module = opened(kind), build(kind)
    weights = weights_of(model, model.sites[1].key)
    layer = {"vit": lambda: module.vit.layers[1], "bare": lambda: module.layers[1]}.get(kind)
    if layer is not None:
        attention = layer().attention
        for name, part in (("q_proj", weights.q), ("k_proj", weights.k), ("v_proj", weights.v)):
            rows = getattr(attention, name).weight.double().reshape(4, 8, 32)
            torch.testing.assert_close(part, rows, rtol=1e-6, atol=1e-7)
    product = (weights.o[2] @ weights.v[2]).numpy()
    found = site_spectrum(model, model.sites[1].key, "ov")
    values = np.linalg.svd(product, compute_uv=False)[:8]
    np.testing.assert_allclose(found.single[2], values, rtol=1e-6, atol=1e-9)


def test_that_what_cannot_be_said_of_pictures_says_so() -> None:
    head = opened("vit").sites[0].heads[0]
    with pytest.raises(UserError, match="no table of tokens: there are no pairs, only singular values"):
        list(head_circuit(opened("vit"), head, "ov"))
    with pytest.raises(UserError, match="one class for the whole picture, not for token 3"):
        attribute_logits(opened("vit"), picture(), position=3)
    with pytest.raises(UserError, match="reads pictures"):
        read_logits(opened("bare"), picture())
    row = read_logits(opened("vit"), picture())[0]
    assert resolve_token(opened("vit"), "label_2", row) == 2
    with pytest.raises(UserError, match=r"No class is called “dog”.*LABEL_0"):
        resolve_token(opened("vit"), "dog", row)


@pytest.mark.parametrize("kind", ["bert-classes", "gpt2-classes", "bert-tags"])
def test_that_classes_of_texts_have_parts_as_well(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = load(save_folder(tmp_path_factory.mktemp("t") / kind, *make(kind)), device="cpu")
    text = "the animal was good"
    position = telling_position(model, text)
    row = read_logits(model, text)[position].double()
    found = attribute_logits(model, text, position=position, answer=1, other=0)
    assert found.difference == pytest.approx(float(row[1] - row[0]), abs=1e-5)
    assert found.total == pytest.approx(found.difference, abs=1e-5)
    assert found.reads is None
    assert relevance(model, text, position=position).weights.shape[1] == len(model.encode(text).source)
