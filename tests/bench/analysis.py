"""What measuring every head over a corpus costs, against the forward passes alone."""

import torch

from attnscope.analysis.corpus import measure_corpus
from attnscope.analysis.corpus_texts import encode_corpus, length_batches, run_batch
from attnscope.analysis.subject import QuietProbe
from attnscope.counting import counted
from attnscope.models import Model, ModelCard
from attnscope.models.own import OwnNetwork
from attnscope.nn.config import ModelConfig
from attnscope.nn.transformer import build_transformer
from attnscope.text.tokenizer import train_tokenizer
from bench.ratios import time_ratios
from bench.report import Measurement, median_of, percentile

N_TEXTS, N_WORDS, N_LAYERS = 256, 30, 3
"""30 words, begin and end make 32 tokens. A layer is measured like any other: three stand for twelve. The
eight texts of the stripe cost the same for any corpus, and weigh least in the largest."""
N_ROUNDS, WITHIN_S = 5, 15.0
TARGET_RATIO = 1.15


def measure_corpus_cost(n_texts: int = N_TEXTS, *, model: Model | None = None) -> Measurement:
    """`measure_corpus` as `attnscope measure` calls it, in turns with the plain passes over the same texts.

    Both tokenize, and both run the batches of like length that a corpus is read in.
    """
    model = model or made_up_model(
        form="encoder", d_model=768, n_layers=N_LAYERS, n_heads=12, d_ff=3072, max_tokens=64
    )
    texts = made_up_texts(n_texts, N_WORDS)

    def measure_all() -> None:
        for _ in measure_corpus(model, texts):
            pass

    def run_all() -> None:
        for batch in length_batches(model, encode_corpus(model, texts)):
            run_batch(model, batch, QuietProbe())

    ratios, plain_ms = time_ratios(run_all, measure_all, N_ROUNDS, device=model.device, within_s=WITHIN_S)
    return median_of(
        "measures of a corpus / its plain passes",
        ratios,
        "×",
        target=TARGET_RATIO,
        note=f"{N_LAYERS} layers of BERT-base, {counted(n_texts, 'text')}, intervals and stripe included; "
        f"{percentile(plain_ms, 50) / 1e3:.1f} s of plain passes",
    )


def made_up_model(*, form: str, **sizes: int) -> Model:
    """A model of these sizes with random weights that reads the made-up words."""
    tokenizer = train_tokenizer("words", [" ".join(_WORDS)], vocab_size=len(_WORDS) + 10)
    config = ModelConfig.from_dict({"form": form, "vocab_size": tokenizer.vocab_size, **sizes})
    module = build_transformer(config, seed=0).eval()
    card = ModelCard(name="bench", objective="masked" if form == "encoder" else "causal")
    return Model(OwnNetwork(module, tokenizer, card))


_WORDS = tuple(f"w{index}" for index in range(500))


def made_up_texts(n_texts: int, n_words: int) -> list[str]:
    """Texts of random words, the same every time."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, len(_WORDS), (n_texts, n_words), generator=generator).tolist()
    return [" ".join(_WORDS[index] for index in row) for row in rows]
