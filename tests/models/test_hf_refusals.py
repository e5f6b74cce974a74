"""Models that were refused without need open, and what cannot be opened is refused with the true reason."""

import json
from pathlib import Path

import pytest
import torch
from hf_folders import (
    bert_tokenizer,
    byte_tokenizer,
    change_config,
    save_folder,
    save_picture,
    seq2seq_tokenizer,
)

from attnscope.errors import LoadError
from attnscope.models import load

pytestmark = pytest.mark.slow

hf = pytest.importorskip("transformers")
hf_tiny = pytest.importorskip("hf_tiny")

SIZE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = {**SIZE, "vocab_size": 120, "max_position_embeddings": 64}
SOUNDS = {
    **SIZE, "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "vocab_size": 32,
}  # fmt: skip


def _dinov3():
    config = hf.DINOv3ViTConfig(**SIZE, image_size=32, patch_size=8, num_register_tokens=2)
    return hf.DINOv3ViTModel(config), None


def _data2vec_vision():
    return hf.Data2VecVisionModel(hf.Data2VecVisionConfig(**SIZE, image_size=32, patch_size=8)), None


def _nllb_moe():
    config = hf.NllbMoeConfig(
        vocab_size=300, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_experts=4, expert_capacity=64,
        encoder_sparse_step=2, decoder_sparse_step=2, max_position_embeddings=64, decoder_start_token_id=2,
        pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    return hf.NllbMoeForConditionalGeneration(config), seq2seq_tokenizer()


def _ibert():
    return hf.IBertForMaskedLM(hf.IBertConfig(**WORDS)), bert_tokenizer()


def _recurrent_gemma():
    config = hf.RecurrentGemmaConfig(
        num_hidden_layers=3, vocab_size=300, hidden_size=16, intermediate_size=64, num_attention_heads=2,
        head_dim=8, lru_width=16, attention_window_size=8, max_position_embeddings=64,
    )  # fmt: skip
    return hf.RecurrentGemmaForCausalLM(config), byte_tokenizer()


def _big_bird():
    return hf.BigBirdForMaskedLM(hf.BigBirdConfig(**WORDS, attention_type="original_full")), bert_tokenizer()


def folder_of(build, folder: Path) -> Path:
    model, tokenizer = build()
    hf_tiny.fill(model.eval())
    return save_folder(folder, model, tokenizer)


def own_maps(folder: Path, inputs) -> list[torch.Tensor]:
    """The weights of the first stack that the library's plain attention gives out."""
    (name,) = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    model = getattr(hf, name).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        found = model(**inputs, output_attentions=True)
    maps = found.get("encoder_attentions") or found.attentions
    return [weights[0] for weights in maps if weights is not None]


@pytest.mark.parametrize(
    "build",
    [_dinov3, _data2vec_vision, _nllb_moe, _ibert, _recurrent_gemma, _big_bird],
    ids=lambda b: b.__name__,
)
def test_that_a_model_opens_and_its_maps_are_those_the_library_gives_out(build, tmp_path: Path) -> None:
    folder = folder_of(build, tmp_path / "model")
    model = load(folder, "cpu")
    if model.info.reads == "picture":
        picture = save_picture(tmp_path / "p.png", height=40, width=60)
        trace = model.trace(picture)
        arguments = model.network._reader.arguments(model.encode(picture), torch.device("cpu"), 1)
    else:
        trace = model.trace("the end of it", "a cat" if model.info.form == "encoder-decoder" else None)
        ids = torch.tensor([trace.source.ids])
        arguments = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if trace.target is not None:
            arguments["decoder_input_ids"] = torch.tensor([trace.target.ids])
    assert trace.check().is_good
    maps = own_maps(folder, arguments)
    sites = [site for site in trace.sites if site.stack == trace.sites[0].stack]
    assert len(maps) == len(sites)
    for site, wanted in zip(sites, maps, strict=True):
        found = trace.all_weights(site).nan_to_num(0.0)
        torch.testing.assert_close(found, wanted, atol=2e-6, rtol=0)
    if model.network.output_kind == "next-token":
        assert model.generate("the end", max_tokens=4)


@pytest.mark.parametrize("written", ["Infinity", '{"__float__": "Infinity"}', '{"__float__": "NaN"}'])
def test_that_numbers_as_the_library_writes_them_are_read(written: str, tmp_path: Path) -> None:
    folder = folder_of(
        lambda: (hf.LlamaForCausalLM(hf.LlamaConfig(**WORDS | {"vocab_size": 300})), byte_tokenizer()),
        tmp_path / "m",
    )
    change_config(folder, time_step_limit="HERE")
    path = folder / "config.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"HERE"', f"[0.0, {written}]"), encoding="utf-8")
    change_config(folder, num_hidden_layers=float("inf"))
    with pytest.raises(LoadError, match="num_hidden_layers is 'inf'"):
        load(folder, "cpu")
    change_config(folder, num_hidden_layers=2)
    assert load(folder, "cpu").trace("the end").check().is_good


def test_that_a_tagged_number_that_is_none_stays_out(tmp_path: Path) -> None:
    folder = folder_of(
        lambda: (hf.LlamaForCausalLM(hf.LlamaConfig(**WORDS | {"vocab_size": 300})), byte_tokenizer()),
        tmp_path / "m",
    )
    change_config(folder, odd={"__float__": "__import__('os')"}, odder={"__float__": ["Infinity"]})
    assert "__float__" in load(folder, "cpu").info.note


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda: (hf.Wav2Vec2Model(hf.Wav2Vec2Config(**SOUNDS)), None),
            "does not transcribe it token by token",
        ),
        (lambda: (hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**SOUNDS)), None), "unlike Whisper"),
    ],
    ids=["wav2vec2", "ctc"],
)
def test_that_a_refusal_names_the_true_reason(build, reason: str, tmp_path: Path) -> None:
    folder = folder_of(build, tmp_path / "model")
    with pytest.raises(LoadError, match=reason):
        load(folder, "cpu")


def test_that_a_value_of_the_wrong_kind_is_named_with_what_is_expected(tmp_path: Path) -> None:
    folder = folder_of(lambda: (hf.BertModel(hf.BertConfig(**WORDS)), bert_tokenizer()), tmp_path / "m")
    whole = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for key, value, found, expected in (
        ("type_vocab_size", 2.5, "2.5", "a whole number"),
        ("layer_norm_eps", "1e-12", '"1e-12"', "a number with a decimal point"),
        ("hidden_dropout_prob", {"p": "x" * 60}, '{"p": "' + "x" * 32 + "…", "a number"),
        ("pad_token_id", "zero", '"zero"', "a whole number or null"),
        ("tie_word_embeddings", "yes", '"yes"', "true or false"),
        ("hidden_act", "gelu_x", '"gelu_x"', "a name that the installed transformers library knows"),
    ):
        change_config(folder, **whole | {key: value})
        with pytest.raises(LoadError) as refused:
            load(folder, "cpu")
        assert refused.value.happened == f"{folder / 'config.json'} cannot be used: {key} is {found}."
        assert refused.value.expected == expected
        assert "config.json" in refused.value.action


def _xlm(**choices):
    config = hf.XLMConfig(
        vocab_size=120, emb_dim=16, n_layers=2, n_heads=2, max_position_embeddings=64, **choices
    )
    return hf.XLMWithLMHeadModel(config), bert_tokenizer()


def test_that_xlm_fills_gaps_and_tells_the_next_token_where_it_was_made_to(tmp_path: Path) -> None:
    model = load(folder_of(_xlm, tmp_path / "gaps"), "cpu")
    assert (model.info.form, model.network.output_kind) == ("encoder", "masked-token")
    assert model.predict("the good book").predictions
    model = load(folder_of(lambda: _xlm(causal=True), tmp_path / "next"), "cpu")
    assert (model.info.form, model.network.output_kind) == ("decoder", "next-token")
    assert model.generate("the good", max_tokens=3)  # its assertions refuse to read on from a cache


def test_that_two_models_in_one_folder_are_not_said_to_be_unknown(tmp_path: Path) -> None:
    part = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    half = hf.BertConfig(vocab_size=120, **part)
    both = hf.EncoderDecoderConfig.from_encoder_decoder_configs(half, half)
    folder = save_folder(tmp_path / "m", hf.EncoderDecoderModel(both), bert_tokenizer())
    with pytest.raises(LoadError, match="put together of two"):
        load(folder, "cpu")
