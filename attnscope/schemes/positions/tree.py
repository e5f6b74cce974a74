"""Paths in the tree that the brackets of a text make, added to the embeddings (Shiv & Quirk 2019, section 3).

    symbol   meaning                                                                      shape
    b        which child of its list a token, or a list, is; the last of w for later ones  0 … w − 1
    w, k     children that are told apart (`tree_width`), and steps of a path that are known (`tree_depth`)
    p        how much less each level further up counts: DECAY, learned in the paper
    T        encoding of the path from the whole text to a token                          [w·k]

T(child b) = (e_b, T(list)[:−w]), and level m is multiplied by p^m · √(1 − p²) · √(w·k / 2), so that one
matrix takes every list to its b-th child. A list is what stands between two brackets, which are its first and
last children; the text is a list as well. A closing bracket without an opening one closes nothing.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig

DECAY = 0.7
_WIDTH = 8
_OPENING, _CLOSING, _ITEM = range(3)


class TreePaths(PositionScheme):
    name, title, order = "tree", "tree paths", 70
    words = "the path to each token in the tree that brackets make is added to the embeddings"
    source = "Shiv & Quirk 2019"
    formula = "x_t = e_t + T(t),   T(child b of a list) = (e_b, p·T(list)) without the last w"
    choices = ("tree_width", "tree_depth")
    reads_row = True
    page_title = "Tree paths"

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.tree_width * (config.tree_depth or 1) > config.d_model:
            yield "tree_width", f"at most d_model / tree_depth: a path has {config.d_model} numbers"
        if config.patch_size:
            yield "position", "another position: patches of a picture have no brackets"

    def of_rows(self, ids: "Tensor", config: "ModelConfig") -> "Tensor":
        import torch

        made = [
            path_encodings(
                row,
                config.opening,
                config.closing,
                width=config.tree_width,
                n_levels=config.tree_depth or config.d_model // config.tree_width,
                d_model=config.d_model,
            )
            for row in ids.tolist()
        ]
        return torch.stack(made).to(ids.device)

    def own(self, n: int, config: "ModelConfig") -> "tuple[Tensor, str, tuple[str, str]]":
        n_levels = config.tree_depth or config.d_model // config.tree_width
        matrix, note = _of_example(n, config.tree_width, n_levels, config.d_model)
        return matrix, note, ("dimension", "token")

    def page_matrix(self, n: int, width: int) -> "tuple[Tensor, str]":
        n_children = min(_WIDTH, width)
        return _of_example(n, n_children, width // n_children, width)


def tree_paths(
    ids: Sequence[int], opening: Collection[int], closing: Collection[int], n_levels: int
) -> list[list[int]]:
    """For each token its index in its list, then that list's index in the enclosing one, …"""
    n_children, paths = [0], []  # of each open list, the whole text first
    for id in ids:
        if id in opening:
            n_children.append(0)
        paths.append(n_children[: -n_levels - 1 : -1])
        if id in closing and len(n_children) > 1:
            n_children.pop()
        n_children[-1] += 1
    return paths


def path_encodings(
    ids: Sequence[int],
    opening: Collection[int],
    closing: Collection[int],
    *,
    width: int,
    n_levels: int,
    d_model: int,
) -> "Tensor":
    """T of each token, float32 [T, d_model] on the CPU; the rest of d_model stays 0."""
    import torch

    sizes = [DECAY**m * math.sqrt((1 - DECAY**2) * width * n_levels / 2) for m in range(n_levels)]
    table = torch.zeros(len(ids), d_model, device="cpu")
    steps = [
        (i, m * width + min(child, width - 1), sizes[m])
        for i, path in enumerate(tree_paths(ids, opening, closing, n_levels))
        for m, child in enumerate(path)
    ]
    if steps:
        rows, columns, values = zip(*steps, strict=True)
        table[torch.tensor(rows), torch.tensor(columns)] = torch.tensor(values)
    return table


def _of_example(n: int, width: int, n_levels: int, d_model: int) -> "tuple[Tensor, str]":
    """The first n tokens of a nested list of pairs, deep enough to be that long."""
    text = [_ITEM]
    while len(text) < n:
        text = [_OPENING, *text, *text, _CLOSING]
    matrix = path_encodings(text[:n], {_OPENING}, {_CLOSING}, width=width, n_levels=n_levels, d_model=d_model)
    return matrix, "Of the text (((x x) (x x)) …, lists of two: each token has the path to it."
