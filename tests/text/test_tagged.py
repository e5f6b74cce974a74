"""Files of words with labels: three kinds, each read, and each refused where a label is missing."""

from pathlib import Path

import pytest

from attnscope.errors import LoadError
from attnscope.text import (
    first_pieces,
    labelled_positions,
    read_tagged,
    tag_names,
    tagged,
    tagged_example,
    train_tokenizer,
)
from attnscope.text.tasks import make_task, word_labels_of

TREES = """# sent_id = 1
# text = Don't stop, dogs.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod:neg\t_\t_
3\tstop\tstop\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
4\t,\t,\tPUNCT\t,\t_\t3\tpunct\t_\t_
4.1\t_\t_\tX\t_\t_\t_\t_\t_\t_
5\tdogs\tdog\tNOUN\tNNS\t_\t3\tvocative\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

1\tRun\trun\tVERB\tVB\t_\t0\troot\t_\t_
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "tagged.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "the/DET old/ADJ and/or/CONJ man/NOUN\n\nruns/VERB\n",
        "the\tDET\nold\tADJ\nand/or\tCONJ\nman\tNOUN\n\n\nruns\tVERB",
    ],
)
def test_that_words_and_labels_are_read_from_slashes_and_from_columns(tmp_path: Path, text: str) -> None:
    first, second = read_tagged(_file(tmp_path, text))
    assert first.text == "the old and/or man"
    assert first.starts == (0, 4, 8, 15)
    assert first.labels == ("DET", "ADJ", "CONJ", "NOUN")
    assert (second.text, second.labels) == ("runs", ("VERB",))
    assert tag_names([first, second]) == ("ADJ", "CONJ", "DET", "NOUN", "VERB")


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ("upos", (None, "VERB", "PUNCT", "NOUN", "PUNCT")),
        ("xpos", (None, "VB", ",", "NNS", ".")),
        ("deprel", (None, "root", "punct", "vocative", "punct")),
    ],
)
def test_that_a_tree_gives_the_words_as_written_and_one_column(
    tmp_path: Path, column: str, labels: tuple[str | None, ...]
) -> None:
    first, second = read_tagged(_file(tmp_path, TREES), column)
    assert first.text == "Don't stop, dogs."
    assert [first.text[start:][:2] for start in first.starts] == ["Do", "st", ", ", "do", "."]
    assert first.labels == labels
    assert second.text == "Run"


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("the/DET man\n", "Line 1 of .* 'man'", "word/LABEL"),
        ("a/X\nb/ c/Y\n", "Line 2 of .* 'b/'", "word/LABEL"),
        ("a\tX\nb\tY\tZ\n", "Line 2 of ", "a word, a tab and its label"),
        ("a\tX\nb\n", "Line 2 of .* 'b'", "a word, a tab and its label"),
        ("a/X b/X\n", "only the label 'X'", "2 to 1,000 different labels"),
        ("a/X b/" + 81 * "Y" + "\n", "Line 1 of ", "a label of at most 80 characters"),
        (TREES.replace("\tstop\tstop\t", "\tstop\t"), "Line 6 of ", "10 columns"),
        (TREES.replace("3\tstop", "three\tstop"), "Line 6 of ", "the first a number"),
    ],
)
def test_that_a_wrong_file_is_refused_with_line_and_shape(
    tmp_path: Path, text: str, found: str, expected: str
) -> None:
    with pytest.raises(LoadError, match=found) as caught:
        read_tagged(_file(tmp_path, text))
    assert expected in caught.value.expected


def test_that_a_treebank_without_the_column_is_refused(tmp_path: Path) -> None:
    rows = [line.split("\t") for line in TREES.splitlines()]
    text = "\n".join("\t".join([*row[:4], "_", *row[5:]]) if len(row) > 1 else row[0] for row in rows)
    with pytest.raises(LoadError, match=r"has no xpos: column 5 is _ in every line"):
        read_tagged(_file(tmp_path, text), "xpos")


@pytest.mark.parametrize("kind", ["words", "characters", "bpe", "byte-bpe", "wordpiece"])
def test_that_the_first_piece_of_each_word_is_found_whatever_the_tokenizer(tmp_path: Path, kind: str) -> None:
    (text, _) = read_tagged(_file(tmp_path, TREES))
    tokenizer = train_tokenizer(kind, [text.text] * 3, vocab_size=300)
    tokens = tokenizer.encode(text.text, add_begin=True, add_end=True).tokens
    for start, at in zip(text.starts, first_pieces(tokens, text.starts), strict=True):
        assert at is not None
        own = text.text[tokens[at].start : tokens[at].end].strip()
        assert own
        assert text.text[start:].startswith(own) or own.startswith(text.text[start])
    assert first_pieces(tokens[:2], text.starts)[-1] is None


@pytest.mark.parametrize("kind", ["characters", "bpe", "byte-bpe", "wordpiece"])
def test_that_labels_are_shown_where_a_word_or_a_sign_begins(kind: str) -> None:
    text = "watches, the boats."
    tokenizer = train_tokenizer(kind, [text], vocab_size=40 if kind != "byte-bpe" else 300)
    tokens = tokenizer.encode(text, add_begin=True, add_end=True).tokens
    shown = labelled_positions(tokens)
    starts = [text.index(word) for word in ("watches", ",", "the", "boats", ".")]
    assert shown == first_pieces(tokens, starts)


def test_that_reversing_for_an_encoder_labels_each_letter_with_the_mirrored_one() -> None:
    task = make_task("reverse", form="encoder", min_words=5, max_words=5, n_letters=3)
    assert word_labels_of(task) == ("a", "b", "c") == task.vocabulary
    for example in task.examples(50, seed=1):
        assert example.target is None
        assert list(example.word_labels) == example.source.split()[::-1]
        assert example.links == ((0, 4), (1, 3), (2, 2), (3, 1), (4, 0))
        assert tagged_example(example).labels == example.word_labels


def test_that_an_unknown_word_is_read_at_its_own_token_and_not_at_the_next_one() -> None:
    text = tagged(("zebra", "the", "gnu"), ("NOUN", "DET", "NOUN"))
    tokenizer = train_tokenizer("words", ["the cat"], vocab_size=20)
    tokens = tokenizer.encode(text.text, add_begin=True, add_end=True).tokens
    assert [token.piece for token in tokens][1:4] == ["<unk>", "the", "<unk>"]
    assert first_pieces(tokens, text.starts) == [1, 2, 3]
