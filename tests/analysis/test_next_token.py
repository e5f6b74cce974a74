"""The weight on the next token: known heads, slow loops, long texts, and the words said of it."""

import math

import numpy as np
import pytest
import torch
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope import measure, measure_texts
from attnscope.analysis import measure_heads
from attnscope.records import Site
from attnscope.viewmodels.session import describe

SELF = Site(stack="encoder", layer=0, n_heads=1, n_kv_heads=1)


def test_that_a_head_that_looks_ahead_gives_all_of_its_weight_to_the_next_token() -> None:
    ahead = torch.zeros(4, 4)
    ahead[range(3), range(1, 4)] = 1.0
    ahead[3, 0] = 1.0  # the last token has none after it
    found = measure_heads(ahead[None], SELF)[0]
    assert (found.next, found.previous, found.diagonal) == (1.0, 0.0, 0.0)
    assert describe(found) == "attends to the next token: 1.00 of its weight"
    alone = measure_heads(torch.ones(1, 1, 1), SELF)[0]
    assert math.isnan(alone.next)


@pytest.mark.parametrize("form", FORMS)
def test_that_it_equals_a_slow_float64_version_on_a_text_and_over_texts(form: str) -> None:
    model, target = tiny_model(form), target_of(form)
    trace = model.trace(SENTENCE, target)
    table = measure_texts(model, [SENTENCE if target is None else (SENTENCE, target)]).table
    for found in measure(trace):
        a = np.nan_to_num(trace.weights(found.head.site_key, found.head.head).astype(np.float64))
        queries, _ = trace.tokens(found.head.site_key)
        rows = [i for i, token in enumerate(queries[:-1]) if not token.is_special]
        is_self = found.head.stack != "cross"
        expected = sum(a[i, i + 1] for i in rows) / len(rows) if is_self else math.nan
        for value in (found.next, table.estimate(found.head, "next").value):
            assert value == pytest.approx(expected, abs=1e-5, nan_ok=True)
        assert found.head.stack != "decoder" or found.next == 0.0


@pytest.mark.parametrize("form", ["decoder", "encoder"])
def test_that_it_is_read_in_every_row_of_a_long_text(form: str) -> None:
    words = " ".join(["the cat sat on a mat"] * 40)
    trace = tiny_model(form, max_tokens=400).trace(words)
    for estimated, exact in zip(measure(trace, max_cells=1), measure(trace), strict=True):
        assert estimated.n_rows > 0
        assert estimated.next == pytest.approx(exact.next, rel=1e-4, abs=1e-7)
