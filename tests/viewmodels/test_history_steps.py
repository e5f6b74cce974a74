"""The stack of changes by itself: what becomes one step, how many are kept, where a place in it leads."""

import pytest

from attnscope.viewmodels.session import Change, History, Setting


def setting(text: str) -> Setting:
    return Setting(text=text)


def change(way: str, group: str = "") -> Change:
    """A change named by its two ends, such as `ab`."""
    return Change(label=way, before=setting(way[0]), after=setting(way[1]), group=group)


def history_of(*changes: Change, n_steps: int = 200) -> History:
    history = History(n_steps)
    for one in changes:
        history.record(one)
    return history


def test_that_only_changes_of_one_group_in_a_row_become_one_step() -> None:
    assert history_of(change("ab", "x"), change("bc", "y")).labels == ("ab", "bc")
    assert history_of(change("ab"), change("bc")).labels == ("ab", "bc")
    assert history_of(change("ab", "x"), change("bc"), change("cd", "x")).n_done == 3
    history = history_of(change("ab", "x"), change("bc", "x"))
    assert (history.labels, history.undo()) == (("bc",), setting("a"))
    assert history.redo() == setting("c")


@pytest.mark.parametrize("steps", [("undo",), ("undo", "redo"), ("close_group",)])
def test_that_a_step_that_was_left_is_not_gone_on_with(steps: tuple[str, ...]) -> None:
    history = history_of(change("ab", "x"))
    history.close_group()
    history.record(change("bc", "x"))
    for step in steps:
        getattr(history, step)()
    history.record(change("zd", "x"))
    assert history.labels[-1] == "zd"
    assert history.n_done == 3 - (steps == ("undo",))


def test_that_a_drag_that_comes_by_its_beginning_leaves_the_drag_before_it_alone() -> None:
    history = history_of(change("ab", "x"))
    history.close_group()
    for way in ("bc", "cb", "bd"):
        history.record(change(way, "x"))
    assert history.labels == ("ab", "bd")
    assert history.undo() == setting("b")


def test_that_the_oldest_steps_are_forgotten() -> None:
    history = history_of(*(change(way) for way in ("ab", "bc", "cd", "de")), n_steps=3)
    assert history.labels == ("bc", "cd", "de")
    assert [history.undo() for _ in range(4)] == [setting("d"), setting("c"), setting("b"), None]


def test_that_what_changes_nothing_forgets_nothing_that_was_undone() -> None:
    history = history_of(change("ab"))
    history.undo()
    history.record(change("aa"))
    assert (history.labels, history.redo_label) == (("ab",), "ab")
    history.record(change("ac"))
    assert (history.labels, history.redo_label) == (("ac",), "")


def test_that_a_place_among_the_steps_is_gone_to_and_none_beyond_their_ends() -> None:
    history = history_of(*(change(way) for way in ("ab", "bc", "cd")))
    assert (history.go_to(-1), history.n_done) == (setting("a"), 0)
    assert history.labels == ("ab", "bc", "cd")
    assert (history.go_to(2), history.n_done) == (setting("c"), 2)
    assert history.labels == ("ab", "bc", "cd")
    assert (history.go_to(2), history.go_to(99), history.n_done) == (None, setting("d"), 3)
