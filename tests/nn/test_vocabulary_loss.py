"""The loss in pieces is the loss at once, and so are its gradients; one piece is there at a time."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from attnscope.nn import ModelConfig, build_own, cross_entropy_sum, own_module

pytestmark = pytest.mark.slow

TINY = ModelConfig(form="decoder", vocab_size=37, d_model=8, n_layers=1, n_heads=2, d_ff=8, max_tokens=8)
HEADS = {
    "tied": {},
    "own matrix": {"tie_embeddings": False},
    "transformed": {"form": "encoder", "transform_head": True, "output_bias": True},
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n_scored", [1, 4, 5, 23])
def test_that_the_loss_in_pieces_and_its_gradients_are_those_at_once(
    name: str, smoothing: float, n_scored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build_own(replace(TINY, **HEADS[name]), 3).double()
    torch.manual_seed(0)
    rows = torch.randn(n_scored, 8, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(n_scored) * 5 % 37
    used = [p for p in (*module.head.parameters(), module.tokens.weight) if p.requires_grad]
    whole = F.cross_entropy(module.logits(rows), labels, reduction="sum", label_smoothing=smoothing)
    wanted = torch.autograd.grad(whole * 0.3, (rows, *used), allow_unused=True)
    most = 0

    def look(_head: object, _given: object, out: torch.Tensor) -> None:
        nonlocal most
        most = max(most, out.numel())

    module.head.register_forward_hook(look)
    monkeypatch.setattr(own_module, "PIECE_NUMBERS", 4 * 37)
    found = cross_entropy_sum(module, rows, labels, label_smoothing=smoothing)
    assert most == min(n_scored, 4) * 37
    torch.testing.assert_close(found.double(), whole, rtol=1e-6, atol=0.0)  # the loss itself is float32
    got = torch.autograd.grad(found * 0.3, (rows, *used), allow_unused=True)
    for one, other in zip(got, wanted, strict=True):
        expected = torch.zeros_like(one) if other is None and one is not None else other
        if one is not None:
            torch.testing.assert_close(one, expected, rtol=1e-5, atol=1e-6)  # the softmax is float32, too
    with torch.no_grad():
        told = cross_entropy_sum(module, rows, labels, label_smoothing=smoothing)
    torch.testing.assert_close(told.double(), whole.detach(), rtol=1e-6, atol=0.0)


def test_that_frozen_weights_get_no_gradient_and_bfloat16_pieces_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_module, "PIECE_NUMBERS", 4 * 37)
    module = build_own(TINY, 3)
    rows = torch.randn(9, 8, requires_grad=True)
    labels = torch.arange(9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cross_entropy_sum(module, rows, labels).backward()
    assert module.tokens.weight.grad is not None
    assert module.tokens.weight.grad.dtype == torch.float32
    module.zero_grad(set_to_none=True)
    module.tokens.weight.requires_grad_(False)
    cross_entropy_sum(module, rows, labels).backward()
    assert module.tokens.weight.grad is None
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
