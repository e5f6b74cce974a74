"""Long texts: tiles and pyramids of one head, and a window on 32,768 tokens."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from attnscope.counting import plural
from attnscope.nn import MaskRule, attend
from attnscope.records import NO_GATES, HeadRef, MapTile, Site
from attnscope.trace import OneHead, SiteRecord, TraceProbe, build_pyramid
from attnscope.workers import HeadTiles
from bench.child import told_by
from bench.long_model import N_TOKENS, long_files
from bench.long_window import measure_long_window
from bench.report import Doing, Measurement, NotRun, Row, Rows, median_of, worst_of
from bench.resident import UNTOLD
from bench.window import window_threads

LENGTHS = (8_192, N_TOKENS)
D_HEAD = 64
TILE_PX = 800
N_TILES = 40
FIRST_MS, TILE_MS, WHOLE_S, STEP_MS, MEMORY_MB = 100.0, 16.0, 2.0, 50.0, 800.0
_SITE = Site(stack="decoder", layer=0, n_heads=1, n_kv_heads=1)
_HEAD = HeadRef(stack="decoder", layer=0, head=0)


def measure_tiles(device: str = "cpu") -> Rows:
    """Everything that is promised of long texts."""
    with window_threads():
        for n_tokens in LENGTHS:
            yield from head_measurements(make_record(n_tokens, torch.device(device)))
    yield Doing("a window on 32,768 tokens")
    yield from measure_long_window()
    yield Doing("memory of long texts")
    yield measure_long_memory()


def make_record(n_tokens: int, device: torch.device) -> SiteRecord:
    """One causal head of random queries and keys; the same numbers every time."""
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, n_tokens, D_HEAD, generator=random).to(device) * 1.5 for _ in range(2))
    probe = TraceProbe((_SITE,), NO_GATES)
    rule, scale = MaskRule(is_causal=True), D_HEAD**-0.5
    attend(q[None], k[None], q[None], rule=rule, score=scale, site=_SITE.key, probe=probe)
    return probe.records[_SITE.key]


def head_measurements(record: SiteRecord) -> Iterator[Measurement]:
    """Times of the tiles of one head: at full zoom, the first picture of all, all of it exactly."""
    n = record.n_queries
    note = f"d_head {D_HEAD}, causal, {plural(torch.get_num_threads(), 'thread')}"
    tiles = HeadTiles(_HEAD, 0, OneHead(record, 0))
    full = [_ms(partial(_last, tiles, *_corner(n, index), 1)) for index in range(N_TILES + 3)][3:]
    yield worst_of(f"exact {TILE_PX}×{TILE_PX} tile, T = {n:,}", full, "ms", target=TILE_MS, note=note)
    first = [_ms(partial(_first_picture, record)) for _ in range(3)]
    yield median_of(f"first picture of all, T = {n:,}", first, "ms", target=FIRST_MS)
    steps_ms, begin_s = [], time.perf_counter()
    last_s = begin_s
    for _ in build_pyramid(OneHead(record, 0)):
        now_s = time.perf_counter()
        steps_ms.append((now_s - last_s) * 1e3)
        last_s = now_s
    yield Measurement(name=f"whole map pooled, T = {n:,}", value=last_s - begin_s, unit="s", target=WHOLE_S)
    yield Measurement(name=f"longest step of that, T = {n:,}", value=max(steps_ms), unit="ms", target=STEP_MS)


def _first_picture(record: SiteRecord) -> MapTile | None:
    n = record.n_queries
    return next(HeadTiles(_HEAD, 0, OneHead(record, 0)).tile((0, n), (0, n), max(1, n // 512)))


def measure_long_memory() -> Row:
    """Most memory that a process of its own takes to open, trace, draw and measure a long text."""
    name = "a long text traced, drawn, every row measured: memory"
    with long_files(n_layers=1) as (model, text):
        seen = told_by("bench.long_memory", str(model), str(text), has_window=True)
    if not seen["peak_bytes"]:
        return NotRun(name=name, reason=UNTOLD)
    note = f"{seen['n_tokens']:,} tokens, {seen['seconds']:.0f} s"
    return Measurement(name=name, value=seen["peak_bytes"] / 1e6, unit="MB", target=MEMORY_MB, note=note)


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
