"""What every position scheme has: how a model is told where a token stands.

A Transformer can be told in six ways: by a table added to the embeddings, computed or learned; by turning
queries and keys; by a bias on scores, falling with the distance or learned for buckets of distances; and by
learned vectors of distances that queries score. A scheme says which of them it uses.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes.registry import Scheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn.config import ModelConfig

PLAIN_AXES = ("dimension", "position")
BACK = ("head", "tokens back")
BACK_NOTE = (
    "Added to the scores of keys so many tokens back, for each head; there are no vectors of positions."
)


class PositionScheme(Scheme):
    """A position scheme; as it stands here, one that tells nothing."""

    words: ClassVar[str] = ""
    """What it does, for people."""
    source: ClassVar[str] = ""
    """Where it comes from: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of a configuration that it reads and others may not."""
    is_of_text: ClassVar[bool] = False
    """Whether keys must stand at places of the text: slots that keys are projected to do not."""
    learns_table: ClassVar[bool] = False
    """Whether each stack learns a vector for each position, and so ends with the last one."""
    learns_buckets: ClassVar[bool] = False
    """Whether each stack learns a bias for each head and bucket of distances (`nn/relative.py`)."""
    learns_offsets: ClassVar[bool] = False
    """Whether each site learns a vector for each distance up to `max_distance` (`nn/scoring.py`)."""
    falls: ClassVar[bool] = False
    """Whether scores fall with the distance, by `slopes`."""
    learned_part: ClassVar[str] = "positions"
    """What the parameters of a stack are called where they are counted."""
    n_tables: ClassVar[int] = 1
    page_title: ClassVar[str] = ""
    """What the page *Positions* calls it; empty where it is not shown there."""
    is_compared: ClassVar[bool] = False
    """Whether the lab on longer texts trains a model with it."""

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        """Keys of a Transformer that do not go with this scheme, with what was expected."""
        yield from ()

    def width(self, config: "ModelConfig") -> int:
        """Numbers a position of each of the `n_tables` that are worked out when a model opens."""
        return 0

    def table(self, n_positions: int, d_model: int) -> "Tensor | None":
        """What is added to embeddings, float32 [n_positions, d_model]."""
        return None

    def turns(self, n_positions: int, config: "ModelConfig") -> "tuple[Tensor, Tensor] | None":
        """Cosines and signed sines that turn queries and keys, each float32 [n_positions, d_head]."""
        return None

    def slopes(self, n_heads: int) -> "Tensor | None":
        """How much scores fall with each token of distance, float32 [n_heads]."""
        return None

    def n_learned(self, config: "ModelConfig") -> int:
        """Numbers that a stack learns."""
        return 0

    def n_learned_of_site(self, config: "ModelConfig") -> int:
        """Numbers that the self-attention of a layer learns."""
        return 0

    def n_products(self, config: "ModelConfig") -> int:
        """Products that each query of a self-attention is part of besides those with keys."""
        return 0

    def n_kept(self, config: "ModelConfig", n: int, k: int, *, is_wide: bool) -> int:
        """Numbers kept for the backward pass of one token; n are those of its queries, k of its keys.

        `is_wide` says that attention is computed in float32 between products in bfloat16.
        """
        return 0

    def own(self, n: int, config: "ModelConfig") -> "tuple[Tensor, str, tuple[str, str]] | None":
        """Of a model whose positions are computed: their matrix, what it is, its columns and rows."""
        found = self.table(n, config.d_model)
        return None if found is None else (found, f"{self.title.capitalize()}.", PLAIN_AXES)

    def page_matrix(self, n: int, width: int) -> "tuple[Tensor, str]":
        """The matrix that the page *Positions* shows, and a note; of a scheme with a page title."""
        found = self.table(n, width)
        if found is None:
            raise ValueError(f"the positions {self.name} have no table")
        return found, ""
