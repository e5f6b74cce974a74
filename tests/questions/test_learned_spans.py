"""The question about learned spans, against the formula cell by cell."""

import numpy as np
import pytest
import torch
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.nn import sites_with_spans
from attnscope.questions import QUESTIONS
from attnscope.records import HeadRef

QUESTION = QUESTIONS["spans"]


@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_masks_and_spans_are_those_of_the_model(form: str) -> None:
    model = tiny_model(form, span_limit=8, span_ramp=2)
    for k, site in enumerate(sites_with_spans(model.own.module).values()):
        site.span.data.copy_(torch.tensor([0.0, 0.25, 0.5, 1.0]) * (1.0 if k else 0.5))
    head = HeadRef(stack=form, layer=1, head=1)
    found = ask_model(QUESTION, model, SENTENCE, head=head)
    weights = model.trace(SENTENCE).weights(head.site_key, 1)
    for i in range(len(weights)):
        for j in range(len(weights)):
            m = min(max((2 + 2.0 - abs(i - j)) / 2, 0.0), 1.0)
            is_hidden = form == "decoder" and j > i
            assert found.cells[0].values[i, j] == pytest.approx(np.nan if is_hidden else m, nan_ok=True)
    np.testing.assert_allclose(found.cells[1].values, weights, atol=1e-6)
    assert [row[1] for row in found.tables[0].rows] == [0.0, 1.0, 2.0, 4.0, 0.0, 2.0, 4.0, 8.0]
    assert [row[2] for row in found.tables[0].rows][:2] == [2.0, 3.0]
    assert f"{form} L1H1 learned a span of 2 of at most 8 tokens" in found.sentence
    assert "L1H3 (8)" in found.sentence


def test_that_models_without_spans_and_cross_attention_are_told_so() -> None:
    with pytest.raises(UserError, match="learned no span"):
        ask_model(QUESTION, tiny_model("decoder"), SENTENCE)
    form = "encoder-decoder"
    model, head = tiny_model(form, span_limit=8), HeadRef(stack="cross", layer=0, head=0)
    with pytest.raises(UserError, match="cross L0H0"):
        ask_model(QUESTION, model, SENTENCE, target_of(form), head=head)


def test_that_nothing_is_seen_from_a_whole_distance_and_the_one_before_is_seen() -> None:
    model = tiny_model("decoder", span_limit=8, span_ramp=2)
    first = next(iter(sites_with_spans(model.own.module).values()))
    first.span.data.copy_(torch.full_like(first.span, 0.3126))  # 2.5008 tokens
    row = ask_model(QUESTION, model, SENTENCE).tables[0].rows[0]
    mask = [max(0.0, min(1.0, (2 + 2.5008 - d) / 2)) for d in range(12)]
    assert row[2] == mask.index(0.0) == 5
