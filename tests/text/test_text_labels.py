"""Labelled texts: the built-in tasks by rules of their own, and files by line numbers."""

from pathlib import Path

import pytest

from attnscope.errors import LoadError
from attnscope.text import LabelledText, label_names, read_labelled
from attnscope.text.tasks import labels_of, make_task

GOOD, BAD = "wonderful lovely charming superb pleasant excellent", "awful dreadful boring terrible nasty poor"
VERDICTS = {**dict.fromkeys(GOOD.split(), "positive"), **dict.fromkeys(BAD.split(), "negative")}
OPPOSITES = {"big": "small", "old": "young", "wet": "dry", "happy": "sad"}
OPPOSITES |= {value: key for key, value in OPPOSITES.items()}
NUMBERS = {"two", "three", "four", "five"}


def test_that_the_one_verdict_of_a_sentence_is_its_label_and_is_linked() -> None:
    task = make_task("sentiment")
    for example in task.examples(200, seed=1):
        words = example.source.split()
        found = [i for i, word in enumerate(words) if word in VERDICTS]
        assert example.links == tuple((0, i) for i in found)
        assert example.label == (VERDICTS[words[found[0]]] if found else "neutral")
    assert {e.label for e in task.examples(200, seed=1)} == set(labels_of(task))


def test_that_the_sentence_about_the_food_decides_a_review() -> None:
    for example in make_task("reviews", max_sentences=4).examples(200, seed=1):
        words, ((_, key),) = example.source.split(), example.links
        assert example.label == VERDICTS[words[key]]
        start = max((i for i in range(key) if words[i] == "."), default=0)
        assert set(words[start:key]) & {"soup", "bread", "fish", "cake"}
        assert 2 <= words.count(".") <= 4


def test_that_an_entailed_sentence_leaves_out_and_a_contradicting_one_replaces() -> None:
    for example in make_task("entailment").examples(300, seed=1):
        first, second = example.source.split(), (example.target or "").split()
        linked = {query: first[key] for query, key in example.links}
        changed = [(word, linked[i]) for i, word in enumerate(second) if i in linked and linked[i] != word]
        unlinked = [word for i, word in enumerate(second) if i not in linked]
        if example.label == "entailment":
            assert (changed, unlinked) == ([], [])
        elif example.label == "neutral":
            assert not changed
            assert len(unlinked) == 1
            assert unlinked[0] not in first
            assert OPPOSITES[unlinked[0]] not in first
        else:
            ((said, was),) = changed
            assert OPPOSITES.get(said) == was or {said, was} <= NUMBERS
            assert not unlinked


def test_that_a_file_of_labelled_texts_is_read(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("good\ta fine day\n\nbad\train\n", encoding="utf-8")
    texts = read_labelled(path)
    assert texts == [LabelledText(label="good", text="a fine day"), LabelledText(label="bad", text="rain")]
    assert label_names(texts) == ("bad", "good")
    path.write_text("yes\ta\tb\nno\tc\td\n", encoding="utf-8")
    assert read_labelled(path)[1] == LabelledText(label="no", text="c", second="d")


@pytest.mark.parametrize(
    ("content", "match", "expected"),
    [
        ("good\ta\nbad\n", r"Line 2 of .* is not a labelled text: 'bad'", "a label, a tab and a text"),
        ("good\ta\n\n\tb\n", r"Line 3 of ", "a label, a tab"),
        ("good\ta\nbad\tb\tc\n", r"Line 2 of ", "two columns, as in the first line"),
        ("good\ta\tb\nbad\tb\n", r"Line 2 of ", "three columns, as in the first line"),
        (f"{'x' * 81}\ta\n", r"Line 1 of ", "at most 80 characters"),
        ("good\ta\ngood\tb\n", r"has only the label 'good'", "2 to 1,000 labels"),
        ("".join(f"{i}\ta\n" for i in range(1001)), r"has 1,001 different labels", "2 to 1,000 labels"),
    ],
)
def test_that_a_bad_line_is_named_by_its_number(
    content: str, match: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(LoadError, match=match) as caught:
        read_labelled(path)
    assert expected in caught.value.expected


def test_that_a_file_whose_columns_are_exchanged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "turned.tsv"
    path.write_text("a fine day\tgood\nrain\tbad\nsunshine\tgood\n", encoding="utf-8")
    with pytest.raises(LoadError, match="3 different labels and only 2 different texts") as caught:
        read_labelled(path)
    assert "swapped" in caught.value.action
    path.write_text("yes\ta man\ta boy\nno\ta man\ta dog\nso\ta man\ta cat\n", encoding="utf-8")
    assert len(read_labelled(path)) == 3  # of two texts it is the pair that counts
