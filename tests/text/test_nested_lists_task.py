"""Nested lists: each word is told the name of its list, and held-out lists are deeper, not longer."""

import pytest

from attnscope.text.tasks import make_task


def read(words: list[str]) -> tuple[list[str], list[int], int]:
    """The name of the list of each word, where that stands, and the depth: by a stack."""
    names: list[str] = [""] * len(words)
    places, stack, deepest = [0] * len(words), [], 0
    for i, word in enumerate(words):
        if word == "(":
            stack.append(i + 1)
            deepest = max(deepest, len(stack))
        names[i], places[i] = words[stack[-1]], stack[-1]
        if word == ")":
            stack.pop()
    assert not stack
    return names, places, deepest


@pytest.mark.parametrize(("max_depth", "more_depth"), [(4, 3), (2, 1), (3, 5)])
def test_that_labels_are_those_of_a_stack_and_held_out_texts_are_deeper(
    max_depth: int, more_depth: int
) -> None:
    task = make_task("nested-lists", max_depth=max_depth, more_depth=more_depth)
    lengths = []
    for held_out in (False, True):
        examples = task.examples(300, seed=3, held_out=held_out)
        found = [read(example.source.split()) for example in examples]
        assert [example.word_labels for example in examples] == [tuple(names) for names, _, _ in found]
        assert [dict(example.links) for example in examples] == [
            dict(enumerate(places)) for _, places, _ in found
        ]
        depths = {depth for _, _, depth in found}
        allowed = range(max_depth + 1, max_depth + more_depth + 1) if held_out else range(2, max_depth + 1)
        assert depths <= set(allowed)
        assert max(depths) == max(allowed)
        lengths.append(sum(len(example.source.split()) for example in examples) / 300)
    assert abs(lengths[0] - lengths[1]) < 1.0
    assert {word for example in examples for word in example.source.split()} <= set(task.vocabulary)
