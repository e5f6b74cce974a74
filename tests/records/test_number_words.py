"""Numbers in words: signs, units and what has no value, in one way everywhere."""

import math

import pytest

from attnscope.counting import (
    bytes_text,
    count_text,
    fixed,
    number_text,
    short_change,
    short_count,
    short_number,
    short_words,
    with_sign,
)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (bytes_text(999), "999 bytes"),
        (bytes_text(999_499), "999 kB"),
        (bytes_text(999_501), "1 MB"),
        (bytes_text(3e15), "3,000 TB"),
        (bytes_text(math.nan), "–"),
        (count_text(999_999), "999,999"),
        (count_text(999_600_000), "1 billion"),
        (short_count(999), "999"),
        (short_count(999_600), "1 M"),
    ],
)
def test_that_a_size_is_never_a_thousand_of_a_smaller_unit(said: str, text: str) -> None:
    assert said == text


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (number_text(-12_345.6), "−12,346"),
        (number_text(-math.inf), "−∞"),
        (fixed(-0.001), "0.00"),
        (fixed(-0.126), "−0.13"),
        (fixed(math.nan), "–"),
        (with_sign(0.004), "0.00"),
        (with_sign(-0.004), "0.00"),
        (with_sign(0.126), "+0.13"),
        (with_sign(-0.126), "−0.13"),
        (with_sign(math.inf), "–"),
        (short_change(-99.96), "−100"),
        (short_words(-999.96), "−1000"),
        (short_number(9.996), "10.0"),
    ],
)
def test_that_a_value_has_a_true_minus_and_nothing_has_no_sign(said: str, text: str) -> None:
    assert said == text
