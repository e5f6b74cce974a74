"""Learned against sinusoidal positions: differences of the same seed, and what was published of row E."""

import math
from dataclasses import replace

import numpy as np
import pytest

from attnscope.fields import with_texts
from attnscope.labs import LABS
from attnscope.labs.findings import kept_findings
from attnscope.records import ExperimentAnswer, ModifyFinding, ModifyQuestion, ModifyRow

LAB = LABS["Learned positions, row E"]


def row(name: str, bleus: tuple[float, ...], finals: tuple[float, ...], n_parameters: int = 100) -> ModifyRow:
    return ModifyRow(
        name=name,
        n_parameters=n_parameters,
        earlies=tuple(3 * loss for loss in finals),
        finals=finals,
        bleus=bleus,
        seconds=1.0,
    )


def found(*rows: ModifyRow, measure: str = "bleu", **answer: object) -> object:
    question = ModifyQuestion(group="position", n_seeds=3, only=("sinusoidal", "learned"))
    finding = ModifyFinding(question=question, rows=rows)
    known = {"is_exact": True, **answer}
    return with_texts(
        replace(LAB.example, answer=ExperimentAnswer(finding=finding, **known)),  # type: ignore[arg-type]
        [f"measure={measure}"],
    )


ROWS = (
    row("sinusoidal", (70.0, 60.0, 80.0), (0.20, 0.21, 0.22)),
    row("learned", (71.0, 58.0, 82.0), (0.26, 0.26, 0.29), 148),
)


def test_that_both_rows_alone_are_asked_for() -> None:
    question = LAB.question(LAB.example, None)
    assert question == ModifyQuestion(group="position", only=("sinusoidal", "learned"), n_seeds=10)


def test_that_the_difference_is_of_the_same_seed_with_students_interval() -> None:
    shown = LAB.resolve(found(*ROWS))
    gaps = [1.0, -2.0, 2.0]
    mean = sum(gaps) / 3
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / 2)
    reach = 4.302653 * deviation / math.sqrt(3)  # t of two, 97.5 %
    np.testing.assert_allclose(shown.difference, [mean, mean - reach, mean + reach], rtol=1e-5)
    assert "not told apart from sinusoidal ones in BLEU" in shown.words.sentence
    assert "worse in loss (Δ 0.03" in shown.words.sentence
    rows = dict(shown.words.numbers)
    assert rows["sinusoidal"] == "70 · 25.8"
    assert rows["learned"] == "70.3 · 25.7"
    assert rows["learned − sinusoidal"].endswith("· −0.1")
    assert rows["parameters, learned"] == "148"


def test_that_row_e_stands_as_it_was_published() -> None:
    shown = LAB.resolve(found(*ROWS))
    assert shown.published == (25.8, 25.7)
    here, published = LAB.charts(shown)
    assert published.series[-1].ys.tolist() == [25.8, 25.7]
    assert [words for _, _, words in published.notes] == ["25.8", "25.7"]
    assert here.x_names == published.x_names == ("sinusoidal", "learned")
    lines = [series.ys.tolist() for series in here.series if series.name.startswith("seed")]
    assert lines == [[70.0, 71.0], [60.0, 58.0], [80.0, 82.0]]
    loss = LAB.resolve(found(*ROWS, measure="final"))
    assert loss.published == pytest.approx((math.log(4.92), math.log(4.92)))
    assert all(math.isnan(value) for value in LAB.resolve(found(*ROWS, measure="early")).published)


def test_that_a_seed_that_only_one_of_them_has_is_not_compared() -> None:
    shown = LAB.resolve(found(ROWS[0], row("learned", (71.0, 58.0), (0.26, 0.26))))
    assert shown.difference[0] == pytest.approx(-0.5)
    alone = LAB.resolve(found(ROWS[0]))
    assert np.isnan(alone.difference).all()
    assert "Positions that are learned" in alone.words.sentence


def test_that_while_it_is_trained_nothing_is_claimed() -> None:
    words = LAB.resolve(found(*ROWS, is_exact=False, is_asked=True, n_done=40, n_total=90)).words
    assert "Measured here now (40 of 90)" in words.sentence


def test_that_the_example_comes_with_the_program() -> None:
    known = kept_findings()[LAB.question(LAB.example, None)]
    assert isinstance(known, ModifyFinding)
    assert [one.name for one in known.rows] == ["sinusoidal", "learned"]
    assert {len(one.bleus) for one in known.rows} == {10}
