"""Another way to get at the attention of the same shapes: the library's own, at its best.

`output_attentions` of transformers gives up fused attention and lays every weight out; AttnScope's probe, in
that library's model, keeps it fused. Both are timed in turns.
"""

import importlib.util
from typing import Any

import torch

from attnscope.models.device import choose_device
from attnscope.records.sites import NO_GATES
from attnscope.trace import TraceProbe
from bench.ratios import VOCAB_SIZE, time_ratios
from bench.report import NotRun, Row, median_of, percentile

LENGTHS = {"bert-base": 64, "gpt-2": 256}
N_ROUNDS, WITHIN_S = 10, 4.0
TARGET_RATIO = 1.05


def measure_peer(name: str, device: str) -> Row:
    """The same shape in transformers, where it is installed."""
    n_tokens = LENGTHS[name]
    told = f"{name} of transformers: AttnScope's probe / output_attentions, T = {n_tokens}"
    if importlib.util.find_spec("transformers") is None:
        return NotRun(name=told, reason="transformers is not installed")
    from attnscope.models.huggingface.site_map import attach

    chosen = choose_device(device)
    eager, entered = (_build(name, way).to(chosen) for way in ("eager", "sdpa"))
    attached = attach(entered)
    ids = _ids(n_tokens, VOCAB_SIZE, chosen)

    def probed() -> object:
        probe = TraceProbe(attached.sites, NO_GATES)
        with attached.probing(probe):
            entered(ids)
        return probe.records

    ratios, laid_out_ms = time_ratios(
        lambda: eager(ids, output_attentions=True), probed, N_ROUNDS, device=chosen, within_s=WITHIN_S
    )
    note = f"output_attentions {percentile(laid_out_ms, 50):.1f} ms"
    return median_of(told, ratios, "×", target=TARGET_RATIO, note=note)


def _ids(n_tokens: int, vocab_size: int, device: torch.device | str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n_tokens)
    return torch.randint(0, vocab_size, (1, n_tokens), generator=generator).to(device)


def _build(name: str, attention: str) -> Any:
    transformers: Any = importlib.import_module("transformers")
    if name == "gpt-2":
        config = transformers.GPT2Config(
            vocab_size=VOCAB_SIZE, n_positions=max(LENGTHS.values()), bos_token_id=None, eos_token_id=None
        )
        kind = transformers.GPT2LMHeadModel
    else:
        config = transformers.BertConfig(vocab_size=VOCAB_SIZE, max_position_embeddings=max(LENGTHS.values()))
        kind = transformers.BertForMaskedLM
    config._attn_implementation = attention
    return kind(config).eval()
