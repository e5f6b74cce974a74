import numpy as np
import pytest
import torch
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope import importance
from attnscope.analysis import (
    Patching,
    attribute_logits,
    batch_of,
    choose_answers,
    patch_map,
    rank_collapse,
    relevance,
    rollout,
    site_spectrum,
)
from attnscope.errors import UserError
from attnscope.records import Gates, HeadRef

SHAPES: list[dict[str, object]] = [
    {},
    {"norm_place": "post"},
    {"norm": "rms", "activation": "swiglu", "bias": False, "position": "rotary"},
    {"residual": "reversible", "norm": "none"},
    {"norm_place": "post", "embedding_norm": True, "output_bias": True},
    {"position": "sinusoidal", "scale_embeddings": True, "tie_embeddings": False, "output_bias": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_that_contributions_add_up_to_the_logit_difference(form: str, shape: dict[str, object]) -> None:
    model = tiny_model(form, **shape, **({"n_segments": 2} if form == "encoder" else {}))
    if not shape.get("tie_embeddings", True):
        torch.nn.init.normal_(model.own.module.head.weight, generator=torch.Generator().manual_seed(0))
    found = attribute_logits(model, SENTENCE, target_of(form), position=3, answer=7, other=5)
    logits = model.trace(SENTENCE, target_of(form)).logits[3].astype(np.float64)
    assert found.difference == pytest.approx(logits[7] - logits[5], abs=1e-5)
    assert found.total == pytest.approx(found.difference, abs=2e-5)
    heads = [one.head for one in found.contributions if one.kind == "head"]
    predicting = {"decoder", "cross"} if form != "encoder" else {"encoder"}
    assert set(heads) == {h for site in model.sites if site.stack in predicting for h in site.heads}
    assert sum(one.kind == "feed-forward" for one in found.contributions) == 2


def test_that_the_second_of_two_texts_adds_its_own_segment() -> None:
    model = tiny_model("encoder", n_segments=2, has_pooler=True, has_next_sentence=True)
    texts = SENTENCE, "a dog saw the bird"
    inputs = model.encode(*texts)
    n_first = sum(segment == 0 for segment in inputs.segments)
    assert batch_of(inputs, model.device, 3).segments.tolist() == [list(inputs.segments)] * 3
    logits = model.trace(*texts).logits.astype(np.float64)
    for position in (n_first - 1, n_first):
        found = attribute_logits(model, *texts, position=position, answer=7, other=5)
        assert found.difference == pytest.approx(logits[position, 7] - logits[position, 5], abs=1e-5)
        assert found.total == pytest.approx(found.difference, abs=2e-5)


def test_that_contributions_add_up_in_a_model_that_lost_heads() -> None:
    """Uneven groups in one layer, no head at all in the other."""
    model = tiny_model("decoder", kept_heads={"decoder.0": [0, 2, 3], "decoder.1": []})
    found = attribute_logits(model, SENTENCE, answer=7, other=5)
    assert found.total == pytest.approx(found.difference, abs=2e-5)
    assert sum(one.kind == "head" for one in found.contributions) == 3
    assert rollout(model.trace(SENTENCE)).weights.sum() == pytest.approx(len(SENTENCE.split()) + 1, abs=1e-4)
    curves = rank_collapse(model, SENTENCE)
    assert all(0 <= ratio <= 1 for curve in curves for ratio in curve.ratios)
    assert len([site_spectrum(model, site.key) for site in model.sites]) == 1
    assert len(importance(model, [SENTENCE]).scores) == 3
    clean, corrupt = (SENTENCE, None), ("a dog sat on the mat", None)
    heads = list(patch_map(model, clean, corrupt, Patching(kind="head", answer=7, other=5)))[-1]
    assert heads.patched.shape == (1, 3)
    assert float(relevance(model, SENTENCE).weights.sum()) > 1.0


def test_that_a_norm_of_its_own_would_not_add_up() -> None:
    """The trap: each part through the last norm by itself."""
    model = tiny_model("decoder")
    found = attribute_logits(model, SENTENCE, answer=7, other=5)
    from attnscope.analysis import Addition, read_text, stream_parts, subject_of

    subject, (_, batch) = subject_of(model), read_text(model, SENTENCE)
    parts, _ = stream_parts(subject, batch, len(SENTENCE.split()))
    u = (subject.module.tokens.weight[7] - subject.module.tokens.weight[5]).detach()
    with torch.no_grad():
        own_norms = [
            float(subject.finish(part.vector.float()) @ u) for part in parts if isinstance(part, Addition)
        ]
    assert abs(sum(own_norms) - found.difference) > 0.1


def test_that_a_heads_contribution_is_what_vanishes_with_it_in_the_last_layer() -> None:
    """Without a feed-forward behind it and with the norm's scale kept, a head's value is its effect."""
    model = tiny_model("decoder", n_layers=1)
    with torch.no_grad():
        model.own.module.decoder[0].feed_forward.down.weight.zero_()
        model.own.module.decoder[0].feed_forward.down.bias.zero_()
    head = HeadRef(stack="decoder", layer=0, head=1)
    plain = attribute_logits(model, SENTENCE, answer=7, other=5)
    gated = attribute_logits(model, SENTENCE, answer=7, other=5, gates=Gates.of({head: 0.0}))
    by_head = {one.head: one.value for one in gated.contributions if one.head}
    assert by_head[head] == 0.0
    assert gated.total == pytest.approx(gated.difference, abs=2e-5)
    others = [h for h in by_head if h != head]
    scale = [by_head[h] / next(c.value for c in plain.contributions if c.head == h) for h in others]
    np.testing.assert_allclose(scale, scale[0], rtol=1e-4)  # only the norm's scale is another one


def test_that_answers_are_the_two_most_probable_tokens() -> None:
    model = tiny_model("decoder")
    first, second = np.argsort(-model.trace(SENTENCE).logits[-1])[:2]
    found = attribute_logits(model, SENTENCE)
    assert (found.answer.id, found.other.id) == (first, second)
    assert found.difference > 0
    logits = torch.tensor([0.0, 3.0, 2.0])
    assert choose_answers(logits, None, None) == (1, 2)
    assert choose_answers(logits, None, 1) == (2, 1)
    assert choose_answers(logits, 1, None) == (1, 2)


def test_that_a_head_with_a_layer_of_its_own_is_refused() -> None:
    with pytest.raises(UserError, match="one more layer"):
        attribute_logits(tiny_model("encoder", transform_head=True), SENTENCE)
