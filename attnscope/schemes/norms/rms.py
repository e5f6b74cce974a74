"""RMSNorm: each token to a root mean square of 1, without subtracting its mean (Zhang and Sennrich 2019)."""

from typing import TYPE_CHECKING

from attnscope.schemes.norms.norm import NormScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn.layers import Norm


class RootMeanSquare(NormScheme):
    name, title, order = "rms", "RMSNorm", 1
    words, source = "each token to a root mean square of 1, then a gain; no bias", "Zhang and Sennrich 2019"
    choices = ("norm_epsilon",)
    has_bias = False

    def apply(self, x: "Tensor", norm: "Norm") -> "Tensor":
        from torch.nn.functional import rms_norm

        # as exactly as its weight is kept, as autocast does with LayerNorm and not with it
        exact = x if norm.weight is None else x.to(norm.weight.dtype)
        return rms_norm(exact, (x.shape[-1],), norm.weight, norm.epsilon)

    def scale(self, x: "Tensor", norm: "Norm") -> "Tensor":
        return (x.square().mean() + norm.epsilon).rsqrt()

    def n_kept(self, d_model: int) -> int:
        return 2 * d_model + 1
