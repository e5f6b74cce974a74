"""The operations told of a model of the library are those torch counts in its own plain attention."""

import json
from pathlib import Path

import pytest
import torch
from hf_folders import bert_tokenizer, byte_tokenizer, make, save_folder, save_picture, seq2seq_tokenizer
from torch.utils.flop_counter import FlopCounterMode

from attnscope.models import count_cost, load

pytestmark = pytest.mark.slow

hf = pytest.importorskip("transformers")
hf_tiny = pytest.importorskip("hf_tiny")

SIZE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
WORDS = {**SIZE, "vocab_size": 120, "max_position_embeddings": 64}
EXPERTS = {**WORDS, "vocab_size": 300, "num_key_value_heads": 2, "num_local_experts": 4}


def _albert():
    return hf.AlbertForMaskedLM(hf.AlbertConfig(**WORDS, embedding_size=16)), bert_tokenizer()


def _ibert():
    return hf.IBertForMaskedLM(hf.IBertConfig(**WORDS)), bert_tokenizer()


def _mixtral():
    return hf.MixtralForCausalLM(hf.MixtralConfig(**EXPERTS, num_experts_per_tok=2)), byte_tokenizer()


def _gpt_oss():
    config = hf.GptOssConfig(**EXPERTS, num_experts_per_tok=2, head_dim=8, sliding_window=80)
    return hf.GptOssForCausalLM(config), byte_tokenizer()


def _deepseek():
    config = hf.DeepseekV3Config(
        **WORDS | {"vocab_size": 300}, num_key_value_heads=4, moe_intermediate_size=24, n_routed_experts=4,
        num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=1, q_lora_rank=16,
        kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
    )  # fmt: skip
    return hf.DeepseekV3ForCausalLM(config), byte_tokenizer()


def _pooled():
    return hf.BertForSequenceClassification(hf.BertConfig(**WORDS, num_labels=3)), bert_tokenizer()


def _t5():
    config = hf.T5Config(
        vocab_size=300, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return hf.T5ForConditionalGeneration(config), seq2seq_tokenizer()


def _vit():
    return make("vit")


@pytest.mark.parametrize(
    "build", [_albert, _ibert, _mixtral, _gpt_oss, _deepseek, _pooled, _t5, _vit], ids=lambda b: b.__name__
)
def test_that_operations_told_are_those_torch_counts(build, tmp_path: Path) -> None:
    made, tokenizer = build()
    hf_tiny.fill(made.eval())
    folder = save_folder(tmp_path / "m", made, tokenizer)
    model = load(folder, "cpu")
    if model.info.reads == "picture":
        inputs = model.encode(save_picture(tmp_path / "p.png", height=8, width=8))
    else:
        inputs = model.encode("he said the good animal did not go home because it was so tired")
    arguments = model.network.arguments(inputs)
    if model.info.form == "encoder-decoder":
        arguments["decoder_input_ids"] = arguments["input_ids"]
    (name,) = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    plain = {"attn_implementation": "eager", "experts_implementation": "eager"}
    own = getattr(hf, name).from_pretrained(folder, **plain)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        own.eval()(**arguments)
    cost = count_cost(model, len(inputs.source))
    assert cost.is_whole
    assert cost.forward == counter.get_total_flops()


def test_that_layers_without_attention_are_said_to_be_left_out(tmp_path: Path) -> None:
    config = hf.RecurrentGemmaConfig(
        num_hidden_layers=3, vocab_size=300, hidden_size=16, intermediate_size=64, num_attention_heads=2,
        head_dim=8, lru_width=16, attention_window_size=8,
    )  # fmt: skip
    made = hf.RecurrentGemmaForCausalLM(config)
    hf_tiny.fill(made.eval())
    assert not count_cost(load(save_folder(tmp_path / "m", made, byte_tokenizer()), "cpu"), 20).is_whole
