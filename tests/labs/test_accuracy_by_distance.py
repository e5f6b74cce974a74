"""The lab on accuracy by distance: the receptive field against every path, and what is said of a finding."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from attnscope.fields import fields_of
from attnscope.labs import LABS
from attnscope.records import (
    DISTANCES,
    READERS,
    DelayFinding,
    DelayPoint,
    DelayQuestion,
    ExperimentAnswer,
    Reader,
)

LAB = LABS["Accuracy by distance"]

LAST = DISTANCES[-1]
KERNELS = next(field for field in fields_of(LAB.example) if field.name == "kernel_width").values
N_LAYERS = 4


def paths(kernel_width: int, layers: range) -> set[int]:
    """How far back every choice of one place a layer leads, added up one by one."""
    places = [[n * 2**layer for n in range(kernel_width)] for layer in layers]
    return {sum(chosen) for chosen in itertools.product(*places)}


@pytest.mark.parametrize("kernel_width", KERNELS)
def test_that_the_field_is_what_the_paths_through_the_layers_lead_to(kernel_width: int) -> None:
    shown = LAB.resolve(replace(LAB.example, kernel_width=kernel_width))
    field = ~np.isnan(LAB.cells(shown)[0].values)
    assert field.shape == (N_LAYERS + 1, LAST + 1)
    for row in range(N_LAYERS + 1):
        wanted = paths(kernel_width, range(N_LAYERS - row, N_LAYERS)) if row else {0}
        assert set(np.flatnonzero(field[row, ::-1]).tolist()) == {d for d in wanted if d <= LAST}
    assert shown.reach == max(paths(kernel_width, range(N_LAYERS)))


@pytest.mark.parametrize("kernel_width", KERNELS)
def test_that_a_path_is_one_step_the_layers_of_a_convolution_or_every_token(kernel_width: int) -> None:
    shown = LAB.resolve(replace(LAB.example, kernel_width=kernel_width))
    assert shown.paths["attention"].tolist() == [1.0] * LAST
    for reader in ("gru", "retention", "selective"):
        assert shown.paths[reader].tolist() == [*range(1, LAST + 1)]
    found = shown.paths["convolution"]
    drawn = LAB.charts(shown)[2].series
    for series, reader in zip(drawn, ("gru", "convolution", "attention"), strict=True):
        np.testing.assert_array_equal(series.ys, shown.paths[reader])
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
    shown = LAB.resolve(replace(LAB.example, answer=answer))
    assert shown.right["gru"][:3].tolist() == [1.0, 0.95, 0.4]
    assert np.isnan(shown.right["gru"][3:]).all()
    assert np.isnan(shown.right["attention"]).all()
    assert shown.steps["gru"][:3].tolist() == [100.0, 100.0, 500.0]
    assert "Measured here now (9 of 80)" in shown.words.sentence
    assert dict(shown.words.numbers)["not all right at the last step"] == "1 of 3"
    accuracy, training, path = LAB.charts(shown)
    assert accuracy.marks == ((30.0, "receptive field: 30"),)
    by_name = {series.name: series for series in training.series}
    assert by_name["GRU"].ys[:3].tolist() == [100.0, 100.0, 500.0]
    assert path.is_log_y
    (cells,) = LAB.cells(shown)
    assert cells.note == "the convolution reads 31 tokens, attention all"
    assert int(np.isfinite(cells.values[-1]).sum()) == 31


def test_that_a_model_that_is_right_at_its_last_step_is_not_counted_as_cut_short() -> None:
    points = tuple(
        DelayPoint(reader="gru", distance=d, n_right=n_right, n_steps=300, n_parameters=1)
        for d, n_right in ((1, 1000), (2, 999), (4, 998))
    )
    found = DelayFinding(question=DelayQuestion(n_steps=300), n_read=1000, points=points)
    shown = LAB.resolve(replace(LAB.example, answer=ExperimentAnswer(finding=found, is_exact=True)))
    assert dict(shown.words.numbers)["not all right at the last step"] == "1 of 3"


def test_that_the_sentence_says_how_far_back_nine_of_ten_are_told() -> None:
    found = finding(
        attention=(1000,) * 8,
        convolution=(1000,) * 6 + (60, 60),
        gru=(1000, 990, 899, 950),
        retention=(880, 990),
        selective=(1000, 900),
    )
    answer = ExperimentAnswer(finding=found, is_exact=True, is_kept=True)
    said = LAB.resolve(replace(LAB.example, n_steps=300, answer=answer)).words.sentence
    assert "attention up to 48, convolution up to 24 (field 30)" in said
    assert "GRU up to 2, retention at no distance, state space up to 2" in said
    assert said.endswith("500 steps at most, in advance.")
    gap = replace(
        found, points=(*(p for p in found.points if (p.reader, p.distance) != ("gru", DISTANCES[1])),)
    )
    said = LAB.resolve(replace(LAB.example, answer=replace(answer, finding=gap))).words.sentence
    assert "GRU up to 1," in said, "what is missing ends it"


def test_that_a_choice_asks_with_what_is_set() -> None:
    choice = replace(LAB.example, kernel_width=2, d_model=16, n_steps=300, seed=4)
    question = LAB.question(choice, None)
    assert question == DelayQuestion(kernel_width=2, d_model=16, n_steps=300, seed=4)
