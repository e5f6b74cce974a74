"""Long texts: tiles and pyramids of one head, and a window on 32,768 tokens."""

import time
from collections.abc import Callable

import torch

from attnscope.bench.child import told_by
from attnscope.bench.long_model import N_TOKENS, long_files
from attnscope.bench.long_window import FIRST_MS, measure_long_window
from attnscope.bench.report import Measurement, spread
from attnscope.nn.attention import row_lse
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import ScoreRule
from attnscope.records.sites import HeadRef
from attnscope.records.tiles import MapTile
from attnscope.trace.check import SiteProof
from attnscope.trace.pooling import OneHead
from attnscope.trace.pyramid import build_pyramid
from attnscope.trace.record import SiteRecord
from attnscope.workers.head_tiles import HeadTiles

LENGTHS = (2_048, 8_192, N_TOKENS)
D_HEAD = 64
TILE_PX = 800
N_TILES = 40
TILE_MS, WHOLE_S, STEP_MS = 16.0, 2.0, 50.0
_HEAD = HeadRef(stack="decoder", layer=0, head=0)


def measure_tiles(device: str = "cpu") -> tuple[Measurement, ...]:
    """Everything that is promised of long texts."""
    results: list[Measurement] = []
    for n_tokens in LENGTHS:
        results += head_measurements(make_record(n_tokens, torch.device(device)))
    results += measure_long_window()
    results.append(memory_of("a tiny model", is_past_trained=False))
    results.append(memory_of("shakespeare, past its 128 trained positions", is_past_trained=True))
    return tuple(results)


def make_record(n_tokens: int, device: torch.device) -> SiteRecord:
    """One causal head of random queries and keys; the same numbers every time."""
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, n_tokens, D_HEAD, generator=random).to(device) * 1.5 for _ in range(2))
    rule, score = MaskRule(is_causal=True), ScoreRule(scale=D_HEAD**-0.5)
    lse = row_lse(q[None], k[None], rule=rule, score=score)[0]
    proof = SiteProof(
        row_sum_error=0.0, forbidden_weight=0.0, output_error=0.0, n_rows=0, n_queries=0, is_training=False
    )
    return SiteRecord(q=q, k=k, lse=lse, rule=rule, score=score, proof=proof)


def head_measurements(record: SiteRecord) -> list[Measurement]:
    """Times of the tiles of one head: at full zoom, the first picture of all, all of it exactly."""
    n = record.n_queries
    note = f"T = {n:,}, d_head {D_HEAD}, causal, {torch.get_num_threads()} thread"
    tiles = HeadTiles(_HEAD, 0, OneHead(record, 0))
    full = [
        _ms(lambda index=index: _last(tiles, *_corner(n, index), 1))  # type: ignore[misc]
        for index in range(N_TILES + 3)
    ][3:]
    first = _ms(lambda: next(HeadTiles(_HEAD, 0, OneHead(record, 0)).tile((0, n), (0, n), max(1, n // 512))))
    steps_ms, begin_s = [], time.perf_counter()
    last_s = begin_s
    for _ in build_pyramid(OneHead(record, 0)):
        now_s = time.perf_counter()
        steps_ms.append((now_s - last_s) * 1e3)
        last_s = now_s
    whole_s = last_s - begin_s
    return [
        *spread(f"exact {TILE_PX}×{TILE_PX} tile, T = {n:,}", full, "ms", targets={95: TILE_MS}, note=note),
        Measurement(
            name=f"first picture of all, T = {n:,}", value=first, unit="ms", target=FIRST_MS, note=note
        ),
        Measurement(name=f"whole map pooled, T = {n:,}", value=whole_s, unit="s", target=WHOLE_S, note=note),
        Measurement(
            name=f"longest step of that, T = {n:,}", value=max(steps_ms), unit="ms", target=STEP_MS, note=note
        ),
    ]


def memory_of(what: str, *, is_past_trained: bool) -> Measurement:
    """Most memory that a process of its own takes to open, trace, measure and draw a long text."""
    with long_files() as (model, text):
        source = "shakespeare" if is_past_trained else str(model)
        seen = told_by("attnscope.bench.long_memory", source, str(text))
    note = f"{seen['n_tokens']:,} tokens, {seen['seconds']:.1f} s; {seen['before_mb']:.0f} MB before the text"
    return Measurement(name=f"peak memory, {what}", value=seen["peak_mb"], unit="MB", note=note)


def _corner(n: int, index: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns of a tile on or under the diagonal, another one each time."""
    spare = max(1, n - TILE_PX)
    row = (index * 7919) % spare
    col = (index * 104_729) % max(1, row + 1)
    return (row, row + TILE_PX), (col, col + TILE_PX)


def _last(tiles: HeadTiles, rows: tuple[int, int], cols: tuple[int, int], b: int) -> MapTile | None:
    newest = None
    for tile in tiles.tile(rows, cols, b):
        newest = tile or newest
    return newest


def _ms(work: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    work()
    return (time.perf_counter() - begin_s) * 1e3
