"""The models of the literature, as configurations; their sizes are tested against the published ones.

preset              parameters     what the count covers
transformer-base     63,082,496    Vaswani et al. 2017, table 3 ("65 million"), 37,000 shared pieces
transformer-big     214,245,376    the same table ("213 million")
bert-base           109,482,240    Devlin et al. 2018 ("110 million"), with the pooler
bert-base-masked    109,514,298    the same with the head that fills in masked words, without the pooler
bert-large          335,141,888    the same paper ("340 million"), with the pooler
gpt                 116,534,784    Radford et al. 2018 ("117 million"), output tied to the embedding
gpt-2               124,439,808    Radford et al. 2019, output tied to the embedding
gpt-2-medium        354,823,168
gpt-2-large         774,030,080
gpt-2-xl          1,557,611,200
t5-small             60,506,624    Raffel et al. 2020, section 3.7 ("60 million")
t5-base             222,903,552    the same ("220 million")
t5-large            737,668,096    the same ("770 million")
t5-3b             2,851,598,336    the same ("3 billion"), heads of 128 beside a d_model of 1024
t5-11b           11,307,321,344    the same ("11 billion")

The number 2,884,497,408 that is told of t5-3b counts the shared embedding (32,128 pieces) twice.
"""

from dataclasses import replace
from types import MappingProxyType

from attnscope.nn.config import ModelConfig

_TRANSFORMER_BASE = ModelConfig(
    form="encoder-decoder",
    vocab_size=37_000,
    d_model=512,
    n_layers=6,
    n_heads=8,
    d_ff=2048,
    max_tokens=1024,
    position="sinusoidal",
    norm_place="post",
    activation="relu",
    dropout=0.1,
    scale_embeddings=True,
)
_BERT_BASE = ModelConfig(
    form="encoder",
    vocab_size=30_522,
    d_model=768,
    n_layers=12,
    n_heads=12,
    d_ff=3072,
    max_tokens=512,
    norm_place="post",
    norm_epsilon=1e-12,
    dropout=0.1,
    embedding_norm=True,
    n_segments=2,
    has_pooler=True,
)
_GPT_2 = ModelConfig(
    form="decoder",
    vocab_size=50_257,
    d_model=768,
    n_layers=12,
    n_heads=12,
    d_ff=3072,
    max_tokens=1024,
    activation="gelu-tanh",
    dropout=0.1,
)
_T5 = ModelConfig(
    form="encoder-decoder",
    vocab_size=32_128,
    d_model=512,
    n_layers=6,
    n_heads=8,
    d_ff=2048,
    max_tokens=512,
    position="t5",
    score="dot",
    norm="rms",
    norm_epsilon=1e-6,
    activation="relu",
    dropout=0.1,
    bias=False,
)

PRESETS = MappingProxyType(
    {
        "transformer-base": _TRANSFORMER_BASE,
        "transformer-big": replace(_TRANSFORMER_BASE, d_model=1024, n_heads=16, d_ff=4096, dropout=0.3),
        "bert-base": _BERT_BASE,
        "bert-base-masked": replace(_BERT_BASE, has_pooler=False, transform_head=True, output_bias=True),
        "bert-large": replace(_BERT_BASE, d_model=1024, n_layers=24, n_heads=16, d_ff=4096),
        "gpt": replace(_GPT_2, vocab_size=40_478, max_tokens=512, norm_place="post"),
        "gpt-2": _GPT_2,
        "gpt-2-medium": replace(_GPT_2, d_model=1024, n_layers=24, n_heads=16, d_ff=4096),
        "gpt-2-large": replace(_GPT_2, d_model=1280, n_layers=36, n_heads=20, d_ff=5120),
        "gpt-2-xl": replace(_GPT_2, d_model=1600, n_layers=48, n_heads=25, d_ff=6400),
        "t5-small": _T5,
        "t5-base": replace(_T5, d_model=768, n_layers=12, n_heads=12, d_ff=3072),
        "t5-large": replace(_T5, d_model=1024, n_layers=24, n_heads=16, d_ff=4096),
        "t5-3b": replace(_T5, d_model=1024, n_layers=24, n_heads=32, d_head=128, d_ff=16_384),
        "t5-11b": replace(_T5, d_model=1024, n_layers=24, n_heads=128, d_head=128, d_ff=65_536),
    }
)
"""Configurations by name."""
