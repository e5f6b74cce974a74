"""Shared by all position schemes: how a model encodes positions.

A Transformer can be told in seven ways: by a table added to the embeddings, computed or learned, or by rows
of its own for each text, computed from its tokens; by turning queries and keys; by a bias on scores, falling
with the distance or learned by a stack as a function of it; and by vectors of distances that queries score as
they score keys. A scheme says which of them it uses.
"""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from attnscope.nn import ModelConfig

PLAIN_AXES = ("dimension", "position")
BACK = ("head", "tokens back")
BACK_NOTE = (
    "Added to the scores of keys so many tokens back, for each head; there are no vectors of positions."
)


class PositionScheme(Scheme):
    """A position scheme; by default one that encodes nothing."""

    words: ClassVar[str] = ""
    """Description for the user."""
    formula: ClassVar[str] = ""
    """What is added to the embedding e_t of token t, or the score s_ij of query i and key j, not yet scaled.

    Where it is added to a score of any kind, that is s_ij and the sum s′_ij. Formulas are joined by a comma
    and three spaces.
    """
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of a configuration that it reads and others may not."""
    is_of_text: ClassVar[bool] = False
    """Whether keys must stand at places of the text: slots that keys are projected to do not."""
    learns_table: ClassVar[bool] = False
    """Whether each stack learns a vector for each position, and so ends with the last one."""
    reads_row: ClassVar[bool] = False
    """Whether what is added to embeddings follows from the tokens of the text, by `of_rows`."""
    scores_distances: ClassVar[bool] = False
    """Whether queries score distances up to `max_distance` besides keys (`nn/scores.py`)."""
    of_heads: ClassVar[frozenset[str]] = frozenset()
    """Which of `site_shapes` have a row for each head."""
    falls: ClassVar[bool] = False
    """Whether scores fall with the distance, by `slopes`."""
    bias_words: ClassVar[str] = ""
    """Description of the learned bias by distance, for the page *Positions*."""
    learned_part: ClassVar[str] = "positions"
    """Name of a stack's parameters in counts."""
    is_turn: ClassVar[bool] = False
    """Whether queries and keys are turned, by the two tables of `turns`."""
    page_title: ClassVar[str] = ""
    """Its name on the page *Positions*; empty if it is not shown there."""
    is_compared: ClassVar[bool] = False
    """Whether the lab on longer texts trains a model with it."""

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        """Keys of a Transformer that conflict with this scheme, with what is expected."""
        yield from ()

    def width(self, config: "ModelConfig") -> int:
        """Numbers a position of each table that is worked out when a model opens."""
        return 0

    def table(self, n_positions: int, d_model: int) -> "Tensor | None":
        """Table added to embeddings, float32 [n_positions, d_model]."""
        return None

    def of_rows(self, ids: "Tensor", config: "ModelConfig") -> "Tensor":
        """Vectors added to the embeddings of texts `ids` [B, T], each row from its own and earlier tokens.

        float32 [B, T, d_model]
        """
        raise ValueError(f"the positions {self.name} do not follow from tokens")

    def turns(self, n_positions: int, config: "ModelConfig") -> "tuple[Tensor, Tensor] | None":
        """Cosines and signed sines that rotate queries and keys, each float32 [n_positions, d_head]."""
        return None

    def slopes(self, n_heads: int) -> "Tensor | None":
        """Decrease of scores with each token of distance, float32 [n_heads]."""
        return None

    def bias_shapes(self, config: "ModelConfig") -> dict[str, tuple[int, ...]]:
        """Parameters of a stack's bias by distance, by the names in files of weights (`nn/layers.py`)."""
        return {}

    def fill_bias(
        self, learned: "Mapping[str, Tensor]", config: "ModelConfig", generator: "Generator"
    ) -> None:
        """Initialise the parameters of `bias_shapes`, in place."""
        for values in learned.values():
            values.normal_(std=config.d_model**-0.5, generator=generator)

    def bias(
        self, learned: "Mapping[str, Tensor]", distance: "Tensor", config: "ModelConfig", *, is_causal: bool
    ) -> "Tensor":
        """Bias added to the scores at each distance [n], negative for earlier keys: [n_heads, n].

        `learned` are the tensors that `bias_shapes` names, `is_causal` whether the stack is a decoder.
        """
        raise ValueError(f"the positions {self.name} have no bias by distance")

    def site_shapes(
        self, *, n_heads: int, d_head: int, d_model: int, reach: int
    ) -> dict[str, tuple[int, ...]]:
        """Parameters of a layer's self-attention that score distances, by the names in files of weights."""
        return {}

    def fill_site(self, learned: "Mapping[str, Tensor]", generator: "Generator") -> None:
        """Initialise the parameters of `site_shapes`, in place."""
        for values in learned.values():
            values.normal_(std=values.shape[-1] ** -0.5, generator=generator)

    def site_queries(self, learned: "Mapping[str, Tensor]", q: "Tensor") -> "Tensor":
        """Queries [B, H, T, D] as they are compared with keys."""
        return q

    def score_distances(self, learned: "Mapping[str, Tensor]", q: "Tensor", reach: int) -> "Tensor":
        """Products of queries, as compared with keys, with distances: [B, H, T, 2·reach + 1].

        The column `reach` is that of the query's own place, later keys stand to its right; those further off
        than `reach` are all alike.
        """
        raise ValueError(f"the positions {self.name} score no distances")

    def own_of_site(
        self, learned: "Mapping[str, Tensor]", n: int, reach: int
    ) -> "tuple[Tensor, str, tuple[str, str]]":
        """For a site that scores distances: a matrix with a row for keys 0 … n − 1 back, as `own`."""
        raise ValueError(f"the positions {self.name} score no distances")

    def n_learned(self, config: "ModelConfig") -> int:
        """Parameters of a stack."""
        return sum(map(math.prod, self.bias_shapes(config).values()))

    def n_learned_of_site(self, config: "ModelConfig", n_heads: int) -> int:
        """Parameters of a layer's self-attention, for its `n_heads` remaining heads."""
        shapes = self.site_shapes(
            n_heads=n_heads, d_head=config.head_width, d_model=config.d_model, reach=config.max_distance
        )
        return sum(map(math.prod, shapes.values()))

    def n_products(self, config: "ModelConfig") -> int:
        """Products of each query of a self-attention besides those with keys."""
        return 0

    def n_products_once(self, config: "ModelConfig") -> int:
        """The same, but once for all queries of a pass."""
        return 0

    def n_kept(self, config: "ModelConfig", n: int, k: int, *, is_wide: bool) -> int:
        """Numbers kept for the backward pass of one token; n are those of its queries, k of its keys.

        `is_wide` says that attention is computed in float32 between products in bfloat16.
        """
        return 0

    def own(self, n: int, config: "ModelConfig") -> "tuple[Tensor, str, tuple[str, str]] | None":
        """For a model with computed positions: their matrix, its description, its columns and rows."""
        found = self.table(n, config.d_model)
        return None if found is None else (found, f"{self.title.capitalize()}.", PLAIN_AXES)

    def first_wave(self, width: int) -> tuple[int, int]:
        """First two dimensions of that matrix that turn together, if any do."""
        return 0, 1

    def page_matrix(self, n: int, width: int) -> "tuple[Tensor, str]":
        """The matrix on the page *Positions*, and a note; of a scheme with a page title."""
        found = self.table(n, width)
        if found is None:
            raise ValueError(f"the positions {self.name} have no table")
        return found, ""
