"""Interventions through the public model: what they do to weights and outputs, and what they leave alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records import (
    CopyPattern,
    Gates,
    HeadRef,
    Intervention,
    MakeMean,
    MakeUniform,
    RemoveEdge,
    interventions_as_json,
    interventions_from_json,
)
from attnscope.trace import load_trace


def every_kind(model: Model, text: str) -> tuple[Intervention, ...]:
    heads = model.sites[-1].heads
    other = model.sites[-1].heads[0]
    return (
        RemoveEdge(head=heads[0], query=2, key=1),
        MakeUniform(head=heads[1]),
        CopyPattern(head=heads[2], from_head=other, text=text, target=target_of(model.info.form)),
        MakeMean(head=heads[3]),
    )


@pytest.mark.parametrize("form", FORMS)
def test_that_each_intervention_shows_in_the_weights_and_in_the_output(form: str) -> None:
    model, target = tiny_model(form), target_of(form)
    plain = model.trace(SENTENCE, target)
    site = model.sites[-1]
    edge, uniform, copied, mean = every_kind(model, SENTENCE)
    trace = model.trace(SENTENCE, target, interventions=(edge, uniform, copied, mean))
    assert trace.check().is_good
    weights = [trace.weights(site, head) for head in range(4)]
    before = [plain.weights(site, head) for head in range(4)]
    assert np.isnan(weights[0][2, 1])
    np.testing.assert_allclose(np.nansum(weights[0][2]), 1.0, atol=1e-6)
    np.testing.assert_array_equal(weights[0][:2], before[0][:2])
    seen = (~np.isnan(before[1])).sum(axis=1, keepdims=True)
    expected = np.where(np.isnan(before[1]), np.nan, 1.0 / seen)
    np.testing.assert_allclose(weights[1], expected, atol=1e-6)
    np.testing.assert_allclose(weights[2], before[0], atol=1e-6)
    np.testing.assert_array_equal(weights[3], before[3])
    for intervention in (uniform, copied, mean):
        comparison = model.compare(SENTENCE, target, interventions=(intervention,))
        assert max(comparison.kl_nats) > 0
        assert comparison.before == model.compare(SENTENCE, target).before


@pytest.mark.parametrize("form", FORMS)
def test_that_removing_every_other_edge_of_a_row_leaves_one_key(form: str) -> None:
    model, target = tiny_model(form), target_of(form)
    head = model.sites[0].heads[1]
    row = model.trace(SENTENCE, target).row(model.sites[0], head.head, 3)
    keys = np.flatnonzero(~np.isnan(row))
    edges = tuple(RemoveEdge(head=head, query=3, key=int(key)) for key in keys[1:])
    found = model.trace(SENTENCE, target, interventions=edges).row(model.sites[0], head.head, 3)
    assert found[keys[0]] == pytest.approx(1.0)
    blind = tuple(RemoveEdge(head=head, query=3, key=int(key)) for key in keys)
    trace = model.trace(SENTENCE, target, interventions=blind)
    assert np.isnan(trace.row(model.sites[0], head.head, 3)).all()
    assert trace.check().is_good


def test_that_copying_a_heads_own_pattern_changes_nothing() -> None:
    model = tiny_model("decoder")
    head = model.sites[1].heads[2]
    same = CopyPattern(head=head, from_head=head, text=SENTENCE)
    assert max(model.compare(SENTENCE, interventions=(same,)).kl_nats) < 1e-10


def test_that_gates_and_interventions_go_together() -> None:
    model = tiny_model("decoder")
    head = model.sites[0].heads[0]
    off = Gates.of({head: 0.0})
    uniform = (MakeUniform(head=head),)
    both, gated = (
        model.compare(SENTENCE, None, off, interventions=uniform),
        model.compare(SENTENCE, None, off),
    )
    np.testing.assert_allclose(both.kl_nats, gated.kl_nats, atol=1e-9)


@pytest.mark.parametrize(
    ("intervention", "words"),
    [
        (MakeUniform(head=HeadRef(stack="decoder", layer=9, head=0)), "no head L9H0"),
        (
            RemoveEdge(head=HeadRef(stack="decoder", layer=0, head=0), query=99, key=0),
            "no edge from query 99",
        ),
        (
            CopyPattern(
                head=HeadRef(stack="decoder", layer=0, head=0),
                from_head=HeadRef(stack="decoder", layer=0, head=1),
                text="the cat",
            ),
            "queries on",
        ),
    ],
)
def test_that_what_does_not_fit_is_refused_in_words(intervention: Intervention, words: str) -> None:
    with pytest.raises(UserError, match=words):
        tiny_model("decoder").look(SENTENCE, interventions=(intervention,))


@pytest.mark.parametrize("form", FORMS)
def test_that_a_saved_trace_keeps_its_interventions(form: str, tmp_path: Path) -> None:
    model = tiny_model(form)
    changes = every_kind(model, SENTENCE)
    trace = model.trace(SENTENCE, target_of(form), interventions=changes)
    trace.save(tmp_path / "t.safetensors")
    found = load_trace(tmp_path / "t.safetensors")
    assert found.interventions == changes
    check = found.check()
    assert check == replace(trace.check(), row_sum_error=check.row_sum_error, is_read=True)
    for site in trace.sites:
        np.testing.assert_array_equal(found.all_weights(site).numpy(), trace.all_weights(site).numpy())


def test_that_interventions_survive_json_and_say_what_they_do() -> None:
    changes = every_kind(tiny_model("decoder"), "a text that is rather long, longer than forty characters")
    assert interventions_from_json(interventions_as_json(changes)) == changes
    sentences = [change.sentence for change in changes]
    assert len(set(sentences)) == 4
    assert all(len(sentence) < 80 for sentence in sentences)
    with pytest.raises(KeyError):
        interventions_from_json([{"kind": "explode", "head": ["decoder", 0, 0]}])


def test_that_nothing_is_written_under_a_copied_pattern_and_a_text_grows_under_the_others() -> None:
    model = tiny_model("decoder")
    edge, uniform, copied, mean = every_kind(model, SENTENCE)
    assert model.compare(SENTENCE, interventions=(copied,)).after.generated == ""
    found = model.compare(SENTENCE, interventions=(replace(edge, key=0), uniform, mean), n_continue=3)
    assert found.before.generated == model.generate(SENTENCE, max_tokens=3)
