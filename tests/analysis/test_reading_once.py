"""Texts are turned into tokens once for a pass, and beyond a limit again, with the same numbers."""

import numpy as np
import pytest
from tiny_models import tiny_model

from attnscope.analysis import corpus
from attnscope.analysis.measuring import measure_texts

TEXTS = ["the cat sat on the mat", "a dog saw the bird", "the cat", "the bird sat", "a mat", "on the cat"]


def test_that_a_corpus_is_encoded_once_and_a_long_one_measured_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = tiny_model("decoder"), []
    encode = corpus.encode_corpus

    def counting(model: object, texts: object) -> object:
        for one in encode(model, texts):  # type: ignore[arg-type]
            asked.append(one.number)
            yield one

    monkeypatch.setattr(corpus, "encode_corpus", counting)
    whole = measure_texts(model, TEXTS * 6).table
    assert len(asked) == 36
    monkeypatch.setattr(corpus, "_KEPT_TEXTS", 7)
    again = measure_texts(model, TEXTS * 6).table
    for name in ("values", "low", "high", "telling", "offset_shares", "counts"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(again, name))
