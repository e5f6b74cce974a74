"""What questions get of a model: the numbers of its own pass, of our models and of the library's."""

import dataclasses
from pathlib import Path

import hf_tiny
import numpy as np
import pytest
import torch
import transformers
from foreign_models import foreign, word_tokenizer
from hf_folders import save_folder
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ModelReading
from attnscope.errors import UserError
from attnscope.models import load
from attnscope.records import Gates, HeadRef

SHAPES = [{}, {"norm_place": "post"}, {"norm_place": "sandwich"}, {"activation": "relu"}, {"n_kv_heads": 4}]
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "".join(map(str, shape.values())) or "plain")
def test_that_every_part_equals_a_slow_float64_version(shape: dict[str, object]) -> None:
    model = tiny_model("decoder", **shape)
    reading = ModelReading(model, SENTENCE, head=HeadRef(stack="decoder", layer=1, head=3))
    slow = SlowDecoder(model).run([token.id for token in reading.tokens])
    found = reading.streams()
    np.testing.assert_allclose(found.x, np.stack(slow.x), **CLOSE)
    assert list(found.added) == ["attention", "feed-forward"]
    for part, given in found.added.items():
        np.testing.assert_allclose(given, np.stack(slow.added[part]), **CLOSE)
    assert found.is_sum == (shape.get("norm_place") != "post")
    projected = reading.projections()
    for name in ("q", "k", "v"):
        np.testing.assert_allclose(getattr(projected, name), getattr(slow, name)[1, 3], **CLOSE)
    for given, units in zip(reading.units().activations, slow.units, strict=True):
        np.testing.assert_allclose(given, units, **CLOSE)
    log_p = slow.logits - np.log(np.exp(slow.logits).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(reading.log_p((0, 3, 5)), log_p[[0, 3, 5]], **CLOSE)
    assert reading.next_tokens().tokens == reading.tokens[1:]


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_that_each_stack_of_a_translator_has_its_own_stream(stack: str) -> None:
    form = "encoder-decoder"
    reading = ModelReading(tiny_model(form), SENTENCE, target_of(form))
    found = reading.streams(stack)
    parts = (
        ["attention", "feed-forward"]
        if stack == "encoder"
        else ["attention", "cross-attention", "feed-forward"]
    )
    assert list(found.added) == parts
    assert found.is_sum
    assert found.x.shape[:2] == (3, len(found.tokens))
    assert found.tokens[0].is_special == (stack == "decoder")


def test_that_cross_attention_projects_both_texts() -> None:
    form = "encoder-decoder"
    model = tiny_model(form)
    head = HeadRef(stack="cross", layer=0, head=2)
    found = ModelReading(model, SENTENCE, target_of(form), head=head).projections()
    assert len(found.q) == len(found.query_tokens) == 7
    assert len(found.k) == len(found.v) == len(found.key_tokens) == 7
    trace = model.trace(SENTENCE, target_of(form), keep_values=True)
    record = trace.records["cross", 0]
    np.testing.assert_allclose(found.q, record.q[2], **CLOSE)
    np.testing.assert_allclose(found.k, record.k[1], **CLOSE)
    np.testing.assert_allclose(found.v, record.v[1], **CLOSE)


def test_that_gates_are_heeded() -> None:
    model = tiny_model("decoder")
    off = Gates.of(dict.fromkeys(model.sites[0].heads, 0.0))
    given = ModelReading(model, SENTENCE, gates=off).streams().added["attention"]
    bias = model.own.module.decoder[0].attention.output.bias.detach().numpy()
    np.testing.assert_allclose(given[0], np.broadcast_to(bias, given[0].shape), **CLOSE)
    assert np.abs(given[1] - given[1].mean(axis=0)).max() > 1e-3


def test_that_models_without_a_part_are_refused_in_one_sentence() -> None:
    cells = {"n_heads": 2, "n_kv_heads": 2, "body": "gru"}
    recurrent = ModelReading(tiny_model("encoder-decoder", **cells), SENTENCE, target_of("encoder-decoder"))
    with pytest.raises(UserError, match="no stream that layers add to"):
        recurrent.streams()
    with pytest.raises(UserError, match="does not predict the next token"):
        ModelReading(tiny_model("encoder"), SENTENCE).next_tokens()
    with pytest.raises(UserError, match="replace the stream"):
        ModelReading(tiny_model("decoder", has_residual=False), SENTENCE).streams()
    with pytest.raises(UserError, match="no feed-forward part"):
        ModelReading(tiny_model("decoder", has_feed_forward=False), SENTENCE).units()
    with pytest.raises(UserError, match="no encoder of layers"):
        ModelReading(tiny_model("decoder"), SENTENCE).streams("encoder")
    with pytest.raises(UserError, match="There is no text"):
        ModelReading(tiny_model("decoder"), " ")


FAMILIES = ("gpt2", "llama", "bert", "t5")


@pytest.mark.parametrize("family", FAMILIES)
def test_that_streams_of_the_library_are_its_own_hidden_states(family: str) -> None:
    model = foreign(family)
    reading = ModelReading(model, "the animal said it was good", "it was" if family == "t5" else None)
    found, network = reading.streams(), model.network
    arguments = network.arguments(reading._inputs)
    with torch.no_grad():
        output = network.module(**arguments, output_hidden_states=True)
    states = output.decoder_hidden_states if family == "t5" else output.hidden_states
    for level, state in enumerate(states[:-1]):  # the last one has its norm behind it
        np.testing.assert_allclose(found.x[level], state[0].double().numpy(), **CLOSE)
    assert found.is_sum == (family != "bert")
    assert list(found.added) == [
        "attention",
        *(["cross-attention"] if family == "t5" else []),
        "feed-forward",
    ]


def test_that_parts_are_given_as_they_are_added_where_a_factor_shrinks_them(tmp_path: Path) -> None:
    config = transformers.GraniteConfig(**hf_tiny.DECODER, residual_multiplier=0.22)  # as Granite 3.0 has it
    library = transformers.GraniteForCausalLM(config).eval()
    hf_tiny.fill(library)
    reading = ModelReading(
        load(save_folder(tmp_path / "m", library, word_tokenizer()), "cpu"), "the cat sat on"
    )
    seen: dict[str, list[np.ndarray]] = {"attention": [], "feed-forward": []}
    for layer in library.model.layers:
        for name, part in (("attention", layer.self_attn.o_proj), ("feed-forward", layer.mlp)):
            part.register_forward_hook(lambda _, __, given, name=name: seen[name].append(given[0].numpy()))
    with torch.no_grad():
        library(torch.tensor([reading.source.ids]))
    found = reading.streams()
    assert found.is_sum
    for name, parts in seen.items():
        np.testing.assert_allclose(found.added[name], 0.22 * np.stack(parts), **CLOSE)


@pytest.mark.parametrize("family", FAMILIES)
def test_that_projections_of_the_library_are_what_its_matrices_give(family: str) -> None:
    model, stack = foreign(family), "encoder" if family in ("bert", "t5") else "decoder"
    head = HeadRef(stack=stack, layer=1, head=3)
    reading = ModelReading(model, "the animal said it", "it was" if family == "t5" else None, head=head)
    found = reading.projections()
    record = model.trace_site(
        head.site_key, "the animal said it", "it was" if family == "t5" else None
    ).records
    q, k, v = (getattr(record[head.site_key], name) for name in ("q", "k", "v"))
    group = 3 * len(v) // len(q)
    np.testing.assert_allclose(found.v, v[group], **CLOSE)
    first = slice(0, 1) if family == "llama" else slice(None)  # later tokens are turned by their places
    np.testing.assert_allclose(found.q[first], q[3][first], **CLOSE)
    np.testing.assert_allclose(found.k[first], k[group][first], **CLOSE)
    norms = [np.linalg.norm(one, axis=-1) for one in (found.q, found.k)]
    np.testing.assert_allclose(norms[0], q[3].norm(dim=-1), **CLOSE)
    np.testing.assert_allclose(norms[1], k[group].norm(dim=-1), **CLOSE)


@pytest.mark.parametrize("family", FAMILIES)
def test_that_units_of_the_library_make_what_their_part_adds(family: str) -> None:
    model = foreign(family)
    reading = ModelReading(model, "the animal said it", "it was" if family == "t5" else None)
    units, given = reading.units(), reading.streams().added["feed-forward"]
    last = {"gpt2": "c_proj", "llama": "down_proj", "bert": "output.dense", "t5": "wo"}[family]
    named = [one for name, one in model.network.module.named_modules() if name.endswith(last)]
    named = [one for one in named if one.weight.numel() == 32 * 48][-2:]
    for layer, product in enumerate(named):
        with torch.no_grad():
            found = product(torch.from_numpy(units.activations[layer]).float())
        np.testing.assert_allclose(found.double().numpy(), given[layer], **CLOSE)


def test_that_the_first_head_is_asked_about_where_none_is_named() -> None:
    found = ModelReading(tiny_model("encoder"), SENTENCE).projections()
    assert found.head == HeadRef(stack="encoder", layer=0, head=0)
    reading = ModelReading(tiny_model("encoder"), SENTENCE, head=dataclasses.replace(found.head, layer=9))
    with pytest.raises(UserError, match="no head L9H0"):
        reading.projections()
