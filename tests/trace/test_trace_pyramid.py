"""Pooling and pyramids of long maps against all weights at once; properties of parts and wholes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from long_records import KINDS, long_record

from attnscope.records import HeadRef, Site, SiteGrid
from attnscope.trace import (
    FoundEdges,
    OneHead,
    PyramidLevel,
    build_pyramid,
    build_thumbnail,
    bytes_of,
    finest_block,
    grids_of_logs,
    pool_strip,
    sample_blocks,
    sample_thumbnail,
    sampled_grid,
    site_grid,
    site_weights,
    size_of,
    strongest_edges,
    thumbnail_of,
    tile_of,
)

pytestmark = pytest.mark.slow

SIZES = ((75, 75), (40, 90), (90, 40))


def brute_pool(weights: torch.Tensor, b: int) -> torch.Tensor:
    n_rows, n_cols = (-(-n // b) for n in weights.shape)
    found = torch.full((n_rows, n_cols), math.nan)
    for i in range(n_rows):
        for j in range(n_cols):
            block = weights[i * b : (i + 1) * b, j * b : (j + 1) * b]
            block = block[~block.isnan()]
            if len(block):
                found[i, j] = block.max()
    return found


def assert_same(found: torch.Tensor, expected: torch.Tensor, *, atol: float = 5e-6) -> None:
    assert torch.equal(found.isnan(), expected.isnan())
    difference = (found - expected).nan_to_num(0.0).abs()
    assert float(difference.max()) <= atol, f"max {difference.max():.3g}, mean {difference.mean():.3g}"


def levels_of(head: OneHead) -> list[PyramidLevel]:
    return [step for step in build_pyramid(head) if isinstance(step, PyramidLevel)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_that_pooled_strips_equal_pooled_weights(kind: str, size: tuple[int, int]) -> None:
    record = long_record(kind, *size)
    for head in range(2):
        weights = site_weights(record, slice(head, head + 1))[0]
        one = OneHead(record, head)
        for b in (1, 4, 7):
            pooled = pool_strip(one, range(size[0]), range(size[1]), b)
            assert_same(pooled.weights(), brute_pool(weights, b))
        peaks = weights.nan_to_num(0.0).amax(dim=1)
        assert_same(pooled.row_peaks.exp(), peaks)


@given(data=st.data(), kind=st.sampled_from(KINDS), b=st.sampled_from((1, 2, 4, 8)))
@settings(max_examples=60, deadline=None)
def test_that_a_part_of_the_map_is_a_part_of_the_whole(data: st.DataObject, kind: str, b: int) -> None:
    record = long_record(kind, 64, 50)
    one = OneHead(record, 1)
    first_row, first_col = (b * data.draw(st.integers(0, n // b - 1)) for n in (64, 50))
    n_rows = data.draw(st.integers(1, (64 - first_row) // b)) * b
    n_cols = data.draw(st.integers(1, (50 - first_col) // b)) * b
    rows, cols = range(first_row, first_row + n_rows), range(first_col, first_col + n_cols)
    whole = pool_strip(one, range(64), range(50), b).weights()
    part = pool_strip(one, rows, cols, b).weights()
    place = slice(first_row // b, (first_row + n_rows) // b), slice(first_col // b, (first_col + n_cols) // b)
    assert_same(part, whole[place])
    exact = one.exponents(slice(rows.start, rows.stop), slice(cols.start, cols.stop))
    assert_same(torch.where(exact.isneginf(), math.nan, exact.exp()), site_weights(record)[1][rows][:, cols])


@pytest.mark.parametrize("kind", KINDS)
def test_that_every_level_of_a_pyramid_holds_the_pooled_bytes(kind: str) -> None:
    record = long_record(kind, 300, 280)
    weights = site_weights(record, slice(0, 1))[0]
    levels = levels_of(OneHead(record, 0))
    assert [level.b for level in levels] == [8]
    for level in levels:
        expected = brute_pool(weights, level.b)
        peak = float(expected.nan_to_num(0.0).max())
        assert level.peak == pytest.approx(peak, rel=1e-5)
        difference = level.levels.int() - bytes_of(expected, peak).int()
        assert int(difference.abs().max()) <= 1, "more than one rounding apart"
        assert torch.equal(level.levels == 0, expected.isnan())
        assert_same(level.row_peaks, weights.nan_to_num(0.0).amax(dim=1), atol=1e-5)


def test_that_coarser_levels_are_pooled_from_the_same_weights() -> None:
    record = long_record("padding", 700, 650, n_heads=1)
    weights = site_weights(record)[0]
    levels = levels_of(OneHead(record, 0))
    assert [level.b for level in levels] == [8, 16]
    for level in levels:
        expected = bytes_of(brute_pool(weights, level.b), level.peak)
        assert int((level.levels.int() - expected.int()).abs().max()) <= 1


def test_that_work_is_told_until_the_levels_come() -> None:
    record = long_record("causal", 700, 700, n_heads=1)
    steps = list(build_pyramid(OneHead(record, 0)))
    fractions = [step for step in steps if not isinstance(step, PyramidLevel)]
    assert fractions == sorted(fractions)
    assert fractions[0] < 0.5
    assert isinstance(steps[-1], PyramidLevel)


def test_that_longer_texts_get_larger_blocks() -> None:
    assert [finest_block(n, n) for n in (1, 32_768, 32_769, 1_000_000)] == [8, 8, 16, 256]


@pytest.mark.parametrize("kind", KINDS)
def test_that_a_sampled_block_never_exceeds_the_largest_of_its_cells(kind: str) -> None:
    record = long_record(kind, 96, 80)
    one = OneHead(record, 0)
    weights = site_weights(record, slice(0, 1))[0].nan_to_num(0.0)
    for b, n in ((8, 1), (8, 2), (4, 3)):
        sampled = sample_blocks(one, range(96), range(80), b, n)
        pooled = brute_pool(weights, b)
        assert sampled.shape == pooled.shape
        if kind != "removed":
            assert bool((sampled.nan_to_num(0.0) <= pooled + 1e-6).all())
    assert_same(
        sample_blocks(one, range(96), range(80), 1), site_weights(record)[0]
    ) if kind != "removed" else None


def test_that_a_sampled_block_shows_its_first_cell() -> None:
    record = long_record("causal", 64, 64)
    sampled = sample_blocks(OneHead(record, 0), range(64), range(64), 8)
    assert_same(sampled, site_weights(record)[0, ::8, ::8])


@pytest.mark.parametrize("kind", ["causal", "window", "relative bias"])
def test_that_thumbnails_hold_the_largest_weights(kind: str) -> None:
    record = long_record(kind, 240, 200)
    one = OneHead(record, 1)
    weights = site_weights(record)[1]
    *working, exact = build_thumbnail(one, 20)
    assert exact is not None
    assert all(step is None for step in working)
    by_8 = brute_pool(weights, 8).nan_to_num(nan=-math.inf)
    expected = torch.nn.functional.adaptive_max_pool2d(by_8[None], 20)[0]
    assert_same(exact, torch.where(expected.isneginf(), math.nan, expected))
    from_level = thumbnail_of(levels_of(one)[0], 20)
    assert_same(from_level, exact, atol=float(exact.nan_to_num(0).max()) / 254)
    rough = sample_thumbnail(one, 20)
    assert rough.shape == (20, 20)
    assert float(rough.nan_to_num(0.0).max()) <= float(exact.nan_to_num(0.0).max()) + 1e-6


def test_that_a_map_without_weights_has_empty_bytes() -> None:
    record = long_record("causal", 20, 10)  # the first ten queries see no key
    level = levels_of(OneHead(record, 0))[0]
    assert level.levels.shape == (3, 2)
    assert int(level.levels[0].max()) == 0
    blank = long_record("open", 8, 8)
    blank.q.fill_(math.nan)
    broken = levels_of(OneHead(blank, 0))[0]
    assert broken.peak == 0.0
    assert int(broken.levels.max()) == 0
    half = long_record("open", 16, 16)
    half.q[:, 3].fill_(math.nan)
    mended = levels_of(OneHead(half, 0))[0]
    assert mended.peak == pytest.approx(float(site_weights(half)[0, 8:].max()))


@pytest.mark.parametrize(("size", "max_px", "b"), [((75, 40), 75, 1), ((75, 40), 74, 2), ((40, 75), 18, 8)])
@pytest.mark.parametrize("kind", ["causal", "padding", "removed"])
def test_that_one_tile_holds_a_part_in_the_smallest_blocks_that_fit(
    kind: str, size: tuple[int, int], max_px: int, b: int
) -> None:
    record, head = long_record(kind, *size), HeadRef(stack="decoder", layer=0, head=1)
    whole = tile_of(record, head, max_px=max_px)
    assert (whole.b, whole.rows, whole.cols) == (b, (0, size[0]), (0, size[1]))
    part = tile_of(record, head, rows=(3, 30), cols=(5, 29), max_px=13)
    assert part.b == 4  # 27 rows, 24 columns: 2 would do for the columns alone
    for tile in (whole, part):
        weights = site_weights(record)[1][slice(*tile.rows), slice(*tile.cols)]
        blocks = brute_pool(weights, tile.b)
        peak = float(blocks.nan_to_num(0.0).max())
        assert tile.peak == tile.head_peak == pytest.approx(peak)
        levels = torch.where(blocks.isnan(), 0.0, (1 + 254 * blocks / peak).round())
        assert (torch.from_numpy(tile.levels.astype(np.float32)) - levels).abs().max() <= 1
        assert ((tile.levels == 0) == blocks.isnan().numpy()).all()
        peaks = brute_pool(weights.nan_to_num(0.0), tile.b).amax(dim=1)
        assert_same(torch.tensor(tile.row_peaks), peaks)
        assert (tile.weights is None) == (tile.b > 1)
        if tile.weights is not None:
            assert_same(torch.tensor(tile.weights), weights)


@pytest.mark.parametrize("kind", KINDS)
def test_that_the_strongest_edges_are_found(kind: str) -> None:
    record = long_record(kind, 70, 60)
    weights = torch.stack([site_weights(record)[h] for h in range(2)])
    *done, edges = strongest_edges([OneHead(record, h) for h in range(2)], 50)
    assert done == [0.5, 1.0]
    assert isinstance(edges, FoundEdges)
    expected = weights.nan_to_num(0.0).flatten().topk(50).values.flip(0)
    expected = expected[expected >= 0.01]
    assert_same(edges.weights, expected)
    assert_same(edges.weights, weights[edges.heads, edges.queries, edges.keys])
    assert edges.n_all == int((~weights.isnan()).sum())
    rows = int((~weights.isnan()).any(dim=2).sum())
    assert edges.hidden == pytest.approx(1 - float(expected.sum()) / rows, abs=1e-5)


RAGGED = ((3, 90), (90, 3), (16, 200), (200, 16), (21, 161), (161, 21), (1, 50), (50, 1), (19, 19), (0, 30))


@pytest.mark.parametrize(("n_queries", "n_keys"), RAGGED)
def test_that_rough_and_exact_thumbnails_have_one_shape_however_ragged(n_queries: int, n_keys: int) -> None:
    record, px = long_record("open", max(n_queries, 1), n_keys), 20
    record = replace(record, q=record.q[:, :n_queries], lse=record.lse[:, :n_queries])
    one = OneHead(record, 0)
    *_, exact = build_thumbnail(one, px)
    assert exact is not None
    size = min(n_queries, px), min(n_keys, px)
    assert exact.shape == sample_thumbnail(one, px).shape == size_of(one, px) == size
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    assert site_grid(site, record, px).levels.shape == sampled_grid(site, record, px).levels.shape
    assert site_grid(site, record, px).levels.shape == (2, *size)
    if not n_queries:
        return
    weights = site_weights(record)[0].double()
    b = next(b for b in (8, 4, 2, 1) if -(-n_queries // b) >= size[0] and -(-n_keys // b) >= size[1])
    for i, j in np.ndindex(*size):
        rows, cols = (_touched(k, n, m, b) for k, n, m in ((i, n_queries, size[0]), (j, n_keys, size[1])))
        assert float(exact[i, j]) == pytest.approx(float(weights[rows, cols].max()), abs=5e-6)


def _touched(pixel: int, n: int, n_pixels: int, b: int) -> slice:
    """The queries or keys of every block that a pixel touches."""
    n_blocks = math.ceil(n / b)
    first, last = math.floor(pixel * n_blocks / n_pixels), math.ceil((pixel + 1) * n_blocks / n_pixels)
    return slice(first * b, last * b)


@pytest.mark.parametrize(("n_queries", "n_keys"), [*SIZES, *RAGGED[:-1], (50, 4_100)])
@pytest.mark.parametrize("kind", KINDS)
def test_that_thumbnails_hold_the_largest_weight_of_each_part(kind: str, n_queries: int, n_keys: int) -> None:
    record, px = long_record(kind, n_queries, n_keys), 17
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    weights = site_weights(record).nan_to_num(-1.0)  # [n_heads, n_queries, n_keys]
    height, width = min(n_queries, px), min(n_keys, px)
    expected = torch.zeros(2, height, width)
    for i in range(height):
        for j in range(width):
            rows = slice(i * n_queries // height, -(-(i + 1) * n_queries // height))
            cols = slice(j * n_keys // width, -(-(j + 1) * n_keys // width))
            expected[:, i, j] = weights[:, rows, cols].amax(dim=(1, 2))
    logs = weights.where(weights >= 0, 0.0).log().clamp(min=-200.0).masked_fill(weights < 0, -math.inf)
    for grid in (site_grid(site, record, px), one_grid_of_logs(site, logs, px)):
        shown = torch.from_numpy(grid.levels.astype(np.float32))
        peaks = torch.from_numpy(grid.peaks.copy())[:, None, None]
        assert torch.equal(shown > 0, expected >= 0)
        found = (shown - 1.0) / 254.0 * peaks
        assert float((found - expected).where(expected >= 0, 0.0).abs().max()) <= 0.003 * float(peaks.max())


def one_grid_of_logs(site: Site, logs: torch.Tensor, px: int) -> SiteGrid:
    return grids_of_logs((site,), *logs.shape[1:], logs, px)[site.key]


@pytest.mark.parametrize("n_tokens", [40, 700])
def test_that_what_is_no_number_takes_no_neighbour_along(n_tokens: int) -> None:
    record = long_record("causal", n_tokens, n_tokens)
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    logs = site_weights(record).log().nan_to_num(nan=-math.inf)
    logs[0, 7, 3], logs[1, 9, 0] = math.nan, math.inf
    weights = logs.exp()
    sound = one_grid_of_logs(site, logs.masked_fill(~weights.isfinite(), -math.inf), 10)
    found = one_grid_of_logs(site, logs, 10)
    np.testing.assert_array_equal(found.levels, sound.levels)
    np.testing.assert_array_equal(found.peaks, sound.peaks)
