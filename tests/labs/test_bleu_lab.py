"""The lab of BLEU: what it asks, what it tells of a finding, and the numbers that were published."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnscope.errors import UserError
from attnscope.fields import with_texts, with_values
from attnscope.labs import LABS
from attnscope.records import (
    BleuFinding,
    BleuNumbers,
    BleuPart,
    BleuQuestion,
    BleuText,
    ExperimentAnswer,
    OpenModel,
)

LAB = LABS["BLEU"]
TRANSLATOR = OpenModel(key="folder abc", text="a text", translates=True)


def numbers(value: float, n_texts: int = 2, low: float = 30.0, high: float = 50.0) -> BleuNumbers:
    return BleuNumbers(
        value=value,
        low=low,
        high=high,
        precisions=(80.0, 60.0, 40.0, 20.0),
        brevity=0.9,
        n_texts=n_texts,
        n_words=18,
        n_right_words=20,
    )


TEXTS = (
    BleuText(
        index=0,
        source="the cat sleeps",
        written="le chat dort",
        references=("le chat dort",),
        words=("le", "chat", "dort"),
        matches=((True, True, True), (True, True), (True,), ()),
    ),
    BleuText(
        index=1,
        source="a dog",
        written="un un chien",
        references=("un chien", "le chien"),
        words=("un", "un", "chien"),
        matches=((True, False, True), (False, True), (False,), ()),
    ),
)


def told(*, is_exact: bool = True, low: float = 30.0, error: str = "", **wishes: object) -> tuple[Any, Any]:
    found = BleuFinding(
        question=BleuQuestion(model="folder abc"),
        name="tiny",
        pairs="2 sentences: pairs.tsv",
        texts=TEXTS,
        score=numbers(40.25, low=low, high=low + 20.0),
        parts=(BleuPart(first=1, last=5, score=numbers(40.25)),),
        n_cut=1,
        signature="sacrebleu",
    )
    answer = ExperimentAnswer(
        finding=None if error else found,
        is_exact=is_exact,
        is_asked=not is_exact,
        n_done=2,
        n_total=9,
        error=error,
    )
    choice = with_values(replace(LAB.example, answer=answer), wishes)
    return choice, LAB.resolve(choice)


def test_that_the_open_translator_is_asked_and_english_french_without_one() -> None:
    choice = LAB.example
    assert LAB.question(choice, TRANSLATOR) == BleuQuestion(model="folder abc")
    for opened in (None, OpenModel(key="x"), OpenModel(key="x", translates=True, is_toy=True)):
        assert LAB.question(choice, opened) == BleuQuestion()


def test_that_a_model_of_few_words_is_asked_about_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a b\tb a\n")
    choice = with_values(LAB.example, {"file": str(path), "held_out": 0.05})
    toy = OpenModel(key="toy", translates=True, is_toy=True)
    first = LAB.question(choice, toy)
    assert (first.model, first.file, first.held_out) == ("toy", str(path), 0.05)
    path.write_text("a b\tb a\nc d\td c\n")
    assert LAB.question(choice, toy) != first  # another content is another question
    path.unlink()
    assert LAB.question(choice, toy).stamp == ""


def test_that_beams_and_held_out_count_only_where_they_are_used() -> None:
    many = with_texts(LAB.example, ["n_beams=8", "held_out=0.1"])
    assert LAB.question(many, None) == LAB.question(LAB.example, None)
    assert LAB.question(with_texts(many, ["way=beams"]), None).n_beams == 8


def test_that_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="no file"):
        with_texts(LAB.example, ["file=/nowhere/pairs.tsv"])


def test_that_a_finding_is_told_with_interval_precisions_and_words() -> None:
    _, shown = told()
    rows = dict(shown.words.numbers)
    assert rows["model"] == "tiny"
    assert rows["BLEU, 95 % interval"].startswith("40.2")
    assert "30" in rows["BLEU, 95 % interval"]
    assert rows["p₄: 4-grams right"] == "20.0 %"
    assert rows["BP, of r / c words"] == "0.900, 20 / 18"
    assert rows["cut before they ended"] == "1"
    assert "tiny greedily: BLEU 40.2" in shown.words.sentence
    assert "compare a BLEU only with others on the same sentences" in shown.words.sentence


def test_that_what_is_on_the_way_has_no_interval_and_says_how_far_it_is() -> None:
    _, shown = told(is_exact=False, low=math.nan)
    assert dict(shown.words.numbers)["BLEU, 95 % interval"] == "40.2"
    assert "2 of 9, short ones first: BLEU 40.2 so far" in shown.words.sentence


def test_that_what_went_wrong_is_told() -> None:
    _, shown = told(error="pairs.tsv has no pairs.")
    assert shown.words.sentence == "pairs.tsv has no pairs."
    assert dict(shown.words.numbers)["model"] == "–"


def test_that_the_map_has_the_n_grams_of_the_sentence_that_is_chosen() -> None:
    _, shown = told(sentence=2)
    (cells,) = LAB.cells(shown)
    assert cells.columns == ("un", "un", "chien")
    wanted = [[1, 2, 1], [2, 1, np.nan], [2, np.nan, np.nan], [np.nan] * 3]
    np.testing.assert_array_equal(cells.values, wanted)
    assert cells.legend[:2] == ("in a reference", "in none")
    assert "a dog → un chien" in cells.note
    choice, shown = told(sentence=200)
    assert shown.text == TEXTS[1]  # the last there is
    fields = {field.name: field for field in LAB.example.__dataclass_fields__["sentence"].metadata.values()}
    assert all(field.shown(choice) == 2 for field in fields.values())


def test_that_the_published_numbers_are_those_of_the_papers() -> None:
    _, shown = told()
    beside, precisions, by_length = LAB.charts(shown)
    assert beside.x_names[0] == "here"
    lines = {series.name: series for series in beside.series}
    assert lines["here"].ys.tolist() == [40.25]
    assert lines["interval"].ys.tolist() == [30.0, 50.0]
    published = zip(beside.x_names[1:], lines["en–de"].ys, lines["en–fr"].ys, strict=True)
    table = {name: (german, french) for name, german, french in published}
    assert table["Transf. base"] == (27.3, 38.1)
    assert table["Transf. big"] == (28.4, 41.8)
    assert table["RNNsearch"][1] == 28.45
    assert len(table) == 5
    assert lines["en–fr"].xs.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert precisions.series[-1].ys.tolist() == [80.0, 60.0, 40.0, 20.0]
    assert by_length.x_names == ("1–5",)
