"""The scores that fused attention does not know: gradients, blocks, edits, and what they are in the limit."""

import math

import pytest
import torch

from attnscope.nn import (
    CopiedPattern,
    Edits,
    MaskRule,
    ModelConfig,
    OffsetBias,
    ScoreRule,
    Scoring,
    additive_scores,
    attend,
    attend_by_sums,
    row_lse,
    scores_of,
)
from attnscope.schemes.scores import SCORES

SITE = ("decoder", 0)
features = SCORES["kernel"].queries


class Looker:
    def __init__(self, change: Edits | None = None) -> None:
        self.change = change

    def gate(self, site):
        return None

    def edits(self, site):
        return self.change

    def wants(self, site):
        return True

    def record(self, site, call, **facts):
        self.call, self.facts = call, facts


def made(score: str, *, n_heads: int, d_head: int, **numbers: float) -> Scoring:
    config = ModelConfig(form="decoder", vocab_size=9, n_heads=n_heads, d_head=d_head, score=score, **numbers)
    kind = SCORES[score]
    return Scoring(kind, scale=kind.scale(config), n_heads=n_heads, d_head=d_head)


def weights_of(looker: Looker) -> torch.Tensor:
    call = looker.call
    s = scores_of(call.q, call.k, rule=call.rule, score=call.score)
    return (s - looker.facts["lse"][..., None]).exp()


def kinds(ramp) -> dict[str, ScoreRule]:
    return {
        "additive": ScoreRule(scale=1.0, vector=ramp(2, 4, start=5.0)),
        "kernel": ScoreRule(scale=1.0, is_kernel=True),
        "offsets": ScoreRule(scale=0.5, bias=OffsetBias(values=ramp(2, 2, 5, 5, start=3.0))),
    }


@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_that_the_additive_score_has_its_gradient(block_bytes, ramp, monkeypatch):
    monkeypatch.setattr("attnscope.nn.scores.BLOCK_BYTES", block_bytes)
    q, k, v = (
        ramp(*shape, dtype=torch.float64).requires_grad_() for shape in ((2, 2, 3, 4), (2, 2, 5, 4), (2, 4))
    )
    expected = (torch.tanh(q[:, :, :, None] + k[:, :, None]) * v[:, None, None]).sum(-1)
    assert torch.allclose(additive_scores(q, k, v), expected)
    assert torch.autograd.gradcheck(additive_scores, (q, k, v))


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["general", "cosine", "gaussian", "additive", "kernel"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_that_attention_has_the_gradient_of_every_score(choice, is_causal, ramp):
    scoring = made(choice, n_heads=2, d_head=4).double()
    scoring.fill(torch.Generator().manual_seed(0))
    q, k, v = (
        ramp(1, h, 5, 4, start=s, dtype=torch.float64).requires_grad_() for h, s in ((2, 0), (1, 1), (1, 2))
    )

    def out(q, k, v, *_):
        q = scoring.queries(scoring.turn(q))
        return attend(q, scoring.keys(k), v, rule=MaskRule(is_causal=is_causal), score=scoring.rule(q))

    assert torch.autograd.gradcheck(out, (q, k, v, *scoring.parameters()))


def test_that_offsets_have_their_gradient(ramp):
    values = ramp(1, 2, 4, 5, dtype=torch.float64).requires_grad_()

    def cells(values):
        return OffsetBias(values=values).part(4, 6, slice(1, 4), slice(0, 6))

    assert torch.autograd.gradcheck(cells, (values,))
    with pytest.raises(ValueError, match="expected"):
        OffsetBias(values=values).part(5, 6, slice(0, 1), slice(0, 1))


@pytest.mark.parametrize("n_tokens", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("is_padded", [False, True])
def test_that_sums_over_keys_are_the_weights_they_stand_for(
    n_tokens, is_causal, is_padded, ramp, assert_close
):
    q, k = (features(3 * ramp(2, 4, n_tokens, 8, start=s)) for s in (0.0, 1.0))
    k, v = k[:, :2], ramp(2, 2, n_tokens, 6, start=2.0)
    valid = (torch.arange(2 * n_tokens).reshape(2, -1) % 5 != 0) if is_padded else None
    rule = MaskRule(is_causal=is_causal, key_valid=valid)
    out, lse = attend_by_sums(q, k, v, is_causal=is_causal, key_valid=valid)
    products = (q.double() @ k.double().repeat_interleave(2, dim=1).transpose(2, 3)).masked_fill(
        ~rule.allowed(n_tokens, n_tokens), 0.0
    )
    sums = products.sum(-1, keepdim=True)
    weights = torch.where(sums > 0, products / sums, 0.0)
    assert_close(lse, sums[..., 0].log(), atol=2e-5)
    assert_close(out, weights @ v.double().repeat_interleave(2, dim=1), atol=2e-5)
    assert_close(
        row_lse(q, k, rule=rule, score=ScoreRule(scale=1.0, is_kernel=True)), sums[..., 0].log(), atol=2e-5
    )


def test_that_features_are_above_zero_however_far_down():
    x = torch.tensor([-80.0, -20.0, -1.0, 0.0, 2.0], dtype=torch.float64)
    assert torch.equal(features(x), SCORES["kernel"].keys(x))
    assert torch.allclose(features(x), torch.nn.functional.elu(x) + 1, atol=1e-15)
    assert bool((features(x.float()) > 0).all())


def test_that_linear_attention_holds_nothing_of_the_size_of_a_map():
    q, k = (features(torch.randn(1, 1, 20_000, 4)) for _ in range(2))  # a map would take 1.6 GB
    out = attend(
        q,
        k,
        torch.randn(1, 1, 20_000, 4),
        rule=MaskRule(is_causal=True),
        score=ScoreRule(scale=1.0, is_kernel=True),
    )
    assert bool(out.isfinite().all())


@pytest.mark.parametrize("kind", ["additive", "kernel", "offsets"])
def test_that_an_edge_taken_out_gives_its_weight_to_the_rest_of_its_row(kind, ramp, assert_close):
    q, k, v = (features(ramp(2, 2, 5, 4, start=s)) for s in (0.0, 1.0, 2.0))
    score, rule = kinds(ramp)[kind], MaskRule(is_causal=True)
    before, after = Looker(), Looker(Edits(removed=((1, 4, 2),)))
    attend(q, k, v, rule=rule, score=score, site=SITE, probe=before)
    out = attend(q, k, v, rule=rule, score=score, site=SITE, probe=after)
    expected = weights_of(before)[1, 1, 4].clone()
    expected[2] = 0.0
    expected /= expected.sum()
    assert_close(weights_of(after)[1, 1, 4], expected, atol=1e-6)
    assert_close(out[1, 1, 4], expected @ v[1, 1], atol=1e-5)


@pytest.mark.parametrize("kind", ["additive", "kernel", "offsets"])
def test_that_a_head_can_be_made_uniform_or_copied(kind, ramp, assert_close):
    q, k, v = (features(ramp(1, 2, 5, 4, start=s)) for s in (0.0, 1.0, 2.0))
    score, rule = kinds(ramp)[kind], MaskRule(is_causal=True)
    if kind == "offsets":
        score = ScoreRule(scale=0.5, bias=OffsetBias(values=ramp(1, 2, 5, 5, start=3.0)))
    plain = Looker()
    attend(q, k, v, rule=rule, score=score, site=SITE, probe=plain)
    uniform = Looker(Edits(uniform=(0,)))
    attend(q, k, v, rule=rule, score=score, site=SITE, probe=uniform)
    assert_close(weights_of(uniform)[0, 0, 3], torch.tensor([0.25] * 4 + [0.0]), atol=1e-6)
    assert_close(weights_of(uniform)[0, 1], weights_of(plain)[0, 1], atol=1e-6)
    pattern = CopiedPattern(q=q[0, 1], k=k[0, 1], rule=rule, score=score, head=1)
    copied = Looker(Edits(copied={0: pattern}))
    attend(q, k, v, rule=rule, score=score, site=SITE, probe=copied)
    assert_close(weights_of(copied)[0, 0], weights_of(plain)[0, 1], atol=1e-6)


def test_that_cosine_scores_do_not_know_how_long_a_vector_is(ramp, assert_close):
    scoring = made("cosine", n_heads=2, d_head=4, temperature=0.2)
    q, k, v = (ramp(1, 2, 5, 4, start=s) for s in (0.0, 1.0, 2.0))

    def out(factor):
        read = scoring.queries(factor * q)
        return attend(read, scoring.keys(k / factor), v, rule=MaskRule(), score=scoring.rule(read))

    assert_close(out(37.0), out(1.0), atol=1e-6)


def test_that_a_narrow_gaussian_is_the_nearest_key_and_a_wide_one_the_mean(ramp, assert_close):
    q, k, v = (ramp(1, 1, 6, 3, start=s) for s in (0.0, 1.0, 2.0))
    outs = {}
    for sigma in (0.03, 300.0):
        scoring = made("gaussian", n_heads=1, d_head=3, sigma=sigma)
        read = scoring.queries(q)
        outs[sigma] = attend(read, scoring.keys(k), v, rule=MaskRule(), score=scoring.rule(read))
    nearest = torch.cdist(q[0, 0], k[0, 0]).argmin(dim=1)
    assert_close(outs[0.03][0, 0], v[0, 0][nearest], atol=1e-3)
    assert_close(outs[300.0][0, 0], v[0, 0].mean(0).expand(6, -1), atol=1e-4)


def test_that_a_gaussian_is_recorded_with_its_true_scores(ramp, assert_close):
    scoring, looker = made("gaussian", n_heads=2, d_head=4, sigma=0.8), Looker()
    q, k, v = (ramp(1, 2, 5, 4, start=s) for s in (0.0, 1.0, 2.0))
    read = scoring.queries(q)
    attend(read, scoring.keys(k), v, rule=MaskRule(), score=scoring.rule(read), site=SITE, probe=looker)
    expected = -torch.cdist(q, k).square() / (2 * 0.8**2)
    found = scores_of(looker.call.q, looker.call.k, rule=looker.call.rule, score=looker.call.score)
    assert_close(found, expected, atol=1e-5)
    assert looker.call.v.shape[3] == 4
    assert math.isclose(scoring.scale, 0.8**-2)
