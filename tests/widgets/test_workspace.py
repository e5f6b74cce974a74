"""Around the pages: palette, history, sessions, panels in windows of their own, themes and sizes."""

import dataclasses
import gc
import random
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtWidgets import QLineEdit, QPushButton
from session_samples import Desk, info, ref, states_of

from attnscope.errors import LoadError
from attnscope.figures import type_px
from attnscope.records import Failed, LoadModel, ModelInfo, OpenText, Ready
from attnscope.settings import Settings, settings_from_json, settings_to_json
from attnscope.viewmodels import COLOUR_MAP_NAMES, LINES, SCALES, THEME_NAMES
from attnscope.viewmodels.maps import BLENDS, HIDDEN, OVERS, PLAIN, Aspect
from attnscope.viewmodels.session import read_session
from attnscope.widgets import JumpSlider
from attnscope.widgets.window import Autosave, MainWindow, find_moved_model, kind_of_path

pytestmark = pytest.mark.qt


@pytest.fixture(autouse=True)
def type_at_its_own_size():
    yield
    from attnscope.figures import set_type_factor

    set_type_factor(1.0)


def make(qtbot, desk: Desk, settings: Settings | None = None) -> MainWindow:
    window = MainWindow(states_of(desk.session), settings or Settings(theme="light"))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    return window


def press(window: MainWindow, name: str) -> None:
    window.actions_by_name[name].trigger()


# The palette


def test_that_the_palette_finds_and_does_anything_from_the_keyboard(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    press(window, "palette")
    palette = window.workspace.palette
    assert palette.isVisible()
    qtbot.keyClicks(palette.field, "l0h1 enc")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert not palette.isVisible()
    assert desk.session.selection == (ref(0, 1),)
    press(window, "palette")
    qtbot.keyClicks(palette.field, "theme dark")
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    qtbot.keyClick(palette.field, Qt.Key.Key_Up)
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert window.view.theme == "dark"
    press(window, "palette")
    assert palette.rows.matches[0].item.title.startswith("Theme: dark")
    qtbot.keyClick(palette.field, Qt.Key.Key_Escape)
    assert not palette.isVisible()


def test_that_the_palette_offers_every_action_model_page_sample_and_head(qtbot):
    desk = Desk()
    window = make(qtbot, desk, Settings(recent=("/models/mine",), recent_sessions=("/talks/a.attnscope",)))
    desk.session.handle(Ready(devices=("cpu",), demo_models=("tiny", "other")))
    desk.open()
    window.workspace.palette.open()
    keys = set(window.workspace.palette._offers)
    for name, action in window.actions_by_name.items():
        assert name == "palette" or not action.isVisible() or f"action:{name}" in keys
    assert {"model:other", "recent:/models/mine", "session:/talks/a.attnscope"} <= keys
    assert {"head:L1H1 cross", "sample:the cat sleeps", "Theme: projector: large type, high contrast"} <= keys
    assert not window.grab().isNull()


def test_that_what_cannot_be_done_is_greyed_and_does_nothing(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    window.workspace.palette.open("reset gates")
    match = window.workspace.palette.rows.matches[0]
    assert match.item.title == "Reset gates"
    assert not match.item.is_enabled
    window.workspace.palette.run_current()
    assert window.workspace.palette.isVisible()


def test_that_show_as_offers_the_choices_of_how_things_are_shown_and_nothing_else(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    press(window, "show-as")
    palette = window.workspace.palette
    assert palette.isVisible()
    titles = {match.item.title for match in palette.rows.matches}
    assert {match.item.kind for match in palette.rows.matches} == {"choice"}
    for mapping, title in (
        (BLENDS, "Show"), (OVERS, "Blend"), (HIDDEN, "Keys"), (SCALES, "Scale"), (LINES, "Lines"),
        (COLOUR_MAP_NAMES, "Colour map"), (THEME_NAMES, "Theme"),
    ):  # fmt: skip
        assert titles >= {f"{title}: {text}" for text in mapping.values()}, title
    qtbot.keyClicks(palette.field, "every head of the layer")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert desk.session.aspect == Aspect(blend="mean", over="layer")
    press(window, "show-as")
    qtbot.keyClicks(palette.field, "without the first")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert desk.session.aspect == Aspect(blend="mean", over="layer", hidden="first")
    press(window, "show-as")
    qtbot.keyClicks(palette.field, "3 strongest")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert (window.view.n_strongest, window.view.least_weight) == (3, 0.0)
    press(window, "palette")
    assert {match.item.kind for match in palette.rows.matches} > {"choice"}


# The history


def test_that_the_history_goes_back_to_a_step_and_forward_again(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    session = desk.session
    start = session.setting
    session.head_changes.toggle_gate(ref(0, 0))
    session.set_aspect(Aspect(hidden="first"))
    session.texts.set_text("another text")
    end = session.setting
    press(window, "history")
    steps = window.workspace.history.steps
    texts = [steps.item(k).text() for k in range(steps.count())]
    assert texts == [
        "start",
        "switch off L0H0 (encoder)",
        "show without the first token",
        "text “another text”",
    ]
    steps.itemClicked.emit(steps.item(0))
    assert session.setting == start
    assert steps.currentRow() == 0
    steps.itemClicked.emit(steps.item(3))
    assert session.setting == end
    assert session.history.undo_label.startswith("text")


def test_that_random_actions_leave_nothing_behind_and_undo_returns_to_the_start(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    session, choose = desk.session, random.Random(5)
    start = session.setting
    for page in ("page-learn", "page-labs", "page-explore"):  # made when they are first looked at
        press(window, page)
    n_widgets = len(window.findChildren(QLineEdit))
    harmless = [
        name
        for name, action in window.actions_by_name.items()
        if not action.text().endswith("…") and name not in _LEFT_OUT and not name.startswith("own-")
    ]
    for _ in range(140):
        action = window.actions_by_name[choose.choice(harmless)]
        if action.isEnabled() and action.isVisible():
            action.trigger()
        if choose.random() < 0.2:
            session.select_heads((choose.choice(session.model.sites).heads[choose.randrange(2)],))
        desk.answer()
    session.go_to(0)
    desk.answer()
    assert session.setting == start
    window.workspace.palette.close_palette()
    assert len(window.findChildren(QLineEdit)) == n_widgets


_LEFT_OUT = (
    "quit", "about", "shortcuts", "copy-figure", "copy-python", "copy-command", "locate-model",
    "download-model", "reload-model",
)  # fmt: skip


def test_that_what_is_shown_goes_to_the_clipboard_as_script_and_command(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    press(window, "copy-python")
    assert "at.load('tiny')" in QGuiApplication.clipboard().text()
    press(window, "copy-command")
    assert QGuiApplication.clipboard().text().startswith("attnscope figure tiny")
    QGuiApplication.clipboard().clear()


# Sessions


def test_that_a_session_comes_back_with_everything(qtbot, tmp_path: Path):
    desk = Desk().open()
    window = make(qtbot, desk)
    session = desk.session
    session.texts.set_text("a cat")
    session.head_changes.toggle_gate(ref(0, 1))
    session.select_heads((ref(0, 1), ref(1, 0)))
    session.set_aspect(Aspect(blend="mean"))
    window.view.set_colour_map("magma")
    window.view.show_view("lines")
    saved = session.setting
    window.workspace.files.save_to(tmp_path / "talk")
    assert (tmp_path / "talk.attnscope").is_file()
    session.go_to(0)
    session.texts.set_text("something else")
    window.view.set_colour_map("greys")
    window.workspace.files.open_path(str(tmp_path / "talk.attnscope"))
    desk.answer()
    qtbot.waitUntil(lambda: session.setting == saved, timeout=2000)
    desk.answer()
    assert (window.view.colour_map, window.view.view) == ("magma", "lines")
    assert session.history.undo_label == "open session"
    assert window.workspace.recents.sessions == (str(tmp_path / "talk.attnscope"),)


def test_that_a_moved_model_is_asked_for_and_the_rest_is_kept(qtbot, tmp_path: Path):
    """F64."""
    desk = Desk().open()
    window = make(qtbot, desk)
    files = window.workspace.files
    desk.session.texts.set_text("kept text")
    desk.session.head_changes.toggle_gate(ref(0, 0))
    files.save_to(tmp_path / "a.attnscope")
    desk.session.go_to(0)
    files.open_path(str(tmp_path / "a.attnscope"))
    request = next(r for r in desk.posted if isinstance(r, LoadModel))
    desk.posted.clear()
    desk.session.handle(Failed(number=request.number, request="LoadModel", message="There is no such model."))
    assert "was not found" in window.banner.message
    assert window.banner._help.text() == "Locate the model…"
    files.awaited.ask_folder = lambda parent, title, start: str(tmp_path)
    window.banner._help.click()
    desk.answer()
    qtbot.waitUntil(lambda: desk.session.gates.off() == (ref(0, 0),), timeout=2000)
    assert desk.session.text == "kept text"


def a_talk_whose_model_is_gone(qtbot, tmp_path: Path) -> tuple[Desk, MainWindow, ModelInfo]:
    """A session with a kept view of a model that has gone from its folder; another one is open."""
    own = dataclasses.replace(info(), source=str(tmp_path / "old" / "mine"), sha256="ab" * 32)
    desk = Desk().open(own)
    window = make(qtbot, desk)
    files = window.workspace.files
    desk.session.texts.set_text("kept text")
    desk.answer()
    assert files.kept.add()
    files.save_to(tmp_path / "talk.attnscope")
    desk.open(dataclasses.replace(info("decoder", "other"), sha256="cd" * 32))
    return desk, window, own


def test_that_a_model_that_was_located_is_found_again_by_kept_views_and_when_saved(qtbot, tmp_path: Path):
    desk, window, own = a_talk_whose_model_is_gone(qtbot, tmp_path)
    files, other, now = window.workspace.files, desk.model, str(tmp_path / "new")
    files.open_path(str(tmp_path / "talk.attnscope"))
    request = next(r for r in desk.posted if isinstance(r, LoadModel))
    desk.posted.clear()
    desk.session.handle(Failed(number=request.number, request="LoadModel", message="No. Give a demo's name."))
    assert window.banner.message == f"The session's model tiny was not found: there is no {own.source}."
    files.awaited.ask_folder = lambda parent, title, start: now
    desk.model = dataclasses.replace(own, source=now)
    window.banner._help.click()
    desk.answer()
    qtbot.waitUntil(lambda: files.awaited.saved is None, timeout=2000)
    desk.open(other)
    files.kept.go(0)
    assert [r.source for r in desk.posted if isinstance(r, LoadModel)] == [now]
    files.save_to(tmp_path / "talk.attnscope")
    assert read_session(tmp_path / "talk.attnscope").views[0].saved.source == now


def test_that_a_session_waits_for_its_own_model_and_another_one_is_not_given_it(qtbot, tmp_path: Path):
    desk, window, own = a_talk_whose_model_is_gone(qtbot, tmp_path)
    files = window.workspace.files
    files.open_path(str(tmp_path / "talk.attnscope"))
    request = next(r for r in desk.posted if isinstance(r, LoadModel))
    desk.posted.clear()
    desk.session.handle(Failed(number=request.number, request="LoadModel", message="There is no such model."))
    desk.open(dataclasses.replace(info("decoder", "third"), sha256="ef" * 32))
    assert files.awaited.saved is None
    assert desk.session.notices.shown.message == (
        "The session of tiny was not shown: third was opened instead."
    )
    qtbot.wait(1)
    assert desk.session.history.undo_label != "open session"

    files.open_path(str(tmp_path / "talk.attnscope"))
    desk.posted.clear()
    desk.open(dataclasses.replace(own, source=str(tmp_path / "elsewhere")))  # by hand, the same weights
    qtbot.waitUntil(lambda: files.awaited.saved is None, timeout=2000)
    assert desk.session.text == "kept text"


def test_that_turning_to_train_leaves_the_recipe_to_whoever_goes_there(qtbot):
    window = make(qtbot, Desk().open())
    window.show()
    window.pages.explore.grid_panel.grid.setFocus()
    window.view.show_page("train")
    focused = window.pages.training.focusWidget()
    assert focused is window.pages.training.upper_tabs.tabs["Curves"]


def test_that_a_kept_view_finds_its_model_beside_the_session_file(qtbot, tmp_path: Path):
    desk, window, own = a_talk_whose_model_is_gone(qtbot, tmp_path)
    folder = tmp_path / "brought along"
    folder.mkdir()
    manifest = f'{{"model.safetensors": {{"n_bytes": 1, "sha256": "{own.sha256}"}}}}'
    (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    window.workspace.files.kept.go(0)
    assert [r.source for r in desk.posted if isinstance(r, LoadModel)] == [str(folder)]


def test_that_a_model_beside_its_session_is_found_by_its_hash(tmp_path: Path):
    """F64."""
    folder = tmp_path / "renamed"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"model.safetensors": {"n_bytes": 1, "sha256": "abc"}}')
    assert find_moved_model("/gone/model", "abc", tmp_path) == str(folder)
    assert find_moved_model("/gone/model", "other", tmp_path) == ""
    assert find_moved_model("nano", "abc", tmp_path) == "nano"


def test_that_dropped_files_folders_and_texts_are_opened(qtbot, tmp_path: Path):
    desk = Desk().open()
    window = make(qtbot, desk)
    (tmp_path / "a.txt").write_text("dropped words", encoding="utf-8")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "a.txt"))])
    drop(window, data)
    assert any(isinstance(r, OpenText) and r.path == str(tmp_path / "a.txt") for r in desk.posted)
    data.setUrls([QUrl.fromLocalFile(str(tmp_path))])
    drop(window, data)
    assert any(isinstance(r, LoadModel) and r.source == str(tmp_path) for r in desk.posted)
    text = QMimeData()
    text.setText("plain\nwords")
    drop(window, text)
    assert desk.session.text == "plain words"
    (tmp_path / "x.exe").write_bytes(b"MZ")
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "x.exe"))])
    drop(window, data)
    assert "cannot be opened" in window.banner.message
    assert "a picture" in window.banner.message
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "a.txt"))])
    drop(window, data)
    assert desk.session.notices.shown is None


def drop(window: MainWindow, data: QMimeData) -> None:
    none, left = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
    window.dropEvent(QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, left, none))


@pytest.mark.parametrize("path", ["a\0b", "/nowhere/at/all", "x.attn"])
def test_that_a_path_that_is_nothing_is_told(path, tmp_path):
    if path == "x.attn":
        path = str(tmp_path / path)
        Path(path).write_text("?")
    with pytest.raises(LoadError):
        kind_of_path(path)


def test_that_recent_sessions_have_a_menu(qtbot):
    window = make(qtbot, Desk().open(), Settings(theme="light", recent_sessions=("/gone/a&b.attnscope",)))
    menu = window.workspace.recent_menu()
    menu.actions()[0].trigger()
    assert "cannot be read" in window.banner.message
    assert menu.actions() == []


# Autosave


def test_that_a_program_that_died_leaves_its_session_and_a_clean_end_does_not(qtbot, tmp_path: Path, qapp):
    first = Autosave(lambda: b'{"format": 1, "text": "one"}', qapp)
    assert first.start(tmp_path) is None
    first.save_now()
    qtbot.waitUntil(first.path.is_file, timeout=2000)
    second = Autosave(lambda: b"", qapp)
    assert second.start(tmp_path) is None  # the first is alive
    first._lock.unlock()  # as if its process had died
    third = Autosave(lambda: b"", qapp)
    assert third.start(tmp_path) == first.path
    assert read_session(first.path).setting.text == "one"
    third.forget(first.path)
    assert third.last() is None
    fourth = Autosave(lambda: b'{"format": 1, "text": "two"}', qapp)
    fourth.start(tmp_path)
    fourth.save_now()
    for autosave in (second, third, fourth):
        autosave.end()
    assert [path.name for path in tmp_path.iterdir()] == ["last.attnscope"]
    for autosave in (first, second, third, fourth):
        autosave.deleteLater()


def test_that_before_its_begin_and_after_its_end_no_copy_is_kept_or_found(qtbot, tmp_path: Path, qapp):
    autosave = Autosave(lambda: b'{"format": 1, "text": "one"}', qapp)
    autosave.touch()
    autosave.save_now()
    assert (autosave.is_on, autosave.last(), autosave.path.exists()) == (False, None, False)
    autosave.end()
    assert autosave.start(tmp_path) is None
    assert autosave.is_on
    autosave.end()
    autosave.save_now()
    assert not autosave.is_on
    assert [path.name for path in tmp_path.iterdir()] == ["last.attnscope"]
    autosave.deleteLater()


def test_that_the_last_session_can_be_restored(qtbot, tmp_path: Path):
    desk = Desk().open()
    window = make(qtbot, desk)
    desk.session.texts.set_text("from before")
    desk.answer()
    content = window.workspace.files.content()
    (tmp_path / "last.attnscope").write_bytes(content)
    window.workspace.start_autosave(tmp_path)
    assert desk.session.notices.shown is None
    desk.session.texts.set_text("now")
    press(window, "restore-session")
    desk.answer()
    qtbot.waitUntil(lambda: desk.session.text == "from before", timeout=2000)
    window.workspace.end()


# Panels, themes, sizes


def test_that_a_panel_opens_in_its_own_window_and_comes_back(qtbot):
    window = make(qtbot, Desk().open())
    panels, explore = window.workspace.panels, window.pages.explore
    sizes = explore.pictures.sizes()
    for name in ("grid", "head", "inspector", "output", "lines"):
        press(window, f"own-{name}")
        own = panels.window_of(name)
        assert own.isVisible()
        assert not own.grab().isNull()
    assert explore.grid_panel.window() is panels.window_of("grid")
    snapshot = settings_from_json(settings_to_json(window.settings_snapshot()))
    assert {place[0] for place in snapshot.panels} == {"grid", "head", "inspector", "output", "lines"}
    press(window, "reset-layout")
    assert panels.names == ()
    assert explore.grid_panel.window() is window
    assert explore.pictures.indexOf(explore.grid_panel) == 0
    assert explore.side.indexOf(explore.inspector) == 0
    assert abs(explore.pictures.sizes()[0] - sizes[0]) < 40


def test_that_what_stands_for_a_panel_outlives_the_click_that_brings_it_back(qtbot):
    window = make(qtbot, Desk().open())
    press(window, "own-grid")
    (button,) = (b for b in window.pages.explore.findChildren(QPushButton) if b.text() == "Bring back")
    gone: list[bool] = []
    button.parentWidget().destroyed.connect(lambda: gone.append(True))
    button.clicked.connect(lambda: gc.collect())
    button.click()
    gc.collect()
    assert not gone
    assert window.pages.explore.grid_panel.window() is window
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert gone == [True]


def test_that_panel_windows_are_remembered_and_end_with_the_program(qtbot):
    places = (("lines", 40, 50, 500, 400), ("nonsense", 0, 0, 1, 1), ("grid", 99_000, 0, 500, 400))
    window = make(qtbot, Desk().open(), Settings(theme="light", panels=places))
    panels = window.workspace.panels
    assert panels.window_of("lines").geometry().getRect() == (40, 50, 500, 400)
    assert panels.window_of("grid").x() < 10_000
    window.close()
    assert {place[0] for place in window.settings_snapshot().panels} == {"lines", "grid"}
    assert panels.names == ()


@pytest.mark.parametrize(("theme", "size"), [("projector", 100), ("dark", 150), ("light", 200)])
def test_that_type_grows_with_theme_and_size_while_figures_stay(qtbot, theme, size, tmp_path):
    desk = Desk().open()
    window = make(qtbot, desk)
    window.export_current(tmp_path / "before.svg")
    window.view.set_theme(theme)
    window.view.set_size(size)
    assert type_px(10) == pytest.approx(10 * size / 100 * (1.35 if theme == "projector" else 1))
    window.export_current(tmp_path / "after.svg")
    assert (tmp_path / "before.svg").read_bytes() == (tmp_path / "after.svg").read_bytes()
    assert not window.grab().isNull()
    press(window, "reset-layout")
    assert window.view.size_percent == 100


def test_that_a_message_moves_nothing(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    before = window.pages.explore.head_panel.mapTo(window, QPoint(0, 0))
    desk.session.notices.say("Something " * 40, is_error=True)
    assert window.banner.isVisible()
    assert window.pages.explore.head_panel.mapTo(window, QPoint(0, 0)) == before
    assert window.rect().contains(window.banner.geometry())


def test_that_the_gate_jumps_to_a_click(qtbot):
    slider = JumpSlider(Qt.Orientation.Horizontal)
    qtbot.addWidget(slider)
    slider.setRange(0, 100)
    slider.resize(200, 24)
    slider.show()
    qtbot.mouseClick(slider, Qt.MouseButton.LeftButton, pos=QPoint(150, 12))
    assert 70 <= slider.value() <= 80


# How maps are looked at


def test_that_the_line_above_the_pictures_changes_them_and_says_what_is_missing(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    bar, session = window.pages.explore.aspect_bar, desk.session
    bar.hidden.chosen.emit("special")
    assert session.aspect.hidden == "special"
    assert "special tokens left out, 25 % of the weight" in bar.note.full_text()
    bar.renormalise.click()
    assert "rows sum to 1 again" in bar.note.full_text()
    bar.words.click()
    assert session.aspect == Aspect(hidden="special", is_renormalised=True, is_by_word=True)
    press(window, "plain-maps")
    assert session.aspect == PLAIN
    assert not bar.words.isChecked()
    window.view.show_view("lines")
    bar.lines.chosen.emit("strongest:2")
    assert window.view.n_strongest == 2
    bar.lines.chosen.emit("weight:0.25")
    assert (window.view.n_strongest, window.view.least_weight) == (0, 0.25)


def test_that_the_output_begins_where_the_gates_changed_most(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    traced = desk.session.traced
    moved = dataclasses.replace(traced.comparison, kl_nats=(0.0, 0.5))
    object.__setattr__(traced, "comparison", moved)
    desk.session.changed.traced.emit()
    assert window.pages.explore.output.positions.currentIndex() == 1
    window.pages.explore.output.positions.activated.emit(0)
    desk.session.changed.traced.emit()
    assert window.view.position == 0
