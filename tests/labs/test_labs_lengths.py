"""The lab of quality by length: what it says of a finding, and what it does not claim."""

from dataclasses import replace

import numpy as np

from attnscope.labs import LABS
from attnscope.records import ExperimentAnswer, Writer, WritingCurve, WritingFinding, WritingQuestion

LAB = LABS["Quality by length"]


def finding(**exact: tuple[int, int, int]) -> WritingFinding:
    names: dict[str, Writer] = {w: w for w in ("none", "additive", "dot", "transformer")}  # type: ignore[misc]
    curves = tuple(
        WritingCurve(
            writer=names[name],
            n_parameters=20_000,
            losses=(2.0, 1.0),
            n_exact=counts,
            token_shares=(1.0, 0.9, 0.5),
        )
        for name, counts in exact.items()
    )
    question = WritingQuestion(n_trained=8, n_steps=80)
    return WritingFinding(question=question, lengths=(3, 8, 12), n_rows=100, read_every=50, curves=curves)


def shown_sentence(found: WritingFinding) -> str:
    choice = replace(
        LAB.example, n_trained=8, n_steps=80, answer=ExperimentAnswer(finding=found, is_exact=True)
    )
    return LAB.resolve(choice).words.sentence


def test_that_a_difference_is_claimed_where_intervals_do_not_meet() -> None:
    said = shown_sentence(
        finding(none=(99, 2, 0), additive=(100, 98, 5), dot=(98, 5, 0), transformer=(90, 70, 0))
    )
    assert "99 % of the rows of 3 tokens are right, 2 % of those of 8" in said
    assert "GRU, Bahdanau 98 %, Transformer 70 %" in said
    assert "Luong" not in said
    noise = shown_sentence(
        finding(none=(30, 28, 0), additive=(31, 33, 0), dot=(9, 9, 9), transformer=(0, 0, 0))
    )
    assert "does about as well on short rows as on long ones: 30 % and 28 % right" in noise
    assert "no model with attention is better beyond chance" in noise


def test_that_curves_are_shares_and_missing_models_have_none() -> None:
    shown = LAB.resolve(
        replace(
            LAB.example,
            answer=ExperimentAnswer(
                finding=finding(none=(100, 50, 25)), is_asked=True, n_done=9, n_total=320
            ),
        )
    )
    assert shown.exact["none"].tolist() == [1.0, 0.5, 0.25]
    assert np.isnan(shown.exact["dot"]).all()
    assert shown.steps["none"].tolist() == [50.0, 80.0]
    assert "9 of 320 steps" in shown.words.sentence
    whole, _, loss = LAB.charts(shown)
    assert whole.marks == ((8.0, "trained: 8"),)
    assert loss.series[0].ys.tolist() == [2.0, 1.0]
    assert dict(shown.words.numbers)["GRU, one vector"] == "100 → 50 → 25"
