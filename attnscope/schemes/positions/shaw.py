"""A learned vector for each distance, scored by queries as keys are (Shaw et al. 2018, equation 5)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme
from attnscope.schemes.scores import SCORES

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig


class Offsets(PositionScheme):
    name, title, order = "shaw", "Shaw", 6
    words, source = "a learned vector for each distance, scored by queries as keys are", "Shaw et al. 2018"
    choices = ("max_distance",)
    is_of_text = True
    learns_offsets = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if not SCORES[config.score].is_bilinear:
            yield "position", f"another position: shaw needs a score that is a product, not {config.score}"

    def n_learned_of_site(self, config: "ModelConfig") -> int:
        return _n_distances(config) * config.head_width

    def n_products(self, config: "ModelConfig") -> int:
        return _n_distances(config)

    def n_kept(self, config: "ModelConfig", n: int, k: int, *, is_wide: bool) -> int:
        return n + n // config.head_width * _n_distances(config)


def _n_distances(config: "ModelConfig") -> int:
    return 2 * config.max_distance + 1
