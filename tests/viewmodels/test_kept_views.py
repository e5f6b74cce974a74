"""Kept views: kept, named, moved and stepped through; and the past that they and the labs have."""

import json
import random
from dataclasses import dataclass, replace

import pytest
from told import names_told

from attnscope.viewmodels.labs.controls import LabControls
from attnscope.viewmodels.session import (
    MAX_NOTES,
    MAX_VIEW_NAME,
    MAX_VIEWS,
    KeptView,
    KeptViews,
    LookSaved,
    SavedSession,
    Setting,
    UndoStack,
    name_of_view,
    session_bytes,
    session_from_bytes,
)


class Shown:
    """What is shown, by its text, and what a list of views has asked to be shown."""

    def __init__(self) -> None:
        self.text: str | None = ""
        self.asked: list[tuple[str, str]] = []
        self.most = 1_000
        self.kept = KeptViews(self.take, self.show, lambda views: len(views) <= self.most)
        self.told = names_told(self.kept.changed)

    def take(self) -> SavedSession | None:
        return None if self.text is None else SavedSession(setting=Setting(text=self.text))

    def show(self, saved: SavedSession, label: str) -> None:
        self.asked.append((saved.setting.text, label))

    def keep(self, *texts: str) -> KeptViews:
        for text in texts:
            self.text = text
            assert self.kept.add()
        return self.kept

    @property
    def names(self) -> list[str]:
        return [view.name for view in self.kept.views]


def test_that_views_are_kept_after_the_present_one_and_stepped_through() -> None:
    shown = Shown()
    kept = shown.keep("a", "b", "c")
    assert shown.names == ["a", "b", "c"]
    assert kept.place == "view 3 of 3: c"
    kept.next()  # it ends with the last
    assert shown.asked == []
    kept.previous()
    kept.previous()
    kept.previous()
    assert shown.asked == [("b", "go to view “b”"), ("a", "go to view “a”")]
    shown.keep("x")
    assert shown.names == ["a", "x", "b", "c"]
    kept.next()
    assert shown.asked[-1][0] == "b"
    kept.write((), "")
    assert (kept.at, kept.place) == (None, "")
    kept.next()
    kept.previous()
    assert len(shown.asked) == 3


def test_that_every_change_of_the_list_is_undone_and_made_again() -> None:
    """Against a plain list of what the list was before each change."""
    shown, random_ = Shown(), random.Random(3)
    kept = shown.keep("a", "b", "c", "d")
    was = [kept.views]
    while len(was) < 40:
        k, before = random_.randrange(len(kept.views) + 1), kept.views
        match random_.randrange(5):
            case 0:
                shown.keep(f"new {len(was)}")
            case 1:
                kept.rename(k, f"name {len(was)}")
            case 2:
                kept.move(k, random_.choice((-9, -1, 1, 9)))
            case 3 if len(kept.views) > 2:
                kept.remove(k)
            case _:
                shown.text = f"again {len(was)}"
                kept.keep_again(k)
        if kept.views != before:
            was.append(kept.views)
        assert kept.at is None or 0 <= kept.at < len(kept.views)
    for before in reversed(was[:-1]):
        kept.undo()
        assert kept.views == before
    for after in was[1:]:
        kept.redo()
        assert kept.views == after
    assert not kept.can_redo
    kept.write(was[0], "")
    assert not kept.can_undo


def test_that_the_shown_view_stays_the_shown_one_when_others_move_and_go() -> None:
    shown = Shown()
    kept = shown.keep("a", "b", "c")
    kept.go(1)
    kept.move(0, 2)
    assert shown.names == ["b", "c", "a"]
    assert kept.at == 0
    kept.move(0, 1)
    assert (shown.names, kept.at) == (["c", "b", "a"], 1)
    kept.remove(0)
    assert (shown.names, kept.at) == (["b", "a"], 0)
    kept.remove(0)
    assert kept.at is None


def test_that_stepping_begins_at_either_end_and_no_name_is_empty() -> None:
    shown = Shown()
    kept = shown.keep("a", "b", "c")
    for step, first in ((kept.next, "a"), (kept.previous, "c")):
        kept.undo()
        kept.redo()  # none is shown then
        assert kept.at is None
        step()
        assert shown.asked[-1][0] == first
    before = kept.views
    for name in ("", "  ", "\0"):
        kept.rename(1, name)
    kept.rename(9, "nowhere")
    assert kept.views == before


def test_that_nothing_is_kept_where_nothing_is_shown_or_no_room_is_left() -> None:
    shown = Shown()
    shown.text = None
    assert not shown.kept.add()
    shown.text, shown.most = "a", 1
    assert shown.kept.add()
    assert not shown.kept.add()
    shown.most = 1_000
    for _ in range(MAX_VIEWS - 1):
        assert shown.kept.add()
    assert not shown.kept.add()
    assert len(shown.kept.views) == MAX_VIEWS


def test_that_notes_stay_as_short_as_a_session_file_allows() -> None:
    shown = Shown()
    shown.kept.write_notes("a\0" + "x" * (MAX_NOTES + 5))
    assert len(shown.kept.notes) == MAX_NOTES
    shown.kept.write_notes(shown.kept.notes)
    assert shown.told == ["notes"]


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
        (SavedSession(setting=Setting(text="a"), look=LookSaved(view="picture")), "a"),
        (SavedSession(), "view"),
        (SavedSession(setting=Setting(text="x" * 200)), "x" * (MAX_VIEW_NAME - 1) + "…"),
    ],
)
def test_that_a_view_is_named_after_what_it_shows(saved: SavedSession, name: str) -> None:
    assert name_of_view(saved) == name


def test_that_only_a_view_of_a_model_that_reads_pictures_is_named_a_picture() -> None:
    saved = SavedSession(setting=Setting(text="a"), look=LookSaved(view="picture"))
    assert name_of_view(saved, reads="picture") == "Picture · a"


def test_that_views_of_one_text_have_names_of_their_own_that_differ_at_their_beginning() -> None:
    kept = Shown().keep("a cat", "a cat", "a dog", "a cat")
    assert [view.name for view in kept.views] == ["a cat", "2: a cat", "a dog", "3: a cat"]
    kept = Shown().keep("x" * 200, "x" * 200)
    assert [view.name[:4] for view in kept.views] == ["xxxx", "2: x"]


def test_that_changes_of_one_group_in_a_row_are_one_step_until_the_hand_lets_go() -> None:
    past: UndoStack[int] = UndoStack()
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
    past: UndoStack[int] = UndoStack()
    for value in range(150):
        past.leave(value)
    now, n_steps = 150, 0
    while past.can_undo:
        now, n_steps = past.undo(now), n_steps + 1
    assert (now, n_steps) == (50, 100)


def test_that_each_view_has_its_own_note_which_a_change_of_the_list_leaves() -> None:
    shown = Shown()
    kept = shown.keep("a", "b")
    kept.write_note("on b")
    kept.go(0)
    assert kept.note == ""
    kept.write_note("on a\0")
    kept.move(0, 1)
    assert [(view.name, view.note) for view in kept.views] == [("b", "on b"), ("a", "on a")]
    kept.write_note("more on a")
    kept.undo()
    assert [(view.name, view.note) for view in kept.views] == [("a", "more on a"), ("b", "on b")]
    assert (kept.at, kept.note) == (None, "")
    kept.write_note("nowhere")
    assert [view.note for view in kept.views] == ["more on a", "on b"]
    shown.text = "b again"
    assert kept.keep_again(1)
    assert kept.note == "on b"


@pytest.mark.parametrize(("note", "format"), [("", 3), ("say this", 4)])
def test_that_the_notes_on_views_are_saved_and_older_programs_are_told_of_them(
    note: str, format: int
) -> None:
    view = KeptView(name="one", saved=SavedSession(setting=Setting(text="a")), note=note)
    content = session_bytes(SavedSession(model="m", views=(view,)))
    assert json.loads(content)["format"] == format
    found = session_from_bytes(content, what="x")
    assert (found.views[0].note, found.warning) == (note, "")
