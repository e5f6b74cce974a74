"""Rows recorded call by call make the record of the whole, whatever the score and the mask."""

import pytest
import torch

from attnscope.models.writing import RowProbe
from attnscope.nn import DenseBias, Intervals, MaskRule, RelativeBias, ScoreRule, SlopeBias, attend
from attnscope.records import NO_GATES, Site
from attnscope.trace import TraceProbe, site_weights

N, H, K, D = 6, 4, 2, 8
SITE = Site(stack="decoder", layer=0, n_heads=H, n_kv_heads=K)
DISTANCES = torch.sin(torch.arange(H * 64, dtype=torch.float32) ** 2).reshape(H, 64)
SINKS = torch.tensor([0.3, -1.0, 0.0, 2.0])


def relative(n_queries: int, n_keys: int) -> RelativeBias:
    """One number for each head and distance, whatever part of the map it is asked for."""
    first = 32 - (n_keys - 1)
    return RelativeBias(values=DISTANCES[:, first : first + n_queries + n_keys - 1])


RULES = {
    "plain": lambda _q, _k: ScoreRule(scale=0.4),
    "softcap": lambda _q, _k: ScoreRule(scale=0.4, softcap=1.5),
    "sinks": lambda _q, _k: ScoreRule(scale=0.4, sinks=SINKS),
    "slopes": lambda _q, _k: ScoreRule(scale=0.4, bias=SlopeBias(slopes=SINKS.abs())),
    "relative": lambda q, k: ScoreRule(scale=0.4, bias=relative(q, k)),
}


def read(probe, ramp, rule: MaskRule, score, parts: list[int]) -> None:
    """Attention over the text in parts, as a writer with a cache calls it."""
    q, k, v = ramp(1, H, N, D), ramp(1, K, N, D, start=500.0), ramp(1, K, N, D, start=900.0)
    begin = 0
    for n_new in parts:
        end = begin + n_new
        attend(
            q[:, :, begin:end], k[:, :, :end], v[:, :, :end],
            rule=rule, score=score(n_new, end), site=SITE.key, probe=probe,
        )  # fmt: skip
        begin = end


@pytest.mark.parametrize("window", [None, (2, None)])
@pytest.mark.parametrize("name", list(RULES))
def test_that_rows_of_many_calls_are_those_of_one(ramp, assert_close, name, window):
    rule = MaskRule(is_causal=True, window=window)
    whole, rows = TraceProbe((SITE,), NO_GATES), RowProbe((SITE,), NO_GATES)
    read(whole, ramp, rule, RULES[name], [N])
    read(rows, ramp, rule, RULES[name], [2, 1, 1, 1, 1])
    found = rows.build_records([0] * 5)
    assert found is not None
    weights = [site_weights(records[SITE.key]) for records in (found, whole.records)]
    assert_close(weights[0].nan_to_num(-1.0), weights[1].nan_to_num(-1.0), atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "score"),
    [
        (
            MaskRule(is_causal=True),
            lambda q, k: ScoreRule(scale=0.4, bias=DenseBias(cells=torch.zeros(1, 1, q, k))),
        ),
        (
            MaskRule(
                pattern=Intervals(
                    first=torch.zeros(1, 1, dtype=torch.int64), last=torch.ones(1, 1, dtype=torch.int64)
                )
            ),
            RULES["plain"],
        ),
    ],
    ids=["dense bias", "pattern"],
)
def test_that_rules_that_cannot_go_on_give_no_record(ramp, rule, score):
    rows = RowProbe((SITE,), NO_GATES)
    read(rows, ramp, rule, score, [1, 1, 1])
    assert rows.build_records([0] * 3) is None


def test_that_rows_which_do_not_fit_the_outputs_give_no_record(ramp):
    rows = RowProbe((SITE,), NO_GATES)
    read(rows, ramp, MaskRule(is_causal=True), RULES["plain"], [3, 1])
    read(rows, ramp, MaskRule(is_causal=True), RULES["plain"], [3, 1])
    assert rows.build_records([0] * 2) is not None
    assert rows.build_records([0] * 4) is None
    assert rows.build_records([0] * 9) is None


def test_that_rows_of_several_texts_follow_the_one_they_began_with(ramp, assert_close):
    """A text alone, then two that go on from it and change places, as beams do, then one of them alone."""
    q, k, v = ramp(2, H, N, D), ramp(2, K, N, D, start=500.0), ramp(2, K, N, D, start=900.0)
    for x in (q, k, v):
        x[1, :, :3] = x[0, :, :3]
    rows = RowProbe((SITE,), NO_GATES)
    calls = [
        (range(2), [0]),
        (range(2, 3), [0]),
        (range(3, 4), [1, 0]),
        (range(4, 5), [0, 1]),
        (range(5, 6), [1]),
    ]
    for new, texts in calls:
        attend(
            q[texts, :, new.start : new.stop], k[texts, :, : new.stop], v[texts, :, : new.stop],
            rule=MaskRule(is_causal=True), score=0.4, site=SITE.key, probe=rows,
        )  # fmt: skip
    whole = TraceProbe((SITE,), NO_GATES)
    attend(q[1:], k[1:], v[1:], rule=MaskRule(is_causal=True), score=0.4, site=SITE.key, probe=whole)
    found = rows.build_records([0, 0, 0, 1, 0])
    assert found is not None
    weights = [site_weights(records[SITE.key]) for records in (found, whole.records)]
    assert_close(weights[0].nan_to_num(-1.0), weights[1].nan_to_num(-1.0), atol=1e-6)
    cut = rows.build_records([0, 0])
    assert cut is not None
    assert_close(cut[SITE.key].k, k[1, :, :3], atol=0.0)
