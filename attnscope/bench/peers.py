"""Other ways to get at the attention of the same shapes, timed against the plain pass of the same library.

transformers: `output_attentions`, which gives up fused attention, and AttnScope's own probe in that
library's model. Without transformers there is nothing to measure.
"""

import importlib.util
from typing import Any

import torch

from attnscope.bench.ratios import VOCAB_SIZE, time_ratios
from attnscope.bench.report import Measurement, percentile
from attnscope.models.device import choose_device
from attnscope.records.sites import NO_GATES
from attnscope.trace import TraceProbe

LENGTHS = {16: 15, 64: 10, 256: 5, 512: 4}
"""Rounds for each length."""


def measure_peers(name: str, device: str) -> list[Measurement]:
    """The same shape in transformers; empty when it is not installed."""
    if importlib.util.find_spec("transformers") is None:
        return []
    return _measure_transformers(name, device)


def _ids(n_tokens: int, vocab_size: int, device: torch.device | str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n_tokens)
    return torch.randint(0, vocab_size, (1, n_tokens), generator=generator).to(device)


def _measure_transformers(name: str, device: str) -> list[Measurement]:
    """`output_attentions` and our probe against the library's fused pass."""
    from attnscope.models.huggingface.site_map import attach

    chosen = choose_device(device)
    results: list[Measurement] = []
    eager, fused, entered = (_build(name, way).to(chosen) for way in ("eager", "sdpa", "sdpa"))
    attached = attach(entered)
    for n_tokens, n_rounds in LENGTHS.items():
        ids = _ids(n_tokens, VOCAB_SIZE, chosen)

        def plain(ids: torch.Tensor = ids) -> object:
            return fused(ids)

        def laid_out(ids: torch.Tensor = ids) -> object:
            return eager(ids, output_attentions=True)

        def probed(ids: torch.Tensor = ids) -> object:
            probe = TraceProbe(attached.sites, NO_GATES)
            with attached.probing(probe):
                entered(ids)
            return probe.records

        for words, way in (("output_attentions", laid_out), ("AttnScope's probe", probed)):
            ratios, plain_ms = time_ratios(plain, way, n_rounds, device=chosen)
            results.append(
                Measurement(
                    name=f"{name} of transformers: {words}, T = {n_tokens}",
                    value=percentile(ratios, 50),
                    unit="×",
                    n_samples=len(ratios),
                    note=f"median; plain {percentile(plain_ms, 50):.1f} ms",
                )
            )
    return results


def _build(name: str, attention: str) -> Any:
    transformers: Any = importlib.import_module("transformers")
    if name == "gpt-2":
        config = transformers.GPT2Config(vocab_size=VOCAB_SIZE, n_positions=max(LENGTHS))
        kind = transformers.GPT2LMHeadModel
    else:
        config = transformers.BertConfig(vocab_size=VOCAB_SIZE, max_position_embeddings=max(LENGTHS))
        kind = transformers.BertForMaskedLM
    config._attn_implementation = attention
    return kind(config).eval()
