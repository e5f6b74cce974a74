"""The question about learned masks, cell by cell."""

import numpy as np
import pytest
from tiny_models import SENTENCE, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.nn import sites_with_spans
from attnscope.questions import QUESTIONS
from attnscope.records import HeadRef

QUESTION = QUESTIONS["learned-mask"]


@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_mask_and_offsets_are_those_of_the_model(form: str) -> None:
    model = tiny_model(form, span_limit=4, span_kind="offsets")
    for site in sites_with_spans(model.own.module).values():
        site.open_at.data.fill_(-2.0)
        site.open_at.data[1, [0, 2]] = site.open_at.data[2, 1] = site.open_at.data[3] = 2.0
    head = HeadRef(stack=form, layer=1, head=1)
    found = ask_model(QUESTION, model, SENTENCE, head=head)
    weights = model.trace(SENTENCE).weights(head.site_key, 1)
    for i in range(len(weights)):
        for j in range(len(weights)):
            is_hidden = form == "decoder" and j > i
            expected = np.nan if is_hidden else float(abs(i - j) in (0, 1, 3))
            assert found.cells[0].values[i, j] == pytest.approx(expected, nan_ok=True)
            assert weights[i, j] > 0 or expected != 1
    np.testing.assert_allclose(found.cells[1].values, weights, atol=1e-6)
    assert [row[1:] for row in found.tables[0].rows[4:]] == [
        (0.0, "nothing but the token itself"),
        (2.0, "the offsets 1, 3"),
        (1.0, "the offset 2"),
        (4.0, "every offset up to 4"),
    ]
    assert found.sentence.startswith(f"{form} L1H1 looks at the offsets 1, 3.")
    assert found.sentence.endswith("keep 14 of 32 offsets open.")
    assert found.charts[0].series[1].ys[0] == 1.0


def test_that_models_without_masks_are_told_so() -> None:
    for choices in ({}, {"span_limit": 8}):
        with pytest.raises(UserError, match=r"learned no mask.*Train the recipe copy-offsets"):
            ask_model(QUESTION, tiny_model("decoder", **choices), SENTENCE)
    with pytest.raises(UserError, match="learned no span"):
        ask_model(QUESTIONS["spans"], tiny_model("decoder", span_limit=4, span_kind="offsets"), SENTENCE)
