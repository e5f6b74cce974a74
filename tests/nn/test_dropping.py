"""Dropout on a CPU has the law of the library's: shares, independence, seeds, gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn import add_dropping, attend_dropping, draw_places, drop, own_dice

SHARES = (2.0**-16, 0.01, 0.1, 0.199, 0.2, 0.5, 0.9)


def _mask(n_places: int, share: float, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    mask = torch.zeros(n_places, dtype=torch.float64)
    mask[draw_places(n_places, share)] = 1.0
    return mask


@pytest.mark.parametrize("share", SHARES)
def test_that_each_place_is_dropped_as_often_as_asked(share: float) -> None:
    n = 2**21
    mask = _mask(n, share)
    sigma = math.sqrt(share * (1.0 - share) / n)
    assert abs(mask.mean().item() - share) < 5.0 * sigma
    counts = mask.view(-1, 2**11).sum(dim=1)  # 1,024 stretches: their variance is that of a binomial law
    spread = counts.var().item() / (2**11 * share * (1.0 - share))
    assert abs(spread - 1.0) < 5.0 * math.sqrt((2.0 + 1.0 / (2**11 * share)) / 2**10)


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES[1:])
@pytest.mark.parametrize("apart", [1, 2, 3, 7, 64])
def test_that_places_are_dropped_independently_of_their_neighbours(share: float, apart: int) -> None:
    mask = _mask(2**20, share, seed=1)
    both = (mask[:-apart] * mask[apart:]).mean().item()
    variance = share**2 * (1.0 - share**2) + 2.0 * share**3 * (1.0 - share)
    assert abs(both - share**2) < 5.0 * math.sqrt(variance / len(mask))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_that_the_first_and_the_last_place_are_dropped_like_any_other(share: float) -> None:
    masks = torch.stack([_mask(5, share, seed) for seed in range(4000)])
    expected = torch.full((5,), share, dtype=torch.float64)
    torch.testing.assert_close(
        masks.mean(dim=0), expected, atol=5.0 * math.sqrt(share * (1.0 - share) / 4000), rtol=0.0
    )
    assert abs((masks[:, 0] * masks[:, 4]).mean().item() - share**2) < 5.0 * share / math.sqrt(4000)


@pytest.mark.parametrize("share", [0.003, 0.1, 0.5, 0.9])
def test_that_gaps_follow_the_geometric_law(share: float) -> None:
    """Each gap as often as p·(1 − p)^(k − 1) says, those from a table and those that all bits decide."""
    torch.manual_seed(11)
    places = draw_places(round(200_000 / share), share)
    gaps = places.diff()
    expected = share * (1.0 - share) ** torch.arange(2000, dtype=torch.float64) * len(gaps)
    counts = torch.bincount(gaps, minlength=2001)[1:].double()
    seen = expected[: len(counts)] > 30.0
    n_seen = int(seen.sum())
    distance = ((counts[:2000] - expected)[seen] ** 2 / expected[seen]).sum().item()
    assert abs(distance - n_seen) < 5.0 * math.sqrt(2.0 * n_seen)
    tail = counts[n_seen:].sum().item()
    wanted = (1.0 - share) ** n_seen * len(gaps)
    assert abs(tail - wanted) < 5.0 * math.sqrt(wanted + 1.0)


def test_that_hardly_anything_is_dropped_of_what_hardly_is_to_be() -> None:
    assert sum(len(draw_places(2**16, 1e-9)) for _ in range(100)) <= 3
    assert len(draw_places(1, 1e-12)) == 0


def test_that_a_thread_with_its_own_dice_leaves_those_of_torch_alone() -> None:
    with own_dice(5):
        first, second = draw_places(999, 0.2), draw_places(999, 0.2)
    torch.manual_seed(1)
    with own_dice(5):
        assert torch.equal(draw_places(999, 0.2), first)
        assert torch.equal(draw_places(999, 0.2), second)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(3))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_that_what_is_added_to_a_stream_is_what_drop_leaves(kind: torch.dtype) -> None:
    stream = torch.randn(4, 3, 5).transpose(0, 2).requires_grad_()
    x = torch.randn(5, 3, 4).to(kind).requires_grad_()
    with own_dice(3):
        found = add_dropping(stream, x, 0.3)
    with own_dice(3):
        expected = stream + drop(x, 0.3)
    torch.testing.assert_close(found, expected)
    assert found.dtype == torch.float32
    weight = torch.randn(5, 3, 4)
    ours = torch.autograd.grad((found * weight).sum(), (stream, x))
    theirs = torch.autograd.grad((expected * weight).sum(), (stream, x))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_that_seeds_decide_and_draws_differ(share: float) -> None:
    first, again = _mask(4096, share, 3), _mask(4096, share, 3)
    assert torch.equal(first, again)
    torch.manual_seed(3)
    draw_places(4096, share)
    state = torch.get_rng_state()
    second = draw_places(4096, share)
    torch.set_rng_state(state)
    assert torch.equal(second, draw_places(4096, share))
    assert not torch.equal(torch.nonzero(first)[:, 0], second)


@pytest.mark.parametrize("share", [0.05, 0.4])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_that_what_stays_is_scaled_and_its_gradient_too(share: float, kind: torch.dtype) -> None:
    x = torch.linspace(1.0, 2.0, 3 * 4 * 5, dtype=kind).view(3, 4, 5).transpose(0, 2).requires_grad_()
    out = drop(x, share)
    factor = (out / x).detach().double()
    scale = 1.0 / (1.0 - share)
    assert out.dtype == kind
    assert ((factor == 0.0) | ((factor - scale).abs() < 0.02)).all()
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad != 0.0, out != 0.0)
    torch.testing.assert_close(x.grad[x.grad != 0].double().mean().item(), scale, atol=0.01, rtol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("mask_kind", ["none", "causal", "bool", "added", "of heads", "one row"])
@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (1, 2, 130, 130), (3, 2, 64, 1), (70, 4, 130, 130)])
def test_that_attention_equals_the_formula_with_the_places_it_dropped(
    mask_kind: str, sizes: tuple[int, int, int, int]
) -> None:
    n_texts, n_heads, n_queries, n_keys = sizes
    if mask_kind == "causal":
        n_keys = n_queries
    torch.manual_seed(5)
    kind = torch.float64
    q, k, v = (torch.randn(n_texts, n_heads, n, 4, dtype=kind) for n in (n_queries, n_keys, n_keys))
    mask, added = _mask_of(mask_kind, n_texts, n_heads, n_queries, n_keys)
    eye = torch.eye(n_keys, dtype=kind).expand(n_texts, n_heads, -1, -1)
    given = [tensor.requires_grad_() for tensor in (q, k, torch.cat((v, eye), dim=-1).contiguous())]
    share = 0.3
    found = attend_dropping(*given, mask, is_causal=mask_kind == "causal", share=share, scale=0.7)
    weights = (0.7 * given[0] @ given[1].transpose(2, 3) + added).softmax(dim=-1)
    kept = (found.detach()[..., 4:] / weights.detach()).nan_to_num(nan=0.0)
    assert ((kept.abs() < 1e-9) | ((kept - 1.0 / 0.7).abs() < 1e-9)).all()
    seen = weights.detach() > 0.0
    n_seen = int(seen.sum())
    assert abs((kept[seen] == 0.0).double().mean().item() - share) < 5.0 * math.sqrt(0.21 / n_seen)
    expected = (weights * kept) @ given[2]
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-9)
    ramp = torch.linspace(-1.0, 1.0, found.numel(), dtype=kind).view(found.shape)
    wanted = torch.autograd.grad((expected * ramp).sum(), given)
    for _ in range(2):  # a second pass over the same graph finds what the first did
        got = torch.autograd.grad((found * ramp).sum(), given, retain_graph=True)
        for one, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def _mask_of(
    kind: str, n_texts: int, n_heads: int, n_queries: int, n_keys: int
) -> tuple[Tensor | None, Tensor]:
    """A mask, and what it adds to the scores."""
    zero = torch.zeros(1, 1, n_queries, n_keys, dtype=torch.float64)
    if kind == "none":
        return None, zero
    if kind == "causal":
        return None, torch.full_like(zero, -math.inf).triu(1)
    if kind == "added":
        added = torch.randn(n_texts, 1, n_queries, n_keys, dtype=torch.float64)
        return added, added
    shape = {"bool": (n_texts, 1, n_queries), "of heads": (1, n_heads, n_queries), "one row": (1, 1, 1)}[kind]
    seen = torch.rand(*shape, n_keys) < 0.6
    seen[..., 0] = True
    return seen, torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -math.inf)


def test_that_key_value_heads_are_shared_and_a_learned_bias_learns() -> None:
    torch.manual_seed(2)
    q = torch.randn(2, 4, 6, 3, dtype=torch.float64)
    k, v = (torch.randn(2, 2, 6, 3, dtype=torch.float64, requires_grad=True) for _ in "kv")
    bias = torch.randn(1, 4, 6, 6, dtype=torch.float64, requires_grad=True)
    tiny = 1e-12
    found = attend_dropping(q, k, v, bias, is_causal=False, share=tiny, scale=0.5)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.5, enable_gqa=True)
    torch.testing.assert_close(found, expected)
    given = (k, v, bias)
    for one, other in zip(
        torch.autograd.grad(found.sin().sum(), given),
        torch.autograd.grad(expected.sin().sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    plain = attend_dropping(q, k, v, bias.detach(), is_causal=False, share=tiny, scale=0.5)
    torch.testing.assert_close(plain, expected)


def test_that_autocast_changes_no_dtype_that_the_gradient_needs() -> None:
    q = torch.randn(1, 2, 5, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend_dropping(q.bfloat16(), q, q, None, is_causal=True, share=0.2, scale=0.5)
    out.sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
