"""Numbers in words: signs, units and what has no value, in one way everywhere."""

import math

import pytest

from attnscope.counting import (
    bytes_text,
    count_text,
    few_listed,
    fixed,
    format_number,
    listed,
    number_text,
    percent,
    short_change,
    short_count,
    short_words,
    significant,
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
        (significant(9.996, 3), "10.0"),
        (significant(-0.5, 3), "−0.500"),
        (significant(-0.0), "0"),
        (number_text(-0.0), "0"),
        (percent(-0.5, 1), "−50.0 %"),
        (percent(math.nan), "–"),
    ],
)
def test_that_a_value_has_a_true_minus_and_nothing_has_no_sign(said: str, text: str) -> None:
    assert said == text


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (significant(1234.4, 3), "1,234"),
        (significant(1234.4), "1,234"),
        (significant(-12_345.6), "−12,346"),
        (significant(2.5e9), "2.5·10⁹"),
        (significant(math.nan), "–"),
        (significant(-math.inf), "−∞"),
        (number_text(1234.4, 3), "1,234"),
        (format_number(math.inf), "∞"),
    ],
)
def test_that_thousands_have_commas_and_no_number_is_said_to_be_none(said: str, text: str) -> None:
    assert said == text


def test_that_a_small_number_is_a_power_of_ten_however_many_digits_it_has() -> None:
    said = (number_text(2.345e-5), number_text(2.345e-5, 3), format_number(2.345e-5), significant(-2.3e-5, 3))
    assert said == ("2.345·10⁻⁵", "2.35·10⁻⁵", "2.3·10⁻⁵", "−2.30·10⁻⁵")


def test_that_names_are_listed_all_or_the_first_few() -> None:
    names = ["a", "b", "c"]
    assert [listed(names[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert [few_listed(names[:n], 2) for n in range(4)] == ["", "a", "a, b", "a, b and 1 more"]
