"""Batch norm: each column to mean 0 and variance 1 over the tokens of a batch (Ioffe and Szegedy 2015).

In training the statistics are those of the batch, padding left out, and running ones are kept, which take
their place afterwards. Batches of text differ more than batches of pictures, so that what a model is trained
with is not what it is used with (Shen et al. 2020, PowerNorm, section 3).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.norms.norm import NormScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig
    from attnscope.nn.layers import Norm

_MOMENTUM = 0.1


class BatchNorm(NormScheme):
    name, title, order = "batch", "batch norm", 3
    words = "each column to mean 0 and variance 1 over all tokens of a batch; a poor choice for text"
    source = "Ioffe and Szegedy 2015"
    choices = ("norm_epsilon",)
    is_of_batch = True
    running = (("running_mean", 0.0), ("running_variance", 1.0))
    warning = (
        "Batch norm ties each token to the others of its batch, and texts vary from batch to batch: expect a "
        "worse model than with LayerNorm, more so with small batches."
    )

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.form != "encoder":
            told = "another norm: over the tokens of a batch, a decoder would see those it has to predict"
            yield "norm", told

    def apply(self, x: "Tensor", norm: "Norm") -> "Tensor":
        import torch

        kept = norm.running
        mean, variance = kept["running_mean"], kept["running_variance"]
        x = x.to(mean.dtype)
        if norm.training:
            rows = x.reshape(-1, x.shape[-1])
            if norm.valid is not None and norm.valid.shape == x.shape[:-1]:
                rows = x[norm.valid]
            with torch.no_grad():
                n = max(2, len(rows))
                mean.lerp_(rows.mean(dim=0), _MOMENTUM)
                variance.lerp_(rows.var(dim=0, correction=0) * n / (n - 1), _MOMENTUM)
            mean, variance = rows.mean(dim=0), rows.var(dim=0, correction=0)
        normal = (x - mean) * (variance + norm.epsilon).rsqrt()
        normal = normal if norm.weight is None else normal * norm.weight
        return normal if norm.bias is None else normal + norm.bias

    def scale(self, x: "Tensor", norm: "Norm") -> "Tensor":
        return x.new_ones(())

    def gain(self, norm: "Norm") -> "Tensor | None":
        gain = (norm.running["running_variance"] + norm.epsilon).rsqrt()
        return gain if norm.weight is None else gain * norm.weight

    def added(self, norm: "Norm") -> "Tensor | None":
        gain = self.gain(norm)
        taken = norm.running["running_mean"] * (1.0 if gain is None else gain)
        return -taken if norm.bias is None else norm.bias - taken

    def n_kept(self, d_model: int) -> int:
        return 3 * d_model
