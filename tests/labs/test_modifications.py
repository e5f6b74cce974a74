"""The lab of modifications: what it tells of a finding, and what it does not claim."""

import math
from dataclasses import replace

import numpy as np
import pytest

from attnscope.counting import format_number
from attnscope.labs import LABS
from attnscope.records import (
    D_FF,
    GROUPS,
    MODIFICATIONS,
    ExperimentAnswer,
    ModifyFinding,
    ModifyQuestion,
    ModifyRow,
    of_group,
)

LAB = LABS["Modifications"]


def row(name: str, *finals: float) -> ModifyRow:
    return ModifyRow(
        name=name,
        n_parameters=1000,
        earlies=tuple(2 * one for one in finals),
        finals=finals,
        bleus=tuple(90 - one for one in finals),
        seconds=9.5,
    )


def shown(*rows: ModifyRow, group: str = "activation", measure: str = "final", is_exact: bool = True):
    question = ModifyQuestion(group=group)  # type: ignore[arg-type]
    found = ModifyFinding(question=question, rows=rows)
    answer = ExperimentAnswer(finding=found, is_exact=is_exact, is_asked=not is_exact, n_done=3, n_total=9)
    return LAB.resolve(replace(LAB.example, group=group, measure=measure, answer=answer))  # type: ignore[arg-type]


def activations(**finals: tuple[float, ...]) -> tuple[ModifyRow, ...]:
    rows = {one.name: (1.0, 1.1, 1.2) for one in of_group("activation")} | finals
    return tuple(row(name, *values) for name, values in rows.items())


def test_that_every_group_has_the_unmodified_model_first_and_published_numbers() -> None:
    for group in GROUPS:
        names = [one.name for one in of_group(group)]
        assert names[0] == "vanilla"
        assert len(set(names)) == len(names) >= 4
    published = {name: one.published for name, one in MODIFICATIONS.items() if one.published}
    assert published["geglu"].final == 1.792
    assert (published["sinusoidal"].bleu, published["learned"].bleu) == (25.8, 25.7)
    assert dict(MODIFICATIONS["geglu"].changes)["d_ff"] == 2 * D_FF // 3  # three matrices for two


def test_that_intervals_are_students_over_seeds() -> None:
    found = shown(row("vanilla", 1.0, 2.0, 4.0), row("geglu", 1.0))
    at = {one.name: k for k, one in enumerate(found.rows)}
    mean, (low, high) = found.means[at["vanilla"]], found.ends[at["vanilla"]]
    deviation = math.sqrt(sum((v - 7 / 3) ** 2 for v in (1.0, 2.0, 4.0)) / 2)
    assert mean == pytest.approx(7 / 3)
    assert high - mean == pytest.approx(4.302653 * deviation / math.sqrt(3), rel=1e-5)  # t of two, 97.5 %
    assert mean - low == pytest.approx(high - mean)
    assert found.means[at["geglu"]] == 1.0
    assert np.isnan(found.ends[at["geglu"]]).all()
    assert np.isnan(found.means[at["gelu"]])
    assert np.isnan(found.ends[at["gelu"]]).all()
    by_loss = shown(row("vanilla", 1.0, 1.1, 1.3), row("geglu", 0.5, 0.6))
    assert by_loss.gains[at["geglu"]] == pytest.approx((0.5, 0.5))
    by_bleu = shown(row("vanilla", 89.0, 88.0), row("geglu", 87.0, 86.0), measure="bleu")
    assert by_bleu.gains[at["geglu"]] == pytest.approx((2.0, 2.0))


def ranked(values: list[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values]


def test_that_the_rank_correlation_is_spearmans() -> None:
    published = [one.published.final for one in of_group("activation")]
    for finals in ([3.0, 1.0, 2.0, 2.0, 5.0, 4.0, 0.0], [1.0, 2, 3, 4, 5, 6, 7], [7.0, 3, 3, 3, 1, 2, 9]):
        names = [one.name for one in of_group("activation")]
        assert len(names) == len(finals)
        ranks = [ranked(finals), ranked(published)]
        mean = (len(finals) + 1) / 2
        over = sum((a - mean) * (b - mean) for a, b in zip(*ranks, strict=True))
        under = math.prod(math.sqrt(sum((a - mean) ** 2 for a in one)) for one in ranks)
        found = shown(*(row(name, value) for name, value in zip(names, finals, strict=True)))
        assert dict(found.words.numbers)["rank correlation ρ"] == format_number(over / under, 2)
    two = shown(*(row(name, float(k)) for k, name in enumerate(names[:2])))
    assert dict(two.words.numbers)["rank correlation ρ"] == "–"
    alike = shown(*(row(name, 1.0) for name in names))
    assert dict(alike.words.numbers)["rank correlation ρ"] == "–"


def test_that_a_difference_is_told_where_its_interval_leaves_out_zero() -> None:
    said = shown(*activations(geglu=(0.5, 0.61, 0.7), gelu=(2.0, 2.1, 2.21), swish=(0.2, 1.8, 1.0))).words
    assert said.sentence.startswith(
        "GeGLU is better than the unmodified model; GELU is worse; 4 others cannot be told"
    )
    assert dict(said.numbers)["GeGLU"].endswith(" · 1.792")
    better = shown(*activations(geglu=(0.5, 0.61, 0.7)), measure="bleu").words.sentence
    assert better.startswith("GeGLU is better")
    alike = shown(*activations()).words.sentence
    assert alike.startswith("6 modifications cannot be told from the unmodified model (")


def test_that_rows_that_are_not_done_are_missing_and_other_groups_are_not_taken() -> None:
    part = shown(row("vanilla", 1.0), is_exact=False)
    assert part.means[0] == 1.0
    assert np.isnan(part.means[1:]).all()
    assert "3 of 9" in part.words.sentence
    here, told = LAB.charts(part)
    assert here.x_names[:2] == ("vanilla", "GELU")
    assert np.isfinite(told.series[1].ys).all()
    other = ExperimentAnswer(
        finding=ModifyFinding(question=ModifyQuestion(group="norm"), rows=(row("vanilla", 1.0),))
    )
    assert np.isnan(LAB.resolve(replace(LAB.example, answer=other)).means).all()


def test_that_numbers_of_two_papers_are_two_series() -> None:
    _, told = LAB.charts(shown(group="position", measure="bleu"))
    assert [one.name for one in told.series] == ["Narang et al. 2021", "Vaswani et al. 2017"]
    assert np.nansum(told.series[1].ys) == pytest.approx(25.8 + 25.7)
    assert dict(shown(group="position", measure="bleu").words.numbers)["rank correlation ρ"] == "–"
