"""Transformer-XL's positions: queries score sinusoids of the distance (Dai et al. 2019, section 3.3).

    symbol   meaning                                                     shape
    u, v     added to queries before they meet keys, and distances       [n_heads, d_head]
    W        what makes keys of sinusoids                                [n_heads, d_head, d_model]
    R        sines, then cosines, of the distance i − j                  [2 · reach + 1, d_model]

The score is scale · ((q + u)·k + (q + v)·W R_(i − j)). Each layer learns its own u and v, as XLNet's do (Yang
et al. 2019). Distances beyond `max_distance` are read as that one, as with `clamp_len` in their code.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import BACK, BACK_NOTE, PositionScheme
from attnscope.schemes.scores import SCORES

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from attnscope.nn import ModelConfig

_BASE = 10000.0


class RelativeSinusoids(PositionScheme):
    name, title, order = "transformer-xl", "Transformer-XL", 60
    words = (
        "queries score a sinusoid of the distance, and a learned vector is added to them for either product"
    )
    source = "Dai et al. 2019"
    formula = "s_ij = (q + u)·k + (q + v)·W R_(i−j),   u, v, W learned"
    choices = ("max_distance",)
    is_of_text = True
    scores_distances = True
    of_heads = frozenset({"u", "v", "relative"})

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if not SCORES[config.score].is_bilinear:
            told = f"another position: {self.name} needs a score that is a product, not {config.score}"
            yield "position", told

    def site_shapes(
        self, *, n_heads: int, d_head: int, d_model: int, reach: int
    ) -> dict[str, tuple[int, ...]]:
        return {"u": (n_heads, d_head), "v": (n_heads, d_head), "relative": (n_heads, d_head, d_model)}

    def fill_site(self, learned: "Mapping[str, Tensor]", generator: "Generator") -> None:
        """W as wide as keys are; u and v near 0, as in their code."""
        weights = learned["relative"]
        weights.normal_(std=weights.shape[2] ** -0.5, generator=generator)
        for name in ("u", "v"):
            learned[name].normal_(std=0.02, generator=generator)

    def site_queries(self, learned: "Mapping[str, Tensor]", q: "Tensor") -> "Tensor":
        return q + learned["u"][:, None].to(q.dtype)

    def score_distances(self, learned: "Mapping[str, Tensor]", q: "Tensor", reach: int) -> "Tensor":
        to_distances = q + (learned["v"] - learned["u"])[:, None].to(q.dtype)  # u is in them
        rows = to_distances.transpose(0, 1).flatten(1, 2)  # [H, B · T, D]: no text needs keys of its own
        products = rows @ _keys(learned["relative"], reach)
        return products.reshape(len(rows), *q.shape[::2], -1).transpose(0, 1)

    def own_of_site(
        self, learned: "Mapping[str, Tensor]", n: int, reach: int
    ) -> "tuple[Tensor, str, tuple[str, str]]":
        """V · W R: a distance's term in the score of any query, before scaling."""
        import torch

        everywhere = learned["v"].detach()[:, None] @ _keys(learned["relative"].detach(), reach)  # [H, 1, n]
        matrix = everywhere[:, 0, reach - torch.arange(n).clamp(max=reach)].T
        return matrix, f"v · W R of the first layer, not yet scaled. {BACK_NOTE}", BACK

    def n_products(self, config: "ModelConfig") -> int:
        return _n_distances(config)

    def n_products_once(self, config: "ModelConfig") -> int:
        return _n_distances(config) * config.d_model

    def n_kept(self, config: "ModelConfig", n: int, k: int, *, is_wide: bool) -> int:
        return 2 * n + n // config.head_width * _n_distances(config)


def _n_distances(config: "ModelConfig") -> int:
    return 2 * config.max_distance + 1


def _keys(weights: "Tensor", reach: int) -> "Tensor":
    """The keys W R of positions from `reach` back to `reach` ahead, [n_heads, d_head, 2 · reach + 1]."""
    table = relative_sinusoids(reach, weights.shape[2]).to(weights)
    return weights @ table.T


def relative_sinusoids(reach: int, d_model: int) -> "Tensor":
    """R of the distances reach … −reach, earlier keys first: float32 [2 · reach + 1, d_model]."""
    import torch

    distance = torch.arange(reach, -reach - 1, -1, dtype=torch.float64, device="cpu")[:, None]
    angle = distance / _BASE ** (torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / d_model)
    return torch.cat((angle.sin(), angle.cos()), dim=1)[:, :d_model].float()
