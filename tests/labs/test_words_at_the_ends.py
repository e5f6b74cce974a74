"""What labs say where their numbers turn round: at the ends of settings, and beside what they show there."""

from dataclasses import replace

import numpy as np
import pytest

from attnscope.fields import with_values
from attnscope.labs import LABS


def said(lab: str, **settings: object) -> str:
    of = LABS[lab]
    return str(of.resolve(with_values(of.example, settings)).words.sentence)


@pytest.mark.parametrize(
    ("lab", "settings", "words", "never"),
    [
        ("Kernel regression", {"own": "1:2, 2:3", "sigma": 3.0}, "count equally", "so small"),
        ("Kernel regression", {"n_samples": 5, "sigma": 1.2}, "Drag the query", "nearly all"),
        ("Kernel regression", {"score": "general"}, "more alike", "cannot help"),
        ("Scaling by √d", {"d_k": 1}, "both versions are the same", "gradient"),
        ("Scaling by √d", {"d_k": 4}, "44% of the weight, scaled ones 24%", "leave 1"),
        ("Scaling by √d", {"d_k": 16, "n_keys": 64}, "as much of the gradient", "leave 1"),
        ("A weighted average", {"query_x": 0.0, "query_y": 0.0}, "f looks linear", "0 away"),
        ("Masks as structure", {"mask": "global", "is_causal": True}, "join no two others", "Two steps"),
        ("Masks as structure", {"mask": "global", "n_global": 0}, "beyond the window", "global token"),
        ("Masks as structure", {"n_global": 0}, "Random blocks are", "Global"),
        ("Masks as structure", {"is_causal": True}, "Random blocks are", "Global"),
        ("Masks as structure", {"n_random": 0}, "Two steps through a global", "random"),
        ("Masks as structure", {"n_random": 0, "n_global": 0}, "beyond the window", "shortcut"),
        ("Masks as structure", {"mask": "dilated", "dilation": 1}, "beyond the window", "Steps of"),
        ("Masks as structure", {"mask": "dilated", "window": 0}, "paths are closed", "mix"),
        ("Bias or rotation by distance", {"distance": -2, "reach": 1}, "bucket is its own", "wide"),
        ("Bias or rotation by distance", {"distance": -8, "reach": 1}, "buckets are wide", "own"),
        ("A shift is one matrix", {"shift": 0}, "so does one for any table", "fails"),
        ("Loss landscape", {"n_layers": 2}, "without skips is the wider one at 2 layers", "as wide"),
        ("Loss landscape", {"n_layers": 16, "extent": 0.1}, "larger extent", "Add layers"),
        ("Norms over axes", {"norm": "batch", "n_texts": 1}, "when another token does", "another text"),
        ("Norms over axes", {"norm": "rms"}, "do not become 0", "keeps its mean"),
        ("Gradient by distance", {"distance": 1}, "choose a larger one", "a product of"),
        ("Gradient by distance", {"distance": 2}, "a product of 1 factor,", "factors"),
        ("Cost of heads", {"n_heads": 1}, "One head is as wide as d", "1 heads"),
    ],
)
def test_that_a_sentence_does_not_deny_its_numbers(
    lab: str, settings: dict[str, object], words: str, never: str
) -> None:
    sentence = said(lab, **settings)
    assert words in sentence
    assert never not in sentence


@pytest.mark.parametrize("d_model", [16, 64])
@pytest.mark.parametrize("offset", [16, 23, 40, 64])
def test_that_pairs_are_counted_that_a_new_offset_turns_to_a_new_angle(offset: int, d_model: int) -> None:
    theta = [10000.0 ** (-i / d_model) for i in range(0, d_model, 2)]
    turned = said("Past the trained length", n_trained=16, offset=offset, d_model=d_model, base=100.0)
    found = int(turned.partition("sinusoidal turns ")[2].split()[0])
    angles = [offset * t % (2 * np.pi) for t in theta]
    assert found == sum(15 * t < 2 * np.pi and angle > 15 * t for t, angle in zip(theta, angles, strict=True))


def test_that_curves_stay_within_their_axis() -> None:
    lab = LABS["Past the trained length"]
    chart = lab.charts(lab.resolve(replace(lab.example, d_model=16, base=100.0)))[0]
    assert chart.y_range is not None
    assert min(np.nanmin(one.ys) for one in chart.series) >= chart.y_range[0]


@pytest.mark.parametrize(
    ("shift", "base", "angle"), [(28, 10.0, "147°"), (3, 100.0, "5.4°"), (0, 10.0, "0°")]
)
def test_that_angles_are_told_in_degrees_without_powers_of_ten(shift: int, base: float, angle: str) -> None:
    lab = LABS["A shift is one matrix"]
    width = 4 if base == 10.0 else 8
    choice = replace(lab.example, shift=shift, base=base, d_model=width)
    assert dict(lab.resolve(choice).words.numbers)["last pair turns by"] == angle
