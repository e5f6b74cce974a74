"""Norms of the library told by their numbers: each form against the formula in float64, others refused."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from attnscope.models.huggingface import is_norm, norm_form

D = 6
SMALL = 1e-3
"""Of the size of the square root of epsilon, so that epsilon counts."""


class Centred(nn.Module):
    """A norm that is LayerNorm but no child of torch's, with its epsilon under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
        self.epsilon = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, (D,), self.weight, self.bias, self.epsilon)


class Uncentred(nn.LayerNorm):
    """One that is a child of torch's and keeps the mean."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight + self.bias


KINDS = {
    "layer": (nn.LayerNorm(D, eps=1e-6), True, 0.0, True),
    "layer without weights": (nn.LayerNorm(D, eps=1e-6, elementwise_affine=False), True, 0.0, False),
    "rms": (LlamaRMSNorm(D, eps=1e-6), False, 0.0, False),
    "t5": (T5LayerNorm(D, eps=1e-6), False, 0.0, False),
    "gemma": (GemmaRMSNorm(D, eps=1e-6), False, 1.0, False),
    "centred": (Centred(), True, 0.0, True),
    "uncentred": (Uncentred(D, eps=1e-6), False, 0.0, True),
}


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_that_each_form_is_its_formula_at_every_size(kind: str) -> None:
    norm, is_centred, more, has_bias = KINDS[kind]
    steps = torch.arange(4 * D, dtype=torch.float32).reshape(4, D)
    weight = getattr(norm, "weight", None)
    if weight is not None:
        weight.copy_((steps[1] * 0.9).cos() + 0.3 - more)
    bias = norm.bias.copy_(steps[2].sin()) if has_bias else torch.zeros(D)
    for size in (1.0, SMALL):
        x = ((steps * steps * 0.37).sin() + 0.5) * size
        form = norm_form(norm, x, norm(x))
        assert form is not None
        wide = x.double() - (x.double().mean(-1, keepdim=True) if is_centred else 0.0)
        deviation = (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        factor = torch.ones(D).double() if weight is None else weight.double() + more
        expected = (wide / deviation * factor).numpy()
        np.testing.assert_allclose(form.apply(x).double().numpy(), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose((norm(x) - bias).double().numpy(), expected, rtol=1e-4, atol=1e-5)
        assert form.is_centred == is_centred


def test_that_the_scale_is_a_constant_to_gradients() -> None:
    x = torch.tensor([[1.0, -2.0, 4.0]], requires_grad=True)
    norm = nn.LayerNorm(3, eps=0.0)
    form = norm_form(norm, x.detach(), norm(x.detach()))
    assert form is not None
    (gradient,) = torch.autograd.grad(form.apply(x)[0, 2], x)
    deviation = float(x.detach().double().std(correction=0))
    expected = [(-1 / 3) / deviation, (-1 / 3) / deviation, (2 / 3) / deviation]
    np.testing.assert_allclose(gradient[0].numpy(), expected, rtol=1e-5)


def test_that_another_form_is_not_known() -> None:
    x = torch.tensor([[1.0, -2.0, 4.0]])
    norm = nn.LayerNorm(3)
    assert norm_form(norm, x, norm(x) * 1.01) is None
    assert norm_form(norm, x, norm(x)[:, :2]) is None


def test_that_norms_are_told_by_their_names_and_by_what_they_are() -> None:
    class Plain(nn.LayerNorm):
        pass

    named = [is_norm(part) for part in (Plain(2), nn.RMSNorm(2), LlamaRMSNorm(2), nn.Linear(2, 2), nn.ReLU())]
    assert named == [True, True, True, False, False]
