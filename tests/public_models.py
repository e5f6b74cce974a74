"""The models of the public numbers: the demo model grammar, and tiny ones with weights from a ramp."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope.models import Model

_TINY = {"d_model": 8, "n_heads": 2, "n_kv_heads": 2, "d_ff": 12, "max_tokens": 16}
_LABELS = {"n_labels": 3}
_PAIR = {**_LABELS, "reads_pair": True}
_CELLS = {"n_heads": 2, "n_kv_heads": 2}

VARIANTS: Mapping[str, Mapping[str, object]] = {
    "decoder": {},
    "encoder": {},
    "encoder-decoder": {},
    **{f"decoder,score={score}": {"score": score} for score in ("dot", "general", "cosine", "gaussian")},
    **{f"decoder,score={score}": {"score": score} for score in ("additive", "kernel")},
    "encoder,score=gaussian,sigma=0.7": {"score": "gaussian", "sigma": 0.7},
    "encoder,score=cosine,temperature=0.3": {"score": "cosine", "temperature": 0.3},
    "encoder-decoder,score=additive": {"score": "additive"},
    "decoder,mask=window": {"mask": "window", "window": 2},
    "encoder,mask=window": {"mask": "window", "window": 1},
    "decoder,mask=dilated": {"mask": "dilated", "window": 4, "dilation": 2},
    "encoder,mask=global": {"mask": "global", "window": 1, "global_tokens": 1},
    "encoder,mask=bigbird": {"mask": "bigbird", "window": 1, "mask_block": 2, "random_blocks": 1},
    "encoder,mask=bigbird,random_links=both": {
        "mask": "bigbird", "window": 1, "mask_block": 2, "random_blocks": 1, "random_links": "both",
    },
    "decoder,mask=prefix": {"mask": "prefix", "prefix_tokens": 3},
    **{
        f"decoder,position={position}": {"position": position}
        for position in ("sinusoidal", "rotary", "binary", "t5", "alibi", "shaw", "none")
    },
    "encoder,position=t5,n_buckets=4": {"position": "t5", "n_buckets": 4, "max_distance": 6},
    "encoder-decoder,position=rotary": {"position": "rotary"},
    "encoder-decoder,position=shaw": {"position": "shaw", "max_distance": 2},
    **{f"decoder,norm={norm}": {"norm": norm} for norm in ("rms", "none")},
    **{f"decoder,norm_place={place}": {"norm_place": place} for place in ("post", "sandwich")},
    **{
        f"decoder,activation={activation}": {"activation": activation}
        for activation in ("relu", "gelu-tanh", "swish", "glu", "reglu", "geglu", "swiglu")
    },
    "decoder,n_kv_heads=1": {"n_kv_heads": 1},
    "decoder,d_head=6": {"d_head": 6},
    "decoder,bias=false": {"bias": False},
    "decoder,tie_embeddings=false": {"tie_embeddings": False},
    "decoder,has_residual=false": {"has_residual": False},
    "decoder,has_feed_forward=false": {"has_feed_forward": False},
    "decoder,scale_embeddings,embedding_norm": {"scale_embeddings": True, "embedding_norm": True},
    "encoder,as-in-BERT": {
        "norm_place": "post", "embedding_norm": True, "n_segments": 2, "transform_head": True,
        "output_bias": True, "has_pooler": True, "has_next_sentence": True,
    },
    "encoder,n_projected=3": {"n_projected": 3},
    **{
        f"encoder,pooling={pooling}": {**_LABELS, "pooling": pooling}
        for pooling in ("first", "last", "mean", "max", "attention")
    },
    "encoder,pooling=hierarchical": {**_LABELS, "pooling": "hierarchical", "sentence_encoder": "gru"},
    "decoder,pooling=last": {**_LABELS, "pooling": "last"},
    "encoder,reads_pair": {**_PAIR, "pooling": "attention"},
    **{f"encoder-decoder,body={body}": {**_CELLS, "body": body} for body in ("rnn", "gru", "lstm")},
    "encoder-decoder,body=gru,score=additive": {**_CELLS, "body": "gru", "score": "additive"},
    "encoder-decoder,body=lstm,feeds_context=false,local_reach=1": {
        **_CELLS, "body": "lstm", "feeds_context": False, "local_reach": 1,
    },
    "encoder-decoder,body=gru,has_attention=false": {**_CELLS, "body": "gru", "has_attention": False},
}  # fmt: skip
"""The scores, masks, positions, norms, activations, poolings and bodies whose numbers are kept, one choice
away from the plain form. The plain forms have two layers, the others one. A scheme that is added later need
not join them: `schemes/test_every_scheme.py` reads the registries."""

MEASURES_KEPT = (
    "previous", "diagonal", "first", "separator", "stripe", "duplicate_mul",
    "induction_mul", "positional", "offset", "rare", "entropy", "confidence",
    "distance", "norm", "norm_first", "norm_separator", "entropy_nats", "previous_mul",
    "previous_abs", "duplicate_abs", "induction_abs", "next",
)  # fmt: skip
"""The measures of heads whose numbers are kept; one that is added later has them in a test of its own."""


@cache
def variant(name: str) -> Model:
    """The tiny model of that name."""
    n_layers = 1 if VARIANTS[name] else 2
    return tiny_model(name.split(",")[0], **{**_TINY, "n_layers": n_layers, **VARIANTS[name]})


def second_of(name: str) -> str | None:
    """The second text that it reads, where it reads one."""
    is_pair = name.startswith("encoder-decoder") or name.endswith("reads_pair")
    return FRENCH if is_pair else None


def write_folder(parent: Path, name: str) -> Path:
    """The folder of a tiny model, written when it is first asked for."""
    folder = parent / name
    if not folder.exists():
        variant(name).save(folder)
    return folder


__all__ = ["MEASURES_KEPT", "SENTENCE", "VARIANTS", "second_of", "variant", "write_folder"]
