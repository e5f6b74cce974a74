"""Which factors of a step with an addend are looked at by the proof of linearity."""

import torch

from attnscope.models.huggingface import bent_step


def test_that_a_product_with_an_addend_is_linear_in_one_factor_and_its_addend() -> None:
    a, b, fixed = (torch.ones(2, 2, requires_grad=True) for _ in range(3))
    assert bent_step(torch.addmm(a, b, fixed).sum(), [a, b]) == ""
    assert bent_step(torch.addmm(a, fixed, b).sum(), [a, b]) == ""
    assert bent_step(torch.addmm(fixed, a, b).sum(), [a, b]).startswith("Addmm")
