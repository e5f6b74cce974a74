"""What a cache of keys and values saves: the same greedy text written with it and without, in one run.

A decoder of six layers with random weights, so that nothing is downloaded; without a cache every token
reads the whole text again.
"""

import time
from collections.abc import Generator, Sequence

import torch

from attnscope.bench.report import Measurement
from attnscope.models.device import choose_device
from attnscope.models.writing.loop import Draft, write_ids
from attnscope.models.writing.rows import RowProbe
from attnscope.models.writing.writer import OwnWriter, Writer
from attnscope.nn.config import ModelConfig
from attnscope.nn.transformer import Transformer, build_transformer
from attnscope.records.generation import WriteSettings
from attnscope.records.sites import NO_GATES

LENGTHS = (128, 512)
TARGET_RATIO = {128: 0.5, 512: 0.2}
_PREFIX = tuple(range(5, 15))
_SHAPE = ModelConfig(
    form="decoder", vocab_size=2000, d_model=256, n_layers=6, n_heads=8, d_ff=1024, max_tokens=1024,
    position="rotary",
)  # fmt: skip


class _Rereading:
    """Writes one text by reading it from its start for each token."""

    is_incremental = False

    def __init__(self, module: Transformer) -> None:
        self._module = module
        self.max_tokens = module.config.max_tokens
        self._ids: list[int] = []

    def begin(self, source: Sequence[int], prefix: Sequence[int]) -> torch.Tensor:
        """See `Writer`."""
        self._ids = list(prefix)
        return self._read()

    def step(self, ids: Sequence[int], parents: Sequence[int]) -> torch.Tensor:
        """See `Writer`."""
        self._ids += ids
        return self._read()

    @torch.no_grad()
    def _read(self) -> torch.Tensor:
        ids = torch.tensor([self._ids], device=self._module.tokens.weight.device)
        return self._module.logits(self._module.decode(ids)[:, -1]).float()


def measure_writing(device: str = "cpu", lengths: Sequence[int] = LENGTHS) -> tuple[Measurement, ...]:
    """Seconds with a cache over seconds without, and the tokens a second of each way."""
    module = build_transformer(_SHAPE, seed=0).eval().to(choose_device(device))
    results: list[Measurement] = []
    for n_tokens in lengths:
        with_cache, ids = _time(OwnWriter(module), n_tokens)
        recording, _ = _time(OwnWriter(module, RowProbe(module.sites(), NO_GATES)), n_tokens)
        without, same = _time(_Rereading(module), n_tokens)
        note = "" if ids == same else "the texts differ"
        ratio = with_cache / without
        target = TARGET_RATIO.get(n_tokens)
        name = f"write {n_tokens} tokens"
        results.append(
            Measurement(name=f"{name}: with cache / without", value=ratio, unit="×", target=target, note=note)
        )
        for how, seconds in (("with cache", with_cache), ("and recorded", recording), ("without", without)):
            results.append(Measurement(name=f"{name}: {how}", value=n_tokens / seconds, unit="tokens/s"))
    return tuple(results)


def _time(writer: Writer, n_tokens: int) -> tuple[float, list[int]]:
    begin_s = time.perf_counter()
    draft = _drain(write_ids(writer, (), _PREFIX, WriteSettings(max_tokens=n_tokens), None))
    return time.perf_counter() - begin_s, draft.ids


def _drain(steps: Generator[Draft, None, Draft]) -> Draft:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: Draft = stop.value
            return found
