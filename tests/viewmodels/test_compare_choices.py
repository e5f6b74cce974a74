"""What is chosen on the Compare page: undone, redone, named in the history, kept in session files."""

import json

import pytest
from compare_fakes import CompareDesk
from session_samples import gates_off, ref

from attnscope.errors import LoadError
from attnscope.records import CompareTraces
from attnscope.viewmodels.session import Comparing, SavedSession, session_bytes, session_from_bytes


def chosen() -> CompareDesk:
    """A desk on whose Compare page everything has been chosen once."""
    desk = CompareDesk().open()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    state = desk.state
    state.choosing.choose_model("B", "/models/other")
    state.choosing.set_text("B", "a dog")
    state.choosing.set_target("B", "un chien")
    state.choosing.choose_changes("A", "explore")
    state.choosing.keep("A")
    state.choosing.swap()
    state.choosing.choose_way("pieces")
    state.choosing.choose_limit("unit")
    state.sort_by("changed")
    state.choosing.show_all_stacks(True)
    return desk


def test_that_every_choice_is_a_step_that_people_can_read() -> None:
    assert chosen().session.history.labels == (
        "switch off L0H1 (encoder)",
        "compare: B is other",
        "compare: B text “a dog”",
        "compare: B target “un chien”",
        "compare: A as now in Explore",
        "compare: keep A, encoder L0H1 off",
        "compare: swap A and B",
        "compare: align same pieces only",
        "compare: Δ scale −1 to 1",
        "compare: heads most changed first",
        "compare: heads of all stacks",
    )


def test_that_undo_leads_back_to_the_first_choices_and_redo_to_the_last() -> None:
    desk = chosen()
    last = desk.state.choosing.choices
    assert last != Comparing()
    desk.session.go_to(0)
    assert desk.state.choosing.choices == Comparing()
    assert [side.choice for side in desk.state.sides.values()] == [Comparing().first, Comparing().second]
    desk.session.go_to(99)
    assert desk.state.choosing.choices == last
    assert desk.state.sides["B"].choice == last.second


def test_that_letters_typed_in_a_row_are_one_step_and_words_are_several() -> None:
    desk = CompareDesk().open()
    for k in range(1, 6):
        desk.state.choosing.set_text("B", "a dog"[:k])
    desk.session.undo()
    assert desk.state.choosing.choices.second.text == "a "
    desk.session.undo()
    assert desk.state.choosing.choices == Comparing()


def test_that_undoing_a_swap_traces_nothing_again() -> None:
    desk = CompareDesk()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.open()
    desk.state.choosing.swap()
    desk.answer()
    before = desk.state.sides["A"].traced
    desk.session.undo()
    assert desk.state.sides["B"].traced is before
    assert desk.traces() == []
    assert [type(request) for request in desk.asked] == [CompareTraces]


def test_that_a_session_file_keeps_the_comparison_and_moves_with_its_models(tmp_path) -> None:
    setting = chosen().session.setting
    assert setting.compared.second.kept is not None
    assert setting.compared.second.kept.gates == gates_off(ref(0, 1))
    data = session_bytes(SavedSession(setting=setting), folder=tmp_path)
    assert session_from_bytes(data, what="x", folder=tmp_path).setting == setting
    moved = setting.compared.with_side("A", setting.compared.first.__class__(model=str(tmp_path / "m")))
    data = session_bytes(SavedSession(setting=setting.__class__(compared=moved)), folder=tmp_path)
    found = session_from_bytes(data, what="x", folder=tmp_path / "b").setting.compared
    assert found.first.model == str(tmp_path / "b" / "m")


@pytest.mark.parametrize(
    "wrong",
    [
        {"way": "sideways"},
        {"limit": 3},
        {"A": []},
        {"A": {"changes": "evil"}},
        {"A": {"changes": "kept"}},
        {"B": {"model": 7}},
        {"B": {"changes": "kept", "kept": {"gates": [["encoder", 0, 0, 7.0]]}}},
    ],
)
def test_that_a_damaged_comparison_is_refused(wrong: dict[str, object]) -> None:
    data = json.dumps({"format": 2, "text": "a", "compare": wrong}).encode()
    with pytest.raises(LoadError, match=r"talk\.attnscope"):
        session_from_bytes(data, what="talk.attnscope")


def test_that_an_older_session_opens_with_the_first_choices() -> None:
    data = json.dumps({"format": 1, "text": "a"}).encode()
    found = session_from_bytes(data, what="x")
    assert found.setting.compared == Comparing()
    assert found.warning == ""
