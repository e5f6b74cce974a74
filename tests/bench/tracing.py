"""What a trace costs: the same forward pass with and without the probe, in turns, within one run.

BERT-base and GPT-2-small shapes with random weights. Beside them the library's own way to get at attention,
where it is installed and at its best: `output_attentions` of transformers gives up fused attention and lays
every weight out; AttnScope's probe, in that library's model, keeps it fused.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from attnscope.nn import PRESETS, Transformer, build_transformer, choose_device
from attnscope.records import NO_GATES, Site
from attnscope.trace import TraceProbe
from bench.ratios import VOCAB_SIZE, time_ratios
from bench.report import Measurement, NotRun, Row, median_of, percentile

LENGTHS = {"bert-base": (16, 256), "gpt-2": (64, 1024)}
PEER_LENGTHS = {"bert-base": 64, "gpt-2": 256}
MAX_TOKENS = 1024
N_ROUNDS, N_PEER_ROUNDS, WITHIN_S = 40, 10, 4.0
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
        return random_ids(n_tokens, self.device)


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
        target=TARGET_RATIO,
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


def measure_peer(name: str, device: str) -> Row:
    """The same shape in transformers, where it is installed."""
    n_tokens = PEER_LENGTHS[name]
    told = f"{name} of transformers: AttnScope's probe / output_attentions, T = {n_tokens}"
    if importlib.util.find_spec("transformers") is None:
        return NotRun(name=told, reason="transformers is not installed")
    from attnscope.models.huggingface import attach

    chosen = choose_device(device)
    eager, entered = (_build(name, way).to(chosen) for way in ("eager", "sdpa"))
    attached = attach(entered)
    ids = random_ids(n_tokens, chosen)

    def probed() -> object:
        probe = TraceProbe(attached.sites, NO_GATES)
        with attached.probing(probe):
            entered(ids)
        return probe.records

    ratios, laid_out_ms = time_ratios(
        lambda: eager(ids, output_attentions=True),
        probed,
        N_PEER_ROUNDS,
        device=chosen,
        within_s=WITHIN_S,
        target=TARGET_RATIO,
    )
    note = f"output_attentions {percentile(laid_out_ms, 50):.1f} ms"
    return median_of(told, ratios, "×", target=TARGET_RATIO, note=note)


def random_ids(n_tokens: int, device: torch.device) -> torch.Tensor:
    """One text of random tokens."""
    generator = torch.Generator().manual_seed(n_tokens)
    return torch.randint(0, VOCAB_SIZE, (1, n_tokens), generator=generator).to(device)


def _build(name: str, attention: str) -> Any:
    transformers: Any = importlib.import_module("transformers")
    longest = max(PEER_LENGTHS.values())
    if name == "gpt-2":
        config = transformers.GPT2Config(
            vocab_size=VOCAB_SIZE,
            n_positions=longest,
            bos_token_id=None,
            eos_token_id=None,
        )
        kind = transformers.GPT2LMHeadModel
    else:
        config = transformers.BertConfig(vocab_size=VOCAB_SIZE, max_position_embeddings=longest)
        kind = transformers.BertForMaskedLM
    config._attn_implementation = attention
    return kind(config).eval()
