"""The point of the Positions page: its numbers are those of the tables."""

import numpy as np

from attnscope.records import PositionTable
from attnscope.widgets.positions import position_point


def table(
    name: str, cosines: list[float], axes: tuple[str, str] = ("dimension", "position")
) -> PositionTable:
    n = len(cosines)
    values = np.asarray(cosines, np.float32)
    square = np.ones((n, n), np.float32)
    return PositionTable(
        name=name, matrix=square, cosine=square, by_offset=values, dot_by_offset=values, axes=axes
    )


def test_that_the_sentence_holds_the_cosines_at_one_token_and_at_the_far_one() -> None:
    cosines = [1.0 - k / 50 for k in range(40)]
    words = position_point(
        [table("sinusoidal", cosines), table("binary", [*cosines[:39], np.nan])], str.title
    )
    assert "1 token and 32 tokens apart" in words
    assert "Sinusoidal 0.98 and 0.36" in words
    assert "Binary 0.98 and 0.36" in words
    few = position_point([table("rotary", [1.0, 0.25, -0.5])], str.title)
    assert "2 tokens apart, Rotary 0.25 and −0.50." in few


def test_that_nothing_is_said_of_biases_by_distance_or_without_tables() -> None:
    assert position_point([], str) == ""
    assert position_point([table("model", [1.0] * 40, ("head", "tokens back"))], str) == ""
