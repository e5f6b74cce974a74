"""What scoring heads by gradients costs against a training pass, and how long a rollout takes."""

import time
from collections.abc import Callable, Iterator

import torch

from attnscope.analysis.batches import build_batches, token_losses
from attnscope.analysis.importance import measure_importance
from attnscope.analysis.levels import rollout
from attnscope.analysis.subject import own_subject
from attnscope.models import Model, ModelCard
from attnscope.models.own import OwnNetwork
from attnscope.nn.config import ModelConfig
from attnscope.nn.transformer import build_transformer
from attnscope.text.tokenizer import train_tokenizer
from bench.ratios import time_ratios
from bench.report import Measurement, median_of

TARGET_RATIO = 1.0
"""Scores need each text's forward and backward pass, and no gradients of weights: about two of the three
equal parts of a training pass. What takes as long as all three does work that nobody asked for."""
ROLLOUT_TOKENS, ROLLOUT_TARGET_S = 512, 1.0
N_ROUNDS = 5


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

    ratios, _ = time_ratios(train, score, n_rounds, device=subject.device)
    return median_of(
        "gradient importance / training pass",
        ratios,
        "×",
        target=TARGET_RATIO,
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
