"""The words that a model of few whole words may read, and those it may write."""

import json

from attnscope.cli.main import main
from attnscope.models import load
from attnscope.text import train_tokenizer
from attnscope.text.tasks import known_words, make_task


def test_that_each_language_has_every_word_of_its_sentences_and_both_make_the_vocabulary() -> None:
    task = make_task("english-french")
    source, target = task.languages
    for example in task.examples(300, seed=3):
        assert source.issuperset(example.source.split())
        assert target.issuperset((example.target or "").split())
    assert sorted(source | target) == list(task.vocabulary)
    assert "chien" not in source
    assert "dog" not in target


def test_that_words_are_told_of_whole_words_only_and_of_few() -> None:
    texts = ["the cat sees the dog ."]
    words = train_tokenizer("words", texts, vocab_size=50).entries
    assert known_words(words, None) == ((".", "cat", "dog", "sees", "the"),) * 2
    assert known_words(words, "english-french") == ((".", "cat", "dog", "sees", "the"), (".",))
    many = train_tokenizer("words", [" ".join(f"w{n}" for n in range(2_500))], vocab_size=3_000).entries
    assert known_words(many, None) == ((), ())
    pieces = train_tokenizer("bpe", texts, vocab_size=50).entries
    assert known_words(pieces, None) == ((), ())


def test_that_the_translator_tells_the_words_of_each_side_and_info_does_not_list_them(capsys) -> None:
    source, target = load("grammar", device="cpu").info.words
    assert "the" in source
    assert "le" not in source
    assert "le" in target
    assert load("stories", device="cpu").info.words == ((), ())
    assert main(["info", "grammar", "--json"]) == 0
    assert "words" not in json.loads(capsys.readouterr().out)
