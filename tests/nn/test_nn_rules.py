"""attend() under every mask and score rule, and under edits, against a loop in float64."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.nn import (
    Call,
    CopiedPattern,
    Dense,
    DenseBias,
    Edits,
    Intervals,
    MaskRule,
    RelativeBias,
    RemovedCells,
    ScoreRule,
    SlopeBias,
    attend,
    attention,
    row_lse,
)

SITE = ("decoder", 0)
ATOL = 1e-5  # sums of at most 20 float32 terms below 10


@dataclass
class Looker:
    change: Edits | None = None
    records: list[dict[str, Any]] = field(default_factory=list)

    def gate(self, site):
        return None

    def edits(self, site):
        return self.change

    def wants(self, site):
        return True

    def record(self, site, call, **facts):
        self.records.append({"call": call, **facts})


def by_loop(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Output, lse and weights in float64, one cell at a time."""
    q, k, v = (t.detach().double() for t in (call.q, call.k, call.v))
    batch, n_heads, n_queries, _ = q.shape
    n_keys, n_groups = k.shape[2], n_heads // k.shape[1]
    allowed = call.rule.allowed(n_queries, n_keys).expand(batch, n_heads, -1, -1)
    weights = torch.zeros(batch, n_heads, n_queries, n_keys, dtype=torch.float64)
    lse = torch.full((batch, n_heads, n_queries), -math.inf, dtype=torch.float64)
    out = torch.zeros(batch, n_heads, n_queries, v.shape[3], dtype=torch.float64)
    score = call.score
    bias = None if score.bias is None else score.bias.part(n_queries, n_keys, slice(None), slice(None))
    bias = None if bias is None else bias.expand(batch, n_heads, -1, -1).double()
    for b in range(batch):
        for h in range(n_heads):
            for i in range(n_queries):
                found = {}
                for j in range(n_keys):
                    if not allowed[b, h, i, j]:
                        continue
                    s = float(q[b, h, i] @ k[b, h // n_groups, j]) * score.scale
                    if score.softcap is not None:
                        s = score.softcap * math.tanh(s / score.softcap)
                    found[j] = s + (0.0 if bias is None else float(bias[b, h, i, j]))
                terms = list(found.values()) + ([] if score.sinks is None else [float(score.sinks[h])])
                if not terms:
                    continue
                lse[b, h, i] = math.log(sum(math.exp(s) for s in terms))
                for j, s in found.items():
                    weights[b, h, i, j] = math.exp(s - float(lse[b, h, i]))
                    out[b, h, i] += weights[b, h, i, j] * v[b, h // (n_heads // v.shape[1]), j]
    return out, lse, weights


def slow_allowed(rule: MaskRule, i: int, j: int, n_queries: int, n_keys: int) -> bool:
    place = i + n_keys - n_queries
    back, ahead = rule.window or (None, None)
    return (
        not (rule.is_causal and j > place)
        and (back is None or j >= place - back)
        and (ahead is None or j <= place + ahead)
    )


@pytest.mark.parametrize("window", [None, (0, None), (2, None), (None, 1), (2, 1), (0, 0), (99, 99)])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 5), (2, 6), (6, 2)])
def test_that_a_window_is_what_its_definition_says(window, is_causal, sizes):
    rule = MaskRule(is_causal=is_causal, window=window)
    found = rule.allowed(*sizes)[0, 0]
    expected = [[slow_allowed(rule, i, j, *sizes) for j in range(sizes[1])] for i in range(sizes[0])]
    assert found.tolist() == expected
    part = rule.allowed(*sizes, slice(0, None, 2), slice(1, None))
    assert torch.equal(part[0, 0], found[0::2, 1:])
    blind = rule.rows_without_keys(*sizes)
    has_none = ~found.any(-1)
    assert (blind is None and not has_none.any()) or torch.equal(blind.expand(1, 1, sizes[0])[0, 0], has_none)


def intervals(n_queries: int, n_keys: int) -> Intervals:
    i = torch.arange(n_queries)[None]
    return Intervals(first=(i - 3).clamp(min=0) % n_keys, last=((i * 5) % n_keys))


def dense(n_heads: int, n_queries: int, n_keys: int) -> Dense:
    cells = torch.arange(n_heads * n_queries * n_keys).reshape(1, n_heads, n_queries, n_keys)
    return Dense(cells=(cells * cells) % 7 < 4)


RULES = {
    "none": lambda h, n, m: MaskRule(),
    "causal": lambda h, n, m: MaskRule(is_causal=True),
    "window": lambda h, n, m: MaskRule(is_causal=True, window=(3, None)),
    "band and padding": lambda h, n, m: MaskRule(
        window=(2, 2), key_valid=torch.arange(2 * m).reshape(2, m) % 5 != 1
    ),
    "intervals": lambda h, n, m: MaskRule(pattern=intervals(n, m)),
    "dense": lambda h, n, m: MaskRule(pattern=dense(h, n, m)),
    "removed": lambda h, n, m: MaskRule(
        is_causal=True, removed=RemovedCells(cells=torch.tensor([[1, n - 1, 0], [0, 0, 0]]), n_heads=h)
    ),
}
SCORES = {
    "plain": lambda h, n, m, ramp: ScoreRule(scale=0.7),
    "soft-cap": lambda h, n, m, ramp: ScoreRule(scale=0.7, softcap=1.5),
    "relative": lambda h, n, m, ramp: ScoreRule(scale=1.0, bias=RelativeBias(values=ramp(h, n + m - 1))),
    "slopes": lambda h, n, m, ramp: ScoreRule(scale=0.7, bias=SlopeBias(slopes=torch.arange(1, h + 1) / 4.0)),
    "dense": lambda h, n, m, ramp: ScoreRule(scale=0.7, bias=DenseBias(cells=ramp(1, h, n, m))),
    "sinks": lambda h, n, m, ramp: ScoreRule(scale=0.7, sinks=ramp(h)),
    "cap and sinks": lambda h, n, m, ramp: ScoreRule(scale=0.7, softcap=2.0, sinks=ramp(h)),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", ["fused", "blocks", "with gradients"])
@pytest.mark.parametrize("score_name", SCORES)
@pytest.mark.parametrize("rule_name", RULES)
@pytest.mark.parametrize(("n_kv_heads", "n_queries", "n_keys"), [(4, 7, 7), (2, 3, 6)])
def test_that_attend_equals_a_loop_under_every_rule(
    rule_name, score_name, path, n_kv_heads, n_queries, n_keys, ramp, assert_close, monkeypatch
):
    q = ramp(2, 4, n_queries, 8)
    k, v = ramp(2, n_kv_heads, n_keys, 8, start=1.0), ramp(2, n_kv_heads, n_keys, 8, start=2.0)
    q.requires_grad_(path == "with gradients")
    if path == "blocks":
        monkeypatch.setattr(attention, "BLOCK_BYTES", 2 * 4 * n_keys * 4 * 2)
    rule, score = RULES[rule_name](4, n_queries, n_keys), SCORES[score_name](4, n_queries, n_keys, ramp)
    expected, lse, _ = by_loop(Call(q=q, k=k, v=v, rule=rule, score=score))
    looker = Looker()
    assert_close(attend(q, k, v, rule=rule, score=score), expected, atol=ATOL)
    assert_close(attend(q, k, v, rule=rule, score=score, site=SITE, probe=looker), expected, atol=ATOL)
    assert_close(looker.records[0]["lse"], lse, atol=ATOL)
    assert_close(row_lse(q, k, rule=rule, score=score), lse, atol=ATOL)


EDITS = {
    "edge": Edits(removed=((1, 4, 2), (1, 4, 0), (3, 0, 0))),
    "uniform": Edits(uniform=(0, 2)),
    "uniform and edge": Edits(uniform=(1,), removed=((1, 4, 2),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("score_name", SCORES)
@pytest.mark.parametrize("edit_name", EDITS)
@pytest.mark.parametrize("n_kv_heads", [4, 2])
def test_that_edits_change_the_last_text_only_and_as_their_record_says(
    score_name, edit_name, n_kv_heads, ramp, assert_close
):
    q = ramp(2, 4, 5, 8)
    k, v = ramp(2, n_kv_heads, 5, 8, start=1.0), ramp(2, n_kv_heads, 5, 8, start=2.0)
    rule, score = MaskRule(is_causal=True), SCORES[score_name](4, 5, 5, ramp)
    edits = EDITS[edit_name]
    plain = attend(q, k, v, rule=rule, score=score)
    looker = Looker(change=edits)
    out = attend(q, k, v, rule=rule, score=score, site=SITE, probe=looker)
    assert torch.equal(out[0], plain[0])
    recorded = looker.records[0]["call"]
    expected, lse, weights = by_loop(
        Call(q=recorded.q, k=recorded.k, v=v, rule=recorded.rule, score=recorded.score)
    )
    assert_close(out[-1], expected[-1], atol=ATOL)
    assert_close(looker.records[0]["lse"][-1], lse[-1], atol=ATOL)
    for head, query, key in edits.removed:
        assert weights[-1, head, query, key] == 0.0
    for head in edits.uniform:
        if not edits.removed:
            sums = weights[-1, head] * torch.arange(1, 6)[:, None]
            assert_close(sums, torch.ones(5, 5).tril(), atol=ATOL)
    touched = {*edits.uniform, *(head for head, _, _ in edits.removed)}
    for head in set(range(4)) - touched:
        assert torch.equal(out[-1, head], plain[-1, head])


def test_that_a_removed_edge_gives_its_weight_to_the_rest_of_its_row_and_no_other_row(ramp, assert_close):
    q, k, v = (ramp(1, 2, 5, 8, start=s) for s in (0.0, 1.0, 2.0))
    call = Call(q=q, k=k, v=v, rule=MaskRule(is_causal=True), score=ScoreRule(scale=0.5))
    weights = by_loop(call)[2][0, 1, 4]
    weights[2] = 0.0
    expected = (weights / weights.sum()) @ v[0, 1].double()
    looker = Looker(change=Edits(removed=((1, 4, 2),)))
    out = attend(q, k, v, rule=call.rule, score=call.score, site=SITE, probe=looker)
    assert_close(out[0, 1, 4], expected, atol=ATOL)
    assert_close(out[0, 1, :4], attend(q, k, v, rule=call.rule, score=call.score)[0, 1, :4], atol=0.0)


@pytest.mark.parametrize("score_name", SCORES)
def test_that_a_copied_pattern_is_the_other_heads_pattern(score_name, ramp, assert_close):
    q, k, v = (ramp(1, 4, 6, 8, start=s) for s in (0.0, 1.0, 2.0))
    other_q, other_k = ramp(1, 4, 6, 8, start=7.0), ramp(1, 4, 6, 8, start=9.0)
    rule, score = MaskRule(is_causal=True), SCORES[score_name](4, 6, 6, ramp)
    other = by_loop(Call(q=other_q, k=other_k, v=v, rule=rule, score=score))[2][0, 3]
    pattern = CopiedPattern(q=other_q[0, 3], k=other_k[0, 3], rule=rule, score=score, head=3)
    looker = Looker(change=Edits(copied={1: pattern}))
    out = attend(q, k, v, rule=rule, score=score, site=SITE, probe=looker)
    assert_close(out[0, 1], other @ v[0, 1].double(), atol=ATOL)
    assert_close(out[0, 0], attend(q, k, v, rule=rule, score=score)[0, 0], atol=0.0)


def test_that_a_mean_head_gives_every_query_the_same_and_records_the_head_itself(ramp, assert_close):
    q, k, v = (ramp(2, 2, 5, 8, start=s) for s in (0.0, 1.0, 2.0))
    plain = attend(q, k, v, rule=MaskRule(), score=0.5)
    looker = Looker(change=Edits(mean=(1,)))
    out = attend(q, k, v, rule=MaskRule(), score=0.5, site=SITE, probe=looker)
    assert_close(out[1, 1], plain[1, 1].mean(0, keepdim=True).expand(5, -1), atol=1e-6)
    assert_close(out[0], plain[0], atol=1e-6)
    assert_close(looker.records[0]["out"], plain, atol=1e-6)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        (Edits(removed=((0, 5, 0),)), "no edge from query 5 to key 0"),
        (Edits(removed=((9, 0, 0),)), "head 9"),
        (
            Edits(
                copied={
                    0: CopiedPattern(
                        q=torch.zeros(4, 8),
                        k=torch.zeros(4, 8),
                        rule=MaskRule(),
                        score=ScoreRule(scale=1.0),
                        head=0,
                    )
                }
            ),
            "4 queries on 4 keys",
        ),
        (
            Edits(
                copied={
                    0: CopiedPattern(
                        q=torch.zeros(5, 8),
                        k=torch.zeros(5, 8),
                        rule=MaskRule(is_causal=True),
                        score=ScoreRule(scale=1.0),
                        head=0,
                    )
                }
            ),
            "another rule",
        ),
    ],
)
def test_that_an_edit_that_does_not_fit_is_refused_in_words(edits, words, ramp):
    q = ramp(1, 2, 5, 8)
    with pytest.raises(UserError, match=words):
        attend(q, q, q, rule=MaskRule(), score=1.0, site=SITE, probe=Looker(change=edits))
