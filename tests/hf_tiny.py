"""Tiny Hugging Face models of many families, with weights from a ramp: a few kilobytes each, no network.

`build(name)` gives a new model in evaluation mode; `FAMILIES` names them all. Every family here reads
pieces 0…59; 0 is padding, 1 begins, 2 ends.
"""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from transformers.models.gptj import modeling_gptj as gptj

N_PIECES = 60
N_HEADS = 4
N_LAYERS = 2
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

ENCODER = {
    "vocab_size": N_PIECES,
    "hidden_size": 32,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": N_HEADS,
    "intermediate_size": 48,
    "max_position_embeddings": 80,
    **IDS,
}
DECODER = {**ENCODER, "num_key_value_heads": 2}
SEQ2SEQ = {
    "vocab_size": N_PIECES,
    "d_model": 32,
    "encoder_layers": N_LAYERS,
    "decoder_layers": N_LAYERS,
    "encoder_attention_heads": N_HEADS,
    "decoder_attention_heads": N_HEADS,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 80,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    **IDS,
}
T5 = {
    "vocab_size": N_PIECES,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": N_LAYERS,
    "num_heads": N_HEADS,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
VISION = {
    "hidden_size": 32,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": N_HEADS,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
}
WINDOWED = {"sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]}

Build = Callable[[], Any]


def _bert() -> Any:
    return hf.BertForMaskedLM(hf.BertConfig(**ENCODER))


def _roberta() -> Any:
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**ENCODER))


def _distilbert() -> Any:
    config = hf.DistilBertConfig(
        vocab_size=N_PIECES, dim=32, n_layers=N_LAYERS, n_heads=N_HEADS, hidden_dim=48, pad_token_id=0
    )
    return hf.DistilBertForMaskedLM(config)


def _albert() -> Any:
    return hf.AlbertForMaskedLM(hf.AlbertConfig(**ENCODER, embedding_size=16))


def _electra() -> Any:
    return hf.ElectraForMaskedLM(hf.ElectraConfig(**ENCODER, embedding_size=16))


def _gpt2() -> Any:
    config = hf.GPT2Config(
        vocab_size=N_PIECES, n_positions=80, n_embd=32, n_layer=N_LAYERS, n_head=N_HEADS, **IDS
    )
    return hf.GPT2LMHeadModel(config)


def _gpt_neox() -> Any:
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**ENCODER))


def _opt() -> Any:
    config = hf.OPTConfig(
        vocab_size=N_PIECES,
        hidden_size=32,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=N_HEADS,
        ffn_dim=48,
        max_position_embeddings=80,
        word_embed_proj_dim=32,
        **IDS,
    )
    return hf.OPTForCausalLM(config)


def _llama() -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER))


def _mistral() -> Any:
    return hf.MistralForCausalLM(hf.MistralConfig(**DECODER, sliding_window=3))


def _qwen2() -> Any:
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**DECODER))


def _qwen3() -> Any:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**DECODER, head_dim=16))


def _gemma2() -> Any:
    config = hf.Gemma2Config(
        **DECODER, **WINDOWED, head_dim=8, attn_logit_softcapping=2.0, query_pre_attn_scalar=8
    )
    return hf.Gemma2ForCausalLM(config)


def _gemma3() -> Any:
    config = hf.Gemma3TextConfig(**DECODER, **WINDOWED, head_dim=8, query_pre_attn_scalar=8)
    return hf.Gemma3ForCausalLM(config)


def _phi() -> Any:
    return hf.PhiForCausalLM(hf.PhiConfig(**ENCODER))


def _gpt_oss() -> Any:
    config = hf.GptOssConfig(**DECODER, **WINDOWED, head_dim=8, num_local_experts=2, num_experts_per_tok=1)
    return hf.GptOssForCausalLM(config)


def _gptj() -> Any:
    config = hf.GPTJConfig(
        vocab_size=N_PIECES, n_positions=80, n_embd=32, n_layer=N_LAYERS, n_head=N_HEADS, rotary_dim=4, **IDS
    )
    return hf.GPTJForCausalLM(config)


def _t5() -> Any:
    return hf.T5ForConditionalGeneration(hf.T5Config(**T5))


def _mt5() -> Any:
    return hf.MT5ForConditionalGeneration(hf.MT5Config(**T5))


def _bart() -> Any:
    return hf.BartForConditionalGeneration(hf.BartConfig(**SEQ2SEQ))


def _marian() -> Any:
    return hf.MarianMTModel(hf.MarianConfig(**SEQ2SEQ))


def _mbart() -> Any:
    return hf.MBartForConditionalGeneration(hf.MBartConfig(**SEQ2SEQ))


def _whisper() -> Any:
    names = {name: value for name, value in SEQ2SEQ.items() if name != "max_position_embeddings"}
    config = hf.WhisperConfig(
        **names,
        num_mel_bins=8,
        max_source_positions=12,
        max_target_positions=80,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return hf.WhisperForConditionalGeneration(config)


def _vit() -> Any:
    return hf.ViTForImageClassification(hf.ViTConfig(**VISION, num_labels=3))


def _clip() -> Any:
    text = {**ENCODER, "max_position_embeddings": 20}
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16))


FAMILIES: dict[str, Build] = {
    name.removeprefix("_"): build
    for name, build in list(globals().items())
    if name.startswith("_") and callable(build) and not name.startswith("__")
}

GPTJ_ATTENDS_BY_ITSELF = not hasattr(gptj, "ALL_ATTENTION_FUNCTIONS")
"""Until transformers 5.23; since then it asks the library's attention interface as the other families do."""
ENCODERS = ("bert", "roberta", "distilbert", "albert", "electra")
DECODERS = (
    "gpt2",
    "gpt_neox",
    "opt",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "phi",
    "gpt_oss",
    *(() if GPTJ_ATTENDS_BY_ITSELF else ("gptj",)),
)
ENCODER_DECODERS = ("t5", "mt5", "bart", "marian", "mbart")
OTHERS = ("whisper", "vit", "clip")


def build(name: str) -> Any:
    """A new tiny model of a family, in evaluation mode, every parameter from a ramp."""
    model = FAMILIES[name]().eval()
    fill(model)
    return model


def fill(model: torch.nn.Module) -> None:
    """Matrices ± 1.5 / sqrt(columns), norms around 1, everything else ± 0.2."""
    for i, (name, parameter) in enumerate(model.named_parameters()):
        step = torch.arange(parameter.numel(), dtype=torch.float64) + 1000.37 * i
        values = torch.sin(step * step * 0.7310).reshape(parameter.shape).to(parameter.dtype)
        is_norm = parameter.ndim == 1 and name.endswith("weight")
        scale = 1.5 / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.2
        parameter.data.copy_(values * scale + (1.0 if is_norm else 0.0))
