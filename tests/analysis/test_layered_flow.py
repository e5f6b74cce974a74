"""Maximum flow through dense layers against an independent library, on random graphs of every shape."""

import networkx
import numpy as np
import pytest
import torch

from attnscope.analysis import Pipes, StreamLevel, flow_values, flows_to, maximum_flow
from attnscope.errors import Stopped
from attnscope.nn import stoppable
from attnscope.records import Token

_UNITS = 10**9


def random_blocks(seed: int, n: int, n_layers: int, *, is_causal: bool = False) -> list[Pipes]:
    """½ softmax + ½ I from layer to layer; some rows look at one key almost alone."""
    chance = np.random.default_rng(seed)
    blocks = []
    for layer in range(n_layers):
        scores = chance.normal(size=(n, n)) * chance.choice([0.5, 6.0], size=(n, 1))
        if is_causal:
            scores[np.triu_indices(n, 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        blocks.append(Pipes(layer + 1, layer, 0.5 * weights + 0.5 * np.eye(n)))
    return blocks


def slow_flow(blocks: list[Pipes], source: tuple[int, int], sink: tuple[int, int]) -> float:
    """By networkx, in whole billionths."""
    graph = networkx.DiGraph()
    graph.add_nodes_from((source, sink))
    for block in blocks:
        for i, j in zip(*np.nonzero(block.capacity), strict=True):
            capacity = round(block.capacity[i, j] * _UNITS)
            graph.add_edge((block.upper, int(i)), (block.lower, int(j)), capacity=capacity)
    return float(networkx.maximum_flow_value(graph, source, sink)) / _UNITS


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_layers", "is_causal"), [(6, 1, False), (7, 5, False), (8, 4, True)])
def test_that_every_flow_is_the_maximum(n: int, n_layers: int, is_causal: bool) -> None:
    for seed in range(3):
        blocks = random_blocks(seed, n, n_layers, is_causal=is_causal)
        for query in (0, n - 2, n - 1):
            source = (n_layers, query)
            found = list(flows_to([n] * (n_layers + 1), blocks, source, [(0, j) for j in range(n)]))
            expected = [slow_flow(blocks, source, (0, j)) for j in range(n)]
            np.testing.assert_allclose(found, expected, atol=1e-7)


def test_that_layers_of_other_sizes_and_ways_past_a_layer_count() -> None:
    """A second text: one layer reads the one before and, past it, the text below, as cross-attention does."""
    chance = np.random.default_rng(5)
    sizes = [4, 4, 3, 3, 3]
    shapes = [(1, 0), (3, 2), (4, 3), (3, 1)]
    blocks = [Pipes(u, low, chance.uniform(0.05, 0.5, (sizes[u], sizes[low])) ** 2) for u, low in shapes]
    for sink in [(0, j) for j in range(4)] + [(2, j) for j in range(3)]:
        found = maximum_flow(sizes, blocks, (4, 1), sink)
        assert found == pytest.approx(slow_flow(blocks, (4, 1), sink), abs=1e-7)


def test_that_a_pipe_which_is_used_the_wrong_way_is_used_back() -> None:
    """Greedy pushes fill the middle pipe first; only sending back gives 2."""
    first = Pipes(3, 2, np.array([[1.0, 1.0]]))
    middle = Pipes(2, 1, np.array([[1.0, 1.0], [1.0, 0.0]]))
    last = Pipes(1, 0, np.array([[1.0], [1.0]]))
    assert maximum_flow([1, 2, 2, 1], [last, middle, first], (3, 0), (0, 0)) == pytest.approx(2.0, abs=1e-9)


def test_that_the_capacities_stay_as_they_were() -> None:
    blocks = random_blocks(1, 6, 3)
    before = [block.capacity.copy() for block in blocks]
    list(flows_to([6] * 4, blocks, (3, 2), [(0, 0), (0, 5)]))
    for block, capacity in zip(blocks, before, strict=True):
        np.testing.assert_array_equal(block.capacity, capacity)


def test_that_a_flow_that_nobody_waits_for_ends() -> None:
    tokens = tuple(Token(id=i, piece=str(i)) for i in range(3))
    levels = (
        StreamLevel(name="input", tokens=tokens),
        StreamLevel(name="layer 0", tokens=tokens, parts=((0, torch.full((3, 3), 1 / 3)),)),
    )
    asked = iter([False, True])
    with stoppable(lambda: next(asked)):
        values = flow_values(levels, 0)
        next(values)
        next(values)
        with pytest.raises(Stopped):
            next(values)
