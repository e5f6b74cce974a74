"""The sample sentences that come with the program."""

import pytest

from attnscope.analysis import everyday_pairs
from attnscope.text import samples_for
from attnscope.text.tasks import TASKS, make_task


@pytest.mark.parametrize("form", ["encoder", "decoder", "encoder-decoder"])
def test_that_every_form_has_samples_with_hints(form: str) -> None:
    samples = samples_for(form)
    assert len(samples) >= 6
    assert all(sample.text and sample.hint for sample in samples)
    assert all(sample.target is None for sample in samples)


def test_that_only_the_translator_whose_languages_are_known_has_samples_with_translations() -> None:
    own = samples_for("encoder-decoder", "translation", "english-french")
    assert len(own) >= 6
    assert all(sample.text and sample.target and sample.hint for sample in own)
    assert "Je suis Sam." in [sample.target for sample in own]
    for name in ("", "english-german", "runs/mine", "grammar"):
        others = samples_for("encoder-decoder", "translation", name)
        assert all(sample.target is None and "French" not in sample.hint for sample in others)
    assert samples_for("decoder", "causal", "english-french") == samples_for("decoder", "causal")


def test_that_two_samples_of_the_translator_have_links_made_by_hand() -> None:
    aligned = {pair.texts for pair in everyday_pairs()}
    own = samples_for("encoder-decoder", "translation", "english-french")
    assert len(aligned & {(sample.text, sample.target) for sample in own}) >= 2


def test_that_masked_samples_have_a_mask_and_others_none() -> None:
    assert all("<mask>" in sample.text for sample in samples_for("encoder", "masked"))
    assert not any("<mask>" in sample.text for sample in samples_for("decoder", "causal"))


def test_that_the_classics_are_there() -> None:
    texts = " ".join(sample.text for sample in samples_for("decoder"))
    assert "The animal didn't cross the street because it was too tired." in texts
    assert "I went to the store. At the store, I bought fresh strawberries." in texts
    assert "Only I love you." in texts
    assert "I love only you." in texts
    assert samples_for("encoder-decoder", "english-french")[0].target == "la zone économique européenne"
    texts = " ".join(s.text for s in samples_for("encoder-decoder", "translation", "english-french"))
    assert "My name is John and I study computer science at the university." in texts
    assert "The animal didn't cross the street because it was too wide." in texts
    assert "The cat sat on the mat." in texts
    assert "He hit me with a pie." in texts
    assert "the european economic area" in texts
    assert "I am Sam." in texts


@pytest.mark.parametrize("name", TASKS)
def test_that_a_task_has_samples_of_its_own(name: str) -> None:
    task = make_task(name)
    samples = samples_for(task.form, name)
    assert len(samples) >= 4
    if name != "english-french":
        training = {example.source for example in task.examples(300, seed=0)}
        assert not training & {sample.text for sample in samples}


def test_that_an_unknown_objective_gives_what_suits_the_form() -> None:
    assert samples_for("decoder", "something") == samples_for("decoder", "causal")
