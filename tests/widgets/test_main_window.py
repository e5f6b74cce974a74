"""The window as a whole: pages, actions, themes, layout, export, closing."""

import dataclasses

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QDialog,
    QLabel,
    QLineEdit,
    QSlider,
    QToolTip,
    QWidget,
)
from session_samples import Desk, info, ref, states_of

from attnscope.errors import UserError
from attnscope.figures import DARK, LIGHT, contrast
from attnscope.records import Failed, LoadModel, Ready
from attnscope.settings import Settings, settings_from_json, settings_to_json
from attnscope.viewmodels import THEME_NAMES
from attnscope.widgets import ACTIONS, stylesheet
from attnscope.widgets.export import ExportDialog
from attnscope.widgets.window import MainWindow, usable_geometry

pytestmark = pytest.mark.qt
_CONTROL_SHIFT = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier


def make(qtbot, desk: Desk, settings: Settings | None = None) -> MainWindow:
    window = MainWindow(states_of(desk.session), settings or Settings(theme="light"))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    return window


def press(window: MainWindow, name: str) -> None:
    window.actions_by_name[name].trigger()


def test_that_the_window_shows_each_state_from_start_to_picture(qtbot):
    desk = Desk()
    window = make(qtbot, desk)
    assert window.pages.explore.card.isVisible()
    desk.session.handle(Ready(devices=("cpu",), demo_models=("tiny", "other")))
    assert [a.text() for a in window.model_menu.demo_actions()] == ["tiny", "other"]
    desk.session.opening.load("tiny")
    assert "Loading tiny…" in window.pages.explore.card.accessibleName()
    desk.answer()
    assert window.pages.explore.pictures.isVisible()
    assert window.windowTitle() == "tiny – AttnScope"
    assert window.status_bar.badge.text().startswith("✓")


def test_that_choosing_a_demo_model_loads_it(qtbot):
    desk = Desk()
    window = make(qtbot, desk)
    desk.session.handle(Ready(devices=("cpu",), demo_models=("tiny", "other")))
    window.model_menu.demo_actions()[1].trigger()
    assert isinstance(desk.posted[-1], LoadModel)
    assert desk.posted[-1].source == "other"


def test_that_gates_change_by_action_and_undo_says_what(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    desk.session.select_heads((ref(0, 1),))
    press(window, "toggle-heads")
    assert desk.session.gates.off() == (ref(0, 1),)
    assert window.actions_by_name["undo"].text() == "Undo: switch off L0H1 (encoder)"
    assert "1 head off" in window.status_bar.heads_off.text()
    press(window, "undo")
    assert not desk.session.gates
    press(window, "prune-all-but")
    assert len(desk.session.gates.off()) == 3
    press(window, "invert")
    others = {h for site in desk.session.model.sites for h in site.heads if h.stack != "encoder"}
    assert set(desk.session.gates.off()) == {ref(0, 1)} | others
    press(window, "reset")
    assert window.status_bar.heads_off.text() == "all heads on"


def test_that_pages_and_stacks_are_a_key_away(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    for page in ("positions", "train", "explore"):
        press(window, f"page-{page}")
        assert window.view.page == page
        assert window.page_bar.buttons[page].isChecked()
    for k, stack in enumerate(("encoder", "decoder", "cross")):
        press(window, f"stack-{k + 1}")
        assert desk.session.stack == stack
        assert window.pages.explore.grid_panel.tab(stack).isChecked()


def test_that_stacks_a_model_lacks_are_not_offered(qtbot):
    desk = Desk().open(info("decoder"))
    window = make(qtbot, desk)
    assert window.actions_by_name["stack-1"].isVisible()
    assert not window.actions_by_name["stack-2"].isVisible()
    press(window, "stack-3")
    assert desk.session.stack == "decoder"


def test_that_an_error_is_a_banner_and_escape_takes_it_away(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    message = "The folder <b>x</b> holds no model."
    desk.session.handle(Failed(number=0, request="LoadModel", message=message, crash_log="/logs/c.log"))
    assert window.banner.isVisible()
    assert message in window.banner.message
    assert "/logs/c.log" in window.banner.message
    assert window.pages.explore.pictures.isVisible()
    press(window, "dismiss")
    assert not window.banner.isVisible()


def test_that_what_went_wrong_on_a_page_is_told_until_it_goes_well(qtbot, tmp_path):
    desk = Desk().open()
    window = make(qtbot, desk)
    panel = window.pages.training._run.recipe_row
    (tmp_path / "good.toml").write_text("a = 1\n", encoding="utf-8")
    panel._open_recipe(str(tmp_path / "none.toml"))
    assert "none.toml" in window.banner.message
    window.pages.training.failed.emit("several runs", "")
    assert window.banner.isVisible()  # something else is well: this is not
    panel._open_recipe(str(tmp_path / "good.toml"))
    assert desk.session.notices.shown is None
    assert not window.banner.isVisible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (2560, 1440), (960, 600)])
def test_that_nothing_is_cut_at_any_size(qtbot, theme, size):
    desk = Desk().open()
    window = make(qtbot, desk, Settings(theme=theme))
    window.resize(*size)
    qtbot.waitUntil(lambda: window.width() == size[0])
    for button in window.findChildren(QAbstractButton):
        if button.isVisible() and button.text():
            assert button.width() >= button.fontMetrics().horizontalAdvance(button.text()), button.text()
    assert window.width() == size[0]
    assert not window.grab().isNull()


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_that_text_can_be_read_on_every_ground(palette):
    for ground in (palette.background, palette.panel, palette.raised):
        for ink in (palette.text, palette.muted, palette.warning, palette.error, palette.accent):
            assert contrast(ink, ground) >= 4.5, (ink, ground)
    assert contrast(palette.accent_text, palette.accent) >= 4.5
    assert contrast(palette.text, palette.line) >= 4.5


def test_that_the_style_sheet_has_every_colour_filled_in():
    assert "@" not in stylesheet(LIGHT)
    assert DARK.accent in stylesheet(DARK)


def test_that_every_theme_is_in_the_menu_of_the_bar_and_of_the_window(qtbot):
    window = make(qtbot, Desk().open())
    menu = window.top_bar.theme_button.menu()
    seen = []
    for action in menu.actions():
        action.trigger()
        seen.append(window.view.theme)
        assert [a.data() for a in menu.actions() if a.isChecked()] == [window.view.theme]
        assert THEME_NAMES[window.view.theme] in window.top_bar.theme_button.toolTip()
    assert sorted(seen) == ["dark", "light", "projector", "system"]
    in_bar = next(a.menu() for a in window.top_bar.menu_bar.actions() if a.text() == "&Window")
    assert menu.menuAction() in in_bar.actions()


def test_that_controls_have_names_and_can_be_reached(qtbot):
    window = make(qtbot, Desk().open())
    for kind in (QLineEdit, QComboBox, QSlider, QAbstractButton):
        for control in window.pages.explore.findChildren(kind) + window.top_bar.findChildren(kind):
            if control.isVisible() and not control.objectName().startswith("qt_"):
                assert control.accessibleName() or control.text(), control
                assert control.focusPolicy() & Qt.FocusPolicy.TabFocus, control


def test_that_labels_never_read_html(qtbot):
    """F55."""
    window = make(qtbot, Desk().open())
    for label in window.findChildren(QLabel):
        if label.isVisible() and label.text():
            assert label.textFormat() == Qt.TextFormat.PlainText, label.text()
    for widget in window.findChildren(QWidget):
        tip = widget.toolTip()
        assert "<" not in tip or tip.startswith("<div style='white-space: pre-wrap'>"), tip
    assert QToolTip.text() == ""


def test_that_no_two_actions_have_one_shortcut():
    keys = [QKeySequence(key).toString() for spec in ACTIONS for key in spec.shortcuts]
    assert len(keys) == len(set(keys))
    assert all(spec.menu for spec in ACTIONS if not spec.shortcuts and not spec.name.endswith("-model"))


def test_that_the_sheet_of_shortcuts_names_every_menu_action(qtbot):
    window = make(qtbot, Desk().open())
    next(one for one in window.findChildren(QAction) if one.text() == "Shortcuts").trigger()
    (sheet,) = (one for one in window.findChildren(QDialog) if one.isVisible())
    texts = {label.text() for label in sheet.findChildren(QLabel)}
    for spec in ACTIONS:
        if spec.menu and spec.shortcuts and not spec.name.startswith("stack-"):
            assert spec.text.rstrip("…") in texts
    assert ("Start", "Ctrl+Return") in sheet.rows
    assert len(sheet.rows) == len(set(sheet.rows))
    sheet.show_rows("hist")
    assert ("History", "Ctrl+H") in sheet.rows
    assert len(sheet.rows) < 6


def test_that_large_type_needs_a_larger_window(qtbot):
    window = make(qtbot, Desk().open())
    assert (window.minimumWidth(), window.minimumHeight()) == (960, 600)
    window.view.set_theme("projector")
    assert (window.minimumWidth(), window.minimumHeight()) == (1200, 720)


def test_that_layout_is_remembered(qtbot):
    window = make(qtbot, Desk().open())
    window.view.set_theme("dark")
    window.view.set_colour_map("magma")
    window.view.set_scale("row")
    window.view.show_page("positions")
    snapshot = window.settings_snapshot()
    again = settings_from_json(settings_to_json(snapshot))
    assert again == snapshot
    other = make(qtbot, Desk(), again)
    assert (other.view.theme, other.view.colour_map, other.view.scale, other.view.page) == (
        "dark",
        "magma",
        "row",
        "positions",
    )


def test_that_the_choices_of_the_last_figure_come_back(qtbot):
    window = make(qtbot, Desk().open())
    assert window.settings_snapshot().export_choices == ""
    window.actions_by_name["export"].trigger()
    dialog = window.findChild(ExportDialog)
    dialog.choices.is_plain.click()
    dialog.reject()
    again = settings_from_json(settings_to_json(window.settings_snapshot()))
    other = make(qtbot, Desk().open(), again)
    other.actions_by_name["export"].trigger()
    assert other.findChild(ExportDialog).choices.is_plain.isChecked()


def test_that_splitters_come_back(qtbot):
    window = make(qtbot, Desk().open())
    window.pages.explore.columns.setSizes([700, 500])
    remembered = window.settings_snapshot()
    other = make(qtbot, Desk().open(), remembered)
    first, second = other.pages.explore.columns.sizes()
    assert second == pytest.approx(window.pages.explore.columns.sizes()[1], abs=2)
    assert first > 0


@pytest.mark.parametrize(
    "damage",
    [
        {"geometry": (90_000, 90_000, 800, 600)},
        {"geometry": (0, 0, -5, 0)},
        {"geometry": (0, 0, 999_999, 999_999)},
        {"splitters": (("explore.columns", (-4, 7)), ("nobody", (1, 2)), ("explore.side", (1, 2, 3)))},
        {"splitters": (("explore.columns", (0, 0)), ("explore.pictures", (10**6, 10**6)))},
        {"page": "nowhere", "colour_map": "pink", "scale": "big"},
        {"export_folder": "/no/such\0place"},
        {"export_choices": '{"format": "pdf", "page": [0, -1, 1e99]}'},
    ],
)
def test_that_garbage_in_the_layout_gives_the_default(qtbot, damage):
    """F67."""
    window = make(qtbot, Desk().open(), dataclasses.replace(Settings(theme="light"), **damage))
    window.pages.explore.grid_panel.grid.grab()
    assert all(size > 0 for size in window.pages.explore.columns.sizes())
    assert window.view.page == "explore"
    assert window.view.colour_map == "viridis"


def test_that_a_window_off_screen_is_moved_into_view():
    """F67."""
    screen = QRect(0, 0, 1920, 1080)
    assert usable_geometry((100, 100, 1280, 800), [screen]) == QRect(100, 100, 1280, 800)
    for wish in ((5000, 100, 1280, 800), (100, -900, 1280, 800), (100, 100, 10, 10), None):
        assert usable_geometry(wish, [screen]) == QRect(320, 140, 1280, 800)
    assert usable_geometry(None, [QRect(0, 0, 1024, 700)]) == QRect(0, 0, 1024, 700)


def test_that_the_shown_figure_is_exported(qtbot, tmp_path):
    desk = Desk().open()
    window = make(qtbot, desk)
    with pytest.raises(UserError, match="no figure"):
        make(qtbot, Desk()).export_current(tmp_path / "none.svg")
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    path = window.export_current(tmp_path / "head.svg")
    assert b"<svg" in path.read_bytes()
    window.view.show_view("lines")
    assert {"grid", "head", "lines"} <= set(window.offered_figures())


def test_that_the_exported_grid_shows_no_selection(qtbot):
    window = make(qtbot, Desk().open())
    assert window.offered_figures()["grid"].selection == ()


def test_that_undo_in_the_text_takes_back_a_gate_that_changed_last(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    window.activateWindow()
    edit = window.pages.explore.text_bar.text_edit
    edit.setFocus()
    qtbot.waitUntil(edit.hasFocus)
    qtbot.keyClicks(edit, "x")
    typed = edit.text()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    qtbot.keyClick(edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert not desk.session.gates
    assert edit.text() == typed
    qtbot.keyClick(edit, Qt.Key.Key_Z, _CONTROL_SHIFT)
    assert desk.session.gates.off() == (ref(0, 1),)
    qtbot.keyClicks(edit, "y")
    longer = edit.text()
    qtbot.keyClick(edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert edit.text() != longer
    assert desk.session.gates.off() == (ref(0, 1),)


def test_that_a_checkpoint_opens_on_the_watched_sentence(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    window._training.watch.set_text("three two one")
    window._training.watch.head = ref(0, 1)
    window.openings.open_checkpoint("runs/x/checkpoints/7")
    desk.answer()
    assert desk.session.text == "three two one"
    assert desk.session.primary == ref(0, 1)
    desk.open(dataclasses.replace(desk.model, name="other", sha256="b" * 64))
    assert desk.session.primary != ref(0, 1)  # another model has its own
    assert window.view.page == "explore"


def test_that_the_time_of_a_trace_is_shown_only_where_it_was_traced(qtbot):
    window = make(qtbot, Desk().open())
    assert window.status_bar.duration.isVisible()
    press(window, "page-train")
    assert not window.status_bar.duration.isVisible()


def test_that_closing_is_told(qtbot):
    window = make(qtbot, Desk().open())
    with qtbot.waitSignal(window.closing):
        window.close()


def test_that_a_note_goes_with_the_next_thing_done_and_a_question_stays(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    window.banner._age = FakeAge()
    desk.session.notices.say("Saved.")
    assert window.banner.geometry().top() >= window.pages.explore.geometry().bottom()
    window.view.show_page("labs")
    assert desk.session.notices.shown is None
    desk.session.notices.say("Restore it?", action="restore-session")
    window.view.show_page("explore")
    desk.session.head_changes.toggle_gate(ref(0, 1))
    assert window.banner.isVisible()


class FakeAge:
    def start(self) -> None:
        pass

    def hasExpired(self, _ms: int) -> bool:
        return True


def test_that_an_undo_elsewhere_is_told(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    desk.session.head_changes.toggle_gate(ref(0, 1))
    window.view.show_page("positions")
    press(window, "undo")
    assert window.banner.message == "Undid on the page Explore: switch off L0H1 (encoder)."
    window.view.show_page("explore")
    desk.session.notices.dismiss()
    press(window, "redo")
    assert desk.session.notices.shown is None


def test_that_a_good_trace_has_one_quiet_mark_and_a_wrong_one_is_loud(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    bar, traced = window.status_bar, desk.session.traced
    assert bar.badge.text() == traced.check.badge
    assert traced.check.sentence in bar.badge.toolTip()
    assert bar.badge.property("role") == "good"
    wrong = dataclasses.replace(traced.check, row_sum_error=0.5)
    desk.session.tracing.show(dataclasses.replace(traced, check=wrong))
    assert bar.badge.text() == f"⚠ {wrong.sentence}"
    assert bar.badge.property("role") == "alarm"
    assert "checked against the model" in bar.badge.toolTip()
    given = dataclasses.replace(wrong, is_given=True)  # by somebody who has no model to compare with
    desk.session.tracing.show(dataclasses.replace(traced, check=given))
    assert bar.badge.text() == "⚠ rows do not sum to 1: off by 0.5"
    assert "model" not in bar.badge.toolTip()


def test_that_keys_are_for_the_pictures_at_the_start_and_after_return(qtbot):
    desk = Desk().open()
    window = make(qtbot, desk)
    window.show()
    grid, edit = window.pages.explore.grid_panel.grid, window.pages.explore.text_bar.text_edit
    qtbot.waitUntil(lambda: window.focusWidget() is grid)
    window.actions_by_name["edit-text"].trigger()
    qtbot.waitUntil(lambda: window.focusWidget() is edit)
    qtbot.keyClicks(edit, "1 L")
    assert desk.session.text == "1 L"
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert window.focusWidget() is grid
