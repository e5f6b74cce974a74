"""Sentences of the small grammar read back: the links are those they were written with."""

import pytest

from attnscope.text.grammar import MAX_WORDS, read_sentence
from attnscope.text.tasks import make_task


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [False, True])
def test_that_every_sentence_of_the_task_is_read_back_with_its_links(held_out: bool) -> None:
    for example in make_task("english-french").examples(300, seed=11, held_out=held_out):
        found = {one.target: one.links for one in read_sentence(example.source)}
        assert found[example.target] == example.links, example.source


def test_that_capitals_and_a_full_stop_without_a_blank_are_understood() -> None:
    (found,) = read_sentence("The European economic area")
    assert found.target == "la zone économique européenne"
    assert found.links == ((0, 0), (1, 3), (2, 2), (3, 1))
    with_stop = read_sentence("The cat sleeps.")[0]
    assert (with_stop.target, with_stop.links) == ("le chat dort .", ((0, 0), (1, 1), (2, 2), (3, 3)))


def test_that_a_sentence_with_two_meanings_has_two_translations() -> None:
    found = read_sentence("the animal did not cross the street because it was too tired")
    words = {target.split()[9] for one in found if (target := one.target)}
    assert words == {"il", "elle"}


@pytest.mark.parametrize(
    "text", ["", ".", "hello there", "the cat", "cats the sleep", "the " * (MAX_WORDS + 1)]
)
def test_that_other_texts_have_no_translation_but_a_phrase_has(text: str) -> None:
    assert bool(read_sentence(text)) == (text == "the cat")
