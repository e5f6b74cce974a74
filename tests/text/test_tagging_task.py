"""Tagging: a label for each word; words that can be two are told by their neighbours."""

from collections import defaultdict

from attnscope.text.tasks import make_task


def test_that_each_word_has_a_label_and_many_words_have_two() -> None:
    task = make_task("tagging")
    found = defaultdict[str, set[str]](set)
    for example in task.examples(2000, seed=1):
        words = example.source.split()
        assert len(words) == len(example.word_labels)
        assert example.word_labels[-1] == "PUNCT"
        assert example.word_labels.count("VERB") in (1, 2)
        for k, (word, label) in enumerate(zip(words, example.word_labels, strict=True)):
            found[word].add(label)
            after = example.word_labels[k + 1] if k + 1 < len(words) else ""
            if word == "her":
                assert (label == "DET") == (after in ("ADJ", "NOUN"))
            if label == "PART":
                assert after == "VERB"
    assert {*found} == {*task.vocabulary}
    tags = "ADJ ADP ADV AUX DET NOUN PART PRON PUNCT VERB"  # Petrov et al. 2012, those that occur
    assert set[str]().union(*found.values()) == {*tags.split()}
    for word in ("watch", "watches", "man", "cook", "ships"):
        assert found[word] == {"NOUN", "VERB"}, word
    for word in ("old", "rich"):
        assert found[word] == {"ADJ", "NOUN"}, word
    assert found["her"] == {"DET", "PRON"}


def test_that_held_out_sentences_are_others() -> None:
    task = make_task("tagging")
    learned = {example.source for example in task.examples(2000, seed=1)}
    held_out = {example.source for example in task.examples(500, seed=1, held_out=True)}
    assert not learned & held_out
