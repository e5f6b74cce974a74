"""The lab of fine-tuning with many seeds: its statistics against slow references, and what it claims."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from attnscope.labs import LABS
from attnscope.records import ExperimentAnswer, TuneFinding, TuneQuestion, TuneRun

LAB = LABS["Fine-tuning and luck"]

QUESTION = TuneQuestion(n_inits=2, n_orders=3)


def answer(accuracies: dict[tuple[bool, int, int], float], *, is_exact: bool = True) -> ExperimentAnswer:
    runs = tuple(
        TuneRun(is_reinitialised=way, init=i, order=j, accuracy=value, moved=(value, 2.0 + i))
        for (way, i, j), value in accuracies.items()
    )
    finding = TuneFinding(
        question=QUESTION, layers=("tokens", "encoder L0"), n_held_out=256, n_parameters=10, runs=runs
    )
    return ExperimentAnswer(finding=finding, is_exact=is_exact, is_asked=not is_exact, n_done=1, n_total=12)


WHOLE = {
    (way, i, j): (0.5 if way else 0.6) + 0.1 * i + 0.05 * j
    for way, i, j in itertools.product((False, True), range(2), range(3))
}


def test_that_the_expected_best_is_the_mean_over_all_draws_with_replacement() -> None:
    values = dict(zip(itertools.product((False,), range(2), range(3)), (0.7, 0.4, 0.9, 0.4), strict=False))
    shown = LAB.resolve(replace(LAB.example, answer=answer(values)))
    found = LAB.charts(shown)[0].series[0]
    assert found.xs.tolist() == [1, 2, 3, 4]
    for n in range(1, 5):
        draws = itertools.product(values.values(), repeat=n)
        slow = [max(draw) for draw in draws]
        assert found.ys[n - 1] == pytest.approx(100 * sum(slow) / len(slow))


def shares(rows: list[list[float]]) -> tuple[str, str]:
    """What the lab tells of the variance of a grid, first weights by order: by the one and by the other."""
    values = {(False, i, j): value for i, row in enumerate(rows) for j, value in enumerate(row)}
    told = dict(LAB.resolve(replace(LAB.example, answer=answer(values))).words.numbers)
    return tuple(told[f"variance by {name}"].split(" · ")[0] for name in ("first weights", "order"))


def test_that_the_share_of_a_seed_is_the_variance_of_its_means() -> None:
    assert shares([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]) == ("100.0 %", "0.0 %")
    rows = [[1.0, 4.0, 2.0], [3.0, 0.0, 7.0]]
    every = [value for row in rows for value in row]
    mean = sum(every) / 6
    whole = sum((v - mean) ** 2 for v in every) / 6
    of_first = sum((sum(row) / 3 - mean) ** 2 for row in rows) / 2 / whole
    of_order = sum((sum(column) / 2 - mean) ** 2 for column in zip(*rows, strict=True)) / 3 / whole
    assert shares(rows) == (f"{100 * of_first:.1f} %", f"{100 * of_order:.1f} %")
    assert shares([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]) == ("–", "–")


def test_that_maps_hold_each_pair_of_seeds_and_what_is_not_done_is_missing() -> None:
    shown = LAB.resolve(
        replace(LAB.example, answer=answer({(False, 1, 2): 0.8, (True, 0, 0): 0.7}, is_exact=False))
    )
    assert shown.accuracies[False].shape == (2, 3)
    assert shown.accuracies[False][1, 2] == 0.8
    assert np.isnan(shown.accuracies[False]).sum() == 5
    assert "1 of 12" in shown.words.sentence
    assert [cells.title for cells in LAB.cells(shown)] == ["All layers kept", "Top layers anew"]
    best, change = LAB.charts(shown)
    assert best.series[0].ys.tolist() == [80.0]
    assert change.x_names == ("tokens", "L0")


def test_that_all_that_is_done_is_told_with_mean_and_deviation() -> None:
    shown = LAB.resolve(replace(LAB.example, answer=answer(WHOLE)))
    said = shown.words.sentence
    assert said.startswith("6 runs that differ in their seeds alone reach 60 to 80 %")
    assert "the mean is worse: 60.0 against 70.0 %" in said
    numbers = dict(shown.words.numbers)
    assert numbers["mean"] == "70.0 % · 60.0 %"
    assert numbers["worst"] == "60.0 % · 50.0 %"
    deviation = np.std([0.6, 0.65, 0.7, 0.7, 0.75, 0.8], ddof=1)
    assert numbers["standard deviation"].startswith(f"{100 * deviation:.1f} %")
    _, change = LAB.charts(shown)
    bars = change.series[0]
    assert bars.style == "whiskers"
    second = [2.0, 2.0, 2.0, 3.0, 3.0, 3.0]
    assert bars.ys[2:].tolist() == pytest.approx([2.5 - np.std(second, ddof=1), 2.5 + np.std(second, ddof=1)])


def test_that_runs_that_are_all_alike_are_no_luck() -> None:
    said = LAB.resolve(replace(LAB.example, answer=answer(dict.fromkeys(WHOLE, 0.5)))).words.sentence
    assert said.startswith("6 runs that differ in their seeds alone reach 50 %, all of them. With")


def test_that_ways_that_cannot_be_told_apart_are_not_ranked() -> None:
    noisy = WHOLE | {
        (True, i, j): WHOLE[False, i, j] + (0.1 if (i + j) % 2 else -0.09) for i in range(2) for j in range(3)
    }
    assert (
        "the mean is not clearly better or worse"
        in LAB.resolve(replace(LAB.example, answer=answer(noisy))).words.sentence
    )


def test_that_runs_that_share_an_order_do_not_count_as_runs_of_their_own() -> None:
    """Six differences of 0.08 ± 0.05 are clearly above 0; three orders, each twice the same, are not."""
    by_order = (0.03, 0.08, 0.13)
    alike = WHOLE | {(True, i, j): WHOLE[False, i, j] + by_order[j] for i in range(2) for j in range(3)}
    differences = np.array(by_order * 2)
    assert differences.mean() > 2.57 * differences.std(ddof=1) / np.sqrt(6)  # t of 5 degrees of freedom
    assert differences.mean() < 4.30 * np.std(by_order, ddof=1) / np.sqrt(3)  # and of 2
    said = LAB.resolve(replace(LAB.example, answer=answer(alike))).words.sentence
    assert "the mean is not clearly better or worse" in said


def test_that_nothing_known_is_drawn_as_nothing() -> None:
    shown = LAB.resolve(LAB.example)
    assert np.isnan(shown.accuracies[True]).all()
    assert LAB.charts(shown)[0].series[0].ys.size == 0
    assert shown.words.sentence
