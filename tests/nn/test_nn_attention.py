"""attend() against loops in float64.

Tolerance: float32 sums of at most 70 terms near 1 differ from float64 by a few 1e-7; 5e-6 leaves room for
another order of summing. bfloat16 keeps 8 bits: outputs below 1 are off by up to 2^-7.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.nn import MaskRule, attend, attention, row_lse

SITE = ("encoder", 0)
ATOL = 5e-6


@dataclass
class Looker:
    """A probe that wants everything and keeps the last record."""

    multipliers: Tensor | None = None
    wanted: bool = True
    records: list[dict[str, Any]] = field(default_factory=list)

    def gate(self, site):
        return self.multipliers

    def edits(self, site):
        return None

    def wants(self, site):
        return self.wanted

    def record(self, site, call, **facts):
        rules = {"rule": call.rule, "scale": call.score.scale}
        self.records.append({"site": site, "q": call.q, "k": call.k, "v": call.v, **rules, **facts})


def attend_by_loop(q: Tensor, k: Tensor, v: Tensor, rule: MaskRule, scale: float) -> tuple[Tensor, Tensor]:
    """Output and lse in float64, one query at a time."""
    batch, n_heads, n_queries, _ = q.shape
    n_groups, n_keys = n_heads // k.shape[1], k.shape[2]
    q, k, v = q.detach().double(), k.detach().double(), v.detach().double()
    out = torch.zeros(batch, n_heads, n_queries, v.shape[3], dtype=torch.float64)
    lse = torch.full((batch, n_heads, n_queries), -math.inf, dtype=torch.float64)
    for b in range(batch):
        for h in range(n_heads):
            for i in range(n_queries):
                keys = [
                    j
                    for j in range(n_keys)
                    if (not rule.is_causal or j <= i + n_keys - n_queries)
                    and (rule.key_valid is None or bool(rule.key_valid[b, j]))
                ]
                if not keys:
                    continue
                scores = [scale * float(q[b, h, i] @ k[b, h // n_groups, j]) for j in keys]
                top = max(scores)
                total = sum(math.exp(score - top) for score in scores)
                lse[b, h, i] = top + math.log(total)
                for j, score in zip(keys, scores, strict=True):
                    out[b, h, i] += math.exp(score - float(lse[b, h, i])) * v[b, h // n_groups, j]
    return out, lse


def padding(kind: str, batch: int, n_keys: int) -> Tensor | None:
    if kind == "none":
        return None
    valid = torch.ones(batch, n_keys, dtype=torch.bool)
    match kind:
        case "right":
            valid[0, (n_keys + 1) // 2 :] = False
        case "left":
            valid[0, : n_keys // 2] = False
        case "all":
            valid[0] = False
        case "holes":
            valid[:, 1::3] = False
    return valid


@pytest.mark.slow
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "right", "left", "holes", "all"])
@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (3, 3), (1, 6), (3, 6), (6, 3), (17, 17)])
@pytest.mark.parametrize("path", ["fused", "fallback", "with gradients"])
def test_that_attend_equals_a_loop(is_causal, kind, n_kv_heads, n_queries, n_keys, path, ramp, assert_close):
    q = ramp(2, 4, n_queries, 8)
    k, v = ramp(2, n_kv_heads, n_keys, 8, start=1.0), ramp(2, n_kv_heads, n_keys, 8, start=2.0)
    if path == "with gradients":
        q.requires_grad_()
    # A dropout of 1e-12 drops nothing but keeps the fused operator away.
    options = {"dropout": 1e-12, "is_training": True} if path == "fallback" else {}
    rule = MaskRule(is_causal=is_causal, key_valid=padding(kind, 2, n_keys))
    expected, expected_lse = attend_by_loop(q, k, v, rule, 0.9)
    looker = Looker()
    seen = attend(q, k, v, rule=rule, score=0.9, site=SITE, probe=looker, **options)
    unseen = attend(q, k, v, rule=rule, score=0.9, **options)
    assert_close(unseen, expected, atol=ATOL)
    assert_close(seen, expected, atol=ATOL)
    assert_close(looker.records[0]["lse"], expected_lse, atol=ATOL)
    assert_close(looker.records[0]["out"], expected, atol=ATOL)


@pytest.mark.parametrize("n_tokens", [70, 300])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "left"])
def test_that_long_sequences_equal_the_plain_formula(n_tokens, is_causal, kind, ramp, assert_close):
    q, k, v = (ramp(2, 2, n_tokens, 64, start=s) for s in (0.0, 1.0, 2.0))
    rule = MaskRule(is_causal=is_causal, key_valid=padding(kind, 2, n_tokens))
    looker = Looker()
    out = attend(q, k, v, rule=rule, score=0.5, site=SITE, probe=looker)
    scores = (q.double() @ k.double().transpose(-1, -2)) * 0.5
    scores = scores.masked_fill(~rule.allowed(n_tokens, n_tokens), -math.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse[..., None]).nan_to_num()
    assert_close(out, weights @ v.double(), atol=ATOL)
    assert_close(looker.records[0]["lse"], lse, atol=2e-5)  # scores reach 16: one part in 10^6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
def test_that_extreme_scores_stay_exact(scale, ramp, assert_close):
    q, k, v = (ramp(1, 2, 9, 8, start=s) for s in (0.0, 1.0, 2.0))
    looker = Looker()
    out = attend(q, k, v, rule=MaskRule(), score=scale, site=SITE, probe=looker)
    expected, lse = attend_by_loop(q, k, v, MaskRule(), scale)
    # A float32 score of 160 is off by 1e-5, and so is the logarithm of a weight.
    assert_close(out, expected, atol=5e-5)
    assert_close(looker.records[0]["lse"], lse, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["none", "left"])
def test_that_every_float_type_is_taken(dtype, kind, ramp, assert_close):
    q, k, v = (ramp(2, 2, 6, 8, start=s, dtype=dtype) for s in (0.0, 1.0, 2.0))
    rule = MaskRule(is_causal=True, key_valid=padding(kind, 2, 6))
    looker = Looker()
    out = attend(q, k, v, rule=rule, score=0.5, site=SITE, probe=looker)
    expected, lse = attend_by_loop(q, k, v, rule, 0.5)
    assert out.dtype == dtype
    assert looker.records[0]["lse"].dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    atol = 1e-12 if dtype == torch.float64 else 2**-7
    assert_close(out, expected, atol=atol)
    assert_close(looker.records[0]["lse"], lse, atol=atol)


@pytest.mark.parametrize("options", [{}, {"dropout": 1e-12, "is_training": True}])
@pytest.mark.parametrize("is_seen", [False, True])
def test_that_a_query_without_keys_gives_zero_and_passes_no_gradient(options, is_seen, ramp):
    q, k, v = (ramp(2, 2, 4, 8, start=s).requires_grad_() for s in (0.0, 1.0, 2.0))
    rule = MaskRule(key_valid=torch.tensor([[False] * 4, [True] * 4]))
    looker = Looker(wanted=is_seen)
    out = attend(q, k, v, rule=rule, score=1.0, site=SITE, probe=looker, **options)
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    if is_seen:
        assert bool(torch.isneginf(looker.records[0]["lse"][0]).all())
    out.square().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad is not None
        assert bool(torch.isfinite(tensor.grad).all())
        assert torch.equal(tensor.grad[0], torch.zeros_like(tensor.grad[0]))
        assert bool((tensor.grad[1] != 0).any())


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "right", "left"])
@pytest.mark.parametrize("is_seen", [False, True])
def test_that_gradients_equal_those_of_the_plain_formula(is_causal, kind, is_seen, ramp, assert_close):
    rule = MaskRule(is_causal=is_causal, key_valid=padding(kind, 2, 5))
    grads = []
    for dtype in (torch.float32, torch.float64):
        q, k, v = (ramp(2, 2, 5, 8, start=s, dtype=dtype).requires_grad_() for s in (0.0, 1.0, 2.0))
        if dtype == torch.float32:
            out = attend(q, k, v, rule=rule, score=0.7, site=SITE, probe=Looker(wanted=is_seen))
        else:
            hidden = ~rule.allowed(5, 5)
            scores = (q @ k.transpose(-1, -2) * 0.7).masked_fill(hidden, -1e30)
            out = scores.softmax(-1).masked_fill(hidden.all(-1, keepdim=True), 0.0) @ v
        out.sin().sum().backward()
        grads.append((q.grad, k.grad, v.grad))
    for found, expected in zip(*grads, strict=True):
        assert_close(found, expected, atol=ATOL)


def test_that_gates_multiply_head_outputs_after_the_record(ramp, assert_close):
    q, k, v = (ramp(2, 3, 4, 8, start=s) for s in (0.0, 1.0, 2.0))
    plain = attend(q, k, v, rule=MaskRule(), score=1.0)
    gate = torch.tensor([0.0, 0.25, 1.0])
    looker = Looker(multipliers=gate)
    gated = attend(q, k, v, rule=MaskRule(), score=1.0, site=SITE, probe=looker)
    assert_close(gated, plain * gate[None, :, None, None], atol=1e-7)
    assert_close(looker.records[0]["out"], plain, atol=1e-7)
    of_batch = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.5, 1.0]])
    blind = Looker(multipliers=of_batch, wanted=False)
    gated = attend(q, k, v, rule=MaskRule(), score=1.0, site=SITE, probe=blind)
    assert_close(gated, plain * of_batch[:, :, None, None], atol=1e-7)
    assert blind.records == []


def test_that_a_call_without_a_site_is_never_recorded(ramp):
    q = ramp(1, 1, 2, 4)
    looker = Looker(multipliers=torch.zeros(1))
    out = attend(q, q, q, rule=MaskRule(), score=1.0, probe=looker)
    assert looker.records == []
    assert bool((out != 0).any())


def test_that_a_record_names_its_call_and_holds_no_square(ramp):
    q, k = ramp(1, 4, 5, 8), ramp(1, 2, 7, 8)
    looker = Looker()
    rule = MaskRule()
    attend(q, k, k, rule=rule, score=0.3, site=SITE, probe=looker, is_training=True)
    record = looker.records[0]
    assert (record["site"], record["scale"], record["is_training"]) == (SITE, 0.3, True)
    assert record["rule"] is rule
    shapes = {name: tuple(value.shape) for name, value in record.items() if isinstance(value, Tensor)}
    assert shapes == {
        "q": (1, 4, 5, 8),
        "k": (1, 2, 7, 8),
        "v": (1, 2, 7, 8),
        "lse": (1, 4, 5),
        "out": (1, 4, 5, 8),
    }


@pytest.mark.parametrize("is_training", [False, True])
def test_that_dropout_acts_only_in_training(is_training, ramp):
    q, k, v = (ramp(1, 2, 16, 8, start=s) for s in (0.0, 1.0, 2.0))
    torch.manual_seed(3)
    dropped = attend(q, k, v, rule=MaskRule(), score=1.0, dropout=0.5, is_training=is_training)
    plain = attend(q, k, v, rule=MaskRule(), score=1.0)
    assert torch.equal(dropped, plain) != is_training


def test_that_the_lse_of_blocks_and_slices_is_the_lse_of_the_whole(ramp, monkeypatch, assert_close):
    q, k = ramp(2, 4, 9, 8), ramp(2, 2, 9, 8, start=1.0)
    rule = MaskRule(is_causal=True, key_valid=padding("left", 2, 9))
    _, expected = attend_by_loop(q, k, k, rule, 0.6)
    monkeypatch.setattr(attention, "BLOCK_BYTES", 2 * 4 * 9 * 4 * 2)  # two rows at a time
    assert_close(row_lse(q, k, rule=rule, score=0.6), expected, atol=ATOL)
    part = row_lse(q, k, rule=rule, score=0.6, rows=slice(2, 7))
    assert_close(part, expected[:, :, 2:7], atol=ATOL)


def test_that_heads_cut_from_one_product_need_no_copy(ramp, assert_close):
    heads = ramp(2, 5, 12, 8).transpose(1, 2)  # [batch, 12 heads, 5 tokens, 8], as in a model
    q, k, v = heads.split(4, dim=1)
    rule = MaskRule(is_causal=True)
    expected, _ = attend_by_loop(q, k, v, rule, 0.35)
    looker = Looker()
    assert_close(attend(q, k, v, rule=rule, score=0.35, site=SITE, probe=looker), expected, atol=ATOL)
    assert looker.records[0]["q"].data_ptr() == heads.data_ptr()


@pytest.mark.parametrize("kind", ["none", "left"])
def test_that_a_single_query_after_others_needs_no_mask(kind, ramp, monkeypatch, assert_close):
    q, k, v = ramp(2, 2, 1, 4), ramp(2, 2, 6, 4, start=1.0), ramp(2, 2, 6, 4, start=2.0)
    rule = MaskRule(is_causal=True, key_valid=padding(kind, 2, 6))
    expected, lse = attend_by_loop(q, k, v, rule, 0.5)
    monkeypatch.setattr(MaskRule, "allowed", lambda *_, **__: pytest.fail("a mask was laid out"))
    looker = Looker()
    out = attend(q, k, v, rule=rule, score=0.5, site=SITE, probe=looker)
    assert_close(out.double(), expected, atol=ATOL)
    assert_close(looker.records[0]["lse"].double(), lse, atol=ATOL)


@pytest.mark.parametrize("n_keys", [1, 2, 7, 8, 15, 40])
@pytest.mark.parametrize("damaged", ["q", "k"])
def test_that_a_row_whose_scores_are_no_numbers_has_no_output(damaged, n_keys, ramp):
    q, k, v = (ramp(1, 2, n_keys, 4) for _ in range(3))
    (q if damaged == "q" else k)[0, 1, :, 2] = torch.nan
    for is_causal in (False, True):
        for site in (None, SITE):
            out = attend(q, k, v, rule=MaskRule(is_causal=is_causal), score=0.5, site=site, probe=Looker())
            assert out[0, 1].isnan().all()
            assert out[0, 0].isfinite().all()
