import gzip
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from known_heads import KNOWN_WORDS, known_decoder
from references import alignment_error_rate
from tiny_models import tiny_model

from attnscope import measure_texts
from attnscope.analysis import (
    AlignedPair,
    aligned_pairs,
    find_roles,
    find_spans,
    head_alignment,
    head_card,
    measure_alignment,
    measure_syntax,
    piece_matrix,
    read_links,
)
from attnscope.conllu import Tree, TreeWord, read_conllu
from attnscope.errors import LoadError, UserError
from attnscope.models import Model
from attnscope.records import AlignmentTable, HeadRef, HeadTable, SyntaxTable
from attnscope.text import train_tokenizer

CONLLU = """# text = Aux chats
1-2\tAux\t_\t_\t_\t_\t_\t_\t_\t_
1\tÀ\tà\tADP\t_\t_\t3\tcase\t_\t_
2\tles\tle\tDET\t_\t_\t3\tdet\t_\t_
3\tchats\tchat\tNOUN\t_\t_\t0\troot\t_\tSpaceAfter=No
3.1\tvus\t_\t_\t_\t_\t_\t_\t_\t_

1\tIl\til\tPRON\t_\t_\t2\tnsubj:pass\t_\t_
2\tdort\tdormir\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_
"""


def table_of(found: object, kind: type) -> object:
    return next(one for one in found if isinstance(one, kind))  # type: ignore[attr-defined]


def test_that_trees_are_read_with_words_written_together(tmp_path: Path) -> None:
    path = tmp_path / "trees.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    first, second = read_conllu(path)
    assert first.written == ("Aux", "chats")
    assert [(w.relation, w.head, w.place) for w in first.words] == [
        ("case", 2, 0),
        ("det", 2, 0),
        ("root", -1, 1),
    ]
    assert (second.text, second.words[0].relation) == ("Il dort.", "nsubj")
    assert len(read_conllu(path, max_trees=1)) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\ta\n", "Line 1 .* 2 columns"),
        (b"1\ta\t_\t_\t_\t_\t9\tdet\t_\t_\n", "Line 1 .* head '9'"),
        (b"x\ta\t_\t_\t_\t_\t0\tdet\t_\t_\n", "Line 1 .* id 'x'"),
        (b"# text = a\n", "no sentence"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_that_broken_trees_are_told_with_their_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trees.conllu"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=message):
        read_conllu(path)
    with pytest.raises(LoadError, match="cannot be read"):
        read_conllu(tmp_path / "none.conllu")


def test_that_a_small_file_which_unpacks_to_a_very_large_one_is_not_unpacked_whole(tmp_path: Path) -> None:
    one = b"1\tGo\tgo\tX\tX\t_\t0\troot\t_\t_\n\n"
    path = tmp_path / "trees.conllu.gz"
    path.write_bytes(gzip.compress(one * 2 + b"\n" * 20_000_000))
    tracemalloc.start()
    try:
        assert len(read_conllu(path, max_trees=2)) == 2
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    path.write_bytes(gzip.compress(one + b"#" * 2_000_000))
    with pytest.raises(LoadError, match="too large"):
        read_conllu(path)
    path.write_bytes(gzip.compress(one * 100)[:-20])
    with pytest.raises(LoadError, match="cannot be read"):
        read_conllu(path)


def test_that_pieces_are_merged_into_words_by_their_places() -> None:
    tokenizer = train_tokenizer("characters", ["ab cde"], vocab_size=40)
    tokens = tokenizer.encode("ab cde", add_begin=True, add_end=True).tokens
    matrix = piece_matrix(tokens, find_spans("ab cde", ("ab", "cde")) or [])
    assert matrix.sum(dim=1).tolist() == [2.0, 3.0]
    assert matrix[:, [0, -1]].sum() == 0  # begin and end are of no word
    assert find_spans("a  bc.", ("a", "bc", ".")) == [(0, 1), (3, 5), (5, 6)]
    assert find_spans("a x bc", ("a", "bc")) is None


def chain(words: list[str], relation: str) -> Tree:
    """Each word hangs on the word before it."""
    nodes = tuple(
        TreeWord(form=word, head=index - 1, relation=relation if index else "root", place=index)
        for index, word in enumerate(words)
    )
    return Tree(text=" ".join(words), words=nodes, written=tuple(words))


def test_that_a_previous_token_head_finds_arcs_to_the_word_before_as_often_as_that_offset() -> None:
    model = known_decoder()
    trees = [chain(KNOWN_WORDS[start : start + 6], "nsubj") for start in range(0, 30, 5)]
    found = table_of(measure_syntax(model, trees, min_arcs=5), SyntaxTable)
    assert isinstance(found, SyntaxTable)
    assert found.relations == (("nsubj", "to dependent"), ("nsubj", "to head"))
    to_head = found.relations.index(("nsubj", "to head"))
    # A causal head sees no later word: nothing counts in that direction.
    assert np.isnan(found.values[:, 1 - to_head]).all()
    previous = found.heads.index(HeadRef(stack="decoder", layer=0, head=0))
    assert found.values[previous, to_head] == 1.0
    assert (found.baseline[previous, to_head], found.offsets[previous, to_head]) == (1.0, -1)
    assert found.n_arcs[previous, to_head] == 30
    identity = found.heads.index(HeadRef(stack="decoder", layer=0, head=1))
    assert found.values[identity, to_head] == 0.0
    table = measure_texts(model, [tree.text for tree in trees]).table
    assert not [r for h in found.heads for r in find_roles(h, table, found) if r.name == "syntactic"]
    with pytest.raises(UserError, match="No relation"):
        next(measure_syntax(model, trees, min_arcs=500))


def test_that_words_that_a_model_does_not_know_are_words() -> None:
    model = known_decoder()
    words = ["zorp", "quindle", *KNOWN_WORDS[:2], "mimsy", "snark"]
    assert [token.is_special for token in model.trace(" ".join(words)).source.tokens].count(True) == 5
    trees = [chain(words, "nsubj")] * 6
    found = table_of(measure_syntax(model, trees, min_arcs=5), SyntaxTable)
    table = measure_texts(model, [tree.text for tree in trees]).table
    assert isinstance(found, SyntaxTable)
    to_head = found.relations.index(("nsubj", "to head"))
    for number, share, place in ((0, 1.0, "the previous token: 1.00"), (1, 0.0, "the token itself: 1.00")):
        head = HeadRef(stack="decoder", layer=0, head=number)
        assert found.values[found.heads.index(head), to_head] == share
        assert f"attends to {place} of its weight" in find_roles(head, table)[0].sentence
        assert table.estimate(head, "separator").value == 0.0


@pytest.mark.parametrize(
    ("shares", "low", "said"),
    [
        ((0.45, 0.40), (0.15, 0.36), "follows obj from a word to its head: 0.40 of 500 arcs against 0.22"),
        ((0.45, 0.30), (0.15, 0.27), ""),  # the rare relation leads by chance, the frequent one by too little
        ((0.45, 0.30), (math.nan, math.nan), ""),
        ((0.90, 0.40), (0.60, 0.36), "follows csubj from a word to its head: 0.90 of 30 arcs against 0.22"),
    ],
)
def test_that_a_rare_relation_makes_no_role_unless_its_interval_lies_above_the_offset(
    shares: tuple[float, ...], low: tuple[float, ...], said: str
) -> None:
    head = HeadRef(stack="decoder", layer=0, head=2)
    syntax = SyntaxTable(
        model="m",
        corpus="c",
        heads=(head,),
        relations=(("csubj", "to head"), ("obj", "to head")),
        values=np.array([shares], np.float32),
        low=np.array([low], np.float32),
        high=np.array([shares], np.float32) + 0.05,
        baseline=np.full((1, 2), 0.22, np.float32),
        offsets=np.full((1, 2), -2, np.int32),
        n_arcs=np.array([[30, 500]], np.int32),
        counts=np.array([[28, 400]], np.int32),
        telling=np.full((1, 2, 3), -1, np.int32),
        n_texts=400,
    )
    table = measure_texts(known_decoder(), [" ".join(KNOWN_WORDS[:6])]).table
    roles = [role.sentence for role in find_roles(head, table, syntax) if role.name == "syntactic"]
    assert len(roles) == bool(said)
    assert not said or roles[0].startswith(said)


def test_that_syntactic_shares_equal_a_slow_count_over_pieces() -> None:
    model = tiny_model("encoder")
    trees = [
        chain(text.split(), "obj") for text in ("the cat sat on the mat", "a dog saw the bird", "the cat sat")
    ]
    found = table_of(measure_syntax(model, trees, min_arcs=1), SyntaxTable)
    assert isinstance(found, SyntaxTable)
    for row, head in enumerate(found.heads):
        for column, (_, direction) in enumerate(found.relations):
            hits = n_arcs = 0
            for tree in trees:
                weights = model.trace(tree.text).weights(head.site_key, head.head)[1:-1, 1:-1]
                for dependent in range(1, len(tree.words)):
                    ends = (dependent, dependent - 1)
                    query, key = ends if direction == "to head" else ends[::-1]
                    hits += int(weights[query].argmax() == key)
                    n_arcs += 1
            assert found.n_arcs[row, column] == n_arcs
            assert found.values[row, column] == pytest.approx(hits / n_arcs)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["predicting", "reading"])
def test_that_alignment_rates_equal_those_of_sets(rows: str) -> None:
    model = tiny_model("encoder-decoder")
    pairs = [
        AlignedPair(
            source="the cat sat",
            target="le chat est",
            sure=frozenset({(0, 0), (1, 1)}),
            possible=frozenset({(2, 2)}),
        ),
        AlignedPair(source="a dog saw the bird", target="le chat", sure=frozenset({(0, 3)})),
    ]
    pairs = [*pairs, *pairs, pairs[0]]
    table = table_of(measure_alignment(model, pairs, rows=rows), AlignmentTable)
    assert isinstance(table, AlignmentTable)
    assert (len(table.error_rate), table.label(8), table.n_texts) == (10, "L0 mean", 5)
    for index in range(10):
        found, sure, possible = set(), set(), set()
        for number, pair in enumerate(pairs):
            links = {(number, link) for link in slow_links(model, pair, table, index, rows)}
            found |= links
            sure |= {(number, link) for link in pair.sure}
            possible |= {(number, link) for link in pair.sure | pair.possible}
        numbers = {one: (place, 0) for place, one in enumerate(found | possible)}
        rate = alignment_error_rate(
            {numbers[x] for x in found}, {numbers[x] for x in sure}, {numbers[x] for x in possible}
        )
        assert table.error_rate[index] == pytest.approx(rate, abs=1e-6)
        assert table.precision[index] == pytest.approx(len(found & possible) / len(found))
        assert table.recall[index] == pytest.approx(len(found & sure) / len(sure))
        below = [len(slow_links(model, pair, table, index, rows)) for pair in pairs]
        hits = [len(slow_links(model, p, table, index, rows) & (p.sure | p.possible)) for p in pairs]
        slow = slow_interval(hits, below)
        assert (table.precision_low[index], table.precision_high[index]) == pytest.approx(
            slow, abs=1e-4, nan_ok=True
        )
        caught = [len(slow_links(model, p, table, index, rows) & p.sure) for p in pairs]
        slow = slow_interval(caught, [len(p.sure) for p in pairs])
        assert (table.recall_low[index], table.recall_high[index]) == pytest.approx(
            slow, abs=1e-4, nan_ok=True
        )
        assert not table.low[index] > table.error_rate[index] + 1e-6
    with pytest.raises(UserError, match="no cross-attention"):
        next(measure_alignment(tiny_model("decoder"), pairs))


def slow_interval(above: list[int], below: list[int]) -> tuple[float, float]:
    """Student's t interval of Σ above / Σ below over five texts, between 0 and 1; none without spread."""
    ratio, mean, n = sum(above) / sum(below), sum(below) / len(below), len(above)
    assert n == 5
    spread = sum((a - ratio * b) ** 2 for a, b in zip(above, below, strict=True)) / (n - 1)
    if spread < 1e-12:
        return math.nan, math.nan
    reach = 2.776445 * (spread / n) ** 0.5 / mean
    return max(0.0, ratio - reach), min(1.0, ratio + reach)


def slow_links(
    model: Model, pair: AlignedPair, table: AlignmentTable, index: int, rows: str
) -> set[tuple[int, int]]:
    trace = model.trace(pair.source, pair.target)
    start = 0 if rows == "predicting" else 1
    n_target, n_source = len(pair.target.split()), len(pair.source.split())
    if index < len(table.heads):
        head = table.heads[index]
        weights = trace.weights(head.site_key, head.head)
    else:
        weights = trace.all_weights(("cross", index - len(table.heads))).mean(dim=0).numpy()
    return set(head_alignment(weights[start : start + n_target, :n_source]))


def test_that_gold_links_are_read_in_both_ways_of_writing(tmp_path: Path) -> None:
    path = tmp_path / "gold.txt"
    path.write_text("1-1 2p3\n\n", encoding="utf-8")
    (sure, possible), (none, _) = read_links(path, counts_from=1)
    assert (sure, possible, none) == ({(0, 0)}, {(0, 0), (2, 1)}, frozenset())
    assert read_links(path, counts_from=1, is_swapped=True)[0][1] == {(0, 0), (1, 2)}
    with pytest.raises(LoadError, match="source word 1 with target word 2"):
        aligned_pairs([("a b", "c d"), ("a", "b")], read_links(path, counts_from=1))
    with pytest.raises(LoadError, match="2 lines of links for 1 pair of texts"):
        aligned_pairs([("a b", "c d")], read_links(path))
    path.write_text("0-0\n0-0 x-1\n", encoding="utf-8")
    with pytest.raises(LoadError, match=r"Line 2 .* 'x-1'"):
        read_links(path)
    path.write_text("0-0\n", encoding="utf-8")
    with pytest.raises(LoadError, match="'0-0'"):
        read_links(path, counts_from=1)


def test_that_cards_say_what_heads_set_by_hand_do_and_show_where() -> None:
    model = known_decoder()
    texts = [" ".join(KNOWN_WORDS[start : start + 8] * 2) for start in range(4)]
    table: HeadTable = measure_texts(model, texts).table
    sentences = {}
    for head in table.heads[:5]:
        card = head_card(head, table, model=model, texts=texts)
        sentences[head.label] = card.sentence
        assert len(card.texts) == 3
        assert card.texts[0].source == texts[card.texts[0].number]
    assert sentences["L0H0"] == "attends to the previous token: 1.00 of its weight over 4 texts"
    assert sentences["L0H1"].startswith("attends to the token itself: 1.00")
    assert sentences["L0H2"].startswith("spreads its weight almost evenly: entropy 1.00")
    assert sentences["L0H3"].startswith("rests on the first token: 1.00")
    assert sentences["L1H0"].startswith("attends to what followed the same token before: 1.00")
    edges = head_card(table.heads[0], table, model=model, texts=texts).texts[0].edges
    assert all(key == query - 1 and weight == pytest.approx(1.0, abs=1e-4) for query, key, weight in edges)
    assert torch.is_grad_enabled()


def test_that_heads_without_a_role_say_what_they_do_most() -> None:
    model = tiny_model("encoder")
    texts = ["the cat sat on the mat", "a dog saw the bird"]
    table = measure_texts(model, texts).table
    cards = [head_card(head, table) for head in table.heads]
    assert any(card.sentence.startswith("too few texts for a role") and not card.roles for card in cards)
    assert not any("interval" in card.sentence for card in cards)
