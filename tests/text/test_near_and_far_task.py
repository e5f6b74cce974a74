"""Near and far: each sign is followed by the letter so far before it, signs take turns, links lead there."""

from itertools import pairwise

import pytest

from attnscope.errors import RecipeError
from attnscope.text.tasks import make_task


@pytest.mark.parametrize(
    ("near", "far", "n_answers", "n_letters"), [(1, 19, 10, 26), (3, 5, 2, 2), (1, 3, 30, 4), (5, 21, 40, 9)]
)
def test_that_each_letter_behind_a_sign_stands_as_far_before_it_as_the_sign_says(
    near: int, far: int, n_answers: int, n_letters: int
) -> None:
    task = make_task("near-and-far", near=near, far=far, n_answers=n_answers, n_letters=n_letters)
    firsts = set()
    for example in task.examples(60, seed=2):
        words = example.source.split()
        assert len(words) == far + 2 * n_answers
        signs = [(i, word) for i, word in enumerate(words) if word in "<>"]
        assert [i for i, _ in signs] == list(range(far, len(words), 2))
        assert all(one != two for (_, one), (_, two) in pairwise(signs))
        assert list(example.links) == [(i, i - (near if sign == "<" else far)) for i, sign in signs]
        for query, key in example.links:
            assert words[key] == words[query + 1]
            assert words[key] in task.vocabulary[:n_letters]
        assert example.n_given == far + 1
        firsts.add(signs[0][1])
    assert firsts == {"<", ">"}


@pytest.mark.parametrize(("near", "far"), [(2, 19), (1, 20), (5, 5), (7, 3)])
def test_that_a_distance_at_which_a_sign_stands_is_refused(near: int, far: int) -> None:
    with pytest.raises(RecipeError, match=r"data\.near is"):
        make_task("near-and-far", near=near, far=far)
