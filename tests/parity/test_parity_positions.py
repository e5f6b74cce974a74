"""Relative positions against the library's own: T5's whole stacks, and ALiBi's slopes as BLOOM has them."""

import pytest
import torch

from attnscope.nn import ModelConfig, Transformer
from attnscope.schemes.positions import POSITIONS

transformers = pytest.importorskip("transformers")
ATOL = 2e-5  # as in test_parity_torch


def t5_config(form: str = "encoder-decoder", **choices: object) -> ModelConfig:
    values = {
        "form": form, "vocab_size": 19, "d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 48,
        "max_tokens": 64, "position": "t5", "score": "dot", "norm": "rms", "norm_epsilon": 1e-6,
        "activation": "relu",
        "bias": False, "n_buckets": 8, "max_distance": 20,
    }  # fmt: skip
    return ModelConfig.from_dict({**values, **choices})


def library_t5(config: ModelConfig, model: Transformer) -> object:
    theirs = transformers.T5Config(
        vocab_size=config.vocab_size, d_model=config.d_model, d_kv=config.head_width, d_ff=config.d_ff,
        num_layers=config.n_layers, num_decoder_layers=config.decoder_layers, num_heads=config.n_heads,
        relative_attention_num_buckets=config.n_buckets,
        relative_attention_max_distance=config.max_distance, dropout_rate=0.0,
    )  # fmt: skip
    library = transformers.T5Model(theirs).eval()
    ours, state = model.state_dict(), {}
    for stack in ("encoder", "decoder"):
        state[f"{stack}.final_layer_norm.weight"] = ours[f"{stack}_norm.weight"]
        bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        state[f"{stack}.{bias}"] = ours[f"{stack}_relative.weight"]
        for layer in range(config.n_layers):
            mine, block = f"{stack}.{layer}", f"{stack}.block.{layer}.layer"
            for name, part in zip("qkv", ours[f"{mine}.attention.qkv.weight"].chunk(3), strict=True):
                state[f"{block}.0.SelfAttention.{name}.weight"] = part
            state[f"{block}.0.SelfAttention.o.weight"] = ours[f"{mine}.attention.output.weight"]
            state[f"{block}.0.layer_norm.weight"] = ours[f"{mine}.attention_norm.weight"]
            last = 1 if stack == "encoder" else 2
            state[f"{block}.{last}.DenseReluDense.wi.weight"] = ours[f"{mine}.feed_forward.up.weight"]
            state[f"{block}.{last}.DenseReluDense.wo.weight"] = ours[f"{mine}.feed_forward.down.weight"]
            state[f"{block}.{last}.layer_norm.weight"] = ours[f"{mine}.feed_forward_norm.weight"]
            if stack == "decoder":
                k, v = ours[f"{mine}.cross.kv.weight"].chunk(2)
                names = {"q": ours[f"{mine}.cross.query.weight"], "k": k, "v": v}
                names["o"] = ours[f"{mine}.cross.output.weight"]
                for name, part in names.items():
                    state[f"{block}.1.EncDecAttention.{name}.weight"] = part
                state[f"{block}.1.layer_norm.weight"] = ours[f"{mine}.cross_norm.weight"]
    state |= dict.fromkeys(("shared.weight", "encoder.embed_tokens.weight"), ours["tokens.weight"])
    state["decoder.embed_tokens.weight"] = ours["tokens.weight"]
    library.load_state_dict(state)
    return library


@pytest.mark.parametrize(("is_padded", "d_head"), [(False, None), (True, None), (True, 12)])
def test_that_a_t5_model_says_what_the_librarys_says_and_learns_the_same(
    is_padded, d_head, fill_with_ramp, assert_close
):
    config = t5_config(d_head=d_head)
    model = Transformer(config).eval()
    fill_with_ramp(model)
    library = library_t5(config, model)
    source = (torch.arange(60).reshape(2, 30) * 7 + 3) % 19
    target = (torch.arange(50).reshape(2, 25) * 5 + 1) % 19
    valid = torch.arange(30)[None] < torch.tensor([[30], [22]]) if is_padded else None
    memory = model.encode(source, valid=valid)
    found = model.decode(target, memory=memory, memory_valid=valid)
    mask = None if valid is None else valid.long()
    expected = library(input_ids=source, attention_mask=mask, decoder_input_ids=target)
    kept = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
    assert_close(memory[kept], expected.encoder_last_hidden_state[kept], atol=ATOL)
    assert_close(found, expected.last_hidden_state, atol=5 * ATOL)
    found.sin().sum().backward()
    expected.last_hidden_state.sin().sum().backward()
    for stack in ("encoder", "decoder"):
        theirs = getattr(library, stack).block[0].layer[0].SelfAttention.relative_attention_bias.weight.grad
        ours = model.get_parameter(f"{stack}_relative.weight").grad
        assert_close(ours, theirs, atol=1e-3, rtol=1e-3)  # sums over 1,500 cells of terms up to 10


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 20), (16, 1000), (4, 3)])
def test_that_distances_go_into_the_buckets_of_the_library(is_causal, n_buckets, max_distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-3000, 3000)
    expected = T5Attention._relative_position_bucket(
        distance, bidirectional=not is_causal, num_buckets=n_buckets, max_distance=max_distance
    )
    config = t5_config(n_buckets=n_buckets, max_distance=max_distance)
    learned = {"weight": torch.arange(n_buckets)[:, None]}
    (found,) = POSITIONS["t5"].bias(learned, distance, config, is_causal=is_causal)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 25, 40, 112])
def test_that_slopes_are_those_of_bloom(n_heads, assert_close):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    expected = build_alibi_tensor(torch.ones(1, 2, dtype=torch.int64), n_heads, torch.float32)[:, 0, 1]
    assert_close(POSITIONS["alibi"].slopes(n_heads), expected, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "library"),
    [
        ("t5-small", {"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8}),
        ("t5-base", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
        ("t5-large", {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}),
        ("t5-3b", {"d_model": 1024, "d_ff": 16_384, "num_layers": 24, "num_heads": 32, "d_kv": 128}),
        ("t5-11b", {"d_model": 1024, "d_ff": 65_536, "num_layers": 24, "num_heads": 128, "d_kv": 128}),
    ],
)
def test_that_t5_presets_have_as_many_parameters_as_the_library(preset, library):
    from attnscope.nn import PRESETS, count_parameters

    with torch.device("meta"):
        theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=32_128, **library))
    assert count_parameters(PRESETS[preset]).total == theirs.num_parameters()
