"""The everyday pairs that come with the program, aligned by hand: whole, in range, and read as usual text."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from references import alignment_error_rate
from tiny_models import tiny_model

from attnscope.analysis import (
    AlignedPair,
    build_batches,
    count_links,
    links_of_files,
    make_metric,
    measure_alignment,
    read_gold_files,
    subject_of,
)
from attnscope.models import Model
from attnscope.paths import resources_folder
from attnscope.records import NO_GATES, AlignmentTable, GoldFiles
from attnscope.text import train_tokenizer

FOLDER = resources_folder() / "alignments"
FILES = GoldFiles(pairs=str(FOLDER / "everyday.tsv"), links=str(FOLDER / "everyday.links"))
MARKS = set(".,?!")


@pytest.fixture(scope="module")
def pairs() -> list[AlignedPair]:
    return read_gold_files(FILES)


def told() -> str:
    """What stands beside the pairs, with one blank between words."""
    return " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())


def test_that_sixty_different_pairs_are_4_to_14_words_long(pairs: list[AlignedPair]) -> None:
    assert len(pairs) == 60
    for texts in ([pair.source.lower() for pair in pairs], [pair.target.lower() for pair in pairs]):
        assert len(set(texts)) == 60
        assert all(4 <= len([word for word in text.split() if word not in MARKS]) <= 14 for text in texts)


def test_that_links_are_written_once_in_order_and_as_many_as_said(pairs: list[AlignedPair]) -> None:
    lines = (FOLDER / "everyday.links").read_text(encoding="utf-8").splitlines()
    for line, pair in zip(lines, pairs, strict=True):
        places = [tuple(map(int, re.split("[-p]", link)))[::-1] for link in line.split()]
        assert places == sorted(set(places))
        assert set(places) == pair.possible
        assert pair.sure
    n_sure, n_links = sum(len(pair.sure) for pair in pairs), sum(len(pair.possible) for pair in pairs)
    assert f"{n_sure} sure and {n_links - n_sure} possible" in told()


def test_that_every_word_has_a_link_but_a_mark_that_one_side_leaves_out(pairs: list[AlignedPair]) -> None:
    for pair in pairs:
        for side, words, others in (
            (0, pair.target.split(), pair.source.split()),
            (1, pair.source.split(), pair.target.split()),
        ):
            linked = {link[side] for link in pair.possible}
            alone = [word for place, word in enumerate(words) if place not in linked]
            assert all(word in MARKS and words.count(word) > others.count(word) for word in alone)


def test_that_marks_are_linked_with_the_same_marks_only(pairs: list[AlignedPair]) -> None:
    for pair in pairs:
        targets, sources = pair.target.split(), pair.source.split()
        for target, source in pair.possible:
            words = {targets[target], sources[source]}
            assert not words & MARKS or (len(words) == 1 and (target, source) in pair.sure)


def test_that_the_links_are_right_by_themselves_and_one_link_a_word_comes_near(
    pairs: list[AlignedPair],
) -> None:
    n_right = n_all = 0.0
    for pair in pairs:
        assert alignment_error_rate(pair.sure, pair.sure, pair.possible) == 0
        weights = torch.zeros(1, 1, len(pair.target.split()), len(pair.source.split()))
        for target, source in pair.possible:
            weights[0, 0, target, source] = 2.0 if (target, source) in pair.sure else 1.0
        above, below = count_links(weights, [pair])[:, 0, 0]
        assert above[1] == below[1]  # precision 1
        n_right += float(above[0])
        n_all += float(below[0])
    assert f"below {1 - n_right / n_all:.3f} here" in told()


def test_that_the_diagonal_has_the_error_rate_that_is_told(pairs: list[AlignedPair]) -> None:
    n_right = n_all = 0
    for pair in pairs:
        n_target, n_source = len(pair.target.split()), len(pair.source.split())
        links = {(t, round(t * (n_source - 1) / (n_target - 1))) for t in range(n_target)}
        n_right += len(links & pair.sure) + len(links & pair.possible)
        n_all += len(links) + len(pair.sure)
    assert f"has {1 - n_right / n_all:.3f}:" in told()


def test_that_the_texts_are_written_as_usual_and_have_the_links(pairs: list[AlignedPair]) -> None:
    for pair in pairs:
        source, target = pair.texts
        assert not re.search(r" [.,-]|' ", source + target)
        assert not re.search(r" [?!']", source)
        assert not re.search(r"\S[?!]", target)
        assert (source.split(), target.split()) != (pair.source.split(), pair.target.split())
        assert links_of_files(pairs, "everyday", source, target).pair == pair


@pytest.fixture(scope="module")
def reader(pairs: list[AlignedPair]) -> Model:
    """A model that has its pieces from the texts as usual, where a blank before a mark is another piece."""
    tokenizer = train_tokenizer("byte-bpe", [text for pair in pairs for text in pair.texts], vocab_size=400)
    return tiny_model("encoder-decoder", tokenizer, max_tokens=96)


def slow_counts(weights: np.ndarray, model: Model, pair: AlignedPair) -> np.ndarray:
    """Right and all of one pair, word by word and letter by letter, of the row that predicts a piece."""
    inputs = model.network.encode(*pair.texts)
    places = []
    for read, words in ((inputs.target, pair.target.split()), (inputs.source, pair.source.split())):
        assert read is not None
        letters = [place for place, letter in enumerate(read.text) if letter != " "]
        pieces = []
        for word in words:
            own, letters = set(letters[: len(word)]), letters[len(word) :]
            pieces.append([n for n, t in enumerate(read.tokens) if own & set(range(t.start, t.end))])
        places.append(pieces)
    found = set()
    for target, rows in enumerate(places[0]):
        row = np.mean([weights[piece - 1] for piece in rows], axis=0)
        found.add((target, int(np.argmax([row[columns].sum() for columns in places[1]]))))
    n_right = len(found & pair.sure) + len(found & pair.possible)
    return np.array([n_right, len(found) + len(pair.sure)])


@pytest.mark.slow
def test_that_a_model_reads_the_texts_as_usual_and_links_are_of_words(
    pairs: list[AlignedPair], reader: Model
) -> None:
    (*_, table) = measure_alignment(reader, pairs)
    assert isinstance(table, AlignmentTable)
    assert (table.n_texts, table.n_skipped) == (60, 0)
    traces = [reader.trace(*pair.texts) for pair in pairs]
    for index, head in enumerate(table.heads):
        maps = [trace.weights(head.site_key, head.head).astype(np.float64) for trace in traces]
        both = [slow_counts(weights, reader, pair) for weights, pair in zip(maps, pairs, strict=True)]
        n_right, n_all = np.sum(both, axis=0)
        assert table.error_rate[index] == pytest.approx(1 - n_right / n_all, abs=1e-6)


def test_that_curves_batches_and_metrics_read_the_texts_as_usual_too(
    pairs: list[AlignedPair], reader: Model
) -> None:
    few = pairs[:2]
    (*_, table) = measure_alignment(reader, few)
    assert isinstance(table, AlignmentTable)
    batches = build_batches(reader, few)
    metric = make_metric("alignment-error", reader, subject_of(reader), batches, few)
    assert metric.of(NO_GATES) == pytest.approx(float(table.error_rate[len(table.heads) :].min()), abs=1e-6)
    ids = [reader.network.encode(*pair.texts).source.ids for pair in few]
    rows = [tuple(row) for batch in batches for row in batch.ids.tolist()]
    assert {own for own in ids for row in rows if row[: len(own)] == tuple(own)} == set(ids)


def test_that_two_more_columns_are_words_only_where_they_are_the_same_texts(tmp_path: Path) -> None:
    lines = ("It's hot.\tL'eau bout.\tIt 's hot .\tL' eau bout .", "a b\tc d\ta tag\tanother", "a b\tc d\tx")
    (tmp_path / "p.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "l.txt").write_text("3-3\n1-1\n0-0\n", encoding="utf-8")
    files = GoldFiles(pairs=str(tmp_path / "p.tsv"), links=str(tmp_path / "l.txt"))
    first, second, third = read_gold_files(files)
    assert (first.source, first.target) == ("It 's hot .", "L' eau bout .")
    assert first.texts == ("It's hot.", "L'eau bout.")
    assert (second.source, second.target) == second.texts == ("a b", "c d")
    assert third.texts == ("a b", "c d")
    assert AlignedPair(source="a", target="b", sure=frozenset()).texts == ("a", "b")
    known = links_of_files([first, second], "l.txt", "a b", "c d")
    assert known.following is not None
    assert known.following.source == "It's hot."  # a person reads, and is offered, the usual text
