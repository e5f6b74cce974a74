"""A gate at 0 against a zeroed slice of what the output projection reads, on every family.

The slice is zeroed by a hook on the projection itself, with the library's own attention.
"""

import hf_tiny
import pytest
import torch
from torch import Tensor, nn

from attnscope.models.huggingface import attach
from attnscope.records import Gates, HeadRef
from attnscope.trace import GateProbe

pytestmark = pytest.mark.slow

ATOL = 1e-5

HEAD = 2
BART = {
    "encoder": "model.encoder.layers.{}.self_attn.out_proj",
    "decoder": "model.decoder.layers.{}.self_attn.out_proj",
    "cross": "model.decoder.layers.{}.encoder_attn.out_proj",
}
T5 = {
    "encoder": "encoder.block.{}.layer.0.SelfAttention.o",
    "decoder": "decoder.block.{}.layer.0.SelfAttention.o",
    "cross": "decoder.block.{}.layer.1.EncDecAttention.o",
}
USUAL = {"decoder": "model.layers.{}.self_attn.o_proj"}
PROJECTIONS = {
    "bert": {"encoder": "bert.encoder.layer.{}.attention.output.dense"},
    "roberta": {"encoder": "roberta.encoder.layer.{}.attention.output.dense"},
    "distilbert": {"encoder": "distilbert.transformer.layer.{}.attention.out_lin"},
    "electra": {"encoder": "electra.encoder.layer.{}.attention.output.dense"},
    "gpt2": {"decoder": "transformer.h.{}.attn.c_proj"},
    "gpt_neox": {"decoder": "gpt_neox.layers.{}.attention.dense"},
    "opt": {"decoder": "model.decoder.layers.{}.self_attn.out_proj"},
    "phi": {"decoder": "model.layers.{}.self_attn.dense"},
    "t5": T5,
    "mt5": T5,
    "whisper": BART,
    "vit": {"encoder": "vit.layers.{}.attention.o_proj"},
    "clip": {
        "encoder": "vision_model.encoder.layers.{}.self_attn.out_proj",
        "decoder": "text_model.encoder.layers.{}.self_attn.out_proj",
    },
    **dict.fromkeys(("bart", "marian", "mbart"), BART),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "gpt_oss"), USUAL),
}
CASES = [(name, stack) for name, stacks in PROJECTIONS.items() for stack in stacks]


def inputs_of(name: str) -> dict[str, Tensor]:
    ids = torch.arange(16).reshape(2, 8) + 5
    inputs = {"input_ids": ids} if name not in ("vit", "whisper") else {}
    if name in ("vit", "clip"):
        inputs["pixel_values"] = torch.sin(torch.arange(2 * 3 * 16 * 16) ** 1.5).reshape(2, 3, 16, 16)
    if name == "whisper":
        inputs["input_features"] = torch.sin(torch.arange(2 * 8 * 24) ** 1.5).reshape(2, 8, 24)
    if name == "whisper" or name in hf_tiny.ENCODER_DECODERS:
        inputs["decoder_input_ids"] = ids[:, :4]
    return inputs


def answer(model: nn.Module, inputs: dict) -> Tensor:
    with torch.no_grad():
        output = model(**inputs)
    return output.get("logits") if "logits" in output else output.logits_per_text


def logits_with_zeroed_slice(model: nn.Module, inputs: dict, projection: str, head: int) -> Tensor:
    def zero(_: nn.Module, args: tuple) -> tuple:
        values = args[0].clone()
        width = values.shape[-1] // hf_tiny.N_HEADS
        values[..., head * width : (head + 1) * width] = 0.0
        return (values, *args[1:])

    hook = model.get_submodule(projection).register_forward_pre_hook(zero)
    logits = answer(model, inputs)
    hook.remove()
    return logits


@pytest.mark.parametrize(("name", "stack"), CASES)
def test_that_a_gate_at_0_zeroes_the_heads_slice_before_the_output_projection(name, stack):
    inputs = inputs_of(name)
    model = hf_tiny.build(name)
    untouched = answer(model, inputs)
    expected = logits_with_zeroed_slice(model, inputs, PROJECTIONS[name][stack].format(1), HEAD)
    attached = attach(model)
    gates = Gates.of({HeadRef(stack=stack, layer=1, head=HEAD): 0.0})
    with attached.probing(GateProbe(attached.sites, gates)):
        found = answer(model, inputs)
    plain = answer(model, inputs)
    assert float((found - expected).abs().max()) <= ATOL * float(expected.abs().max().clamp(min=1))
    assert float((expected - untouched).abs().max()) > 1e-3, "the head does nothing: nothing was shown"
    assert float((plain - untouched).abs().max()) <= ATOL * float(expected.abs().max().clamp(min=1))


def test_that_one_module_for_all_layers_has_a_gate_for_each_layer():
    inputs = inputs_of("albert")
    model = hf_tiny.build("albert")
    attached = attach(model)
    assert [site.key for site in attached.sites] == [("encoder", 0), ("encoder", 1)]
    answers = []
    for layers in ((), (0,), (1,), (0, 1)):
        off = Gates.of({HeadRef(stack="encoder", layer=layer, head=HEAD): 0.0 for layer in layers})
        with attached.probing(GateProbe(attached.sites, off)):
            answers.append(answer(model, inputs))
    attached.detach()
    projection = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense"
    expected = logits_with_zeroed_slice(model, inputs, projection, HEAD)
    assert float((answers[3] - expected).abs().max()) <= ATOL
    distances = [float((a - b).abs().max()) for i, a in enumerate(answers) for b in answers[:i]]
    assert min(distances) > 1e-3
