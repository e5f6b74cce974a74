"""Giving up a pass between two layers: on its own thread only, and without a changed digit otherwise."""

import threading

import pytest
import torch
from torch import Tensor

import attnscope.nn.attention as attention
from attnscope.nn.attention import attend
from attnscope.nn.masks import MaskRule
from attnscope.nn.stopping import Stopped, stop_if_unwanted, stoppable
from attnscope.records.sites import NO_GATES, Site
from attnscope.trace.probe import TraceProbe

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
    calls: list[int] = []
    one = attention._attend_one

    def counted(*args: object, **names: object) -> tuple[Tensor, Tensor]:
        calls.append(1)
        return one(*args, **names)  # type: ignore[arg-type]

    monkeypatch.setattr(attention, "STOP_CELLS", 100)
    monkeypatch.setattr(attention, "_attend_one", counted)
    parts = run(is_causal=is_causal)
    assert len(calls) == 4  # two texts, two key-value heads
    for expected, found in zip(whole, parts, strict=True):
        assert torch.equal(expected, found), float((expected - found).abs().max())
