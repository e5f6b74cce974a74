"""A learned vector for each distance, scored by queries like keys (Shaw et al. 2018, equation 5)."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme
from attnscope.schemes.scores import SCORES

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class ShawOffsets(PositionScheme):
    name, title, order = "shaw", "Shaw", 6
    words, source = "a learned vector for each distance, scored by queries like keys", "Shaw et al. 2018"
    formula = "s_ij = q·(k + a_(j−i)),   a_(−m) … a_m learned"
    choices = ("max_distance",)
    is_of_text = True
    scores_distances = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if not SCORES[config.score].is_bilinear:
            yield (
                "position",
                f"another position: {self.name} needs a score that is a product, not {config.score}",
            )

    def site_shapes(
        self, *, n_heads: int, d_head: int, d_model: int, reach: int
    ) -> dict[str, tuple[int, ...]]:
        return {"offsets": (2 * reach + 1, d_head)}

    def score_distances(self, learned: "Mapping[str, Tensor]", q: "Tensor", reach: int) -> "Tensor":
        return q @ learned["offsets"].T

    def own_of_site(
        self, learned: "Mapping[str, Tensor]", n: int, reach: int
    ) -> "tuple[Tensor, str, tuple[str, str]]":
        import torch

        note = f"Shaw's vectors of the first layer; beyond {reach} tokens they are the last one."
        return (
            learned["offsets"][reach - torch.arange(n).clamp(max=reach)],
            note,
            ("dimension", "tokens back"),
        )

    def n_products(self, config: "ModelConfig") -> int:
        return _n_distances(config)

    def n_kept(self, config: "ModelConfig", n: int, k: int, *, is_wide: bool) -> int:
        return n + n // config.head_width * _n_distances(config)


def _n_distances(config: "ModelConfig") -> int:
    return 2 * config.max_distance + 1
