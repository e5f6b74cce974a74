"""Kernel regression on samples of one's own: read as typed, estimated as by hand, odd ones refused."""

import math
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from attnscope import lab
from attnscope.errors import UserError
from attnscope.fields import fields_of
from attnscope.labs import LABS

LAB = LABS["Kernel regression"]
FIELDS = {field.name: field for field in fields_of(LAB.example)}

OWN = "1:2, 2:2.5, 4:1, 5:3"


def test_that_own_samples_say_what_they_say_by_hand() -> None:
    shown = LAB.resolve(replace(LAB.example, own=OWN, own_query=4.25, sigma=0.5))
    keys, values = (1.0, 2.0, 4.0, 5.0), (2.0, 2.5, 1.0, 3.0)
    raised = [math.exp(-((4.25 - key) ** 2) / (2 * 0.5**2)) for key in keys]
    expected = sum(r * v for r, v in zip(raised, values, strict=True)) / sum(raised)
    assert shown.estimate == pytest.approx(expected, abs=1e-12)
    assert shown.weights == pytest.approx([r / sum(raised) for r in raised], abs=1e-12)
    assert (tuple(shown.keys), tuple(shown.values)) == (keys, values)
    assert shown.places[0] < 1.0 < 5.0 < shown.places[-1]
    assert np.isnan(shown.truth).all()
    assert "of 4" in dict(shown.words.numbers)["effective samples, exp(entropy)"]


ODD = (
    "0:0,1:0",
    "1:1,1:2",
    "5:1,5:1,5:1",
    "-1000:1000,1000:-1000",
    "0.1:-3,0.2:4",
    ",".join(f"{k}:{k}" for k in range(20)),
)


@pytest.mark.parametrize(
    ("own", "score", "features"), list(product(ODD, FIELDS["score"].options, FIELDS["features"].options))
)
def test_that_odd_samples_give_weights_that_sum_to_1(own: str, score: str, features: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = LAB.resolve(replace(LAB.example, own=own, score=score, features=features, sigma=0.05))
    assert float(shown.weights.sum()) == pytest.approx(1.0, abs=1e-9)
    assert np.isfinite(shown.fitted).all()
    assert len(shown.keys) == own.count(":")


@pytest.mark.parametrize(
    "own", ["1", "1:2", "1:2:3", "a:b", "1:nan", "1:inf", "2000:1", ",".join(["1:1"] * 21)]
)
def test_that_what_is_no_pair_is_refused_with_what_is_expected(own: str) -> None:
    with pytest.raises(UserError, match="position:value"):
        lab("Kernel regression", own=own)


def test_that_a_comma_at_the_end_and_a_real_minus_sign_are_read() -> None:
    shown = LAB.resolve(replace(LAB.example, own="−1:2, 3:−4,"))
    assert (shown.keys.tolist(), shown.values.tolist()) == ([-1.0, 3.0], [2.0, -4.0])
