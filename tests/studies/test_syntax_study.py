"""The study after Clark et al. 2019: what it measures, against loops and hand-made answers; and a toy run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from known_heads import KNOWN_WORDS, known_decoder
from tiny_models import SENTENCE, tiny_model

from attnscope import measure_texts
from attnscope.analysis import HeadDivergences, measure_syntax
from attnscope.cli import main as cli
from attnscope.conllu import Tree, TreeWord
from attnscope.errors import UserError
from attnscope.records import HeadRef, SyntaxTable, Token
from attnscope.studies.study import study_module

syntax = study_module("syntax")
PLACES = syntax.PLACES
Looks = syntax.Looks
look = syntax.look
plane_of = syntax.plane_of
shares_of = syntax.shares_of
Best = syntax.Best
best_heads = syntax.best_heads
best_of_all = syntax.best_of_all
best_offset = syntax.best_offset
look_rows = syntax.look_rows
syntax_rows = syntax.syntax_rows

TREE = """# text = the cat sees the dog
1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tcat\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsees\t_\tVERB\t_\t_\t0\troot\t_\t_
4\tthe\t_\tDET\t_\t_\t5\tdet\t_\t_
5\tdog\t_\tNOUN\t_\t_\t3\tobj\t_\t_

"""


def tree_of(text: str, heads: tuple[int, ...], relations: tuple[str, ...]) -> Tree:
    words = text.split()
    nodes = tuple(
        TreeWord(form=word, head=head, relation=relation, place=place)
        for place, (word, head, relation) in enumerate(zip(words, heads, relations, strict=True))
    )
    return Tree(text=text, words=nodes, written=tuple(words))


TREES = (
    tree_of(SENTENCE, (1, 2, -1, 5, 5, 2), ("det", "nsubj", "root", "case", "det", "obl")),
    tree_of("a dog saw the bird", (1, 2, -1, 4, 2), ("det", "nsubj", "root", "det", "obj")),
)


def looks_of(model: object, texts: list[str]) -> Looks:
    return next(one for one in look(model, texts) if isinstance(one, Looks))  # type: ignore[arg-type]


@pytest.mark.slow
def test_that_clarks_shares_equal_a_slow_count() -> None:
    model = tiny_model("encoder")
    found = next(
        one
        for one in measure_syntax(model, TREES, min_arcs=1, manner="clark")
        if isinstance(one, SyntaxTable)
    )
    assert "own weight left out" in found.statement
    for row, head in enumerate(found.heads):
        for column, (relation, direction) in enumerate(found.relations):
            hits = n_arcs = 0
            for tree in TREES:
                a = np.array(model.trace(tree.text).weights(head.site_key, head.head)[1:-1, 1:-1], np.float64)
                np.fill_diagonal(a, 0.0)
                for word in tree.words:
                    if word.relation == relation and word.head >= 0:
                        looking = a[word.place] if direction == "to head" else a[:, word.place]
                        hits += int(looking.argmax() == word.head)
                        n_arcs += 1
            assert found.values[row, column] == pytest.approx(hits / n_arcs)


def test_that_the_places_of_a_text_equal_slow_sums() -> None:
    pieces = ["<s>", "Yes", ",", "it", "is", ".", "</s>"]
    tokens = [Token(id=n, piece=p, is_special=p[0] == "<") for n, p in enumerate(pieces)]
    a = torch.sin(torch.arange(2 * 49, dtype=torch.float64) ** 2).reshape(2, 7, 7).softmax(dim=-1)
    slow = np.zeros((2, len(PLACES)))
    for h in range(2):
        w = a[h].numpy()
        slow[h] = (
            sum(w[i, i - 1] for i in range(1, 7)) / 6,
            sum(w[i, i] for i in range(7)) / 7,
            sum(w[i, i + 1] for i in range(6)) / 6,
            sum(w[i, 0] for i in range(7)) / 7,
            sum(w[i, 6] for i in range(7)) / 7,
            sum(w[i, 2] + w[i, 5] for i in range(7)) / 7,
            w[6, 0] + w[6, 6],
        )
    np.testing.assert_allclose(shares_of(a, tokens), slow, rtol=1e-12)
    plain = shares_of(a[:, 1:2, 1:2], tokens[1:2])
    assert np.isnan(plain[:, [i for i, name in enumerate(PLACES) if name != "itself"]]).all()


def test_that_looks_agree_with_the_tables_of_a_corpus() -> None:
    model, texts = tiny_model("encoder"), [SENTENCE, "a dog saw the bird"]
    looks, table = looks_of(model, texts), measure_texts(model, texts).table
    maps = [torch.cat([model.trace(text).all_weights(site) for site in model.sites]) for text in texts]
    for place, measured in (  # over all rows, as published; the table's columns are of rows of words
        ("previous", lambda a: a.diagonal(-1, dim1=1, dim2=2).mean(dim=1)),
        ("itself", lambda a: a.diagonal(dim1=1, dim2=2).mean(dim=1)),
        ("start token", lambda a: a[:, :, 0].mean(dim=1)),
    ):
        own = torch.stack([measured(a.double()) for a in maps]).mean(dim=0)
        np.testing.assert_allclose(looks.share(place), own.numpy(), rtol=1e-5)
    one = measure_texts(model, texts[:1]).table
    share = looks_of(model, texts[:1]).share("previous") * 7 / 8  # 7 of the 8 rows have one
    np.testing.assert_allclose([one.estimate(h, "previous_mul").value for h in looks.heads], share, rtol=1e-5)
    entropies = [table.estimate(head, "entropy_nats").value for head in looks.heads]
    np.testing.assert_allclose(looks.entropies, entropies, rtol=1e-5)
    assert looks.n_tokens == 15
    assert looks.even == pytest.approx((math.log(8) + math.log(7)) / 2)


def test_that_known_heads_are_seen_looking_where_they_look() -> None:
    looks = looks_of(known_decoder(), [" ".join(KNOWN_WORDS[:8])])
    previous, identity, first = (
        looks.heads.index(HeadRef(stack="decoder", layer=0, head=head)) for head in (0, 1, 3)
    )
    assert looks.share("previous")[previous] == pytest.approx(1.0, abs=1e-3)
    assert looks.share("itself")[identity] == pytest.approx(1.0, abs=1e-3)
    assert looks.share("start token")[first] == pytest.approx(1.0, abs=1e-3)
    assert (looks.share("next") == 0.0).all()
    beside = look_rows(looks)[0]
    assert (beside.ours, beside.is_as_published) == (1.0, True)


def test_that_heads_of_a_layer_are_told_from_those_of_two() -> None:
    heads = [HeadRef(stack="encoder", layer=layer, head=head) for layer in (0, 1) for head in (0, 1)]
    sums = HeadDivergences(heads)
    one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    sums.add_weights(torch.stack([one, one, other, other]))
    numbers = np.zeros((4, len(PLACES)))
    looks = Looks(
        heads=tuple(heads),
        shares=numbers,
        entropies=np.array([1.0, 3.0, 0.0, 1.0]),
        plane=plane_of(sums, "encoder", 2),
        even=math.log(2),
        stops=0.0,
        n_tokens=1,
        n_texts=1,
    )
    assert looks.likeness() == pytest.approx((0.0, math.log(2)))
    assert looks.by_layer(looks.entropies).tolist() == [2.0, 0.5]
    assert [row.is_as_published for row in look_rows(looks)[-2:]] == [True, True]


def test_that_a_translation_model_is_refused() -> None:
    with pytest.raises(UserError, match="cross, decoder, encoder"):
        list(look(tiny_model("encoder-decoder"), [SENTENCE]))
    with pytest.raises(UserError, match="no text"):
        list(look(tiny_model("encoder"), []))


def a_table() -> SyntaxTable:
    """Two heads; det: 1 of 4 and 3 of 4 arcs to the head, obj: 5 of 6 and none; to dependents 0.9 and 0."""
    values = np.array([[0.25, 0.9, 5 / 6], [0.75, 0.0, 0.0]], np.float32)
    return SyntaxTable(
        model="m",
        corpus="",
        heads=tuple(HeadRef(stack="encoder", layer=0, head=head) for head in (0, 1)),
        relations=(("det", "to head"), ("det", "to dependent"), ("obj", "to head")),
        values=values,
        low=values,
        high=values,
        baseline=np.tile(np.array([0.5, 0.5, 0.8], np.float32), (2, 1)),
        offsets=np.ones((2, 3), np.int32),
        n_arcs=np.tile(np.array([4, 4, 6], np.int32), (2, 1)),
        counts=np.tile(np.array([4, 4, 6], np.int32), (2, 1)),
        telling=np.zeros((2, 3, 3), np.int32),
        n_texts=1,
        manner="clark",
    )


def test_that_the_best_heads_are_those_of_a_hand_made_table() -> None:
    found = best_heads(a_table())
    assert [(b.relation, b.head, b.direction, b.is_syntactic) for b in found.values()] == [
        ("det", "L0H0", "to dependent", True),
        ("obj", "L0H0", "to head", False),
    ]
    assert best_of_all(a_table()) == ("L0H0", pytest.approx(6 / 10))
    assert best_offset(TREES, ["det", "nsubj", "case"]) == (1, pytest.approx(6 / 7))
    assert best_offset(TREES, ["obl", "obj"]) == (-3, 0.5)
    rows = syntax_rows(a_table(), None, TREES)
    assert [row.is_as_published for row in rows[2:]] == [True, False]
    assert rows[1].ours == 1.0
    assert best_heads(None) == {}
    assert isinstance(found["det"], Best)


@pytest.mark.qt
def test_that_the_study_trains_on_a_corpus_and_follows_its_trees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, trees = tmp_path / "text.txt", tmp_path / "trees.conllu"
    corpus.write_text("the cat sees the dog, and the dog sees a bird.\n" * 80, encoding="utf-8")
    trees.write_text(TREE, encoding="utf-8")
    options = ("--out", str(tmp_path / "out"), "--quick", "--device", "cpu", "--json")
    assert cli.main(["study", "syntax", *options, "--corpus", str(corpus), "--conllu", str(trees)]) == 0
    found = json.loads(capsys.readouterr().out)
    told = [one for one in found["comparisons"] if one["what"].startswith("determiner → noun")]
    assert told[0]["published"] == "0.943 against 0.517"
    assert "untrained" in told[0]["unit"]
    assert found["setting"]["trained on"] == "text.txt"
    assert {"arcs", "weight on", "group"} <= {row[0] for row in found["data"]}
    assert (tmp_path / "out" / "run-masked-english-seed-1-quick" / "checkpoints").is_dir()
