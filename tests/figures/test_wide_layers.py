"""A layer of very many heads takes several lines, so that its thumbnails are no specks."""

import itertools

import numpy as np
import pytest
from PySide6.QtCore import QRectF

from attnscope.figures import grid_layout, natural_grid_height
from attnscope.records import Site, SiteGrid

WIDTH_PX = 600.0


def _grids(n_layers: int, n_heads: int) -> tuple[SiteGrid, ...]:
    levels = np.full((n_heads, 6, 6), 20, dtype=np.uint8)
    sites = [Site(stack="encoder", layer=k, n_heads=n_heads, n_kv_heads=n_heads) for k in range(n_layers)]
    return tuple(
        SiteGrid(site=site, n_queries=6, n_keys=6, levels=levels, peaks=np.ones(n_heads)) for site in sites
    )


@pytest.mark.parametrize(
    ("n_layers", "n_heads", "n_lines"),
    [(1, 144, 8), (2, 32, 2), (12, 12, 1), (2, 8, 1), (1, 1, 1), (1, 97, 1), (3, 96, 8)],
)
def test_that_a_page_has_lines_in_which_heads_can_be_seen(n_layers: int, n_heads: int, n_lines: int) -> None:
    grids = _grids(n_layers, n_heads)
    height = natural_grid_height(WIDTH_PX, grids)
    layout = grid_layout(QRectF(0, 0, WIDTH_PX, height), grids)
    assert layout.n_lines == n_lines
    boxes = [layout.box(row, k) for row, heads in enumerate(layout.rows) for k in range(len(heads))]
    assert len(boxes) == n_layers * n_heads
    assert max(box.right() for box in boxes) <= WIDTH_PX
    assert height - 30 <= max(box.bottom() for box in boxes) <= height  # whole, and nothing white below
    assert boxes[0].width() >= 24 or n_heads == 97  # which no number of lines divides
    assert not any(a.intersects(b) for a, b in itertools.pairwise(boxes))


def test_that_every_head_is_found_where_its_thumbnail_is() -> None:
    grids = _grids(1, 144)
    layout = grid_layout(QRectF(0, 0, WIDTH_PX, natural_grid_height(WIDTH_PX, grids)), grids)
    for row, heads in enumerate(layout.rows):
        for column, head in enumerate(heads):
            assert layout.hit(layout.box(row, column).center()) == head
