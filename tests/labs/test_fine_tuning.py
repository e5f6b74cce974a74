"""The lab of fine-tuning with many seeds: its statistics against slow references, and what it claims."""

import itertools

import numpy as np
import pytest

from attnscope.labs.fine_tuning import (
    TuneChoice,
    expected_best,
    explained,
    tune_cells,
    tune_charts,
    tuned_so_far,
)
from attnscope.records.experiments import ExperimentAnswer, TuneFinding, TuneQuestion, TuneRun

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
    values = np.array([0.7, 0.4, 0.9, 0.4])
    found = expected_best(values)
    for n in range(1, 5):
        draws = itertools.product(values.tolist(), repeat=n)
        slow = [max(draw) for draw in draws]
        assert found[n - 1] == pytest.approx(sum(slow) / len(slow))


def test_that_the_share_of_a_seed_is_the_variance_of_its_means() -> None:
    grid = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    assert (explained(grid, 0), explained(grid, 1)) == (1.0, 0.0)
    rows = np.array([[1.0, 4.0, 2.0], [3.0, 0.0, 7.0]])
    whole = sum((v - rows.mean()) ** 2 for v in rows.ravel().tolist()) / 6
    means = [sum(row) / 3 for row in rows.tolist()]
    assert explained(rows, 0) == pytest.approx(sum((m - rows.mean()) ** 2 for m in means) / 2 / whole)
    assert np.isnan(explained(np.ones((2, 2)), 0))


def test_that_maps_hold_each_pair_of_seeds_and_what_is_not_done_is_missing() -> None:
    shown = tuned_so_far(TuneChoice(answer=answer({(False, 1, 2): 0.8, (True, 0, 0): 0.7}, is_exact=False)))
    assert shown.accuracies[False].shape == (2, 3)
    assert shown.accuracies[False][1, 2] == 0.8
    assert np.isnan(shown.accuracies[False]).sum() == 5
    assert "1 of 12" in shown.words.sentence
    assert [cells.title for cells in tune_cells(shown)] == ["All layers kept", "Top layers anew"]
    best, change = tune_charts(shown)
    assert best.series[0].ys.tolist() == [80.0]
    assert change.x_names == ("tokens", "L0")


def test_that_all_that_is_done_is_told_with_mean_and_deviation() -> None:
    shown = tuned_so_far(TuneChoice(answer=answer(WHOLE)))
    said = shown.words.sentence
    assert said.startswith("6 runs that differ in their seeds alone reach 60 to 80 %")
    assert "the mean is worse: 60.0 against 70.0 %" in said
    numbers = dict(shown.words.numbers)
    assert numbers["mean"] == "70.0 % · 60.0 %"
    assert numbers["worst"] == "60.0 % · 50.0 %"
    deviation = np.std([0.6, 0.65, 0.7, 0.7, 0.75, 0.8], ddof=1)
    assert numbers["standard deviation"].startswith(f"{100 * deviation:.1f} %")
    _, change = tune_charts(shown)
    bars = change.series[0]
    assert bars.style == "whiskers"
    second = [2.0, 2.0, 2.0, 3.0, 3.0, 3.0]
    assert bars.ys[2:].tolist() == pytest.approx([2.5 - np.std(second, ddof=1), 2.5 + np.std(second, ddof=1)])


def test_that_ways_that_cannot_be_told_apart_are_not_ranked() -> None:
    noisy = WHOLE | {
        (True, i, j): WHOLE[False, i, j] + (0.1 if (i + j) % 2 else -0.09) for i in range(2) for j in range(3)
    }
    assert (
        "the mean is not clearly better or worse"
        in tuned_so_far(TuneChoice(answer=answer(noisy))).words.sentence
    )


def test_that_nothing_known_is_drawn_as_nothing() -> None:
    shown = tuned_so_far(TuneChoice())
    assert np.isnan(shown.accuracies[True]).all()
    assert tune_charts(shown)[0].series[0].ys.size == 0
    assert shown.words.sentence
