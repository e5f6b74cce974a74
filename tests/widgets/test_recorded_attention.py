"""The window with recorded attention open: the text is read-only and heads stay as they are."""

from dataclasses import replace
from pathlib import Path

import pytest
from session_samples import Desk, info, ref, states_of

from attnscope.records import NO_GATES, LoadModel, Sample
from attnscope.settings import Settings
from attnscope.viewmodels import ViewState
from attnscope.viewmodels.session import MaskState, read_session, scripts_now
from attnscope.widgets import plain_tooltip
from attnscope.widgets.explore import ChangeList, GateControl, GridView, HeadInspector, TextBar, head_menu
from attnscope.widgets.window import MainWindow

pytestmark = pytest.mark.qt

RECORDED = replace(
    info("encoder", "mine"),
    source="/somewhere/mine.safetensors",
    samples=(Sample(text="the recorded text"),),
    reads="attention",
    site_names=((("encoder", 0), "layers.0.self_attn"), (("encoder", 1), "layers.1.self_attn")),
)


def opened() -> Desk:
    desk = Desk()
    desk.open(RECORDED)
    return desk


def test_that_the_recorded_text_is_shown_and_no_other_can_be_read(qtbot):
    desk = opened()
    session = desk.session
    assert session.text == "the recorded text"
    n_traces = len(desk.traces())
    session.texts.set_text("another text")
    session.texts.choose_sample(Sample(text="a sample"))
    assert session.text == "the recorded text"
    assert len(desk.traces()) == n_traces
    assert "cannot read another text" in session.notices.shown.message
    bar = TextBar(session, ViewState())
    qtbot.addWidget(bar)
    assert bar.text_edit.isReadOnly()
    assert not bar.samples_button.isEnabled()
    qtbot.keyClicks(bar.text_edit, "x")
    assert bar.text_edit.text() == "the recorded text"


def test_that_heads_can_be_chosen_but_not_changed(qtbot):
    desk = opened()
    session = desk.session
    session.head_changes.toggle_gates((ref(0, 1),))
    session.head_changes.set_gate(ref(0, 1), 0.5)
    session.head_changes.invert_gates()
    assert session.gates == NO_GATES
    assert not session.history.undo_label
    session.select_heads((ref(1, 1),))
    assert session.primary == ref(1, 1)
    control, inspector = GateControl(session), HeadInspector(session)
    for widget in (control, inspector):
        qtbot.addWidget(widget)
    assert not control.isEnabled()
    assert "recorded" in control.toolTip()
    assert "layers.1.self_attn" in inspector.place.text()
    assert "layers.1.self_attn" in inspector.place.toolTip()
    assert "recorded attention" in MaskState(session).refusal


def test_that_everything_works_again_when_a_model_is_opened(qtbot):
    desk = opened()
    bar, control = TextBar(desk.session, ViewState()), GateControl(desk.session)
    for widget in (bar, control):
        qtbot.addWidget(widget)
    desk.open(info())
    assert desk.session.text != "the recorded text"
    assert not bar.text_edit.isReadOnly()
    assert bar.samples_button.isEnabled()
    assert control.isEnabled()
    desk.session.texts.set_text("my own words")
    assert desk.session.text == "my own words"


def test_that_a_head_out_of_reach_is_offered_no_change_and_says_why(qtbot):
    desk = Desk()
    desk.open(replace(info("encoder", "far"), has_gates=False))
    session, told = desk.session, "far computes attention in code of its own: its heads cannot be changed."
    window = window_of(qtbot, desk)
    control, changes, grid = (window.findChild(kind) for kind in (GateControl, ChangeList, GridView))
    assert not control.isEnabled()
    assert {control.toolTip(), control.slider.toolTip(), control.switch.toolTip()} == {plain_tooltip(told)}
    assert changes.label.text() == "heads cannot be changed here"
    for name in ("toggle-heads", "prune-all-but", "invert"):
        assert window.actions_by_name[name].toolTip() == told
    assert window.actions_by_name["save-model"].isEnabled()
    menu = head_menu(session, session.maps.of(session.primary), (1, 0), (), grid)
    allowed = {action.text() for action in menu.actions() if action.isEnabled() and action.text()}
    assert allowed == {f"Copy the pattern of {session.primary.label}"}
    assert MaskState(session).refusal == "far computes attention in code of its own: it takes no other mask."
    session.head_changes.set_gate(ref(0, 1), 0.0)
    assert session.gates == NO_GATES
    assert session.notices.shown.message == told
    desk.open(info())
    assert control.isEnabled()
    assert changes.label.text() == ""
    assert "Switch the selected heads" in control.switch.toolTip()


def window_of(qtbot, desk: Desk) -> MainWindow:
    window = MainWindow(states_of(desk.session), Settings(theme="light"))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    return window


def test_that_the_window_offers_what_needs_no_model_and_scripts_name_the_file(qtbot):
    desk = opened()
    window = window_of(qtbot, desk)
    possible = {name: action.isEnabled() for name, action in window.actions_by_name.items()}
    needing = ("toggle-heads", "prune-all-but", "invert", "save-model", "remove-heads", "inside")
    assert not any(possible[name] for name in needing)
    assert all(possible[name] for name in ("lines", "export", "enlarge", "reload-model", "save-session"))
    assert window.top_bar.facts.text() == "recorded attention, no model"
    scripts = scripts_now(desk.session, window.view)
    assert scripts is not None
    assert "at.load_trace('/somewhere/mine.safetensors')" in scripts.python
    assert "--text" not in scripts.command


def test_that_recordings_open_from_menu_and_drop_and_in_sessions(qtbot, tmp_path: Path):
    desk = Desk().open()
    window = window_of(qtbot, desk)
    files = window.workspace.files
    path = tmp_path / "mine.safetensors"
    path.write_bytes(b"the engine reads it")
    files.ask_recording = lambda *_: str(path)
    window.actions_by_name["open-recording"].trigger()
    assert desk.posted[-1] == LoadModel(number=desk.posted[-1].number, source=str(path))
    desk.model = replace(RECORDED, source=str(path))
    desk.answer()
    assert window.workspace.recents.models[0] == str(path)
    files.ask_save = lambda *_: str(tmp_path / "kept.attnscope")
    files.save()
    saved = read_session(tmp_path / "kept.attnscope")
    assert saved.source == str(path)
    assert saved.setting.text == "the recorded text"
    desk.open(info())
    files.open_path(str(tmp_path / "kept.attnscope"))
    assert isinstance(desk.posted[-1], LoadModel)
    desk.model = replace(RECORDED, source=str(path))
    desk.answer()
    qtbot.waitUntil(lambda: files.awaited.saved is None)
    assert desk.session.model is not None
    assert desk.session.model.is_recorded
    assert desk.session.text == "the recorded text"
