"""Reversible layers: two alternating streams, so that a layer's input can be recomputed from its output.

Gomez et al. 2017, section 3.2; Kitaev et al. 2020, section 3. There both streams begin as the embedding and
are read side by side; here each begins as half of it and their sum is read, so that the sum is a residual
stream as ever: the embedding and all that the branches added.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.norms import NORMS
from attnscope.schemes.residuals.residual import Residual

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Reversible(Residual):
    name, title, order = "reversible", "reversible", 1
    words = "two streams: a branch reads one and is added to the other, so that inputs follow from outputs"
    source = "Gomez et al. 2017; Kitaev et al. 2020"
    formula = "y₁ = x₁ + Attention(x₂),   y₂ = x₂ + FeedForward(y₁)"
    n_streams = 2

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        of = f'beside residual = "{self.name}"'
        if not config.has_residual:
            yield "has_residual", f"true {of}, whose branches are added"
        if config.norm_place == "post" and not NORMS[config.norm].is_nothing:
            yield "norm_place", f"pre or sandwich {of}: what a norm gave does not tell what it was given"
        if NORMS[config.norm].is_of_batch:
            yield "norm", f"a norm of single tokens {of}: a batch is read twice and would count twice"
        if config.n_experts:
            yield "n_experts", f"0 {of}: their balance loss needs what is not kept"
        if config.copies_source:
            yield "copies_source", f"false {of}: the weights that copy would not be kept"
        if config.has_latents:
            yield "slot_kind", f'"projected" or "inducing" {of}'
