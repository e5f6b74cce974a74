"""The logit lens of models of Hugging Face's library."""

import copy
from typing import Any

import hf_tiny
import numpy as np
import pytest
import torch
from hf_folders import make, save_folder

from attnscope.analysis import logit_lens
from attnscope.errors import UserError
from attnscope.models import Model, load
from attnscope.models.huggingface import read_layer_streams
from attnscope.records import Gates

hf = pytest.importorskip("transformers")

FAMILIES = (*hf_tiny.ENCODERS, *hf_tiny.DECODERS, *hf_tiny.ENCODER_DECODERS)
TEXT = "the animal said it was good"


def arguments_of(family: str) -> dict[str, torch.Tensor]:
    arguments = {"input_ids": torch.tensor([[1, 5, 9, 7]])}
    if family in hf_tiny.ENCODER_DECODERS:
        arguments["decoder_input_ids"] = torch.tensor([[2, 6, 8]])
    return arguments


def opened(kind: str, folder: Any) -> Model:
    return load(save_folder(folder / kind, *make(kind)), "cpu")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_that_the_last_level_of_every_family_is_its_own_output(family: str) -> None:
    model, arguments = hf_tiny.build(family), arguments_of(family)
    with torch.no_grad():
        levels, said = read_layer_streams(model, arguments), model(**arguments).logits[0]
        torch.testing.assert_close(levels.logits(levels.streams[-1]), said, rtol=1e-5, atol=1e-5)
        assert len(levels.streams) == hf_tiny.N_LAYERS + 1
        assert float((levels.logits(levels.streams[-2]) - said).abs().max()) > 0.1


def test_that_a_level_of_gpt2_equals_a_slow_float64_version() -> None:
    model, arguments = hf_tiny.build("gpt2"), arguments_of("gpt2")
    seen: list[torch.Tensor] = []
    handle = model.transformer.h[1].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        levels = read_layer_streams(model, arguments)
        found = levels.logits(levels.streams[1]).numpy()
    handle.remove()
    norm, head = model.transformer.ln_f, model.lm_head.weight.detach().double().numpy()
    for row, stream in zip(found, seen[0][0].double().numpy(), strict=True):
        x = (stream - stream.mean()) / np.sqrt(stream.var() + norm.eps)
        x = x * norm.weight.detach().double().numpy() + norm.bias.detach().double().numpy()
        np.testing.assert_allclose(row, head @ x, atol=1e-4)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "llama", "t5"])
def test_that_the_lens_of_a_foreign_model_ends_with_what_it_says(kind: str, tmp_path: Any) -> None:
    model = opened(kind, tmp_path)
    target = "it said" if kind == "t5" else None
    for gates in (Gates(), Gates.of({model.sites[0].heads[0]: 0.0})):
        found = logit_lens(model, TEXT, target, gates=gates)
        said = torch.from_numpy(model.trace(TEXT, target, gates).logits).softmax(dim=-1).numpy()
        first = [row[0] for row in found.candidates[-1]]
        assert [c.token.id for c in first] == said.argmax(axis=-1).tolist()
        np.testing.assert_allclose([c.probability for c in first], said.max(axis=-1), atol=1e-5)
        assert found.kl_nats[-1].max() < 1e-6


@pytest.mark.parametrize("is_pre", [False, True])
def test_that_a_narrower_vocabulary_of_opt_reads_every_layer_through_its_projection(is_pre: bool) -> None:
    """As OPT-350m has it (Zhang et al. 2022, table 1), which is post-norm besides."""
    config = hf.OPTConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=48,
        word_embed_proj_dim=12,
        do_layer_norm_before=is_pre,
    )
    model = hf.OPTForCausalLM(config).eval()
    hf_tiny.fill(model)
    decoder, seen = model.model.decoder, []
    handles = [
        one.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for one in decoder.layers
    ]
    with torch.no_grad():
        levels = read_layer_streams(model, arguments_of("opt"))
        found = [levels.logits(stream).numpy() for stream in levels.streams]
        said = model(**arguments_of("opt")).logits[0].numpy()
    for handle in handles:
        handle.remove()
    wide, head = copy.deepcopy(decoder).double(), model.lm_head.weight.double()
    for stream, logits in zip(seen[:2], found, strict=False):
        x = wide.final_layer_norm(stream[0].double()) if is_pre else stream[0].double()
        np.testing.assert_allclose(logits, (wide.project_out(x) @ head.T).detach(), atol=1e-5)
    np.testing.assert_allclose(found[-1], said, atol=1e-5)


def test_that_a_model_whose_last_norm_is_not_known_is_refused_by_name() -> None:
    model = hf_tiny.build("gpt2")
    model.config.model_type = "some-new-kind"
    with pytest.raises(UserError, match="some-new-kind"):
        read_layer_streams(model, arguments_of("gpt2"))
    model.config.model_type = "opt"
    with pytest.raises(UserError, match="no norm named final_layer_norm"):
        read_layer_streams(model, arguments_of("gpt2"))


@pytest.mark.parametrize("kind", ["bert-classes", "bert-base"])
def test_that_models_without_words_to_tell_are_refused(kind: str, tmp_path: Any) -> None:
    with pytest.raises(UserError, match="has no vocabulary"):
        logit_lens(opened(kind, tmp_path), TEXT)
