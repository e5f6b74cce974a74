"""What measuring every head costs, against the forward passes alone, and what memory a long text takes."""

import time

import torch

from attnscope.analysis.corpus import MeasureProbe, batch_facts, count_tokens, measure_corpus
from attnscope.analysis.corpus_texts import encode_corpus, length_batches, run_batch
from attnscope.analysis.subject import QuietProbe
from attnscope.analysis.value_norms import output_grams
from attnscope.bench.child import told_by
from attnscope.bench.report import Measurement, percentile
from attnscope.models import Model, ModelCard
from attnscope.models.own import OwnNetwork
from attnscope.nn.config import ModelConfig
from attnscope.nn.transformer import build_transformer
from attnscope.records.measures import HeadTable
from attnscope.text.tokenizer import train_tokenizer

N_TEXTS, N_WORDS = 48, 30
"""Of BERT-base's shape: 30 words, begin and end make 32 tokens. The promise is for 1,000 texts (`--texts`);
the ratio is that of any number of batches."""
N_ROUNDS, N_WARM = 3, 3
TARGET_RATIO = 1.2
LONG_TARGET_GB = 2.0


def measure_analysis(n_texts: int = N_TEXTS) -> tuple[Measurement, ...]:
    """Time of all measures over the time of the passes; memory that a text of 32k tokens takes."""
    return (*measure_corpus_cost(n_texts=n_texts), *measure_long_text())


def measure_corpus_cost(n_rounds: int = 0, n_texts: int = N_TEXTS) -> tuple[Measurement, ...]:
    """All measures of 144 heads over texts of 32 tokens, batch by batch in turns with the plain passes.

    The first batches warm up; without `n_rounds` there are as many as few texts need to be told apart.
    """
    model = made_up_model(form="encoder", d_model=768, n_layers=12, n_heads=12, d_ff=3072, max_tokens=64)
    texts = made_up_texts(n_texts, N_WORDS)
    batches = list(length_batches(model, encode_corpus(model, texts)))
    counters = count_tokens(model, texts)
    measuring, plain = MeasureProbe(output_grams(model)), QuietProbe()
    ratios: list[float] = []
    plain_s: list[float] = []
    for chosen in (batches[:N_WARM], *[batches] * (n_rounds or max(1, N_ROUNDS * N_TEXTS // n_texts))):
        seconds = {True: 0.0, False: 0.0}
        for number, batch in enumerate(chosen):
            for is_measured in (True, False) if (number + len(ratios)) % 2 else (False, True):
                begin_s = time.perf_counter()
                if is_measured:
                    measuring.facts = batch_facts(model, model.sites, batch, "kept", counters)
                run_batch(model, batch, measuring if is_measured else plain)
                seconds[is_measured] += time.perf_counter() - begin_s
        ratios.append(seconds[True] / seconds[False])
        plain_s.append(seconds[False])
    ratios, plain_s = ratios[1:], plain_s[1:]
    return (
        Measurement(
            name="all measures / plain passes (median)",
            value=percentile(ratios, 50),
            unit="×",
            target=TARGET_RATIO,
            n_samples=len(ratios),
            note=f"BERT-base's shape, {n_texts} texts, {percentile(plain_s, 50):.1f} s of plain passes",
        ),
        _whole_corpus(model, texts, percentile(plain_s, 50)),
    )


def _whole_corpus(model: Model, texts: list[str], plain_s: float) -> Measurement:
    """A whole pass of `measure_corpus`, with intervals and without the stripe's extra passes."""
    begin_s = stopped_s = time.perf_counter()
    for found in measure_corpus(model, texts, has_stripe=False):
        if isinstance(found, HeadTable):
            stopped_s = time.perf_counter()
    return Measurement(
        name="corpus pass with intervals / plain passes",
        value=(stopped_s - begin_s) / plain_s,
        unit="×",
        note="the intervals' share shrinks with the corpus",
    )


def measure_long_text() -> tuple[Measurement, ...]:
    """The most memory that a process held while it traced and measured one long text, and the time."""
    seen = told_by("attnscope.bench.long_measures")
    size = f"{seen['n_heads']} heads, {seen['n_tokens']:,} tokens, every row, {seen['seconds']:.0f} s"
    return (
        Measurement(
            name="measures of a long text, memory of the process",
            value=seen["peak_bytes"] / 1e9,
            unit="GB",
            target=LONG_TARGET_GB,
            note=f"{size}; blocks of rows are of one size for any number of heads",
        ),
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
