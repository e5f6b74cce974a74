"""The everyday pairs that come with the program, aligned by hand: whole, in range, and read as usual text."""

import re

import pytest
import torch
from tiny_models import tiny_model

from attnscope.analysis.alignment import alignment_error_rate
from attnscope.analysis.gold_links import AlignedPair
from attnscope.analysis.known_links import links_of_files, read_gold_files
from attnscope.analysis.word_alignment import count_links, measure_alignment
from attnscope.paths import resources_folder
from attnscope.records.alignment import GoldFiles
from attnscope.records.word_tables import AlignmentTable

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


def test_that_a_pair_written_as_usual_has_its_links(pairs: list[AlignedPair]) -> None:
    for pair in pairs:
        source, target = (
            re.sub(r" (?=[.,]|'s |-[a-z])|(?<=') ", "", text) for text in (pair.source, pair.target)
        )
        source = re.sub(r" (?=[?!])", "", source)
        assert not re.search(r" [.,-]|' ", source + target)
        assert links_of_files(pairs, "everyday", source, target).pair == pair


def test_that_the_heads_of_a_model_are_measured_on_all_pairs(pairs: list[AlignedPair]) -> None:
    (*_, table) = measure_alignment(tiny_model("encoder-decoder", max_tokens=64), pairs)
    assert isinstance(table, AlignmentTable)
    assert table.n_texts + table.n_skipped == 60
    assert table.n_texts > 50
