"""Measuring over texts part by part: sentences of one or two words, and a part that fails."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_models import tiny_model

import attnscope as at
from attnscope.analysis import corpus, measure_parts, measure_syntax
from attnscope.cli.main import main
from attnscope.conllu import Tree, TreeWord
from attnscope.errors import UserError
from attnscope.outside import json_text
from attnscope.records import CorpusProgress, Findings, Manner, SyntaxTable

SHORT = (("cat",), ("mat", "!"), ("the",))


def tree(words: tuple[str, ...], relation: str = "obj") -> Tree:
    """Each word hangs on the word after it, as no head of a causal model can see."""
    nodes = tuple(
        TreeWord(
            form=word,
            head=place + 1 if place + 1 < len(words) else -1,
            relation="punct" if word == "!" or "!" in words else relation,
            place=place,
        )
        for place, word in enumerate(words)
    )
    return Tree(text=" ".join(words), words=nodes, written=words)


LONG = [tree(("the", "cat", "sat")), tree(("a", "dog", "saw", "the", "bird"))]


@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("manner", ["voita", "clark"])
def test_that_sentences_without_an_arc_change_no_share_of_arcs(form: str, manner: Manner) -> None:
    model = tiny_model(form)
    alone, among = (
        [*measure_syntax(model, trees, min_arcs=1, manner=manner)][-1]
        for trees in (LONG, [*(tree(words) for words in SHORT), *LONG, *(tree(words) for words in SHORT)])
    )
    assert isinstance(alone, SyntaxTable)
    assert isinstance(among, SyntaxTable)
    np.testing.assert_array_equal(alone.values, among.values)
    np.testing.assert_array_equal(alone.n_arcs, among.n_arcs)
    assert among.n_texts == 8


@pytest.mark.parametrize("form", ["encoder", "decoder"])
def test_that_a_corpus_of_single_words_is_measured(form: str) -> None:
    found = at.measure_texts(tiny_model(form), ["cat", "mat !", "the"])
    assert found.table.n_texts == 3
    assert found.table.estimate(found.table.heads[0], "entropy").value <= 1.0


def broken(*_: object, **__: object) -> Iterator[CorpusProgress]:
    yield CorpusProgress(n_done=1, n_total=2)
    raise IndexError("made for this test")


def test_that_a_part_that_cannot_be_measured_becomes_a_note() -> None:
    *passing, found = measure_parts(tiny_model("decoder"), ["the cat sat"], trees=LONG)
    assert isinstance(found, Findings)
    assert {one.what for one in passing if isinstance(one, CorpusProgress)} == {"Measuring heads"}
    assert (found.syntax, len(found.notes)) == (None, 1)
    assert "relations of words could not be measured: No relation occurs 20 times" in found.notes[0]
    assert found.to_dict()["notes"] == list(found.notes)


def test_that_a_fault_comes_after_what_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "measure_syntax", broken)
    seen: list[object] = []
    with pytest.raises(IndexError, match="made for this test"):
        seen.extend(measure_parts(tiny_model("decoder"), ["the cat sat"], trees=LONG))
    passing = measure_parts(tiny_model("decoder"), ["the cat sat"], trees=LONG)
    found = next(one for one in passing if isinstance(one, Findings))
    assert found.table.n_texts == 1
    assert "fault in AttnScope" in found.notes[0]


def test_that_measures_outlast_stripes_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    stripes = corpus.stripe_scores

    def refusing(model: at.Model, *, n_rows: int, seed: int = 0) -> object:
        if n_rows:
            raise UserError("No random text can be read.")
        return stripes(model, n_rows=n_rows, seed=seed)

    whole = at.measure_texts(tiny_model("decoder"), ["the cat sat"])
    monkeypatch.setattr(corpus, "stripe_scores", refusing)
    found = at.measure_texts(tiny_model("decoder"), ["the cat sat"])
    column = found.table.names.index("stripe")
    assert np.isnan(found.table.values[:, column]).all()
    others = [index for index in range(len(found.table.names)) if index != column]
    np.testing.assert_array_equal(found.table.values[:, others], whole.table.values[:, others])
    assert "induction scores could not be measured: No random text" in found.notes[0]


def test_that_the_command_hands_over_the_measures_when_the_trees_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_model("decoder").save(tmp_path / "model")
    (tmp_path / "trees.conllu").write_text("1\tcat\t_\t_\t_\t_\t0\troot\t_\t_\n", encoding="utf-8")
    asked = ["measure", str(tmp_path / "model"), "--conllu", str(tmp_path / "trees.conllu"), "--json"]
    assert main(asked) == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["heads"]) == 8
    assert "No relation occurs 20 times" in captured.err
    monkeypatch.setattr(corpus, "measure_syntax", broken)
    assert main([*asked, "--csv", str(tmp_path / "out.csv")]) == 1
    assert len(json.loads(capsys.readouterr().out)["heads"]) == 8
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").count("\n") == 9


def test_that_python_gives_the_rows_that_the_command_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["the cat sat", "a dog saw the bird", "cat"]
    tiny_model("decoder").save(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    asked = ["measure", str(tmp_path / "model"), "--corpus", str(tmp_path / "texts.txt"), "--json"]
    assert main([*asked, "--csv", str(tmp_path / "command.csv")]) == 0
    told = json.loads(capsys.readouterr().out)
    model = at.load(str(tmp_path / "model"))
    found = at.measure_texts(model, iter(texts), name=str(tmp_path / "texts.txt"))
    found.save_csv(tmp_path / "python.csv")
    assert (tmp_path / "python.csv").read_bytes() == (tmp_path / "command.csv").read_bytes()
    assert json.loads(json_text(found.to_dict())) == told
    row = found.rows()[3]
    assert (row["layer"], row["head"], row["first_texts"]) == (0, 3, 3)
    assert row["first"] == found.table.values[3, found.table.names.index("first")]


def test_that_python_takes_one_text_and_refuses_what_is_none() -> None:
    model = tiny_model("decoder")
    assert at.measure_texts(model, "the cat sat").table.n_texts == 1
    with pytest.raises(UserError, match="a string, or a tuple"):
        at.measure_texts(model, [3])  # type: ignore[list-item]
    with pytest.raises(UserError, match=r"at\.load"):
        at.measure_texts("stories", ["a"])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="measure_texts"):
        at.measure(model)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no text to measure"):
        at.measure_texts(model, [])
