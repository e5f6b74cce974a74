"""What is said of heads that look at a fixed distance, and of those that look nowhere in particular."""

import numpy as np
import pytest
import torch

from attnscope.analysis import HeadSums, build_facts, find_roles, head_card, place_of
from attnscope.records import MEASURE_NAMES, N_TELLING, OFFSET_REACH, HeadRef, HeadTable, Token

HEAD = HeadRef(stack="encoder", layer=0, head=0)
N = 14


def table_of_map(weights: torch.Tensor, n_texts: int = 12) -> HeadTable:
    """The table of one head that has these weights [n, n] in every text: `<s>`, words, `</s>`."""
    n = len(weights)
    tokens = [Token(id=j, piece=str(j), is_special=j in (0, n - 1)) for j in range(n)]
    sums = HeadSums(build_facts([tokens], [tokens], is_self=True), 1)
    whole = slice(0, n)
    sums.add(weights.log()[None, None], torch.ones(1, 1, n, n, dtype=torch.bool), whole, whole)
    found = {name: float(value[0, 0]) for name, value in sums.values().items()}
    shares, offsets = sums.offset_shares()[0], sums.offsets[0]
    best = int(offsets[0, 1:-1].argmax())
    found |= {"offset": float(shares.max()), "positional": float(offsets[0, 1 + best] / offsets.sum())}
    values = np.array([[found.get(name, np.nan) for name in MEASURE_NAMES]], np.float32)
    return HeadTable(
        model="m",
        corpus="c",
        heads=(HEAD,),
        names=MEASURE_NAMES,
        values=values,
        low=values - 0.01,
        high=values + 0.01,
        counts=np.full(values.shape, n_texts, np.int32),
        offsets=offsets.numpy().astype(np.int32),
        best_offsets=np.array([best - OFFSET_REACH], np.float32),
        offset_shares=shares.numpy(),
        telling=np.full((1, len(MEASURE_NAMES), N_TELLING), -1, np.int32),
        n_texts=n_texts,
        n_tokens=n * n_texts,
    )


def looking(offset: int, weight: float) -> torch.Tensor:
    """Rows of words give `weight` to the token at an offset, special ones all to the last; the rest: even."""
    a = torch.zeros(N, N)
    for i in range(1, N - 1):
        j = i + offset
        is_there = 0 <= j < N
        a[i] = (1 - weight if is_there else 1.0) / N
        if is_there:
            a[i, j] += weight
    a[0, N - 1] = a[N - 1, N - 1] = 1.0
    return a


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (1, "the next token"),
        (-1, "the previous token"),
        (2, "the token 2 positions after"),
        (-3, "the token 3 positions before"),
    ],
)
def test_that_a_head_with_two_thirds_of_its_weight_at_an_offset_is_told_to_look_there(
    offset: int, said: str
) -> None:
    table = table_of_map(looking(offset, 0.75))
    (role, *_) = find_roles(HEAD, table)
    assert role.name == "positional"
    assert role.sentence.startswith(f"attends to {said}: 0.")
    assert "over 12 texts, 95 % t interval" in role.sentence
    assert table.heaviest_offset(HEAD) == offset
    slow = np.mean(
        [float(looking(offset, 0.75)[i, i + offset]) if 0 <= i + offset < N else 0.0 for i in range(1, N - 1)]
    )
    assert table.estimate(HEAD, "offset").value == pytest.approx(slow, abs=1e-6)


def test_that_special_tokens_that_rest_elsewhere_take_no_role_from_a_head() -> None:
    table = table_of_map(looking(1, 1.0))
    assert table.estimate(HEAD, "positional").value == 1.0
    assert table.estimate(HEAD, "offset").value == pytest.approx(1.0)


def resting(place: int, in_words: float, in_special: float) -> torch.Tensor:
    """Rows of words give `in_words` to one place, rows of special tokens `in_special`; the rest: even."""
    a = torch.zeros(N, N)
    for i in range(N):
        weight = in_special if i in (0, N - 1) else in_words
        a[i] = (1 - weight) / N
        a[i, place] += weight
    return a


@pytest.mark.parametrize(("place", "measure"), [(0, "first"), (N - 1, "separator")])
@pytest.mark.parametrize(("in_words", "in_special"), [(0.48, 1.0), (0.9, 0.0), (0.2, 1.0), (0.55, 0.0)])
def test_that_rows_of_special_tokens_are_apart_in_the_shares_of_first_and_separators(
    place: int, measure: str, in_words: float, in_special: float
) -> None:
    a = resting(place, in_words, in_special)
    table = table_of_map(a)
    slow = float(np.mean([float(a[i, place]) for i in range(1, N - 1)]))
    assert table.estimate(HEAD, measure).value == pytest.approx(slow, abs=1e-6)
    roles = {role.name: role for role in find_roles(HEAD, table)}
    assert (measure in roles) == (slow >= 0.5)
    if measure in roles:
        assert f": {slow:.2f} of its weight" in roles[measure].sentence


@pytest.mark.parametrize(("offset", "measure"), [(0, "diagonal"), (-1, "previous")])
def test_that_the_number_of_a_positional_sentence_is_that_of_rows_of_words(offset: int, measure: str) -> None:
    a = looking(offset, 0.6)
    a[0], a[N - 1] = torch.eye(N)[0], torch.eye(N)[N - 1 if offset == 0 else N - 2]  # resting all the more
    table = table_of_map(a)
    slow = float(np.mean([float(a[i, i + offset]) for i in range(1, N - 1)]))
    assert table.estimate(HEAD, measure).value == pytest.approx(slow, abs=1e-6)
    assert f": {slow:.2f} of its weight" in find_roles(HEAD, table)[0].sentence


def test_that_a_text_of_nothing_but_special_tokens_says_nothing_of_places() -> None:
    tokens = [Token(id=j, piece=str(j), is_special=True) for j in range(2)]
    sums = HeadSums(build_facts([tokens], [tokens], is_self=True), 1)
    sums.add(torch.full((1, 1, 2, 2), 0.5).log(), torch.ones(1, 1, 2, 2).bool(), slice(0, 2), slice(0, 2))
    found = {name: float(value[0, 0]) for name, value in sums.values().items()}
    assert all(np.isnan(found[name]) for name in ("first", "separator", "diagonal", "previous"))
    assert found["entropy"] == pytest.approx(1.0)


def test_that_the_largest_share_is_named_where_there_is_no_role() -> None:
    a = looking(1, 0.7)
    for i in range(2, N - 1, 2):  # every other row looks elsewhere
        a[i] = 0.0
        a[i, [(5 * i) % (N - 2) + 1, (7 * i + 3) % (N - 2) + 1]] += 0.5
    card = head_card(HEAD, table_of_map(a))
    assert card.roles == ()
    assert card.sentence.startswith(
        "has no single role; most of all it attends to the next token: 0.40 of its weight"
    )
    assert card.leaning == "offset"


def test_that_nothing_stands_out_below_a_fifth() -> None:
    a = torch.zeros(N, N)
    for i in range(N):
        a[i, [(i * i + step) % (N - 2) + 1 for step in (0, 2, 5, 7)]] = 0.25
    card = head_card(HEAD, table_of_map(a))
    assert card.sentence.startswith("nothing stands out; most of all ")
    assert (card.roles, card.leaning) == ((), "")
    few = head_card(HEAD, table_of_map(a, n_texts=3))
    assert few.sentence.startswith("too few texts for a role; ")


def test_that_places_have_names() -> None:
    assert [place_of(offset) for offset in (-2, -1, 0, 1, 5)] == [
        "the token 2 positions before",
        "the previous token",
        "the token itself",
        "the next token",
        "the token 5 positions after",
    ]
