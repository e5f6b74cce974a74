"""Choosing a folder to save in: a new one is made, an older model only after asking, other things never."""

import os
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QLineEdit, QMessageBox, QPushButton, QWidget
from session_samples import Desk
from test_export_dialog import commands

from attnscope import paths
from attnscope.files import replace_folder
from attnscope.records import SaveModel
from attnscope.viewmodels.training import existing_folder, find_folder
from attnscope.widgets import FolderDialog, ask_new_folder

pytestmark = pytest.mark.qt


def save_model(folder: Path) -> None:
    replace_folder(folder, lambda place: (place / "config.json").write_text("{}") and None)


def shown(qtbot, suggested: Path, purpose="model") -> FolderDialog:
    dialog = FolderDialog("Save model as", str(suggested), purpose)
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def answer_question(button: str) -> None:
    """Press a button of the question that is asked next."""

    def press() -> None:
        box = QApplication.activeModalWidget()
        assert isinstance(box, QMessageBox)
        next(one for one in box.buttons() if one.text().replace("&", "") == button).click()

    QTimer.singleShot(0, press)


def test_that_a_name_that_does_not_exist_yet_can_be_saved_under(qtbot, tmp_path):
    dialog = shown(qtbot, tmp_path / "models" / "grammar")
    assert dialog.save_button.isEnabled()
    assert dialog.told.text() == f"A new folder: {tmp_path / 'models' / 'grammar'}"
    dialog.name.setText("smaller")
    qtbot.keyClick(dialog.name, Qt.Key.Key_Return)
    assert dialog.result() == QDialog.DialogCode.Accepted
    assert dialog.found.path == str(tmp_path / "models" / "smaller")
    save_model(Path(dialog.found.path))  # the engine makes the folder, and the one above it


def test_that_asking_gives_the_folder_that_was_named(qtbot, tmp_path):
    def name_it() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, FolderDialog)
        dialog.name.setText("chosen")
        dialog.save_button.click()

    parent = QWidget()
    qtbot.addWidget(parent)
    QTimer.singleShot(0, name_it)
    assert ask_new_folder(parent, "Save", str(tmp_path / "suggested")) == str(tmp_path / "chosen")
    QTimer.singleShot(0, lambda: QApplication.activeModalWidget().reject())
    assert ask_new_folder(parent, "Save", str(tmp_path / "suggested")) == ""


@pytest.mark.parametrize("place", ["", "there", "not there", "not there/nor there"])
def test_that_qts_own_dialog_lets_the_folder_it_opens_on_be_chosen(qtbot, tmp_path, place):
    (tmp_path / "there").mkdir()
    dialog = shown(qtbot, tmp_path / place / "model")
    offered = []

    def choose() -> None:
        asked = QApplication.activeModalWidget()
        assert isinstance(asked, QFileDialog)
        (button,) = (b for b in asked.findChildren(QPushButton) if "Choose" in b.text())
        offered.append(button.isEnabled())
        asked.accept() if button.isEnabled() else asked.reject()

    QTimer.singleShot(0, choose)
    with_qts_own = QApplication.testAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    try:
        (browse,) = (b for b in dialog.findChildren(QPushButton) if "Browse" in b.text())
        browse.click()
    finally:
        QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs, with_qts_own)
    assert offered == [True]
    assert dialog.place.text() == str(tmp_path / place if place == "there" else tmp_path)


@pytest.mark.parametrize("typed", ["\0", "x" * 5_000, "~nobody-of-this-name/x", "\ud800"])
def test_that_asking_for_a_folder_begins_somewhere_whatever_was_typed(typed, tmp_path):
    assert existing_folder(typed).is_dir()
    assert existing_folder(str(tmp_path / typed)).is_dir()


def test_that_an_older_model_is_replaced_only_when_a_person_says_so(qtbot, tmp_path):
    save_model(tmp_path / "old")
    dialog = shown(qtbot, tmp_path / "old")
    assert dialog.told.text() == "It contains a model saved by AttnScope. Saving replaces it."
    answer_question("Cancel")
    dialog.accept()
    assert dialog.isVisible()
    answer_question("Replace")
    dialog.accept()
    assert dialog.result() == QDialog.DialogCode.Accepted


@pytest.mark.parametrize("purpose", ["model", "run", "runs"])
def test_that_what_attnscope_did_not_save_is_refused_in_words(qtbot, tmp_path, purpose):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    dialog = shown(qtbot, tmp_path / "mine", purpose)
    assert not dialog.save_button.isEnabled()
    assert dialog.told.property("role") == "error"
    assert ("'thesis.tex'" if purpose == "model" else "contains no AttnScope run") in dialog.told.text()
    qtbot.keyClick(dialog.name, Qt.Key.Key_Return)
    assert dialog.isVisible()


def test_that_foreign_content_that_came_meanwhile_is_seen(qtbot, tmp_path):
    dialog = shown(qtbot, tmp_path / "new")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "thesis.tex").write_text("years of work")
    dialog.accept()
    assert dialog.isVisible()
    assert not dialog.found.is_possible


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "Give the folder a name."),
        ("..", "cannot contain"),
        ("a/b", "cannot contain"),
        ("n" * 300, "No such folder can be made"),
        ("a\0b", "cannot contain the character U+0000"),
        ("a\nb", "cannot contain the character U+000A"),
        ("\ud83d", "cannot contain the character U+D83D"),
    ],
)
def test_that_an_impossible_name_is_told(tmp_path, name, words):
    found = find_folder(str(tmp_path), name, "model")
    assert not found.is_possible
    assert words in found.words


def test_that_a_file_or_a_closed_place_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    assert "is a file" in find_folder(str(tmp_path), "file", "model").words
    assert "No folder can be made" in find_folder(str(tmp_path / "file" / "in"), "new", "model").words
    if os.geteuid():  # nothing is closed to root
        (tmp_path / "closed").mkdir(mode=0o500)
        assert not find_folder(str(tmp_path / "closed"), "new", "model").is_possible


def test_that_runs_are_gone_on_with_and_not_replaced(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("")
    found = find_folder(str(tmp_path), "run", "run")
    assert (found.is_possible, found.is_replaced) == (True, False)
    assert "will be continued" in found.words
    assert find_folder(str(tmp_path.parent), tmp_path.name, "runs").words.startswith("It contains runs")


def test_that_a_model_goes_among_the_persons_documents_under_a_name_that_is_free(qtbot):
    asked: list[str] = []
    parent, desk = QWidget(), Desk().open()
    qtbot.addWidget(parent)
    intents = commands(desk, parent, [], [], lambda _parent, _title, start: asked.append(start) or start)
    name = desk.session.model.name
    intents.save_model()
    assert asked == [str(paths.documents_folder() / name)]
    assert [type(one) for one in desk.posted] == [SaveModel]
    save_model(Path(asked[0]))
    intents.save_model()
    assert asked[1] == str(paths.documents_folder() / f"{name}-2")


def test_that_the_name_is_ready_to_be_typed_over(qtbot, tmp_path):
    dialog = shown(qtbot, tmp_path / "suggested")
    assert isinstance(dialog.name, QLineEdit)
    assert dialog.name.selectedText() == "suggested"
    assert [b.text() for b in dialog.findChildren(QPushButton) if b.isDefault()] == ["Save"]
