"""Giving up a pass between two layers: on its own thread only, and without a changed digit otherwise."""

import threading

import pytest
import torch
from torch import Tensor

from attnscope.errors import Stopped
from attnscope.nn import Call, MaskRule, ScoreRule, attend, attention, stop_if_unwanted, stoppable
from attnscope.records import NO_GATES, Site
from attnscope.trace import TraceProbe

SITE = Site(stack="decoder", layer=0, n_heads=4, n_kv_heads=2)


def run(*, is_causal: bool = True) -> tuple[Tensor, Tensor]:
    """Two texts, four heads over two key-value heads, nine tokens: output and recorded lse."""
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, n, 9, 8, generator=generator) for n in (4, 2, 2))
    probe = TraceProbe((SITE,), NO_GATES)
    key_valid = torch.ones(2, 9, dtype=torch.bool)
    key_valid[0, 7:] = False
    rule = MaskRule(is_causal=is_causal, key_valid=key_valid)
    with torch.no_grad():
        out = attend(q, k, v, rule=rule, score=0.3, site=SITE.key, probe=probe)
    return out, probe.records[SITE.key].lse


def test_that_a_pass_that_nobody_waits_for_ends_in_its_middle() -> None:
    answers = iter([False, True])
    with stoppable(lambda: next(answers)):
        run()
        with pytest.raises(Stopped):
            run()
    run()
    assert not issubclass(Stopped, Exception)  # what tries another way after an error must not catch it


def test_that_another_thread_is_not_asked() -> None:
    found: list[str] = []

    def work() -> None:
        stop_if_unwanted()
        found.append("went on")

    with stoppable(lambda: True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == ["went on"]


@pytest.mark.parametrize("is_causal", [True, False])
def test_that_taking_a_long_text_head_by_head_changes_no_digit(
    is_causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(is_causal=is_causal)
    asked: list[int] = []
    monkeypatch.setattr(attention, "STOP_CELLS", 100)
    with stoppable(lambda: bool(asked.append(1))):
        parts = run(is_causal=is_causal)
    assert len(asked) == 1 + 4  # the call, and two texts with two key-value heads each
    for expected, found in zip(whole, parts, strict=True):
        assert torch.equal(expected, found), float((expected - found).abs().max())


def slow_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Output and lse in float64, with the whole map laid out."""
    n_groups = q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(n_groups, dim=1) for x in (k, v))
    scores = scale * q @ k.transpose(2, 3)
    if is_causal:
        n = q.shape[2]
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(dim=-1) @ v, scores.logsumexp(dim=-1)


@pytest.mark.parametrize(("is_causal", "n_asked"), [(True, 2 * (1 + 4)), (False, 2 * (1 + 4))])
def test_that_a_head_is_taken_in_pieces_of_rows_that_make_the_whole(
    is_causal: bool, n_asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(1, n, 13, 8, generator=generator) for n in (4, 2, 2))
    monkeypatch.setattr(attention, "STOP_CELLS", 1)
    monkeypatch.setattr(attention, "LEAST_ROWS", 4)  # 4, 4, 4 and 1 of 13
    asked: list[int] = []
    call = Call(q=q, k=k, v=v, rule=MaskRule(is_causal=is_causal), score=ScoreRule(scale=0.3))
    with torch.no_grad(), stoppable(lambda: bool(asked.append(1))):
        found = attention.attend_on_cpu(call, None, is_causal=is_causal)
    assert len(asked) == n_asked
    for one, expected in zip(found, slow_attention(q, k, v, 0.3, is_causal), strict=True):
        assert torch.allclose(one.double(), expected, rtol=0, atol=1e-6), float((one - expected).abs().max())


def test_that_pieces_of_rows_take_their_part_of_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(6)
    q, k, v = (torch.randn(1, 2, 7, 8, generator=generator) for _ in range(3))
    bias = torch.randn(1, 2, 7, 7, generator=generator)
    call = Call(q=q, k=k, v=v, rule=MaskRule(), score=ScoreRule(scale=0.3))
    monkeypatch.setattr(attention, "STOP_CELLS", 1)
    monkeypatch.setattr(attention, "LEAST_ROWS", 3)
    with torch.no_grad():
        out, lse = attention.attend_on_cpu(call, bias, is_causal=False)
    scores = 0.3 * q.double() @ k.double().transpose(2, 3) + bias
    assert torch.allclose(lse.double(), scores.logsumexp(dim=-1), rtol=0, atol=1e-6)
    assert torch.allclose(out.double(), scores.softmax(dim=-1) @ v.double(), rtol=0, atol=1e-6)


def test_that_training_on_a_long_text_has_the_gradient_of_the_whole_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = torch.Generator().manual_seed(7)
    q, k, v = (torch.randn(1, 1, 9, 8, generator=generator, requires_grad=True) for _ in range(3))
    monkeypatch.setattr(attention, "STOP_CELLS", 1)
    monkeypatch.setattr(attention, "LEAST_ROWS", 2)
    call = Call(q=q, k=k, v=v, rule=MaskRule(is_causal=True), score=ScoreRule(scale=0.3))
    found = torch.autograd.grad(
        attention.attend_on_cpu(call, None, is_causal=True)[0].square().sum(), (q, k, v)
    )
    expected = torch.autograd.grad(slow_attention(q, k, v, 0.3, True)[0].square().sum(), (q, k, v))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-5), float((one - other).abs().max())


def test_that_what_was_asked_before_is_asked_again_afterwards() -> None:
    with stoppable(lambda: True):
        with stoppable(lambda: False):
            stop_if_unwanted()
        with pytest.raises(Stopped):
            stop_if_unwanted()
    with pytest.raises(ValueError, match="other"), stoppable(lambda: True):
        raise ValueError("other")
    stop_if_unwanted()
