"""The export dialog: choices reach the figure, errors keep it open."""

import csv
import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtWidgets import QFileDialog, QMessageBox, QPushButton, QWidget
from session_samples import Desk, ref, state_of

from attnscope import Caption
from attnscope.errors import LoadError
from attnscope.figures import ENDINGS, read_figure_file, save, suggested_name
from attnscope.figures.views import LabFigure, PanelsFigure
from attnscope.records import LoadModel, SaveModel
from attnscope.viewmodels import ViewState
from attnscope.widgets.export import ExportDialog, KeptChoices, current_figure, export_one, offered_figures
from attnscope.widgets.window import Commands, FigureCommands, kind_of_path, open_figure_file

pytestmark = pytest.mark.qt


def make(qtbot, shown="head", folder="") -> ExportDialog:
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    dialog = ExportDialog(offered_figures(desk.session, ViewState(), {}), shown, folder=folder)
    qtbot.addWidget(dialog)
    return dialog


def choose(combo, key) -> None:
    index = combo.findData(key)
    combo.setCurrentIndex(index)
    combo.activated.emit(index)


def test_that_choices_reach_the_figure(qtbot):
    dialog = make(qtbot)
    choices = dialog.choices
    choose(choices.views, "grid")
    choose(choices.colours, "cividis")
    choose(choices.scale, "row")
    assert not choices.height_mm.isEnabled()  # the page ends where the figure does
    choices.fits.click()
    choices.width_mm.setValue(90)
    choices.height_mm.setValue(70)
    choices.dpi.setValue(150)
    choices.note.setText("mine")
    spec = dialog.spec()
    assert (spec.view, spec.width_mm, spec.height_mm, spec.dpi) == ("grid", 90, 70, 150)
    assert (spec.style.colour_map, spec.style.scale) == ("cividis", "row")
    assert spec.caption is not None
    assert spec.caption.note == "mine"
    assert spec.caption.model == "tiny"
    choices.has_caption.setChecked(False)
    assert dialog.spec().caption is None


def test_that_weights_without_room_in_their_cells_say_which_width_has_it(qtbot):
    dialog = make(qtbot)
    choices = dialog.choices
    choices.width_mm.setValue(40)
    choices.font_pt.setValue(12)
    dialog.show_preview()
    assert not dialog.message.text()
    choices.values.click()
    dialog.show_preview()
    told = re.fullmatch(
        r"values do not fit: cells are [\d.]+ mm wide; a width of (\d+) mm has room", dialog.message.text()
    )
    assert told is not None
    assert dialog.save_button.isEnabled()
    choices.width_mm.setValue(int(told[1]))
    dialog.show_preview()
    assert not dialog.message.text()


def test_that_a_preset_sets_the_page_and_a_size_of_ones_own_is_custom(qtbot):
    dialog = make(qtbot)
    choices = dialog.choices
    assert choices.presets.currentData() == "single"
    choose(choices.presets, "slide")
    assert (choices.height_mm.value(), choices.fits.isChecked()) == (190.5, False)
    choose(choices.presets, "single")
    assert choices.height_mm.value() < 100.0
    assert (choices.width_mm.value(), choices.font_pt.value()) == (85.0, 7.0)
    assert choices.presets.currentData() == "single"
    choices.width_mm.setValue(86.0)
    assert choices.presets.currentData() == "custom"
    choices.width_mm.setValue(85.0)
    assert choices.presets.currentData() == "single"


def test_that_each_view_brings_its_page_and_columns_change_its_height(qtbot):
    dialog = make(qtbot)
    choices = dialog.choices
    choose(choices.views, "panels")
    assert choices.presets.currentData() == "double"
    choices.has_grid.click()
    beside = choices.height_mm.value()
    choose(choices.columns, "1")
    assert dialog.spec().columns == 1
    assert dialog.spec().height_mm == choices.height_mm.value() > beside
    choices.width_mm.setValue(120.0)
    choose(choices.views, "head")
    assert choices.width_mm.value() == 120.0  # a page of one's own is kept


def test_that_panels_labels_and_bar_reach_the_figure(qtbot):
    dialog = make(qtbot, shown="panels")
    choices = dialog.choices
    assert [panel.view for panel in dialog.spec().panels] == ["head"]
    choices.has_lines.click()
    choices.has_grid.click()
    choose(choices.turn, "90")
    choices.every.setValue(3)
    choices.has_bar.click()
    spec = dialog.spec()
    assert [panel.view for panel in spec.panels] == ["head", "lines", "grid"]
    assert (spec.style.turn, spec.style.label_every, spec.style.has_bar) == (90, 3, False)
    assert {panel.style for panel in spec.panels} == {spec.style}
    choose(choices.turn, "")
    assert dialog.spec().style.turn is None


def test_that_a_format_that_cannot_hold_the_view_is_said_before_saving(qtbot):
    dialog = make(qtbot, shown="grid")
    choose(dialog.choices.formats, "html")
    dialog.show_preview()
    assert "needs maps" in dialog.message.text()
    assert not dialog.save_button.isEnabled()


@pytest.mark.parametrize("format", ["svg", "pdf", "png", "csv", "npz", "html", "figure"])
def test_that_every_format_is_written(qtbot, tmp_path, format):
    dialog = make(qtbot, folder=str(tmp_path))
    choose(dialog.choices.formats, format)
    ending = ENDINGS[format]
    assert dialog.suggested_path().endswith(ending)
    with qtbot.waitSignal(dialog.exported):
        assert dialog.save_to(dialog.suggested_path())
    assert len(list(tmp_path.glob(f"*{ending}"))) == 1


def test_that_a_failure_is_said_and_the_dialog_stays(qtbot, tmp_path):
    dialog = make(qtbot)
    dialog.show()
    assert not dialog.save_to(str(tmp_path / "gone" / "x.svg"))
    assert "does not exist" in dialog.message.text()
    assert dialog.isVisible()
    assert not dialog.save_to(str(tmp_path / "x.docx"))
    assert "not a format" in dialog.message.text()


def test_that_an_image_too_large_cannot_be_saved(qtbot):
    """F51."""
    dialog = make(qtbot)
    choose(dialog.choices.formats, "png")
    dialog.choices.width_mm.setValue(1200)
    dialog.choices.height_mm.setValue(1200)
    dialog.choices.dpi.setValue(2400)
    qtbot.waitUntil(lambda: not dialog.save_button.isEnabled(), timeout=2000)
    assert "pixels" in dialog.message.text()
    choose(dialog.choices.formats, "svg")
    qtbot.waitUntil(dialog.save_button.isEnabled, timeout=2000)


def test_that_each_view_exports_what_is_looked_at():
    view = ViewState()
    offered = dict.fromkeys(("grid", "head", "lines", "positions", "curves"))
    assert current_figure(view, offered) == "head"
    view.show_view("lines")
    assert current_figure(view, offered) == "lines"
    view.show_page("train")
    assert current_figure(view, offered) == "curves"
    view.show_page("positions")
    assert current_figure(view, offered) == "positions"
    assert current_figure(view, {}) is None


def commands(
    desk: Desk, parent: QWidget, answers: list[str], opened: list[str], choose_new_folder=None
) -> Commands:
    return Commands(
        desk.session,
        ViewState(),
        parent,
        pruning=state_of("pruning", lambda _request: None),
        open_run=opened.append,
        edit_text=lambda: None,
        choose_folder=lambda *_: answers.pop(0),
        choose_new_folder=choose_new_folder or (lambda *_: answers.pop(0)),
    )


def test_that_folders_are_opened_and_saved_only_when_one_was_chosen(qtbot):
    parent, desk, opened = QWidget(), Desk().open(), []
    qtbot.addWidget(parent)
    intents = commands(desk, parent, ["", "/m", "", "/r", "", "/s"], opened)
    for _ in range(2):
        intents.open_model()
    for _ in range(2):
        intents.open_run()
    for _ in range(2):
        intents.save_model()
    kinds = [type(request) for request in desk.posted]
    assert kinds == [LoadModel, SaveModel]
    assert opened == ["/r"]


def test_that_exporting_nothing_says_so(qtbot):
    parent, desk = QWidget(), Desk().open()
    qtbot.addWidget(parent)
    intents = FigureCommands(desk.session, ViewState(), parent, dict)
    intents.export()
    assert desk.session.notices.shown is not None
    assert not desk.session.notices.shown.is_error
    desk.session.notices.dismiss()
    intents.copy_figure()
    assert desk.session.notices.shown is not None


@pytest.mark.parametrize("is_long", [False, True])
def test_that_the_grids_numbers_are_exact_once_the_maps_of_all_heads_have_come(qtbot, tmp_path, is_long):
    window, desk, view = QWidget(), Desk().open(), ViewState()
    qtbot.addWidget(window)
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    if is_long:
        grids = tuple(
            dataclasses.replace(one, n_queries=300, n_keys=300) for one in desk.session.traced.grids
        )
        desk.session.traced = dataclasses.replace(desk.session.traced, grids=grids)
    FigureCommands(desk.session, view, window, lambda: offered_figures(desk.session, view, {})).export()
    (dialog,) = window.findChildren(ExportDialog)
    choose(dialog.choices.views, "grid")
    choose(dialog.choices.formats, "csv")
    assert "within" in next(dialog.spec().rows())
    desk.answer()
    assert ("within" in next(dialog.spec().rows())) == is_long
    if not is_long:
        assert dialog.save_to(str(tmp_path / "grid.csv"))
        rows = list(csv.DictReader((tmp_path / "grid.csv").read_text().splitlines()))
        n_keys = len(desk.session.traced.source)
        assert {row["weight"] for row in rows} == {f"{np.float32(1 / n_keys):.9g}"}  # levels say 0.391732287


def test_that_the_dialog_writes_a_figure_file_of_what_is_shown(qtbot, tmp_path):
    dialog = make(qtbot, shown="panels")
    assert dialog.save_to(str(tmp_path / "x.figure.json"))
    saved = read_figure_file(tmp_path / "x.figure.json")
    assert (saved.view, saved.heads, saved.origin.source) == ("panels", (ref(0, 1),), "tiny")
    assert (saved.origin.text, saved.origin.sha256) == ("the cat sleeps", "ab" * 32)


def test_that_more_than_four_heads_of_several_stacks_are_panels(qtbot):
    desk = Desk().open()
    heads = [ref(layer, head) for layer in range(2) for head in range(2)]
    cross = [dataclasses.replace(head, stack="cross") for head in heads]
    desk.session.select_heads((*heads, *cross))
    desk.answer()
    offered = offered_figures(desk.session, ViewState(), {})
    shown = [panel.maps[0].head for panel in offered["panels"].panels if panel.view == "head"]
    assert set(shown) == {*heads, *cross}


def test_that_a_file_of_numbers_opens_in_the_dialog_with_all_its_panels(qtbot, tmp_path):
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    panels = offered_figures(desk.session, ViewState(), {})["panels"]
    path = save(dataclasses.replace(panels, origin=None), tmp_path / "p.figure.json")
    assert kind_of_path(str(path)) == "figure"
    window, told = QWidget(), []
    qtbot.addWidget(window)
    open_figure_file(path, lambda *_: told.append("shown"), window, told.append)
    (dialog,) = window.findChildren(ExportDialog)
    assert [panel.view for panel in dialog.spec().panels] == ["head", "lines", "grid"]
    choose(dialog.choices.colours, "greys")
    assert dialog.save_to(str(tmp_path / "p.svg"))
    assert told == [str(tmp_path / "p.svg")]


def test_that_a_file_of_a_question_brings_model_text_and_heads_back(qtbot, tmp_path):
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1), ref(0, 0)))
    desk.answer()
    spec = offered_figures(desk.session, ViewState(), {})["lines"]
    path = save(spec, tmp_path / "q.figure.json")
    window, shown = QWidget(), []
    qtbot.addWidget(window)
    open_figure_file(path, lambda saved, label: shown.append((saved, label)), window, print)
    ((saved, label),) = shown
    assert label == "open figure"
    assert saved.setting.selection == tuple(m.head for m in spec.maps)
    assert (saved.setting.text, saved.look.view) == (spec.origin.text, "lines")
    with pytest.raises(LoadError):
        open_figure_file(tmp_path / "none.figure.json", print, window, print)


def test_that_the_dialog_stays_open_and_says_what_it_saved(qtbot, tmp_path):
    dialog = make(qtbot, folder=str(tmp_path))
    dialog.show()
    written = []
    dialog.exported.connect(written.append)
    assert dialog.save_to(str(tmp_path / "a.svg"))
    assert dialog.isVisible()
    assert dialog.message.text() == "Saved as a.svg."
    assert dialog.save_to(str(tmp_path / "b.png"))
    assert [Path(path).name for path in written] == ["a.svg", "b.png"]
    assert not dialog.save_to(str(tmp_path / "no" / "c.svg"))
    assert "does not exist" in dialog.message.text()


def test_that_the_next_dialog_offers_what_was_chosen(qtbot):
    first = make(qtbot)
    kept = []
    first.chosen.connect(kept.append)
    choices = first.choices
    assert not choices.is_plain.isChecked()
    assert not choices.leaves_special.isChecked()
    choose(choices.formats, "pdf")
    choices.is_plain.click()
    choices.leaves_special.click()
    choices.key_name.setText("Key (English)")
    choices.has_caption.click()
    choices.width_mm.setValue(99.0)
    wish = first.spec()
    first.reject()
    assert KeptChoices.from_text(kept[-1].text) == kept[-1]  # at the next start, too
    second = ExportDialog(first._offered, "head", kept=KeptChoices.from_text(kept[-1].text))
    qtbot.addWidget(second)
    assert second.choices.format() == "pdf"
    assert second.spec() == wish
    assert (wish.style.is_plain, wish.style.has_special, wish.style.key_name) == (
        True,
        False,
        "Key (English)",
    )
    assert (wish.width_mm, wish.caption) == (99.0, None)
    choose(second.choices.views, "grid")
    assert second.spec().width_mm == 99.0


def test_that_every_button_that_exports_offers_what_was_chosen_last_in_the_window(qtbot, tmp_path):
    window, desk, view = QWidget(), Desk().open(), ViewState()
    qtbot.addWidget(window)
    part = QWidget(window)
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    offered = offered_figures(desk.session, view, {})
    commands = FigureCommands(desk.session, view, window, lambda: offered)
    commands.export()
    (first,) = window.findChildren(ExportDialog)
    choose(first.choices.formats, "pdf")
    first.choices.width_mm.setValue(97.0)
    assert first.save_to(str(tmp_path / "a.pdf"))
    first.reject()
    export_one(offered["grid"], part)
    (second,) = part.findChildren(ExportDialog)
    assert (second.choices.format(), second.spec().width_mm) == ("pdf", 97.0)
    assert Path(second.suggested_path()).parent == tmp_path
    choose(second.choices.formats, "png")
    second.reject()
    assert commands.last.choices.format == "png"
    qtbot.waitUntil(lambda: not window.findChildren(ExportDialog))  # before the window is gone


def test_that_a_height_of_ones_own_is_offered_again_and_a_fitted_one_is_what_is_written(qtbot):
    first = make(qtbot)
    kept = []
    first.chosen.connect(kept.append)
    first.choices.fits.click()
    first.choices.height_mm.setValue(120.0)
    first.reject()
    second = ExportDialog(first._offered, "head", kept=KeptChoices.from_text(kept[-1].text))
    qtbot.addWidget(second)
    assert not second.choices.fits.isChecked()
    assert second.spec().height_mm == second.choices.height_mm.value() == 120.0
    other = ExportDialog(
        {"lab": LabFigure(title="Kernels")}, "lab", kept=KeptChoices.from_text(kept[-1].text)
    )
    qtbot.addWidget(other)
    other.chosen.connect(kept.append)
    other.reject()  # a view that may be of any height has no choice, and changes none
    assert not kept[-1].is_fitted
    caption = Caption(model="m", text="a b", role="looks at the token before, at the first, and at itself")
    told = {"head": dataclasses.replace(first._offered["head"], caption=caption)}
    second.choices.fits.click()
    second.chosen.connect(kept.append)
    second.reject()
    third = ExportDialog(told, "head", kept=kept[-1])
    qtbot.addWidget(third)
    assert third.choices.height_mm.value() == third.spec().height_mm


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "exe"}',
        '{"format": "pdf"}',
        "KEPT with NaN",
        "KEPT with 1e9",
        "[" * 9999,
    ],
)
def test_that_choices_that_cannot_be_are_forgotten(qtbot, text):
    dialog = make(qtbot)
    kept = dialog.choices.kept()
    for words, value in (("with NaN", math.nan), ("with 1e9", 1e9)):
        text = dataclasses.replace(kept, page=(value, 80.0, 9.0)).text if text == words else text
    assert KeptChoices.from_text(text) is None


def test_that_return_saves_and_does_not_close(qtbot):
    dialog = make(qtbot)
    dialog.show()
    assert [button.text() for button in dialog.findChildren(QPushButton) if button.isDefault()] == [
        "Save as…"
    ]


def test_that_the_fields_of_the_axes_show_the_names_that_the_figure_has(qtbot):
    offered = make(qtbot).spec()
    queries = tuple(dataclasses.replace(token, read="x") for token in offered.maps[0].queries)
    writing = dataclasses.replace(offered, maps=(dataclasses.replace(offered.maps[0], queries=queries),))
    dialog = ExportDialog({"head": offered, "panels": PanelsFigure(panels=(writing,))}, "head")
    qtbot.addWidget(dialog)
    shown = dialog.choices.key_name, dialog.choices.query_name
    assert [edit.placeholderText() for edit in shown] == ["Key", "Query"]
    choose(dialog.choices.views, "panels")
    assert [edit.placeholderText() for edit in shown] == ["Key", "Written"]


def test_that_a_name_without_ending_replaces_a_file_only_when_a_person_wants_it(qtbot, monkeypatch, tmp_path):
    dialog, asked = make(qtbot), []
    typed = {"to": str(tmp_path / "fig 1.2")}
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args: (typed["to"], ""))
    monkeypatch.setattr(QMessageBox, "exec", lambda box: asked.append(box.text()))
    written = tmp_path / "fig 1.2.svg"
    dialog.save_button.click()
    assert (written.read_bytes()[:5], asked) == (b"<?xml", [])
    written.write_bytes(b"mine")
    dialog.save_button.click()
    assert written.read_bytes() == b"mine"
    assert len(asked) == 1
    assert "fig 1.2.svg exists already" in asked[0]
    typed["to"] = str(tmp_path / "other.png")  # the system's dialog has asked for this one
    dialog.save_button.click()
    assert (tmp_path / "other.png").read_bytes()[1:4] == b"PNG"


def test_that_a_lab_and_an_answer_name_their_files():
    for title in ("Kernel regression", "Head roles"):
        assert suggested_name(LabFigure(title=title)) == f"lab-{title.lower().replace(' ', '-')}.svg"
