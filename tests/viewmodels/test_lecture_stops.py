"""Lecture stops: kept, named, moved and stepped through; and the past that they and the labs have."""

import random
from dataclasses import dataclass, replace

import pytest

from attnscope.viewmodels.labs.controls import LabControls
from attnscope.viewmodels.past import Past
from attnscope.viewmodels.session.file import MAX_STOP_NAME, MAX_STOPS, LookSaved, SavedSession
from attnscope.viewmodels.session.history import Setting
from attnscope.viewmodels.session.stops import StopsState, name_of


class Shown:
    """What is shown, by its text, and what a list of stops has asked to be shown."""

    def __init__(self) -> None:
        self.text: str | None = ""
        self.asked: list[tuple[str, str]] = []
        self.most = 1_000
        self.told: list[str] = []
        self.stops = StopsState(self.take, self.show, lambda stops: len(stops) <= self.most)
        self.stops.subscribe(self.told.append)

    def take(self) -> SavedSession | None:
        return None if self.text is None else SavedSession(setting=Setting(text=self.text))

    def show(self, saved: SavedSession, label: str) -> None:
        self.asked.append((saved.setting.text, label))

    def keep(self, *texts: str) -> StopsState:
        for text in texts:
            self.text = text
            assert self.stops.add()
        return self.stops

    @property
    def names(self) -> list[str]:
        return [stop.name for stop in self.stops.stops]


def test_that_stops_are_kept_after_the_present_one_and_stepped_through() -> None:
    shown = Shown()
    stops = shown.keep("a", "b", "c")
    assert shown.names == ["a", "b", "c"]
    assert stops.place == "stop 3 of 3: c"
    stops.next()  # it ends with the last
    assert shown.asked == []
    stops.previous()
    stops.previous()
    stops.previous()
    assert shown.asked == [("b", "go to stop “b”"), ("a", "go to stop “a”")]
    shown.keep("x")
    assert shown.names == ["a", "x", "b", "c"]
    stops.next()
    assert shown.asked[-1][0] == "b"
    stops.write(())
    assert (stops.at, stops.place) == (None, "")
    stops.next()
    stops.previous()
    assert len(shown.asked) == 3


def test_that_every_change_of_the_list_is_undone_and_made_again() -> None:
    """Against a plain list of what the list was before each change."""
    shown, random_ = Shown(), random.Random(3)
    stops = shown.keep("a", "b", "c", "d")
    kept = [stops.stops]
    while len(kept) < 40:
        k, before = random_.randrange(len(stops.stops) + 1), stops.stops
        match random_.randrange(5):
            case 0:
                shown.keep(f"new {len(kept)}")
            case 1:
                stops.rename(k, f"name {len(kept)}")
            case 2:
                stops.move(k, random_.choice((-9, -1, 1, 9)))
            case 3 if len(stops.stops) > 2:
                stops.remove(k)
            case _:
                shown.text = f"again {len(kept)}"
                stops.keep_again(k)
        if stops.stops != before:
            kept.append(stops.stops)
        assert stops.at is None or 0 <= stops.at < len(stops.stops)
    for before in reversed(kept[:-1]):
        stops.undo()
        assert stops.stops == before
    for after in kept[1:]:
        stops.redo()
        assert stops.stops == after
    assert not stops.can_redo
    stops.write(kept[0])
    assert not stops.can_undo


def test_that_the_shown_stop_stays_the_shown_one_when_others_move_and_go() -> None:
    shown = Shown()
    stops = shown.keep("a", "b", "c")
    stops.go(1)
    stops.move(0, 2)
    assert shown.names == ["b", "c", "a"]
    assert stops.at == 0
    stops.move(0, 1)
    assert (shown.names, stops.at) == (["c", "b", "a"], 1)
    stops.remove(0)
    assert (shown.names, stops.at) == (["b", "a"], 0)
    stops.remove(0)
    assert stops.at is None


def test_that_stepping_begins_at_either_end_and_no_name_is_empty() -> None:
    shown = Shown()
    stops = shown.keep("a", "b", "c")
    for step, first in ((stops.next, "a"), (stops.previous, "c")):
        stops.undo()
        stops.redo()  # none is shown then
        assert stops.at is None
        step()
        assert shown.asked[-1][0] == first
    before = stops.stops
    for name in ("", "  ", "\0"):
        stops.rename(1, name)
    stops.rename(9, "nowhere")
    assert stops.stops == before


def test_that_nothing_is_kept_where_nothing_is_shown_or_no_room_is_left() -> None:
    shown = Shown()
    shown.text = None
    assert not shown.stops.add()
    shown.text, shown.most = "a", 1
    assert shown.stops.add()
    assert not shown.stops.add()
    shown.most = 1_000
    for _ in range(MAX_STOPS - 1):
        assert shown.stops.add()
    assert not shown.stops.add()
    assert len(shown.stops.stops) == MAX_STOPS


@pytest.mark.parametrize(
    ("saved", "name"),
    [
        (SavedSession(setting=Setting(text="a  cat\nsleeps")), "a cat sleeps"),
        (SavedSession(look=LookSaved(page="labs", lab="Rank collapse")), "Rank collapse"),
        (SavedSession(look=LookSaved(page="heads", tab="Weights")), "Heads Weights"),
        (SavedSession(setting=Setting(text="a"), look=LookSaved(view="lines")), "Lines · a"),
        (
            SavedSession(setting=Setting(text="a"), look=LookSaved(page="compare", view="lines")),
            "Compare · a",
        ),
        (SavedSession(), "stop"),
        (SavedSession(setting=Setting(text="x" * 200)), "x" * (MAX_STOP_NAME - 1) + "…"),
    ],
)
def test_that_a_stop_is_named_after_what_it_shows(saved: SavedSession, name: str) -> None:
    assert name_of(saved) == name


def test_that_stops_of_one_text_have_names_of_their_own_that_differ_at_their_beginning() -> None:
    stops = Shown().keep("a cat", "a cat", "a dog", "a cat")
    assert [stop.name for stop in stops.stops] == ["a cat", "2: a cat", "a dog", "3: a cat"]
    stops = Shown().keep("x" * 200, "x" * 200)
    assert [stop.name[:4] for stop in stops.stops] == ["xxxx", "2: x"]


def test_that_changes_of_one_group_in_a_row_are_one_step_until_the_hand_lets_go() -> None:
    past: Past[int] = Past()
    past.leave(1, "slide")
    past.leave(2, "slide")
    past.close_group()
    past.leave(3, "slide")
    assert past.undo(4) == 3
    assert past.undo(3) == 1
    assert past.undo(1) == 1
    assert (past.redo(1), past.can_redo) == (3, True)
    past.leave(3)
    assert not past.can_redo


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a lab may have: numbers, a word, and something that no file holds."""

    n: int = 4
    share: float = 0.5
    is_on: bool = False
    kind: str = "a"
    found: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.n < 2:
            raise ValueError(f"no lab of {self.n}")


class Lab:
    """Holds a choice, as labs do."""

    def __init__(self) -> None:
        self.choice = Choice()

    def take(self, choice: Choice) -> None:
        self.choice = choice


def test_that_a_lab_takes_only_what_its_own_controls_could_have_set() -> None:
    lab = Lab()
    controls = LabControls(
        Choice(), lambda: lab.choice, lab.take, allows=lambda c: c.kind in "ab" and c.n < 9
    )
    controls.ask(Choice(n=7, kind="b", share=0.25, is_on=True, found=(1,)))
    kept = controls.values
    assert dict(kept) == {"n": 7, "share": 0.25, "is_on": True, "kind": "b"}
    controls.reset()
    assert lab.choice == Choice()
    controls.take_values(kept)
    assert lab.choice == Choice(n=7, kind="b", share=0.25, is_on=True)
    before = lab.choice
    for wrong in ((("n", 1),), (("n", 10),), (("kind", "evil"),)):
        controls.take_values(wrong)
        assert lab.choice == before
    controls.take_values((("n", "many"), ("share", 1), ("is_on", 1), ("__class__", "x"), ("n", 10**9)))
    assert lab.choice == replace(Choice(), share=1.0)


def test_that_a_hundred_steps_can_be_taken_back() -> None:
    past: Past[int] = Past()
    for value in range(150):
        past.leave(value)
    now, n_steps = 150, 0
    while past.can_undo:
        now, n_steps = past.undo(now), n_steps + 1
    assert (now, n_steps) == (50, 100)
