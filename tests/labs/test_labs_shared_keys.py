"""Heads and their keys: counts against a slow count, and against the engine's own models."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from attnscope.labs import LABS
from attnscope.nn import ModelConfig, Transformer, count_parameters

LAB = LABS["Heads and their keys"]

HEADS = LAB.charts(LAB.resolve(LAB.example))[0].series[0].xs.astype(int).tolist()
"""How many heads there may be."""
SMALL = [(d, h, g, n) for d, h, g, n in product((8, 16), (1, 2, 4, 8), (1, 2, 4, 8), (1, 3)) if g <= h]


def cost_of(d: int, h: int, g: int, n: int):
    """What the lab tells of a token that reads n, with g heads of keys for h."""
    return LAB.resolve(replace(LAB.example, d_model=d, n_heads=h, n_kv_heads=g, n_tokens=n)).cost


@pytest.mark.parametrize(("d", "h", "g", "n"), SMALL)
def test_that_the_counts_are_those_of_doing_it(d: int, h: int, g: int, n: int) -> None:
    width, counted = d // h, {"projections": 0, "mixing": 0, "exponentials": 0}
    for n_out in (d, g * width, g * width, d):  # queries, keys, values, output
        counted["projections"] += sum(1 for _ in range(n_out) for _ in range(d))
    for _ in range(h):
        for _ in range(n):
            counted["mixing"] += 2 * width
            counted["exponentials"] += 1
    cost = cost_of(d, h, g, n)
    assert {name: getattr(cost, name) for name in counted} == counted
    assert cost.cache == sum(2 for _ in range(n) for _ in range(2) for _ in range(g * width))


@pytest.mark.parametrize(("h", "g"), [(h, g) for h in (1, 2, 4, 8) for g in (1, 2, 4, 8) if g <= h])
def test_that_the_projections_are_those_of_a_model(h: int, g: int) -> None:
    config = ModelConfig(
        form="decoder", vocab_size=7, d_model=64, n_layers=1, n_heads=h, n_kv_heads=g, d_ff=8, max_tokens=8,
        bias=False, position="none",
    )  # fmt: skip
    model = Transformer(config)
    assert sum(p.numel() for p in model.parameters()) == count_parameters(config).total
    attention = sum(p.numel() for name, p in model.named_parameters() if "attention" in name and p.ndim == 2)
    assert cost_of(64, h, g, 5).projections == attention


@pytest.mark.parametrize(("h", "g"), list(product(HEADS, HEADS)))
def test_that_every_head_reads_one_of_the_keys_and_all_keys_are_read_as_often(h: int, g: int) -> None:
    shown = LAB.resolve(replace(LAB.example, n_heads=h, n_kv_heads=g))
    g = min(g, h)
    assert shown.readers.shape == (h, g)
    assert np.array_equal(shown.readers.sum(axis=1), np.ones(h))
    assert np.array_equal(shown.readers.sum(axis=0), np.full(g, h / g))
    assert shown.whole.multiplications == shown.one.multiplications
    assert shown.whole.cache == shown.cost.cache * h // g
    work, cache = LAB.charts(shown)
    at = HEADS.index(h)
    assert [series.ys[at] for series in work.series] == [
        shown.whole.multiplications,
        shown.whole.exponentials,
    ]
    assert cache.series[0].ys[HEADS.index(g)] == pytest.approx(shown.cost.cache / 1e6)
