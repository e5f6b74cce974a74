"""What a trace costs: the same forward pass with and without the probe, in turns, within one run.

BERT-base and GPT-2-small shapes with random weights. What it keeps is set against the weights laid out,
and against the other ways to get at attention: of transformers, TransformerLens and nnsight those that
are installed (`bench/peers.py`).
"""

from dataclasses import dataclass, replace

import torch

from attnscope.bench.peers import measure_peers
from attnscope.bench.ratios import VOCAB_SIZE, time_ratios
from attnscope.bench.report import Measurement, percentile
from attnscope.models.device import choose_device
from attnscope.nn.presets import PRESETS
from attnscope.nn.transformer import Transformer, build_transformer
from attnscope.records.sites import NO_GATES, Site
from attnscope.trace import TraceProbe

ROUNDS = {16: 40, 64: 25, 256: 9, 512: 7, 1024: 4}
"""Rounds for each length; every length takes a similar time."""
MODELS = ("bert-base", "gpt-2")
TARGET_RATIO = 1.05
TARGET_KEPT = 0.26
"""Queries and keys are exactly a quarter of the weights at T = 512; the log-sum-exp adds 0.2 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model whose passes are timed, by the name of its shape; its sites are listed once, as when loaded."""

    name: str
    module: Transformer
    device: torch.device
    sites: tuple[Site, ...]

    def ids(self, n_tokens: int) -> torch.Tensor:
        """One text of random tokens."""
        generator = torch.Generator().manual_seed(n_tokens)
        return torch.randint(0, VOCAB_SIZE, (1, n_tokens), generator=generator).to(self.device)


def measure_tracing(device: str = "cpu", lengths: tuple[int, ...] = tuple(ROUNDS)) -> tuple[Measurement, ...]:
    """Traced / plain time at every length, what is kept at T = 512, and the peers that are installed."""
    results: list[Measurement] = []
    for name in MODELS:
        subject = build_subject(name, device)
        results += [_measure_length(subject, n_tokens, ROUNDS[n_tokens]) for n_tokens in lengths]
        results += _measure_kept(subject)
        del subject
        results += measure_peers(name, device)
    return tuple(results)


def build_subject(name: str, device: str) -> Subject:
    """A model of the preset's shape with random weights."""
    config = replace(PRESETS[name], dropout=0.0, vocab_size=VOCAB_SIZE, max_tokens=max(ROUNDS))
    chosen = choose_device(device)
    module = build_transformer(config, seed=0).eval().to(chosen)
    return Subject(name=name, module=module, device=chosen, sites=module.sites())


def trace_ratios(subject: Subject, n_tokens: int, n_rounds: int) -> tuple[list[float], list[float]]:
    """Traced over plain time of each round, and the plain times in ms; the order alternates."""
    ids = subject.ids(n_tokens)
    return time_ratios(
        lambda: subject.module(ids), lambda: _traced(subject, ids), n_rounds, device=subject.device
    )


def _measure_length(subject: Subject, n_tokens: int, n_rounds: int) -> Measurement:
    ratios, plain_ms = trace_ratios(subject, n_tokens, n_rounds)
    return Measurement(
        name=f"{subject.name}: traced / plain, T = {n_tokens}",
        value=percentile(ratios, 50),
        unit="×",
        target=TARGET_RATIO,
        n_samples=len(ratios),
        note=f"median; plain {percentile(plain_ms, 50):.1f} ms on {subject.device}",
    )


def _measure_kept(subject: Subject) -> list[Measurement]:
    results = []
    for n_tokens in (256, 512, 1024):
        with torch.inference_mode():
            records = _traced(subject, subject.ids(n_tokens)).records
        n_bytes = sum(record.n_bytes for record in records.values())
        n_heads = sum(record.q.shape[0] for record in records.values())
        results.append(
            Measurement(
                name=f"{subject.name}: kept / all weights, T = {n_tokens}",
                value=n_bytes / (4 * n_heads * n_tokens * n_tokens),
                unit="×",
                target=TARGET_KEPT if n_tokens == 512 else None,
                note=f"{n_bytes / 1e6:.1f} MB",
            )
        )
    return results


def _traced(subject: Subject, ids: torch.Tensor) -> TraceProbe:
    probe = TraceProbe(subject.sites, NO_GATES)
    subject.module(ids, probe=probe)
    _ = probe.records
    return probe
