"""Gold links on one traced text: whose they are, where they lie, and the numbers of every head."""

import math
from pathlib import Path

import numpy as np
import pytest
from heads_fakes import make_table
from tiny_models import FRENCH, SENTENCE, tiny_model

import attnscope as at
from attnscope.analysis import (
    AlignedPair,
    align_trace,
    aligned_pairs,
    diagonal_error_rate,
    everyday_pairs,
    find_roles,
    hand_aligned,
    head_card,
    links_of_files,
    links_of_task,
    own_pairs,
    own_texts,
    read_gold_files,
    word_alignment,
    word_spans,
)
from attnscope.errors import UserError
from attnscope.records import AlignmentTable, GoldFiles

PAIR = AlignedPair(
    source=SENTENCE,
    target=FRENCH,
    sure=frozenset({(0, 0), (1, 1), (4, 4), (5, 5)}),
    possible=frozenset({(3, 3), (2, 2)}),
)


@pytest.mark.parametrize(("rows", "first"), [("predicting", 0), ("reading", 1)])
def test_that_the_numbers_of_one_text_equal_those_counted_by_hand(rows: str, first: int) -> None:
    model = tiny_model("encoder-decoder")
    trace = model.trace(SENTENCE, FRENCH)
    table, cells = align_trace(trace, PAIR, rows=rows)  # type: ignore[arg-type]
    maps = [trace.weights(head.site_key, head.head) for head in table.heads]
    maps += [np.mean([trace.weights(("cross", layer), h) for h in range(4)], axis=0) for layer in (0, 1)]
    for index, weights in enumerate(maps):
        found = {(t, int(np.argmax(weights[first + t, :6]))) for t in range(6)}
        allowed = PAIR.sure | PAIR.possible
        wrong = 1 - (len(found & PAIR.sure) + len(found & allowed)) / (len(found) + len(PAIR.sure))
        assert table.error_rate[index] == pytest.approx(wrong)
        assert table.precision[index] == pytest.approx(len(found & allowed) / len(found))
        assert table.recall[index] == pytest.approx(len(found & PAIR.sure) / len(PAIR.sure))
    assert np.isnan(table.low).all()
    where = {(cell.rows, cell.cols, cell.is_sure) for cell in cells}
    sure = {((t + first, t + first + 1), (s, s + 1), True) for t, s in PAIR.sure}
    assert where == sure | {((t + first, t + first + 1), (s, s + 1), False) for t, s in PAIR.possible}


def test_that_a_sure_link_of_a_file_is_one_cell_and_no_possible_one() -> None:
    (pair,) = aligned_pairs([(SENTENCE, FRENCH)], [(frozenset({(0, 0)}), frozenset({(1, 2)}))])
    assert pair.possible == {(0, 0), (1, 2)}  # what is sure is possible too
    _, cells = align_trace(tiny_model("encoder-decoder").trace(SENTENCE, FRENCH), pair)
    assert [(cell.rows[0], cell.cols[0], cell.is_sure) for cell in cells] == [(1, 2, False), (0, 0, True)]


def test_that_long_pairs_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tiny_model("encoder-decoder").trace(SENTENCE, FRENCH)
    whole, cells = align_trace(trace, PAIR)
    monkeypatch.setattr(word_alignment, "_BLOCK_CELLS", 2 * 4 * len(trace.source))  # two words at a time
    found, same = align_trace(trace, PAIR)
    for name in ("error_rate", "precision", "recall"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert same == cells
    monkeypatch.setattr(word_alignment, "MAX_CELLS", 100)
    with pytest.raises(UserError, match="pair has"):
        align_trace(trace, PAIR)


def test_that_links_of_other_words_are_refused() -> None:
    trace = tiny_model("encoder-decoder").trace(SENTENCE, FRENCH)
    with pytest.raises(UserError, match="other words"):
        align_trace(trace, AlignedPair(source=SENTENCE, target="le chien", sure=frozenset({(0, 0)})))
    with pytest.raises(UserError, match="no cross-attention"):
        align_trace(tiny_model("decoder").trace(SENTENCE), PAIR)


def test_that_words_are_found_whatever_blanks_and_capitals_there_are() -> None:
    assert word_spans("L'animal", "l' animal") == [(0, 2), (2, 8)]
    assert word_spans("the cat sat", "the cat") is None
    assert word_spans("the cat", "the dog") is None


def test_that_files_give_links_the_next_pair_or_another_translation(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(f"{SENTENCE}\t{FRENCH}\na dog\tun chien\n", encoding="utf-8")
    (tmp_path / "l.txt").write_text("1-1 2p2\n1-1\n", encoding="utf-8")
    files = GoldFiles(pairs=str(tmp_path / "p.tsv"), links=str(tmp_path / "l.txt"), counts_from=1)
    pairs = read_gold_files(files)
    known = links_of_files(pairs, "l.txt", SENTENCE.upper(), FRENCH)
    assert known.pair is not None
    assert known.pair.sure == {(0, 0)}
    assert known.origin == "links of l.txt, pair 1 of 2"
    assert known.following is not None
    assert known.following.target == "un chien"
    other = links_of_files(pairs, "l.txt", "a dog", "une vache")
    assert (other.pair, other.offered.target if other.offered else "") == (None, "un chien")
    assert "not among the pairs" in links_of_files(pairs, "l.txt", "nothing", "rien").note
    assert "no pairs" in links_of_files([], "l.txt", "nothing", "rien").note


def test_that_a_model_without_a_task_says_what_is_missing() -> None:
    known = links_of_task(tiny_model("encoder-decoder"), SENTENCE, FRENCH)
    assert known.pair is None
    assert "open a file of pairs" in known.note


@pytest.mark.parametrize("source", ["The plane has just landed.", "the plane has just landed ."])
def test_that_an_everyday_pair_has_links_made_by_hand_whatever_the_model_learned(source: str) -> None:
    known = links_of_task(tiny_model("encoder-decoder"), source, "L'avion vient d'atterrir.")
    assert known.pair is not None
    assert known.pair.sure == {(0, 0), (1, 1), (2, 3), (4, 4), (5, 5)}  # (4, 4): atterrir, landed
    assert known.origin == "links of the everyday English-French pairs, pair 41 of 60"
    other = links_of_task(tiny_model("encoder-decoder"), source, "L'avion est là.")
    assert other.pair is None
    assert other.offered is not None
    assert other.offered.target == "L'avion vient d'atterrir."


def test_that_a_cross_head_gets_its_role_only_from_gold_links() -> None:
    model = tiny_model("encoder-decoder")
    heads = tuple(head for site in model.sites for head in site.heads)
    cross = tuple(head for head in heads if head.stack == "cross")
    rates = np.linspace(0.1, 0.9, len(cross) + 2, dtype=np.float32)
    alignment = AlignmentTable(
        model="m", corpus="c", heads=cross, layers=(0, 1), error_rate=rates, low=rates - 0.05,
        high=rates + 0.05, precision=1 - rates, recall=1 - rates, precision_low=0.9 - rates,
        precision_high=1.1 - rates, recall_low=0.8 - rates, recall_high=1.2 - rates, n_texts=20,
    )  # fmt: skip
    table = make_table(heads)
    for head, rate in zip(cross, rates, strict=False):
        names = {role.name for role in find_roles(head, table, None, alignment)}
        assert ("aligns" in names) == (rate <= 0.5)
        assert "no gold links" in head_card(head, table).statement
        assert f"alignment error rate {rate:.2f} over 20 pairs" in (
            head_card(head, table, None, alignment).statement
        )
    role = next(r for r in find_roles(cross[0], table, None, alignment) if r.name == "aligns")
    assert "AER 0.10" in role.sentence
    assert "interval 0.05–0.15" in role.sentence
    assert "precision 0.90 (0.80–1.00) and recall 0.90 (0.70–1.10)" in role.sentence
    assert "recall 0.90 (0.70–1.10)" in head_card(cross[0], table, None, alignment).statement
    assert "gold links" not in head_card(heads[0], table, None, alignment).statement


def test_that_a_head_no_better_than_the_diagonal_does_not_align_words() -> None:
    """The diagonal has an error rate of 0.377 on the everyday pairs, as their README says."""
    assert diagonal_error_rate(everyday_pairs()) == pytest.approx(0.377, abs=5e-4)
    copied = AlignedPair(source="a b c", target="x y z", sure=frozenset({(0, 0), (1, 1), (2, 2)}))
    assert diagonal_error_rate([copied]) == 0
    assert math.isnan(diagonal_error_rate([AlignedPair(source=" ", target="x", sure=frozenset())]))
    cross = tuple(h for s in tiny_model("encoder-decoder").sites for h in s.heads if h.stack == "cross")
    table = make_table(cross)
    for diagonal, rate, is_aligning in (
        (0.38, 0.36, False),
        (0.38, 0.3, True),
        (0.0, 0.2, True),
        (0.0, 0.3, False),
    ):
        rates = np.full(len(cross) + 2, rate, dtype=np.float32)
        alignment = AlignmentTable(
            model="m", corpus="c", heads=cross, layers=(0, 1), error_rate=rates, low=rates - 0.04,
            high=rates + 0.04, precision=rates, recall=rates, precision_low=rates,
            precision_high=rates, recall_low=rates, recall_high=rates, n_texts=60, diagonal=diagonal,
        )  # fmt: skip
        names = {role.name for role in find_roles(cross[0], table, None, alignment)}
        assert ("aligns" in names) == is_aligning


@pytest.mark.slow
def test_that_own_texts_of_the_everyday_translator_are_aligned_by_hand() -> None:
    model = at.load("english-french")
    texts, name = own_texts(model, 7)
    assert name == "everyday pairs aligned by hand"
    assert [pair.texts for pair in own_pairs(model, 7)] == texts
    assert len(texts) == 7
    assert hand_aligned(at.load("grammar")) == ()  # its task has links of its own
    assert hand_aligned(tiny_model("decoder")) == ()
