"""What a trace costs: the same forward pass with and without the probe, in turns, within one run.

BERT-base and GPT-2-small shapes with random weights; beside them the library's own way to get at attention,
where it is installed (`bench/peers.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from attnscope.models.device import choose_device
from attnscope.nn.presets import PRESETS
from attnscope.nn.transformer import Transformer, build_transformer
from attnscope.records.sites import NO_GATES, Site
from attnscope.trace import TraceProbe
from bench.peers import measure_peer
from bench.ratios import VOCAB_SIZE, time_ratios
from bench.report import Measurement, Row, median_of, percentile

LENGTHS = {"bert-base": (16, 256), "gpt-2": (64, 1024)}
MAX_TOKENS = 1024
N_ROUNDS, WITHIN_S = 40, 4.0
TARGET_RATIO = 1.05


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


def measure_tracing(device: str = "cpu") -> Iterator[Row]:
    """Traced / plain time of short and long texts, and beside another way of getting at attention."""
    for name, lengths in LENGTHS.items():
        subject = build_subject(name, device)
        for n_tokens in lengths:
            yield _measure_length(subject, n_tokens)
        del subject
        yield measure_peer(name, device)


def build_subject(name: str, device: str) -> Subject:
    """A model of the preset's shape with random weights."""
    config = replace(PRESETS[name], dropout=0.0, vocab_size=VOCAB_SIZE, max_tokens=MAX_TOKENS)
    chosen = choose_device(device)
    module = build_transformer(config, seed=0).eval().to(chosen)
    return Subject(name=name, module=module, device=chosen, sites=module.sites())


def trace_ratios(subject: Subject, n_tokens: int, n_rounds: int) -> tuple[list[float], list[float]]:
    """Traced over plain time of each round, and the plain times in ms; the order alternates."""
    ids = subject.ids(n_tokens)
    return time_ratios(
        lambda: subject.module(ids),
        lambda: _traced(subject, ids),
        n_rounds,
        device=subject.device,
        within_s=WITHIN_S,
    )


def _measure_length(subject: Subject, n_tokens: int) -> Measurement:
    ratios, plain_ms = trace_ratios(subject, n_tokens, N_ROUNDS)
    return median_of(
        f"{subject.name}: traced / plain, T = {n_tokens}",
        ratios,
        "×",
        target=TARGET_RATIO,
        note=f"plain {percentile(plain_ms, 50):.1f} ms on {subject.device}",
    )


def _traced(subject: Subject, ids: torch.Tensor) -> TraceProbe:
    probe = TraceProbe(subject.sites, NO_GATES)
    subject.module(ids, probe=probe)
    _ = probe.records
    return probe
