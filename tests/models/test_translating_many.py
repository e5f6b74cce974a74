"""Translating many texts at once says what translating one after another says."""

import pytest
from tiny_models import tiny_model

from attnscope.errors import UserError
from attnscope.models.writing import translate_texts, translating
from attnscope.records import NO_GATES, Gates, WriteSettings

TEXTS = ("a b c", "", "c", "b a c a b c", "a", "c b")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["greedy", "beams"])
@pytest.mark.parametrize("batch_size", [1, 2, 6])
@pytest.mark.parametrize("has_gates", [False, True])
def test_that_a_batch_says_what_each_text_says_alone(mode: str, batch_size: int, has_gates: bool) -> None:
    model = tiny_model("encoder-decoder")
    gates = Gates.of(dict.fromkeys(model.sites[4].heads[:2], 0.0)) if has_gates else NO_GATES
    settings = WriteSettings(mode=mode, max_tokens=9, n_beams=3, length_penalty=0.7)
    found = {one.index: one for one in translate_texts(model, TEXTS, settings, gates, batch_size=batch_size)}
    assert sorted(found) == list(range(len(TEXTS)))
    for index, text in enumerate(TEXTS):
        alone = model.write(text, settings, gates).text
        assert (found[index].text, found[index].has_ended) == (alone.text, alone.has_ended)


def test_that_each_search_of_a_batch_has_the_length_penalty_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    search = translating.BeamSearch
    monkeypatch.setattr(translating, "BeamSearch", lambda **how: asked.append(how["alpha"]) or search(**how))
    for mode in ("greedy", "beams"):
        settings = WriteSettings(mode=mode, max_tokens=2, n_beams=2, length_penalty=0.7)
        list(translate_texts(tiny_model("encoder-decoder"), TEXTS[:2], settings))
    assert asked == [0.0, 0.0, 0.7, 0.7]


def test_that_only_translations_and_only_without_drawing() -> None:
    with pytest.raises(UserError, match="does not translate"):
        next(translate_texts(tiny_model("decoder"), TEXTS))
    with pytest.raises(UserError, match="not sampled"):
        next(translate_texts(tiny_model("encoder-decoder"), TEXTS, WriteSettings(mode="sample")))


def test_that_no_texts_give_no_translations() -> None:
    assert list(translate_texts(tiny_model("encoder-decoder"), ())) == []
