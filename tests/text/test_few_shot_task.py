"""Few-shot rows: each has one rule, and links lead to what was told of the same letter last."""

import pytest

from attnscope.errors import RecipeError
from attnscope.text.tasks import make_task


@pytest.mark.parametrize(("n_letters", "n_values", "n_shots"), [(6, 6, 12), (2, 2, 2), (26, 10, 40)])
def test_that_each_row_follows_a_rule_of_its_own(n_letters: int, n_values: int, n_shots: int) -> None:
    task = make_task("few-shot", n_letters=n_letters, n_values=n_values, n_shots=n_shots)
    rules = set()
    for example in task.examples(100, seed=3):
        words = example.source.split()
        letters, digits = words[::2], words[1::2]
        assert len(letters) == len(digits) == n_shots
        assert {*letters} <= {*task.vocabulary[:n_letters]}
        assert {*digits} <= {*task.vocabulary[n_letters:]}
        rule = dict(zip(letters, digits, strict=True))
        assert [rule[letter] for letter in letters] == digits, "a letter has one digit in a row"
        rules.add(tuple(sorted(rule.items())))
        expected = []
        for k, letter in enumerate(letters):
            earlier = [j for j in range(k) if letters[j] == letter]
            if earlier:
                expected.append((2 * k, 2 * earlier[-1] + 1))
        assert list(example.links) == expected
        assert all(words[key] == words[query + 1] for query, key in example.links)
    assert len(rules) > 3


def test_that_impossible_options_are_refused() -> None:
    with pytest.raises(RecipeError, match="n_values"):
        make_task("few-shot", n_values=11)
    with pytest.raises(RecipeError, match="n_shots"):
        make_task("few-shot", n_shots=1)
