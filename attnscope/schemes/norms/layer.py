"""LayerNorm: each token to mean 0 and variance 1 over its columns (Ba et al. 2016)."""

from typing import TYPE_CHECKING

from attnscope.schemes.norms.norm import NormScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn.layers import Norm


class Layer(NormScheme):
    name, title, order = "layer", "LayerNorm", 0
    words = "each token to mean 0 and variance 1 over its columns, then a gain and a bias"
    source = "Ba et al. 2016"
    choices = ("norm_epsilon",)
    is_centred = True

    def apply(self, x: "Tensor", norm: "Norm") -> "Tensor":
        from torch.nn.functional import layer_norm

        return layer_norm(x, (x.shape[-1],), norm.weight, norm.bias, norm.epsilon)

    def scale(self, x: "Tensor", norm: "Norm") -> "Tensor":
        return (x.var(unbiased=False) + norm.epsilon).rsqrt()
