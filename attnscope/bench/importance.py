"""What scoring heads by gradients costs against a training pass, and how long a rollout takes."""

import time
from collections.abc import Callable

from attnscope.analysis.batches import build_batches, token_losses
from attnscope.analysis.importance import gradient_scores
from attnscope.analysis.levels import rollout
from attnscope.analysis.subject import own_subject
from attnscope.bench.report import Measurement, percentile
from attnscope.models import Model, ModelCard
from attnscope.models.own import OwnNetwork
from attnscope.nn.config import ModelConfig
from attnscope.nn.transformer import build_transformer
from attnscope.text.tokenizer import train_tokenizer

TARGET_RATIO = 3.0
ROLLOUT_TOKENS, ROLLOUT_TARGET_S = 512, 1.0
N_ROUNDS = 5


def measure_across_layers() -> tuple[Measurement, ...]:
    """Gradient importance over a training pass; rollout of a long text."""
    return (measure_importance_cost(), measure_rollout())


def measure_importance_cost(n_rounds: int = N_ROUNDS, n_texts: int = 32, n_tokens: int = 64) -> Measurement:
    """Scores of every head against losses and gradients of every weight, on the same texts, in turns."""
    model = _model(n_layers=4, d_model=256, d_ff=1024, max_tokens=n_tokens)
    subject, batches = own_subject(model), build_batches(model, _texts(n_texts, n_tokens - 1))

    def train() -> None:
        for batch in batches:
            token_losses(subject, batch).sum().backward()  # type: ignore[no-untyped-call]
        subject.module.zero_grad(set_to_none=True)

    def score() -> None:
        for batch in batches:
            gradient_scores(subject, batch)

    seconds = [(_seconds(score), _seconds(train)) for _ in range(n_rounds + 1)][1:]
    return Measurement(
        name="gradient importance / training pass",
        value=percentile([one / other for one, other in seconds], 50),
        unit="×",
        target=TARGET_RATIO,
        n_samples=n_rounds,
        note=f"{n_texts} texts of {n_tokens} tokens; a training pass without the optimiser's step",
    )


def measure_rollout(n_rounds: int = N_ROUNDS, n_tokens: int = ROLLOUT_TOKENS) -> Measurement:
    """Rollout over 12 layers of 12 heads, from a trace at hand."""
    model = _model(n_layers=12, d_model=384, d_ff=384, n_heads=12, max_tokens=n_tokens)
    trace = model.trace(_texts(1, n_tokens - 1)[0])
    seconds = [_seconds(lambda: rollout(trace)) for _ in range(n_rounds)]
    return Measurement(
        name=f"rollout of {n_tokens} tokens",
        value=percentile(seconds, 50),
        unit="s",
        target=ROLLOUT_TARGET_S,
        n_samples=n_rounds,
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
