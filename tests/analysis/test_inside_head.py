"""Inside one head: every number against a slow computation in float64, for every rule and whole models."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hf_folders import make, save_folder
from long_records import KINDS, long_record, ramp
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import inside_of_record, look_inside
from attnscope.errors import UserError
from attnscope.models import Model, load
from attnscope.nn import ScoreRule
from attnscope.records import N_STRONGEST, Gates, HeadInside, HeadRef, MakeUniform, RemoveEdge, Token
from attnscope.trace import SiteRecord

ATOL = 2e-5  # the records are float32, with scores of up to ±10


def tokens(n: int) -> tuple[Token, ...]:
    return tuple(Token(id=i, piece=f"w{i}") for i in range(n))


def with_values(record: SiteRecord, score: ScoreRule | None = None) -> SiteRecord:
    """The record with values, and the output that a slow loop finds for them."""
    score = score or record.score
    v = ramp(record.k.shape[0], record.n_keys, 3, start=2.2)
    lse, out = torch.zeros_like(record.lse), torch.zeros(record.q.shape[0], record.n_queries, 3)
    made = dataclasses.replace(record, score=score, v=v, lse=lse, out=out)
    for head in range(record.q.shape[0]):
        for query in range(record.n_queries):
            s = slow_scores(made, head, query)
            total = sum(math.exp(x) for x in s)
            total += 0.0 if score.sinks is None else math.exp(score.sinks[head])
            lse[head, query] = math.log(total) if total else -math.inf
            values = v[head * v.shape[0] // record.q.shape[0]]
            for x, value in zip(s, values, strict=True):
                out[head, query] += (math.exp(x) / total if total else 0.0) * value
    return made


def slow_scores(record: SiteRecord, head: int, query: int) -> list[float]:
    score, found = record.score, []
    allowed = record.rule.allowed(record.n_queries, record.n_keys)[0]
    for key in range(record.n_keys):
        q = record.q[head, query].tolist()
        k = record.k[head * record.k.shape[0] // record.q.shape[0], key].tolist()
        if score.vector is not None:
            s = sum(w * math.tanh(a + b) for w, a, b in zip(score.vector[head].tolist(), q, k, strict=True))
        else:
            s = sum(a * b for a, b in zip(q, k, strict=True))
        s *= score.scale
        s = math.log(s) if score.is_kernel else s
        s = score.softcap * math.tanh(s / score.softcap) if score.softcap is not None else s
        if score.bias is not None:
            whole = score.bias.part(record.n_queries, record.n_keys, slice(None), slice(None))
            s += float(whole[0, head, query, key])
        found.append(s if allowed[head if len(allowed) > 1 else 0, query, key] else -math.inf)
    return found


def check(inside: HeadInside, record: SiteRecord) -> None:
    """Scores, weights and output against the slow ones."""
    s = slow_scores(record, inside.head.head, inside.query)
    np.testing.assert_allclose(inside.score, s, atol=ATOL, rtol=1e-5)
    total = sum(math.exp(x) for x in s)
    total += 0.0 if inside.sink is None else math.exp(inside.sink)
    if not total:
        assert inside.is_blind
        assert np.isnan(inside.weight).all()
        return
    weights = [math.exp(x) / total for x in s]
    np.testing.assert_allclose(np.nan_to_num(inside.weight), weights, atol=ATOL)
    assert [w == 0 for w in weights] == np.isnan(inside.weight).tolist()
    assert inside.is_exact
    np.testing.assert_allclose(inside.weighted.sum(axis=0), inside.own_output, atol=ATOL)


@pytest.mark.parametrize("kind", KINDS)
def test_that_every_rule_gives_the_numbers_of_a_slow_loop(kind: str) -> None:
    record = with_values(long_record(kind, 7, 9 if kind == "open" else 7))
    for query in (0, 3, 6):
        head = HeadRef(stack="encoder", layer=0, head=1)
        inside = inside_of_record(record, head, query, queries=tokens(7), keys=tokens(record.n_keys))
        check(inside, record)
        np.testing.assert_allclose(inside.products.sum(axis=1), inside.dot, atol=ATOL)
        assert (inside.softcap is None) is (inside.capped is None)
        assert (inside.bias is not None) is kind.endswith("bias")


def test_that_additive_and_kernel_scores_are_taken_apart_too() -> None:
    record = long_record("causal", 5, 5)
    additive = with_values(record, ScoreRule(scale=1.0, vector=ramp(2, 4, start=0.5)))
    positive = dataclasses.replace(record, q=record.q.abs() + 0.1, k=record.k.abs() + 0.1)
    kernel = with_values(positive, ScoreRule(scale=1.0, is_kernel=True))
    for made, name in ((additive, "additive"), (kernel, "kernel")):
        head = HeadRef(stack="encoder", layer=0, head=0)
        inside = inside_of_record(made, head, 3, queries=tokens(5), keys=tokens(5))
        assert inside.comparison == name
        check(inside, made)


def test_that_long_texts_show_the_strongest_keys_and_count_the_rest() -> None:
    record = with_values(long_record("causal", 4, 90))
    head = HeadRef(stack="encoder", layer=0, head=0)
    inside = inside_of_record(record, head, 3, queries=tokens(4), keys=tokens(90))
    s = slow_scores(record, 0, 3)
    strongest = sorted(sorted(range(90), key=lambda j: -s[j])[:N_STRONGEST])
    assert inside.keys == tuple(strongest)
    assert inside.n_rest == 90 - N_STRONGEST
    shown = float(np.nansum(inside.weight.astype(np.float64)))
    assert inside.rest_weight == pytest.approx(1.0 - shown, abs=ATOL)
    assert inside.is_exact


@pytest.mark.parametrize(
    ("form", "choices"),
    [
        ("decoder", {}),
        ("encoder", {"score": "gaussian"}),
        ("encoder", {"score": "additive"}),
        ("encoder-decoder", {"position": "alibi"}),
    ],
)
def test_that_a_models_output_is_the_sum_of_its_weighted_values(form: str, choices: dict[str, str]) -> None:
    model = tiny_model(form, **choices)
    for site in model.sites:
        trace = model.trace_site(site.key, SENTENCE, target_of(form))
        for head in site.heads[:2]:
            check(look_inside(trace, head, 2), trace.records[site.key])


def test_that_the_pass_has_the_gates_and_changes_of_the_view() -> None:
    model = tiny_model("decoder")
    off, last = HeadRef(stack="decoder", layer=0, head=0), HeadRef(stack="decoder", layer=1, head=3)
    changes = (
        RemoveEdge(head=last, query=3, key=1),
        MakeUniform(head=HeadRef(stack="decoder", layer=1, head=2)),
    )
    gates = Gates.of({off: 0.0, last: 0.5})
    whole = model.trace(SENTENCE, gates=gates, interventions=changes)
    trace = model.trace_site(("decoder", 1), SENTENCE, gates=gates, interventions=changes)
    for head in (2, 3):
        inside = look_inside(trace, dataclasses.replace(last, head=head), 3)
        np.testing.assert_allclose(inside.weight, whole.row(("decoder", 1), head, 3), atol=1e-6)
        assert inside.is_exact
    assert (inside.gate, inside.is_allowed(1), inside.n_allowed) == (0.5, False, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_that_a_hugging_face_head_is_taken_apart_exactly(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("transformers")
    model: Model = load(save_folder(tmp_path / kind, *make(kind)), "cpu")
    for site in model.sites:
        trace = model.trace_site(site.key, "the animal said it", "it" if kind == "t5" else None)
        inside = look_inside(trace, site.heads[1], 1)
        check(inside, trace.records[site.key])
        assert (inside.bias is not None) is (kind == "t5" and site.stack != "cross")


def test_that_what_is_not_there_is_refused_in_words() -> None:
    model = tiny_model("decoder")
    head = HeadRef(stack="decoder", layer=0, head=0)
    with pytest.raises(UserError, match="holds no values"):
        look_inside(model.trace(SENTENCE), head, 0)
    with pytest.raises(UserError, match="no query 99"):
        look_inside(model.trace_site(("decoder", 0), SENTENCE), head, 99)
    with pytest.raises(UserError, match="no head L9H0"):
        look_inside(model.trace(SENTENCE), dataclasses.replace(head, layer=9), 0)
