"""What was made last is not made twice in a row."""

import pytest

from attnscope.last_made import LastMade


def test_that_a_thing_is_made_anew_only_of_something_else() -> None:
    made: list[str] = []

    def make() -> int:
        made.append("x")
        return len(made)

    last: LastMade[int] = LastMade()
    assert last.newest is None
    assert [last.of(key, make) for key in ("a", "a", "b", "a")] == [1, 1, 2, 3]
    assert last.newest == 3
    last.forget()
    assert last.newest is None
    assert last.of("a", make) == 4
    assert LastMade[int]().of(None, make) == 5  # nothing is a thing to make of


def test_that_what_could_not_be_made_is_tried_again() -> None:
    last: LastMade[float] = LastMade()
    assert last.of(1, lambda: 1.0) == 1.0
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            last.of(2, lambda: 1 / 0)
    assert last.newest is None
    assert last.of(2, lambda: 2.0) == 2.0
