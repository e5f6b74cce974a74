"""What measures of a corpus and importance cost over plain passes, and how long a rollout takes."""

import time
from collections.abc import Callable, Iterator

import torch

from attnscope.analysis import (
    build_batches,
    encode_corpus,
    length_batches,
    measure_corpus,
    measure_importance,
    own_subject,
    rollout,
    run_batch,
    token_losses,
)
from attnscope.counting import plural
from attnscope.models import Model, ModelCard, OwnNetwork
from attnscope.nn import ModelConfig, QuietProbe, build_transformer
from attnscope.text import train_tokenizer
from bench.ratios import time_ratios
from bench.report import Measurement, median_of, percentile

N_TEXTS, N_WORDS, N_LAYERS = 128, 30, 3
"""30 words, begin and end make 32 tokens. A layer is measured like any other: three stand for twelve."""
N_ROUNDS, WITHIN_S = 5, 15.0
TARGET_RATIO = 1.15
"""What is beside the passes takes a quarter of their processor time: sums over the rows of each map,
intervals, norms of values, and the stripe, whose eight texts weigh less in a larger corpus. The batches are
read abreast, one thread to each, while the plain passes come one after another with every thread in each, as
a loop over `run_batch` has them.
"""
IMPORTANCE_TARGET_RATIO = 1.0
"""Scores need each text's forward and backward pass, and no gradients of weights: about two of the three
equal parts of a training pass. What takes as long as all three does work that nobody asked for."""
ROLLOUT_TOKENS, ROLLOUT_TARGET_S = 512, 1.0


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

    ratios, plain_ms = time_ratios(
        run_all, measure_all, N_ROUNDS, device=model.device, within_s=WITHIN_S, target=TARGET_RATIO
    )
    return median_of(
        "measures of a corpus / its plain passes",
        ratios,
        "×",
        target=TARGET_RATIO,
        note=f"{N_LAYERS} layers of BERT-base, {plural(n_texts, 'text')}, intervals and stripe included; "
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


def measure_across_layers() -> Iterator[Measurement]:
    """Gradient importance over a training pass; rollout of a long text."""
    yield measure_importance_cost()
    yield measure_rollout()


def measure_importance_cost(n_rounds: int = N_ROUNDS, n_texts: int = 32, n_tokens: int = 64) -> Measurement:
    """Scores of every head against losses and gradients of every weight, on the same texts, in turns."""
    model = _model(n_layers=4, d_model=256, d_ff=1024, max_tokens=n_tokens)
    subject, batches = own_subject(model), build_batches(model, _texts(n_texts, n_tokens - 1))

    @torch.inference_mode(False)
    def train() -> None:
        for batch in batches:
            token_losses(subject, batch).sum().backward()  # type: ignore[no-untyped-call]
        subject.module.zero_grad(set_to_none=True)

    @torch.inference_mode(False)
    def score() -> None:
        for _ in measure_importance(subject, batches):
            pass

    ratios, _ = time_ratios(train, score, n_rounds, device=subject.device, target=IMPORTANCE_TARGET_RATIO)
    return median_of(
        "gradient importance / training pass",
        ratios,
        "×",
        target=IMPORTANCE_TARGET_RATIO,
        note=f"{n_texts} texts of {n_tokens} tokens; a training pass without the optimiser's step",
    )


def measure_rollout(n_rounds: int = N_ROUNDS, n_tokens: int = ROLLOUT_TOKENS) -> Measurement:
    """From a text to its rollout over 12 layers of 12 heads."""
    model = _model(n_layers=12, d_model=384, d_ff=384, n_heads=12, max_tokens=n_tokens)
    text = _texts(1, n_tokens - 1)[0]
    seconds = [_seconds(lambda: rollout(model.trace(text))) for _ in range(n_rounds + 1)][1:]
    return median_of(
        f"rollout of a text of {n_tokens} tokens",
        seconds,
        "s",
        target=ROLLOUT_TARGET_S,
        note="12 layers of 12 heads",
    )


def _seconds(work: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    work()
    return time.perf_counter() - begin_s


def _model(*, n_layers: int, d_model: int, d_ff: int, max_tokens: int, n_heads: int = 8) -> Model:
    words = " ".join(f"w{i}" for i in range(100))
    tokenizer = train_tokenizer("words", [words], vocab_size=200)
    config = ModelConfig(
        form="decoder",
        vocab_size=tokenizer.vocab_size,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=d_ff,
        max_tokens=max_tokens,
    )
    card = ModelCard(name="bench", objective="causal")
    return Model(OwnNetwork(build_transformer(config, seed=0), tokenizer, card))


def _texts(n_texts: int, n_words: int) -> list[str]:
    return [" ".join(f"w{(7 * i + 3 * j * j) % 100}" for j in range(n_words)) for i in range(n_texts)]
