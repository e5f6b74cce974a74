"""Reports: a summary takes over what links say, and held-out names and numbers are in no other report."""

from attnscope.text import new_words, training_words
from attnscope.text.tasks import make_task


def test_that_a_summary_takes_over_the_words_that_are_linked() -> None:
    task = make_task("reports")
    for is_new in (False, True):
        own, others = (new_words(), training_words()) if is_new else (training_words(), new_words())
        for example in task.examples(60, seed=3, held_out=is_new):
            source, target = example.source.split(), (example.target or "").split()
            assert {*source, *target} - {*own} <= {*task.vocabulary}
            made_up = [word for word in source if word in {*own, *others}]
            assert made_up
            assert not {*made_up} & {*others}
            assert {*target} <= {*source, "by"}
            assert all(target[i] == source[j] for i, j in example.links)
            assert {i for i, word in enumerate(target) if word in own} <= {i for i, _ in example.links}
            finder, mender = (source[source.index(word) - 1] for word in ("found", "repaired"))
            assert target[target.index("found") + 2] == finder
            assert target[target.index("repaired") + 2] == mender
            day = source[source.index("it") + 2]
            assert target[-1] == day


def test_that_the_vocabulary_has_some_names_to_learn_from_and_none_that_is_new() -> None:
    vocabulary = {*make_task("reports").vocabulary}
    assert not vocabulary & {*new_words()}
    assert 0 < len(vocabulary & {*training_words()}) < len(training_words())


def test_that_names_and_numbers_are_made_up_once_and_divided() -> None:
    assert not {*training_words()} & {*new_words()}
    assert len({*training_words(), *new_words()}) == len(training_words()) + len(new_words())
    assert any(word.isdigit() for word in new_words())
    assert any(word.isalpha() for word in new_words())
