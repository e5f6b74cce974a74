"""What a norm of the library does, told by its numbers rather than by its class.

| symbol | meaning                                     | shape               |
|--------|---------------------------------------------|---------------------|
| x      | what the norm reads                         | [..., d]            |
| scale  | 1/σ, of LayerNorm or of RMSNorm             | [..., 1]            |
| weight | what it multiplies by: weight, or 1 + weight| [d]                 |

LayerNorm: Ba et al. 2016; RMSNorm: Zhang and Sennrich 2019; Gemma's multiplies by 1 + weight.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

_CLOSE = 1e-4


def is_norm(part: nn.Module) -> bool:
    """Whether a module is called a norm."""
    return isinstance(part, nn.LayerNorm) or "Norm" in type(part).__name__


@dataclass(frozen=True, slots=True, eq=False)
class NormForm:
    """What a norm does besides its scale: whether it takes the mean away, and its weight, None for none."""

    is_centred: bool
    weight: Tensor | None
    epsilon: float

    def apply(self, x: Tensor) -> Tensor:
        """The norm of `x` without its bias, the scale taken as a constant; float32."""
        wide = x.float()
        wide = wide - wide.mean(dim=-1, keepdim=True) if self.is_centred else wide
        scale = (wide.detach().square().mean(dim=-1, keepdim=True) + self.epsilon).rsqrt()
        return wide * scale if self.weight is None else wide * scale * self.weight


def norm_form(part: Any, x: Tensor, output: Tensor) -> NormForm | None:
    """The form in which a norm makes `output` of `x`; None for one of a form that is not known."""
    bias = getattr(part, "bias", None)
    for form in _forms(part):
        found = form.apply(x.detach())
        found = found if bias is None else found + bias.detach().float()
        if found.shape == output.shape and bool((found - output).abs().max() <= _CLOSE * output.abs().max()):
            return form
    return None


def _forms(part: Any) -> Iterator[NormForm]:
    names = ("eps", "variance_epsilon", "epsilon")
    own = getattr(part, "weight", None)
    weight = None if own is None else own.detach().float()
    epsilon = next((getattr(part, name) for name in names if getattr(part, name, None) is not None), 0.0)
    for is_centred in (isinstance(part, nn.LayerNorm), not isinstance(part, nn.LayerNorm)):
        yield NormForm(is_centred, weight, float(epsilon))
        if weight is not None:
            yield NormForm(is_centred, 1.0 + weight, float(epsilon))
