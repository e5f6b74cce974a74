"""The models of the literature, as configurations; their sizes are tested against published ones.

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
roberta-base        124,695,129    Liu et al. 2019 ("125 million"), with the head that fills in words
roberta-large       355,408,985    the same ("355 million")
xlnet-large         360,292,352    Yang et al. 2019 ("as BERT-large"), its layers as a causal model
megatron-lm-8b    8,317,040,640    Shoeybi et al. 2019, table 2 ("8.3 billion")
turing-nlg       17,176,845,728    Microsoft Research 2020 ("17 billion")
gpt-3           174,604,259,328    Brown et al. 2020, table 2.1 ("175 billion")

The published parameter count of t5-3b, 2,884,497,408, counts the shared embedding (32,128 pieces) twice.
"""

from dataclasses import replace
from types import MappingProxyType

from attnscope.nn.config import ModelConfig
from attnscope.records.plans import Published

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
_ROBERTA = replace(
    _BERT_BASE, vocab_size=50_265, n_segments=0, has_pooler=False, transform_head=True, output_bias=True
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
        "roberta-base": _ROBERTA,
        "roberta-large": replace(_ROBERTA, d_model=1024, n_layers=24, n_heads=16, d_ff=4096),
        "xlnet-large": replace(
            _BERT_BASE,
            form="decoder",
            vocab_size=32_000,
            d_model=1024,
            n_layers=24,
            n_heads=16,
            d_ff=4096,
            position="transformer-xl",
            embedding_norm=False,
            n_segments=0,
            has_pooler=False,
        ),
        "megatron-lm-8b": replace(
            _GPT_2, vocab_size=51_200, d_model=3072, n_layers=72, n_heads=24, d_ff=12_288
        ),
        "turing-nlg": replace(_GPT_2, d_model=4256, n_layers=78, n_heads=28, d_ff=17_024),
        "gpt-3": replace(_GPT_2, d_model=12_288, n_layers=96, n_heads=96, d_ff=49_152, max_tokens=2048),
    }
)
"""Configurations by name."""

_VASWANI = Published(
    parameters="65 M",
    data="WMT 2014 English–German, 4.5 M pairs",
    hardware="8 P100, 12 hours",
    source="Vaswani et al. 2017, table 3 and section 5",
    why="65 M would be some 40,700 pieces; the paper says about 37,000",
)
_DEVLIN = Published(
    parameters="110 M",
    data="BooksCorpus and Wikipedia, 3.3 billion words",
    hardware="16 TPU chips, 4 days",
    source="Devlin et al. 2018, appendix A.2",
    why="Counted here with the pooler, without the objectives' heads",
)
_RADFORD = Published(
    parameters="117 M",
    data="WebText, 8 M pages, 40 GB",
    hardware="",
    source="Radford et al. 2019, table 2",
    why="The paper's count; the released weights are as counted here",
)
_RAFFEL = Published(
    parameters="60 M",
    data="C4, 750 GB",
    hardware="TPU pods",
    source="Raffel et al. 2020, sections 2.1 and 3.7",
)
_LIU = Published(
    parameters="125 M",
    data="160 GB of text",
    hardware="",
    source="Liu et al. 2019, sections 3.2 and 5",
    why="Counted here with the head that fills in words",
)

PUBLISHED = MappingProxyType(
    {
        "transformer-base": _VASWANI,
        "transformer-big": replace(
            _VASWANI,
            parameters="213 M",
            hardware="8 P100, 3.5 days",
            why="213 M would be some 35,800 pieces; the paper says about 37,000",
        ),
        "bert-base": _DEVLIN,
        "bert-base-masked": replace(
            _DEVLIN, why="Counted here with the head that fills in words, without the pooler"
        ),
        "bert-large": replace(_DEVLIN, parameters="340 M", hardware="64 TPU chips, 4 days"),
        "gpt": Published(
            parameters="117 M",
            data="BooksCorpus, 7,000 books",
            hardware="8 GPUs, a month",
            source="Radford et al. 2018; the size from Radford et al. 2019, table 2",
        ),
        "gpt-2": _RADFORD,
        "gpt-2-medium": replace(_RADFORD, parameters="345 M"),
        "gpt-2-large": replace(_RADFORD, parameters="762 M"),
        "gpt-2-xl": replace(_RADFORD, parameters="1,542 M"),
        "t5-small": _RAFFEL,
        "t5-base": replace(_RAFFEL, parameters="220 M"),
        "t5-large": replace(
            _RAFFEL, parameters="770 M", why="With the shared embedding counted twice it is 770.6 M"
        ),
        "t5-3b": replace(
            _RAFFEL,
            parameters="3 billion",
            why="Rounded; with the shared embedding counted twice it is 2.88 billion",
        ),
        "t5-11b": replace(_RAFFEL, parameters="11 billion"),
        "roberta-base": _LIU,
        "roberta-large": replace(_LIU, parameters="355 M", hardware="1,024 V100, a day for 100,000 steps"),
        "xlnet-large": Published(
            parameters="340 M",
            data="32.9 billion pieces",
            hardware="512 TPU v3 chips, 5.5 days",
            source="Yang et al. 2019, section 3.1: as BERT-large",
            why="Relative positions bring a matrix a layer; its objective, any order, is not offered",
        ),
        "megatron-lm-8b": Published(
            parameters="8.3 billion",
            data="174 GB of text",
            hardware="512 V100",
            source="Shoeybi et al. 2019, table 2, sections 4.1 and 5.1",
        ),
        "turing-nlg": Published(
            parameters="17 billion",
            data="of the kind of Megatron-LM's",
            hardware="DGX-2 machines of 16 V100",
            source="Microsoft Research, February 2020",
            why="Counted here with GPT-2's vocabulary; its own was not published",
        ),
        "gpt-3": Published(
            parameters="175 billion",
            data="300 billion tokens",
            hardware="V100",
            source="Brown et al. 2020, table 2.1 and section 2.3",
            why="Its layers attend in turn fully and in bands, which changes no parameter",
        ),
    }
)
"""Published facts about each, by name."""
