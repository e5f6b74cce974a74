"""What a trace costs: the same forward pass with and without the probe, in turns, within one run."""

import time
from dataclasses import replace

import torch

from attnscope.bench.report import Measurement, percentile
from attnscope.nn.presets import PRESETS
from attnscope.nn.transformer import Transformer, build_transformer
from attnscope.records.sites import NO_GATES
from attnscope.trace import TraceProbe

LENGTHS = (16, 64, 256, 512)
N_ROUNDS = 25
TARGET_RATIO = 1.05
N_LAYERS = 4
"""Of the preset's twelve: the ratio is the same and the model is made quickly."""


def measure_tracing(n_rounds: int = N_ROUNDS) -> tuple[Measurement, ...]:
    """Median of traced / plain time of GPT-2-small shapes, and what a trace keeps."""
    config = replace(PRESETS["gpt-2"], n_layers=N_LAYERS, dropout=0.0, vocab_size=4096)
    model = build_transformer(config, seed=0).eval()
    results: list[Measurement] = []
    for n_tokens in LENGTHS:
        ids = torch.randint(0, config.vocab_size, (1, n_tokens), generator=torch.Generator().manual_seed(0))
        ratios, plain_ms = trace_ratios(model, ids, n_rounds)
        results.append(
            Measurement(
                name=f"traced / plain forward, T = {n_tokens} (median)",
                value=percentile(ratios, 50),
                unit="×",
                target=TARGET_RATIO,
                n_samples=len(ratios),
                note=f"plain {percentile(plain_ms, 50):.1f} ms, {N_LAYERS} layers of GPT-2 small",
            )
        )
    return tuple(results)


def trace_ratios(model: Transformer, ids: torch.Tensor, n_rounds: int) -> tuple[list[float], list[float]]:
    """Traced over plain time of each round, and the plain times in ms; the order alternates."""
    ratios: list[float] = []
    plain_ms: list[float] = []
    with torch.inference_mode():
        for index in range(n_rounds + 3):
            order = (False, True) if index % 2 else (True, False)
            times = {is_traced: _forward_ms(model, ids, is_traced=is_traced) for is_traced in order}
            if index >= 3:
                ratios.append(times[True] / times[False])
                plain_ms.append(times[False])
    return ratios, plain_ms


def _forward_ms(model: Transformer, ids: torch.Tensor, *, is_traced: bool) -> float:
    begin_s = time.perf_counter()
    model(ids, probe=TraceProbe(model.sites(), NO_GATES) if is_traced else None)
    return (time.perf_counter() - begin_s) * 1e3
