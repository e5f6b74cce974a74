"""The lab on accuracy by distance: the receptive field against every path, and what is said of a finding."""

import itertools

import numpy as np
import pytest

from attnscope.labs.accuracy_by_distance import (
    KERNELS,
    N_LAYERS,
    AccuracyByDistance,
    FarChoice,
    far_cells,
    far_charts,
    furthest,
    look_far,
    path_lengths,
    reach_of,
    receptive_field,
)
from attnscope.records.experiments import (
    DISTANCES,
    READERS,
    DelayFinding,
    DelayPoint,
    DelayQuestion,
    ExperimentAnswer,
    Reader,
)

LAST = DISTANCES[-1]


def paths(kernel_width: int, layers: range) -> set[int]:
    """How far back every choice of one place a layer leads, added up one by one."""
    places = [[n * 2**layer for n in range(kernel_width)] for layer in layers]
    return {sum(chosen) for chosen in itertools.product(*places)}


@pytest.mark.parametrize("kernel_width", KERNELS)
def test_that_the_field_is_what_the_paths_through_the_layers_lead_to(kernel_width: int) -> None:
    field = receptive_field(kernel_width)
    assert field.shape == (N_LAYERS + 1, LAST + 1)
    for row in range(N_LAYERS + 1):
        wanted = paths(kernel_width, range(N_LAYERS - row, N_LAYERS)) if row else {0}
        assert set(np.flatnonzero(field[row, ::-1]).tolist()) == {d for d in wanted if d <= LAST}
    assert reach_of(kernel_width) == max(paths(kernel_width, range(N_LAYERS)))


@pytest.mark.parametrize("kernel_width", KERNELS)
def test_that_a_path_is_one_step_the_layers_of_a_convolution_or_every_token(kernel_width: int) -> None:
    assert path_lengths("attention", kernel_width).tolist() == [1.0] * LAST
    for reader in ("gru", "retention", "selective"):
        assert path_lengths(reader, kernel_width).tolist() == [*range(1, LAST + 1)]
    found = path_lengths("convolution", kernel_width)
    for distance in range(1, LAST + 1):
        layers = [n for n in range(1, N_LAYERS + 1) if distance in paths(kernel_width, range(n))]
        assert found[distance - 1] == min(layers) if layers else np.isnan(found[distance - 1])


def finding(n_steps: int = 500, **right: tuple[int, ...]) -> DelayFinding:
    """Points at the first distances, of 1,000 tokens read; the last of each model took all steps."""
    names: dict[str, Reader] = {reader: reader for reader in READERS}
    points = tuple(
        DelayPoint(
            reader=names[name],
            distance=distance,
            n_right=n_right,
            n_steps=n_steps if k == len(counts) - 1 else 100,
            n_parameters=20_000,
        )
        for name, counts in right.items()
        for k, (distance, n_right) in enumerate(zip(DISTANCES, counts, strict=False))
    )
    return DelayFinding(question=DelayQuestion(n_steps=n_steps), n_read=1000, points=points)


def test_that_curves_are_shares_and_missing_points_have_none() -> None:
    answer = ExperimentAnswer(finding=finding(gru=(1000, 950, 400)), is_asked=True, n_done=9, n_total=80)
    shown = look_far(FarChoice(answer=answer))
    assert shown.right["gru"][:3].tolist() == [1.0, 0.95, 0.4]
    assert np.isnan(shown.right["gru"][3:]).all()
    assert np.isnan(shown.right["attention"]).all()
    assert shown.steps["gru"][:3].tolist() == [100.0, 100.0, 500.0]
    assert "Measured here now (9 of 80)" in shown.words.sentence
    assert dict(shown.words.numbers)["stopped while still learning"] == "1 of 3"
    accuracy, training, path = far_charts(shown)
    assert accuracy.marks == ((30.0, "receptive field: 30"),)
    by_name = {series.name: series for series in training.series}
    assert by_name["GRU"].ys[:3].tolist() == [100.0, 100.0, 500.0]
    assert path.is_log_y
    (cells,) = far_cells(shown)
    assert cells.note == "the convolution reads 31 tokens, attention all"
    assert int(np.isfinite(cells.values[-1]).sum()) == 31


def test_that_the_sentence_says_how_far_back_nine_of_ten_are_told() -> None:
    found = finding(
        attention=(1000,) * 8,
        convolution=(1000,) * 6 + (60, 60),
        gru=(1000, 990, 899, 950),
        retention=(880, 990),
        selective=(1000, 900),
    )
    answer = ExperimentAnswer(finding=found, is_exact=True, is_kept=True)
    said = look_far(FarChoice(n_steps=300, answer=answer)).words.sentence
    assert "attention up to 48, convolution up to 24 (field 30)" in said
    assert "GRU up to 2, retention at no distance, state space up to 2" in said
    assert said.endswith("500 steps at most, in advance.")
    assert furthest(np.array([0.95, np.nan, *[0.95] * 6])) == 1


def test_that_a_choice_asks_with_what_is_set() -> None:
    choice = FarChoice(kernel_width=2, d_model=16, n_steps=300, seed=4)
    question = AccuracyByDistance().question(choice, None)
    assert question == DelayQuestion(kernel_width=2, d_model=16, n_steps=300, seed=4)
