"""Sets of numbers: the place is that of the largest, every largest one is as likely, and order is chance."""

from collections import Counter

import pytest

from attnscope.text.tasks import make_task


@pytest.mark.parametrize("n_members", [2, 10, 20])
@pytest.mark.parametrize("held_out", [False, True])
def test_that_the_place_is_that_of_the_largest_of_different_numbers(n_members: int, held_out: bool) -> None:
    task = make_task("largest", n_members=n_members)
    places = Counter[int]()
    for example in task.examples(600, seed=3, held_out=held_out):
        numbers = [int(word) for word in example.source.split()]
        (place,) = example.places
        assert len({*numbers}) == len(numbers) == n_members
        assert {*example.source.split()} <= {*task.vocabulary}
        assert numbers[place] == max(numbers)
        assert {key for _, key in example.links} == {place}
        assert sorted(query for query, _ in example.links) == [i for i in range(n_members) if i != place]
        places[place] += 1
    assert len(places) == n_members
    assert max(places.values()) < 2.2 * 600 / n_members


def test_that_no_number_is_nearly_always_the_answer() -> None:
    answers = Counter(
        max(int(word) for word in example.source.split())
        for example in make_task("largest").examples(4000, seed=0)
    )
    assert len(answers) == 91  # 9 to 99: nine others are less
    assert max(answers.values()) / 4000 < 0.03
