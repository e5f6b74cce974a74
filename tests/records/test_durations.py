"""Durations: one way to write them, whoever does."""

import re
from pathlib import Path

import pytest

import attnscope
from attnscope.counting import duration_text, rough_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0 s"), (59.4, "59 s"), (60, "1 min"), (61, "1 min 01 s"), (7200, "2 h")),
        *((7500, "2 h 05 min"), (270_000, "3 d 3 h"), (3.2e8, "10 years")),
    ],
)
def test_that_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_that_nobody_else_writes_minutes() -> None:
    folder = Path(attnscope.__file__).parent
    own = re.compile(r"""[}] (min|minutes?|h|hours?)\b""")
    found = {path.name for path in folder.rglob("*.py") if own.search(path.read_text(encoding="utf-8"))}
    assert found - {"counting.py"} <= {"card.py"}, (
        "the card of a demo model writes minutes of a processor as a decimal number"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "5 s"),
        (38, "45 s"),
        (75, "a minute"),
        (100, "2 min"),
        (492, "7 min"),
        (3780, "an hour"),
        (90_000, "a day"),
        (3.2e7, "a year"),
        (6e7, "1.5 years"),
        (1e8, "3 years"),
    ],
)
def test_that_an_estimate_is_said_no_more_exactly_than_it_is_known(seconds: float, words: str) -> None:
    assert rough_text(seconds) == words
