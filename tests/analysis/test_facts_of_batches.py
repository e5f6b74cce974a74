"""What the measures know of a batch: padding, special and rare tokens, where texts end."""

import pytest

from attnscope.analysis import build_facts
from attnscope.records import Token


def text(*ids: int, special: tuple[int, ...] = (0, 1)) -> list[Token]:
    return [Token(id=id, piece=str(id), is_special=id in special) for id in ids]


LONG, SHORT = text(0, 5, 6, 7, 1), text(0, 8, 9)


@pytest.mark.parametrize(
    ("queries", "keys", "is_whole"),
    [
        ([LONG, LONG], [LONG, LONG], True),
        ([LONG, SHORT], [LONG, LONG], False),
        ([LONG, LONG], [SHORT, LONG], False),
        ([SHORT, SHORT], [LONG, LONG], True),
    ],
)
def test_that_a_batch_is_whole_where_nothing_is_padded(queries, keys, is_whole) -> None:
    facts = build_facts(queries, keys, is_self=False)
    assert facts.is_whole == is_whole
    assert facts.query_counts.tolist() == [
        [k < len(one) for k in range(facts.query_ids.shape[1])] for one in queries
    ]
    assert facts.key_counts.tolist() == [[k < len(one) for k in range(facts.n_keys)] for one in keys]
    dropped = build_facts(queries, keys, is_self=False, specials="dropped")
    assert not dropped.is_whole
    assert dropped.query_counts[0].tolist() == [
        k < len(queries[0]) and not queries[0][k].is_special for k in range(dropped.query_ids.shape[1])
    ]


def test_that_the_end_is_a_last_special_token_and_no_text_of_one() -> None:
    facts = build_facts([LONG, SHORT, text(1)], [LONG, SHORT, text(1)], is_self=True)
    assert facts.end.tolist() == [4, -1, -1]
    assert facts.has_ends
    assert not build_facts([SHORT], [SHORT], is_self=True).has_ends


@pytest.mark.parametrize(
    ("frequencies", "rare"),
    [
        ({5: 9, 6: 2, 7: 3}, {6, 7}),
        ({5: 2, 6: 2, 7: 2}, {6, 7}),  # of equals the larger ids
        ({5: 1, 6: 2}, {7, 5}),  # never seen is rarest
        ({}, {6, 7}),
        (None, set()),
    ],
)
def test_that_the_two_least_frequent_words_are_rare(
    frequencies: dict[int, int] | None, rare: set[int]
) -> None:
    one = text(0, 5, 6, 5, 7, 1)
    facts = build_facts([one], [one], is_self=True, frequencies=frequencies)
    assert facts.is_rare[0].tolist() == [token.id in rare for token in one]
    two = text(0, 5, 6, 1)
    assert not build_facts([two], [two], is_self=True, frequencies=frequencies).is_rare.any()
