"""Shared by all scores: how a query meets a key.

`attend` knows three comparisons: the product q·k, which fused attention computes and of which a probe records
all there is to know; v · tanh(q + k); and ln(q·k) of rows above 0. A score chooses one and says what it
makes of queries and keys first. Letters: B batch, H heads, K key-value heads, T tokens, D d_head.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from attnscope.nn import ModelConfig

Comparison = Literal["product", "additive", "kernel"]


class Score(Scheme):
    """A score; by default that of plain products q·k."""

    formula: ClassVar[str] = ""
    """The score s of a query q and a key k."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of a configuration that it reads and others may not."""
    comparison: ClassVar[Comparison] = "product"
    is_plain: ClassVar[bool] = False
    """Whether it is q·k / √d_head, the default of attention."""
    is_bilinear: ClassVar[bool] = True
    """Whether it is linear in the query and in the key, as they were projected."""
    learned: ClassVar[str] = ""
    """Its parameters, by the name in files of weights; empty for a score without any."""
    n_more_columns: ClassVar[int] = 0
    """By how much queries and keys become wider."""
    samples_formula: ClassVar[str] = ""
    """Its formula in the lab on kernel regression, of temperature σ²; empty where it is not shown there.

    Of scores that learn, the lab can fit the general and the additive one.
    """
    on_a_line: ClassVar[str] = ""
    """Its behaviour in that lab if a query is a plain number."""

    def ranges(self, config: "ModelConfig") -> Iterator[tuple[str, bool, str]]:
        """For each number among `choices`: its key, whether it is allowed, and the allowed range."""
        yield from ()

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        """Keys of a Transformer that conflict with this score, with what is expected."""
        yield from ()

    def scale(self, config: "ModelConfig") -> float:
        """Factor of the comparison."""
        return 1.0

    def learned_shape(self, d_head: int) -> tuple[int, ...]:
        """The shape of the parameters for one head: a matrix applied to queries, or a vector."""
        return ()

    def fill(self, learned: "Tensor", generator: "Generator") -> None:
        """Initialise `learned` [H, *learned_shape], in place."""
        learned.normal_(std=learned.shape[-1] ** -0.5, generator=generator)

    def turned(self, q: "Tensor", learned: "Tensor") -> "Tensor":
        """Queries [B, H, T, D] multiplied by the learned matrix [H, …], before any rotation."""
        turned: Tensor = q @ learned
        return turned

    def queries(self, q: "Tensor") -> "Tensor":
        """Queries [B, H, T, D] as `attend` expects them, after any rotation."""
        return q

    def keys(self, k: "Tensor") -> "Tensor":
        """Keys [B, K, T, D] as `attend` expects them, after any rotation."""
        return k

    def n_kept(self, n: int, k: int, n_heads: int) -> int:
        """Numbers kept for the backward pass of one token; n are those of its queries, k of its keys."""
        return 0

    def on_samples(self, queries: NDArray[np.float64], keys: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of every query [m, d] and key [n, d] at temperature 1; for a score without parameters."""
        return np.asarray(queries @ keys.T)

    def n_learned(self, d_head: int) -> int:
        """Parameters for one head."""
        return math.prod(self.learned_shape(d_head)) if self.learned else 0

    def n_products(self, d_head: int) -> int:
        """Numbers of the matrix applied to each query, 0 without one."""
        return self.n_learned(d_head) if len(self.learned_shape(d_head)) == 2 else 0
