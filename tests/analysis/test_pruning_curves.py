import numpy as np
import pytest
import sacrebleu
import torch
from references import alignment_error_rate
from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope import importance, pruning_curve
from attnscope.analysis import (
    CurveChoices,
    build_batches,
    make_metric,
    pruning_curves,
    removal_steps,
    subject_of,
    token_losses,
)
from attnscope.errors import UserError
from attnscope.records import (
    METRICS,
    NO_GATES,
    RANKINGS,
    CurveSoFar,
    Gates,
    Importance,
    PartsDone,
    PruningCurve,
)
from attnscope.text import Example

TEXTS = [SENTENCE, "a dog saw the bird", "the cat on the mat saw a bird"]
EXAMPLES = [
    Example(source=SENTENCE, target=FRENCH, links=((0, 0), (1, 1), (2, 2))),
    Example(source="the cat sat", target="le chat est", links=((0, 0), (1, 2))),
]


def test_that_a_tenth_of_the_heads_goes_at_a_time() -> None:
    assert removal_steps(10, 0.1) == list(range(11))
    assert removal_steps(8, 0.25) == [0, 2, 4, 6, 8]
    assert removal_steps(7, 0.5) == [0, 4, 7]
    assert removal_steps(3, 0.01) == [0, 1, 2, 3]


def test_that_points_over_five_texts_or_more_have_intervals() -> None:
    curve = list(
        pruning_curves(tiny_model("decoder"), TEXTS * 2, ("gradient",), CurveChoices(step_share=0.5))
    )[-1]
    assert isinstance(curve, PruningCurve)
    assert all(0 <= p.low < p.value < p.high for p in curve.points)


@pytest.mark.slow
@pytest.mark.parametrize("ranking", RANKINGS)
def test_that_a_curve_removes_more_and_more_heads(ranking: str) -> None:
    model = tiny_model("decoder")
    events = list(pruning_curves(model, TEXTS, (ranking,), CurveChoices(step_share=0.25)))
    curve = events[-1]
    assert isinstance(curve, PruningCurve)
    assert [point.n_removed for point in curve.points] == [0, 2, 4, 6, 8]
    for smaller, larger in zip(curve.points, curve.points[1:], strict=False):
        assert set(smaller.gates.off()) < set(larger.gates.off())
        assert len(larger.gates.off()) == larger.n_removed
    assert np.isnan([(p.low, p.high) for p in curve.points]).all()
    assert (curve.n_texts, curve.n_heads) == (3, 8)
    assert curve.is_rescored == (ranking in ("gradient", "leave-one-out"))
    others = [event for event in events[:-1] if not isinstance(event, PartsDone)]
    grown = [event.curve for event in others if isinstance(event, CurveSoFar)]
    assert [part.points for part in grown] == [curve.points[: n + 1] for n in range(5)]
    assert [type(event) for event in others if not isinstance(event, CurveSoFar)] == [Importance]


def test_that_a_point_holds_the_gates_that_reproduce_it() -> None:
    model = tiny_model("decoder")
    point = pruning_curve(model, TEXTS, "gradient", step_share=0.25).points[2]
    nats, n = 0.0, 0
    for text in TEXTS:
        logits = torch.from_numpy(model.trace(text, gates=point.gates).logits).double()
        ids = torch.tensor(model.encode(text).source.ids)
        nats -= float(logits[:-1].log_softmax(-1)[range(len(ids) - 1), ids[1:]].sum())
        n += len(ids) - 1
    assert point.value == pytest.approx(nats / n, rel=1e-5)


def test_that_rescoring_looks_at_the_heads_that_are_left() -> None:
    model = tiny_model("decoder")
    first = importance(model, TEXTS)
    curve = pruning_curve(model, TEXTS, "gradient", step_share=0.25)
    gone = curve.points[1].gates
    assert set(gone.off()) == set(first.order[:2])
    again = importance(model, TEXTS, gates=gone)
    expected = [head for head in again.order if head not in gone.off()][:2]
    assert set(curve.points[2].gates.off()) - set(gone.off()) == set(expected)
    fixed = pruning_curve(model, TEXTS, "gradient", step_share=0.25, is_rescored=False)
    assert set(fixed.points[2].gates.off()) == set(first.order[:4])
    assert not fixed.is_rescored


@pytest.mark.parametrize("ranking", ["gradient", "leave-one-out"])
def test_that_scores_can_be_normalised_by_site_before_heads_go(ranking: str) -> None:
    model = tiny_model("decoder")
    events = pruning_curves(model, TEXTS, (ranking,), CurveChoices(step_share=0.5, is_normalised=True))
    first = next(event for event in events if isinstance(event, Importance))
    assert first.is_normalised
    assert first.order == importance(model, TEXTS, ranking, is_normalised=True).order


def test_that_heads_can_be_scored_on_other_texts() -> None:
    model = tiny_model("decoder")
    curve = pruning_curve(model, TEXTS[:1], scoring_samples=TEXTS[1:], step_share=0.5)
    assert set(curve.points[1].gates.off()) == set(importance(model, TEXTS[1:]).order[:4])
    with pytest.raises(UserError, match="share"):
        pruning_curve(model, TEXTS, step_share=0.0)


@pytest.mark.parametrize("metric", METRICS)
def test_that_metrics_equal_a_slow_version(metric: str) -> None:
    model = tiny_model("encoder-decoder")
    subject, batches = subject_of(model), build_batches(model, EXAMPLES)
    gates = Gates.of(dict.fromkeys(model.sites[4].heads[:2], 0.0))
    found = make_metric(metric, model, subject, batches, EXAMPLES).of(gates)
    assert found == pytest.approx(slow_metric(metric, model, gates), rel=1e-5)


def test_that_bleu_of_texts_without_four_words_is_refused_and_not_0() -> None:
    model = tiny_model("encoder-decoder")
    short = [("the cat sat", "the cat sat"), ("a dog", "a cat")]
    with pytest.raises(UserError, match="No translation has 4 words"):
        pruning_curve(model, short, metric="bleu")
    longer = [*short, ("the cat sat on", "the cat sat on")]
    assert all(np.isfinite(point.value) for point in pruning_curve(model, longer, metric="bleu").points)


def slow_metric(metric: str, model, gates: Gates) -> float:
    if metric == "bleu":
        written = [model.generate(example.source, gates) for example in EXAMPLES]
        return float(sacrebleu.corpus_bleu(written, [[example.target for example in EXAMPLES]]).score)
    if metric == "alignment-error":
        return min(slow_alignment(model, layer, gates) for layer in best_layers(model))
    nats, hits, whole, n = 0.0, 0, 0, 0
    for example in EXAMPLES:
        logits = torch.from_numpy(model.trace(example.source, example.target, gates).logits).double()
        told = [*model.encode(example.source, example.target).target.ids[1:], model.own.vocabulary.end_id]
        right = [int(row.argmax()) == id for row, id in zip(logits, told, strict=True)]
        nats -= sum(float(row.log_softmax(-1)[id]) for row, id in zip(logits, told, strict=True))
        hits, whole, n = hits + sum(right), whole + all(right), n + len(told)
    return {"loss": nats / n, "accuracy": hits / n, "exact-match": whole / len(EXAMPLES)}[metric]


def best_layers(model) -> list[int]:
    rates = [slow_alignment(model, layer, NO_GATES) for layer in range(2)]
    return [rates.index(min(rates))]


def slow_alignment(model, layer: int, gates: Gates) -> float:
    found, gold = set(), set()
    off = {head.head for head in gates.off() if head.site_key == ("cross", layer)}
    for number, example in enumerate(EXAMPLES):
        trace = model.trace(example.source, example.target, gates)
        maps = [trace.weights(("cross", layer), h) for h in range(4) if h not in off]
        mean = np.mean(maps, axis=0)
        for word in range(len(example.target.split())):
            found.add((number, word, int(mean[word, :-1].argmax())))
        gold |= {(number, *link) for link in example.links}
    numbers = {link: (i, 0) for i, link in enumerate(found | gold)}
    return alignment_error_rate([numbers[one] for one in found], [numbers[one] for one in gold])


def test_that_a_metric_without_gold_links_is_refused() -> None:
    model = tiny_model("decoder")
    with pytest.raises(UserError, match="no alignment"):
        pruning_curve(model, TEXTS, metric="alignment-error")
    with pytest.raises(UserError, match="no metric"):
        pruning_curve(model, TEXTS, metric="colour")


def test_that_losses_do_not_depend_on_the_batch() -> None:
    model = tiny_model("encoder-decoder")
    subject = subject_of(model)
    (both,) = build_batches(model, EXAMPLES)
    alone = build_batches(model, EXAMPLES, batch_size=1)
    with torch.no_grad():
        together = token_losses(subject, both).sum(dim=1)
        apart = torch.cat([token_losses(subject, one).sum(dim=1) for one in alone])
    torch.testing.assert_close(together, apart, atol=1e-4, rtol=1e-5)
