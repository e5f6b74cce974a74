"""What the segment before weighs, against loops over the maps of a trace."""

import numpy as np
import pytest
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.questions import QUESTIONS
from attnscope.records import HeadRef

QUESTION = QUESTIONS["segment-before"]
WITH = {"mask": "segment-recurrence"}


def asked(segment: int) -> object:
    return with_values(QUESTION.options, {"segment": segment})


@pytest.mark.parametrize(
    ("size", "memory", "segment"), [(3, 3, 1), (2, 3, 2), (4, 1, 1), (1, 2, 3), (3, 3, 99)]
)
@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_shares_and_maps_equal_a_slow_version(size: int, memory: int, segment: int, form: str) -> None:
    model = tiny_model(form, **WITH, segment_tokens=size, segment_memory=memory)
    head = HeadRef(stack=form, layer=1, head=2)
    found = ask_model(QUESTION, model, SENTENCE, head=head, options=asked(segment))
    trace = model.trace(SENTENCE)
    rows = {row[0]: row[1:] for row in found.tables[0].rows}
    assert len(rows) == sum(site.n_heads for site in trace.sites)
    for site in trace.sites:
        for k in range(site.n_heads):
            weights = trace.weights(site, k)
            n = len(weights)
            before = [
                sum(float(weights[i, j]) for j in range(i // size * size) if not np.isnan(weights[i, j]))
                for i in range(n)
            ]
            assert rows[f"L{site.layer}H{k}"][0] == pytest.approx(np.mean(before[size:]), abs=1e-6)
            assert rows[f"L{site.layer}H{k}"][1] == pytest.approx(np.mean(before[size::size]), abs=1e-6)
            if (site.layer, k) == (1, 2):
                for place, y in enumerate(found.charts[0].series[k].ys):
                    there = before[size + place :: size]
                    assert y == pytest.approx(np.mean(there) if there else np.nan, abs=1e-6, nan_ok=True)
    weights = trace.weights(head.site_key, 2)
    segment = min(segment, (len(weights) - 1) // size)
    start = segment * size
    np.testing.assert_allclose(
        found.cells[0].values, weights[start : start + size, max(0, start - memory) : start], atol=1e-6
    )
    np.testing.assert_allclose(
        found.cells[1].values, weights[start : start + size, start : start + size], atol=1e-6
    )
    total = np.nansum(found.cells[0].values, axis=1) + np.nansum(found.cells[1].values, axis=1)
    np.testing.assert_allclose(total, 1.0, atol=1e-5)
    assert f"{form} L1H2 gives" in found.sentence


def test_that_short_texts_and_other_models_are_told_so() -> None:
    with pytest.raises(UserError, match="only 7 tokens where a segment has 20"):
        ask_model(QUESTION, tiny_model("decoder", **WITH, segment_tokens=20), SENTENCE)
    with pytest.raises(UserError, match="no memory"):
        ask_model(QUESTION, tiny_model("decoder", **WITH, segment_tokens=2, segment_memory=0), SENTENCE)
    with pytest.raises(UserError, match="does not read its text in segments"):
        ask_model(QUESTION, tiny_model("decoder"), SENTENCE)
    form = "encoder-decoder"
    model = tiny_model(form, **WITH, segment_tokens=2)
    with pytest.raises(UserError, match="cross L0H0"):
        ask_model(QUESTION, model, SENTENCE, target_of(form), head=HeadRef(stack="cross", layer=0, head=0))
