"""Weights rebuilt from records against the weights that the library's plain attention gives out.

Float32 on both sides, weights up to 1: either side rounds by about 1e-6 after two layers.
"""

import hf_tiny
import pytest
import torch
from torch import Tensor

from attnscope.models.huggingface import attach, cache_argument
from attnscope.nn import RelativeBias
from attnscope.records import NO_GATES
from attnscope.trace import SiteRecord, TraceProbe, site_weights

pytestmark = pytest.mark.slow

ATOL = 1e-5
FIELDS = {
    "encoder": ("encoder_attentions", "attentions"),
    "decoder": ("decoder_attentions", "attentions"),
    "cross": ("cross_attentions",),
}
LENGTHS = (11, 6)
"""Tokens of the two texts of a batch; the second is padded to the length of the first."""
TEXT_FAMILIES = hf_tiny.ENCODERS + hf_tiny.DECODERS + hf_tiny.ENCODER_DECODERS


def text_batch(name: str, padding: str) -> tuple[dict[str, Tensor], Tensor]:
    """A batch of two texts, and where the second one counts."""
    n_tokens, n_short = LENGTHS
    place = torch.arange(n_tokens)
    valid = torch.ones(2, n_tokens, dtype=torch.bool)
    if padding != "none":
        valid[1] = place < n_short if padding == "right" else place >= n_tokens - n_short
    ids = (torch.stack((place, place + 2)) * 7) % 50 + 5
    inputs = {"input_ids": ids.where(valid, 0), "attention_mask": valid.long()}
    if padding == "left" and name in POSITIONED:
        inputs["position_ids"] = (valid.long().cumsum(dim=1) - 1).clamp(min=0)
    if name in hf_tiny.ENCODER_DECODERS:
        inputs["decoder_input_ids"] = ids[:, :4]
    return inputs, valid[1]


POSITIONED = ("bert", "albert", "electra", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3")
POSITIONED += ("gemma2", "gemma3", "phi", "gpt_oss")


def records_of(model, inputs: dict) -> dict[tuple, SiteRecord]:
    attached = attach(model)
    assert attached.has_gates
    probe = TraceProbe(attached.sites, NO_GATES)
    with attached.probing(probe), torch.no_grad():
        model(**inputs)
    attached.detach()
    return probe.records


def eager_weights(model, inputs: dict) -> dict[tuple, Tensor]:
    """What the library's plain attention gives out for the last text, by site."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    found = {}
    for stack, fields in FIELDS.items():
        for field in fields:
            for layer, weights in enumerate(output.get(field) or ()):
                found[stack, layer] = weights[-1]
    return found


def assert_same(record: SiteRecord, expected: Tensor, rows: Tensor, what: str) -> None:
    found = site_weights(record)[:, rows]
    expected = expected[:, rows]
    assert torch.equal(found.isnan(), expected == 0), f"{what}: other cells are allowed"
    difference = float((found.nan_to_num(nan=0.0) - expected).abs().max())
    assert difference <= ATOL, f"{what}: weights differ by {difference:.3g}"
    assert record.proof.row_sum_error <= ATOL
    assert record.proof.output_error <= ATOL
    assert record.proof.forbidden_weight == 0.0


@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("name", TEXT_FAMILIES)
def test_that_rebuilt_weights_equal_the_librarys_own(name, padding):
    inputs, valid = text_batch(name, padding)
    model = hf_tiny.build(name)
    records = records_of(model, inputs)
    expected = eager_weights(model, inputs)
    assert all(key in expected for key in records)
    assert len(records) == (6 if name in hf_tiny.ENCODER_DECODERS else 2)
    everything = torch.ones(4, dtype=torch.bool)
    for key, record in records.items():
        is_source = key[0] == "encoder" or name in hf_tiny.DECODERS
        assert_same(record, expected[key], valid if is_source else everything, f"{name} {key}")


COUNTS_PADDING = ("bart", "marian", "mbart", "distilbert")
"""Families whose positions begin at the padding and cannot be set: a text padded left is another text."""
ALONE = [(name, padding) for name in TEXT_FAMILIES for padding in ("right", "left")]


@pytest.mark.parametrize(
    ("name", "padding"), [case for case in ALONE if case[1] == "right" or case[0] not in COUNTS_PADDING]
)
def test_that_padding_leaves_the_weights_of_the_text_alone(name, padding):
    inputs, valid = text_batch(name, padding)
    model = hf_tiny.build(name)
    padded = records_of(model, inputs)
    alone = {"input_ids": inputs["input_ids"][1:, valid]}
    if "decoder_input_ids" in inputs:
        alone["decoder_input_ids"] = inputs["decoder_input_ids"][1:]
    for key, record in records_of(model, alone).items():
        found = site_weights(padded[key])
        if key[0] != "decoder" or name in hf_tiny.DECODERS:
            assert bool(found[:, :, ~valid].isnan().all()), f"{key}: padding is not marked"
            found = found[:, :, valid]
            found = found if key[0] == "cross" else found[:, valid]
        expected = site_weights(record)
        assert torch.equal(found.isnan(), expected.isnan())
        difference = float((found - expected).nan_to_num(nan=0.0).abs().max())
        assert difference <= ATOL, f"{name} {key}: {difference:.3g}"


@pytest.mark.parametrize(
    ("name", "key", "expected"),
    [
        ("bert", ("encoder", 1), (False, None, None)),
        ("llama", ("decoder", 1), (True, None, None)),
        ("mistral", ("decoder", 1), (True, (2, None), None)),
        ("gemma3", ("decoder", 0), (True, (2, None), None)),
        ("gemma3", ("decoder", 1), (True, None, None)),
        ("t5", ("encoder", 1), (False, None, RelativeBias)),
        ("t5", ("decoder", 1), (True, None, RelativeBias)),
        ("t5", ("cross", 1), (False, None, type(None))),
    ],
)
def test_that_masks_and_biases_are_kept_as_rules(name, key, expected):
    inputs, valid = text_batch(name, "right")
    record = records_of(hf_tiny.build(name), inputs)[key]
    is_causal, window, bias = expected
    assert (record.rule.is_causal, record.rule.window) == (is_causal, window)
    assert record.rule.pattern is None
    assert bias is None or isinstance(record.score.bias, bias)
    if key[0] == "decoder" and name == "t5":
        assert record.rule.key_valid is None
    else:
        assert torch.equal(record.rule.key_valid[0], valid)


def picture(size: int = 16) -> Tensor:
    return torch.sin(torch.arange(2 * 3 * size * size) ** 1.5).reshape(2, 3, size, size)


OTHER_INPUTS = {
    "vit": {"pixel_values": picture()},
    "clip": {
        "pixel_values": picture(),
        "input_ids": torch.arange(14).reshape(2, 7) + 5,
        "attention_mask": torch.tensor([[1] * 7, [1] * 5 + [0] * 2]),
    },
    "whisper": {
        "input_features": torch.sin(torch.arange(8 * 24) ** 1.5).reshape(1, 8, 24),
        "decoder_input_ids": torch.tensor([[3, 4, 5, 6, 7]]),
    },
}


@pytest.mark.parametrize("name", hf_tiny.OTHERS)
def test_that_pictures_and_speech_give_the_librarys_own_weights(name):
    inputs = OTHER_INPUTS[name]
    model = hf_tiny.build(name)
    records = records_of(model, inputs)
    if name == "clip":
        model.set_attn_implementation("eager")
        with torch.no_grad():
            output = model(**inputs, output_attentions=True)
        towers = {"encoder": output.vision_model_output, "decoder": output.text_model_output}
        expected = {
            (stack, layer): weights[-1]
            for stack, tower in towers.items()
            for layer, weights in enumerate(tower.attentions)
        }
    else:
        expected = eager_weights(model, inputs)
    assert len(records) == {"vit": 2, "clip": 4, "whisper": 6}[name]
    for key, record in records.items():
        rows = torch.ones(record.n_queries, dtype=torch.bool)
        if (name, key[0]) == ("clip", "decoder"):
            rows[-2:] = False
        assert_same(record, expected[key], rows, f"{name} {key}")


@pytest.mark.parametrize("name", [*hf_tiny.DECODERS, *hf_tiny.ENCODER_DECODERS])
def test_that_a_step_with_cached_keys_gives_the_last_row_of_the_whole_map(name):
    inputs, _ = text_batch(name, "none")
    inputs = {field: value[:1] for field, value in inputs.items() if field != "attention_mask"}
    text = "decoder_input_ids" if name in hf_tiny.ENCODER_DECODERS else "input_ids"
    model = hf_tiny.build(name)
    whole = records_of(model, inputs)
    attached = attach(model)
    probe = TraceProbe(attached.sites, NO_GATES)
    source = {field: value for field, value in inputs.items() if field != text}
    with torch.no_grad(), attached.probing(probe):
        first = model(**source, **{text: inputs[text][:, :-1]}, use_cache=True)
        probe.records.clear()
        cached = {cache_argument(model): first.past_key_values}
        model(**source, **{text: inputs[text][:, -1:]}, **cached, use_cache=True)
    for key, record in whole.items():
        if key[0] == "encoder":
            continue
        expected = site_weights(record)[:, -1:]
        found = site_weights(probe.records[key])
        shown = expected[..., -found.shape[-1] :]
        assert bool(expected[..., : -found.shape[-1]].isnan().all())
        assert torch.equal(found.isnan(), shown.isnan())
        assert float((found - shown).nan_to_num(nan=0.0).abs().max()) <= ATOL, f"{name} {key}"
