"""One session file in two programs: neither writes over what the other saved without asking."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from session_samples import Desk, ref

from attnscope.viewmodels import ViewState
from attnscope.viewmodels.session import LookSaved, Recents, read_session
from attnscope.widgets.window import Answer, SessionFiles

pytestmark = pytest.mark.qt


class Places:
    look = LookSaved()

    def show_look(self, look: LookSaved) -> None: ...


class Program:
    """A session with its files; what is asked is remembered and answered with `answer`."""

    def __init__(self, qtbot: QtBot) -> None:
        self.desk, self.warnings = Desk().open(), list[str]()
        self.answer: Answer = "cancel"
        window = QWidget()
        qtbot.addWidget(window)
        self.files = SessionFiles(
            self.desk.session, ViewState(), Recents(), Places(), window, open_run=lambda _path: None
        )
        self.files.ask_overwrite = self.ask

    def ask(self, _parent: QWidget, warning: str) -> Answer:
        self.warnings.append(warning)
        return self.answer

    def note(self, text: str) -> None:
        self.files.kept.write_notes(text)


def notes_in(path: Path) -> str:
    return read_session(path).notes


def test_that_a_file_saved_by_another_program_is_not_overwritten_silently(
    qtbot: QtBot, tmp_path: Path
) -> None:
    first, second = Program(qtbot), Program(qtbot)
    path = tmp_path / "talk.attnscope"
    first.files.save_to(path)
    second.files.open_session(path)
    second.note("of the second")
    second.files.save_to(path)
    assert second.warnings == []  # nobody had written it in between
    first.note("of the first")
    first.files.save_to(path)
    assert len(first.warnings) == 1
    assert "talk.attnscope has changed on disk" in first.warnings[0]
    assert notes_in(path) == "of the second"
    first.answer = "elsewhere"
    first.files.ask_save = lambda *_: str(tmp_path / "mine.attnscope")
    first.files.save_to(path)
    assert notes_in(path) == "of the second"
    assert notes_in(tmp_path / "mine.attnscope") == "of the first"
    first.files.save_to(tmp_path / "mine.attnscope")
    assert len(first.warnings) == 2  # its own file by now: nothing is asked


def test_that_overwriting_is_done_where_it_is_chosen_and_asked_only_once(
    qtbot: QtBot, tmp_path: Path
) -> None:
    first, second = Program(qtbot), Program(qtbot)
    path = tmp_path / "talk.attnscope"
    first.files.save_to(path)
    second.desk.session.head_changes.toggle_gate(ref(0, 1))
    second.files.open_session(tmp_path / "." / "talk.attnscope")
    second.note("of the second")
    second.files.save_to(path)
    first.answer = "overwrite"
    first.note("of the first")
    first.files.save_to(path)
    assert notes_in(path) == "of the first"
    first.files.save_to(path)
    assert len(first.warnings) == 1
    path.unlink()
    first.files.save_to(path)  # gone: nothing to lose
    assert len(first.warnings) == 1
    assert notes_in(path) == "of the first"
