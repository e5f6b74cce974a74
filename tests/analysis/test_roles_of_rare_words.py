"""When a head may be said to look at rare words, on tables made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from attnscope.analysis import find_roles
from attnscope.records import MEASURE_NAMES, N_TELLING, OFFSET_REACH, HeadRef, HeadTable

OFFSET = MEASURE_NAMES.index("offset")
HEAD = HeadRef(stack="encoder", layer=0, head=0)


def table_of(n_texts: int = 20, **numbers: float) -> HeadTable:
    values = np.zeros((1, len(MEASURE_NAMES)), np.float32)
    for name, value in numbers.items():
        values[0, MEASURE_NAMES.index(name)] = value
    return HeadTable(
        model="m",
        corpus="c",
        heads=(HEAD,),
        names=MEASURE_NAMES,
        values=values,
        low=values,
        high=values,
        counts=np.full(values.shape, n_texts, np.int32),
        offsets=np.zeros((1, 2 * OFFSET_REACH + 3), np.int32),
        best_offsets=np.full(1, -1, np.float32),
        offset_shares=np.eye(2 * OFFSET_REACH + 1, dtype=np.float32)[OFFSET_REACH - 1][None]
        * values[0, OFFSET],
        telling=np.full((1, len(MEASURE_NAMES), N_TELLING), -1, np.int32),
        n_texts=n_texts,
        n_tokens=5 * n_texts,
    )


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"rare": 0.9}, ["rare"]),
        ({"rare": 0.4}, []),
        ({"rare": 1.0, "positional": 0.95, "previous": 0.93, "offset": 0.92}, ["positional"]),
        ({"rare": 1.0, "entropy": 0.97}, ["broad"]),
        ({"rare": 0.9, "first": 0.6}, ["rare", "first"]),
    ],
)
def test_that_a_place_or_an_even_look_explains_what_rare_words_would(
    numbers: dict[str, float], expected: list[str]
) -> None:
    assert [role.name for role in find_roles(HEAD, table_of(**numbers))] == expected


def test_that_fewer_than_ten_texts_tell_nothing_of_rare_words() -> None:
    assert find_roles(HEAD, table_of(n_texts=9, rare=1.0)) == ()


def test_that_rare_words_in_every_text_are_a_role_though_no_interval_is_known() -> None:
    unknown = np.full((1, len(MEASURE_NAMES)), np.nan, np.float32)
    for n_texts, expected in ((30, ["rare"]), (29, [])):
        table = replace(table_of(n_texts, rare=1.0), low=unknown, high=unknown)
        assert [role.name for role in find_roles(HEAD, table)] == expected


def test_that_what_is_said_of_rare_words_stays_true_where_a_special_token_gets_more() -> None:
    rare, first = find_roles(HEAD, table_of(rare=0.9, first=0.6))
    assert rare.sentence.startswith(
        "of the words, attends most to one of the two rarest: in 0.90 of the texts"
    )
    assert first.sentence.startswith("rests on the first token: 0.60 of its weight")
