"""Texts are turned into tokens once for a pass, and beyond a limit again, with the same numbers."""

import numpy as np
import pytest
import torch
from tiny_models import target_of, tiny_model

from attnscope import measure_texts
from attnscope.analysis import corpus, corpus_texts

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


@pytest.mark.parametrize(
    ("form", "choices"),
    [
        ("decoder", {"n_kv_heads": 1}),
        ("encoder", {"position": "alibi"}),
        ("encoder-decoder", {}),
    ],
)
def test_that_layers_measured_side_by_side_have_the_numbers_of_each_alone(
    form: str, choices: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, calls = tiny_model(form, n_layers=3, **choices), []
    texts = [(one, target_of(form)) for one in TEXTS] if target_of(form) else TEXTS
    sum_site = corpus.sum_site

    def counting(q: torch.Tensor, *rest: object, **named: object) -> object:
        calls.append(q.shape[1])
        return sum_site(q, *rest, **named)

    monkeypatch.setattr(corpus, "sum_site", counting)
    together, n_together = measure_texts(model, texts, specials="dropped").table, len(calls)
    monkeypatch.setattr(corpus, "BLOCK_CELLS", 0)
    alone = measure_texts(model, texts, specials="dropped").table
    is_joined = "position" not in choices  # slopes tell heads apart
    assert len(calls) - n_together == n_together * (3 if is_joined else 1)
    for name in ("values", "low", "high", "offset_shares"):
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), rtol=2e-4, atol=2e-5)
    for name in ("counts", "offsets", "telling"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_passes_measured_together_have_the_numbers_of_each_alone(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, calls = tiny_model(form), []
    words = [f"{text} {end}" for end in ("cat", "the mat", "a bird sat") for text in TEXTS]
    texts = [(one, target_of(form)) for one in words] if target_of(form) else words
    sum_site = corpus.sum_site

    def counting(q: torch.Tensor, *rest: object, **named: object) -> object:
        calls.append(len(q))
        return sum_site(q, *rest, **named)

    monkeypatch.setattr(corpus, "sum_site", counting)
    monkeypatch.setattr(corpus_texts, "batch_tokens", lambda _model: 20)  # two texts, some padded
    together, n_together = measure_texts(model, texts).table, len(calls)
    assert max(calls) > 2
    monkeypatch.setattr(corpus, "_HELD_NUMBERS", 0)
    alone = measure_texts(model, texts).table
    assert len(calls) > 2 * n_together
    for name in ("values", "low", "high", "offset_shares"):
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), rtol=2e-4, atol=2e-5)
    for name in ("counts", "offsets", "telling"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
