"""Norms over axes: torch's own, plain loops, and which numbers really matter to which."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pytestqt.qtbot import QtBot
from session_samples import lab_states
from torch.nn import functional

from attnscope.fields import fields_of
from attnscope.labs import LABS
from attnscope.widgets.labs import make_lab

LAB = LABS["Norms over axes"]

NORMS = next(field for field in fields_of(LAB.example) if field.name == "norm").options
N_FEATURES = 8
EPSILON = 1e-5
SHAPES = [(1, 2), (3, 4), (4, 6)]


def of_torch(x: torch.Tensor, norm: str, n_groups: int) -> torch.Tensor:
    """The library's own, whose channels come before the tokens."""
    channels = x.transpose(1, 2)
    match norm:
        case "layer":
            return functional.layer_norm(x, (N_FEATURES,), eps=EPSILON)
        case "rms":
            return functional.rms_norm(x, (N_FEATURES,), eps=EPSILON)
        case "batch":
            return functional.batch_norm(channels, None, None, training=True, eps=EPSILON).transpose(1, 2)
    return functional.group_norm(channels, n_groups, eps=EPSILON).transpose(1, 2)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n_groups", [1, 2, 4, 8])
@pytest.mark.parametrize("norm", NORMS)
def test_that_a_norm_is_that_of_torch_in_every_shape(norm, n_groups: int, shape: tuple[int, int]) -> None:
    n_texts, n_tokens = shape
    shown = LAB.resolve(
        replace(LAB.example, norm=norm, n_groups=n_groups, n_texts=n_texts, n_tokens=n_tokens, seed=3)
    )
    assert shown.before.shape == (*shape, N_FEATURES)
    expected = of_torch(torch.from_numpy(shown.before.copy()), norm, n_groups).numpy()
    np.testing.assert_allclose(shown.after, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(LAB.cells(shown)[2].values, shown.after.reshape(-1, N_FEATURES))


@pytest.mark.parametrize("norm", NORMS)
def test_that_what_is_counted_is_what_the_gradient_reaches(norm) -> None:
    shown = LAB.resolve(replace(LAB.example, norm=norm, unevenness=1.0, text=2, token=3, feature=6))
    x = torch.from_numpy(shown.before.copy()).requires_grad_()
    at = (1, 2, 5)
    of_torch(x, norm, 2)[at].backward()
    assert x.grad is not None
    reached = x.grad.abs().numpy() > 1e-12
    assert reached.shape == (3, 4, N_FEATURES)
    np.testing.assert_array_equal(shown.shares, reached)
    counted = LAB.cells(shown)[1].values.reshape(reached.shape)
    np.testing.assert_array_equal(~np.isnan(counted), reached)
    assert counted[at] == 1


@pytest.mark.parametrize("norm", NORMS)
def test_that_the_numbers_told_are_those_of_plain_loops(norm) -> None:
    shown = LAB.resolve(replace(LAB.example, norm=norm, text=9, token=9))
    assert shown.choice.at == (2, 3, 2)
    counted = [
        float(shown.before[b, t, f])
        for b in range(3)
        for t in range(4)
        for f in range(N_FEATURES)
        if {
            "layer": (b, t) == (2, 3),
            "rms": (b, t) == (2, 3),
            "batch": f == 2,
            "group": b == 2 and f < 4,
        }[norm]
    ]
    mean = sum(counted) / len(counted)
    square = sum((x - (0 if norm == "rms" else mean)) ** 2 for x in counted) / len(counted)
    x = float(shown.before[shown.choice.at]) - (0 if norm == "rms" else mean)
    assert float(shown.after[shown.choice.at]) == pytest.approx(x / (square + EPSILON) ** 0.5, rel=1e-12)
    told = dict(shown.words.numbers)
    assert told["numbers counted together"] == f"{len(counted)} of 96"
    assert told["means of the block"] == str(96 // len(counted))
    assert told["y depends on other texts"] == ("yes" if norm == "batch" else "no")


def test_that_each_norm_leaves_the_means_that_it_does_not_count() -> None:
    charts = {norm: LAB.charts(LAB.resolve(replace(LAB.example, norm=norm))) for norm in NORMS}
    after = {norm: [chart.series[2].ys for chart in charts[norm]] for norm in NORMS}
    assert np.abs(after["layer"][0]).max() < 1e-12 < 0.1 < np.abs(after["layer"][1]).max()
    assert np.abs(after["batch"][1]).max() < 1e-12 < 0.1 < np.abs(after["batch"][0]).max()
    assert np.abs(after["rms"][0]).max() > 0.1


@pytest.mark.qt
def test_that_a_number_is_looked_at_when_it_is_clicked(qtbot: QtBot) -> None:
    view = make_lab(LAB, lab_states())
    qtbot.addWidget(view)
    view.cell_panels[0].clicked.emit(5, 7)
    assert view.lab.choice.at == (1, 1, 7)
    assert view.cell_panels[1].sentence(5, 7) == "text·token 2·2 → feature 8  x"
    assert view.cell_panels[1].sentence(0, 7) == "text·token 1·1 → feature 8  others"
    view.controls.undo()
    assert view.lab.choice == LAB.example
