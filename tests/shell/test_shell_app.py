"""The whole program in this process: opened, typed into, trained in, closed."""

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtCore import qCritical
from PySide6.QtWidgets import QDialog
from pytestqt.qtbot import QtBot

from attnscope import paths
from attnscope.app import Program, first_demo
from attnscope.crash import CrashLog
from attnscope.lifetime import QtMessages, choose_settings
from attnscope.settings import Settings, StartOptions, read_settings, write_settings

pytestmark = [pytest.mark.qt, pytest.mark.slow]

RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 24

[data]
kind = "task"
task = "copy"
n_examples = 60

[objective]
kind = "translation"

[training]
n_steps = 100000
batch_size = 2
evaluate_every = 100000
save_every = 100000
"""


@pytest.fixture
def program(qtbot: QtBot, tiny_model: str, tmp_path: Path) -> Iterator[Program]:
    opened = Program(
        settings=Settings(device="cpu"),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(source=tiny_model),
    )
    opened.show()
    qtbot.waitUntil(lambda: is_settled(opened), timeout=60_000)
    yield opened
    opened.close()
    opened.window.deleteLater()
    opened.deleteLater()


def is_settled(program: Program) -> bool:
    session = program.session
    return session.traced is not None and not session.tracing.is_stale and not session.tracing.is_writing


def test_that_the_window_is_painted_before_the_engine_is_there_and_then_a_sample_is_traced(
    program: Program,
) -> None:
    times = program.milestones
    assert times["painted"] < times["ready"] < times["loaded"] <= times["traced"]
    traced = program.session.traced
    assert traced is not None
    assert traced.text == program.session.text != ""
    assert traced.check.is_good


def test_that_heads_are_measured_while_the_person_wants_nothing_and_their_page_opens_filled(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.workers.mailbox.IDLE_S", 0.0)
    imported: dict[str, str] = {}
    import_module = importlib.import_module

    def note_thread(name: str, package: str | None = None) -> ModuleType:
        imported[name] = threading.current_thread().name
        return import_module(name, package)

    monkeypatch.setattr(importlib, "import_module", note_thread)
    opened = Program(
        settings=Settings(device="cpu"),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(source="grammar"),
        is_remembering=False,
        is_measuring=True,
    )
    opened.show()
    qtbot.waitUntil(lambda: opened.heads.phase == "done", timeout=60_000)
    session = opened.session
    assert is_settled(opened)
    assert session.roles
    session.select_heads((next(iter(session.roles)),))
    line = opened.window.pages.explore.inspector.line
    assert line.text().startswith(session.roles[session.primary])
    opened.window.view.show_page("heads")
    assert opened.heads.phase == "done"
    assert opened.window.pages.heads.table.model().rowCount() == len(opened.heads.order.rows) > 0
    opened.close()
    opened.window.deleteLater()
    opened.deleteLater()


def test_that_typing_traces_the_newest_text_only(program: Program, qtbot: QtBot) -> None:
    for text in ("the", "the cat", "the cat sat"):
        program.session.texts.set_text(text)
    qtbot.waitUntil(lambda: is_settled(program), timeout=30_000)
    traced = program.session.traced
    assert traced is not None
    assert traced.text == "the cat sat"


def test_that_a_model_that_cannot_be_opened_leaves_the_session_and_says_so(
    program: Program, qtbot: QtBot
) -> None:
    model, traced = program.session.model, program.session.traced
    program.session.opening.load("nowhere/at/all")
    qtbot.waitUntil(lambda: program.session.notices.shown is not None, timeout=30_000)
    assert program.session.notices.shown is not None
    assert program.session.notices.shown.is_error
    assert program.session.notices.shown.crash_log == ""
    assert program.session.model is model
    assert program.session.traced is traced


def test_that_f40_closing_while_training_saves_the_run_and_ends_the_worker(
    program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    program.training.recipe.take(RECIPE)
    program.training.place.choose(str(out))
    program.training.place.set_device("cpu")
    program.training.start()
    qtbot.waitUntil(lambda: program.training.run.step > 3, timeout=60_000)
    with qtbot.waitSignal(program.ended, timeout=10_000):
        program.close()
    assert not program.worker.isRunning()
    steps = [int(folder.name) for folder in (out / "checkpoints").iterdir() if folder.name.isdigit()]
    assert max(steps) > 3


def test_that_closing_remembers_the_layout_and_the_model(program: Program, qtbot: QtBot) -> None:
    program.window.resize(1100, 700)
    program.window.view.set_theme("dark")
    with qtbot.waitSignal(program.ended, timeout=10_000):
        program.close()
    remembered = read_settings(paths.settings_folder())
    assert remembered.warning == ""
    assert remembered.settings.theme == "dark"
    assert remembered.settings.geometry is not None
    assert remembered.settings.geometry[2:] == (1100, 700)
    assert program.session.model is not None
    assert remembered.settings.recent == (program.session.model.source,)


def test_that_ending_twice_is_ending_once(program: Program) -> None:
    n_ended: list[int] = []
    program.ended.connect(lambda: n_ended.append(1))
    program.end()
    program.end()
    assert len(n_ended) == 1


def test_that_a_fault_told_from_anywhere_becomes_a_banner(program: Program, qtbot: QtBot) -> None:
    program.tell_fault("A fault in AttnScope (test).")
    qtbot.waitUntil(lambda: program.session.notices.shown is not None, timeout=5_000)
    assert program.session.notices.shown is not None
    assert "A fault in AttnScope" in program.session.notices.shown.message


def test_that_a_critical_message_of_qt_is_logged_and_told(qtbot: QtBot, tmp_path: Path) -> None:
    told: list[str] = []
    messages = QtMessages(CrashLog(tmp_path), told.append)
    messages.install()
    try:
        qCritical("the painter is not active")
    finally:
        messages.remove()
    assert "the painter is not active" in told[0]
    assert len(list(tmp_path.glob("crash-*.log"))) == 1


def test_that_the_preferred_demo_is_opened_first_and_any_other_if_it_is_missing() -> None:
    assert first_demo(("a", "english-french", "grammar")) == "english-french"
    assert first_demo(("a", "b")) == "a"
    assert first_demo(()) == ""


def test_that_safe_mode_neither_reads_nor_keeps_settings_and_reset_starts_afresh() -> None:
    write_settings(Settings(theme="dark"), paths.settings_folder())
    assert choose_settings(StartOptions(is_safe_mode=True)).settings == Settings()
    assert choose_settings(StartOptions()).settings.theme == "dark"
    assert choose_settings(StartOptions(device="cpu")).settings.device == "cpu"
    assert choose_settings(StartOptions(is_reset=True)).settings == Settings()
    assert choose_settings(StartOptions()).settings == Settings()


def test_that_a_session_file_opens_with_its_model_text_and_gates(
    program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    session = program.session
    session.texts.set_text("the cat")
    session.head_changes.toggle_gate(session.model.sites[0].heads[0])
    wanted = session.setting
    program.window.workspace.files.save_to(tmp_path / "a.attnscope")
    again = Program(
        settings=Settings(device="cpu"),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(source=str(tmp_path / "a.attnscope")),
        is_remembering=False,
    )
    again.show()
    qtbot.waitUntil(lambda: again.session.setting.gates == wanted.gates and is_settled(again), timeout=60_000)
    assert again.session.text == "the cat"
    again.close()
    again.window.deleteLater()
    again.deleteLater()


def test_that_a_window_opens_what_it_is_handed_even_behind_a_dialog(
    program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    session = program.session
    session.texts.set_text("the cat")
    program.window.workspace.files.save_to(tmp_path / "a.attnscope")
    session.texts.set_text("on the mat")
    qtbot.waitUntil(lambda: is_settled(program), timeout=60_000)
    dialog = QDialog(program.window, modal=True)
    dialog.show()
    program.window.showMinimized()
    program.take_source(str(tmp_path / "a.attnscope"))
    assert not program.window.isMinimized()
    assert session.text == "on the mat"
    dialog.close()
    dialog.deleteLater()
    qtbot.waitUntil(lambda: session.text == "the cat" and is_settled(program), timeout=60_000)
    program.take_source("no such model")
    qtbot.waitUntil(
        lambda: session.notices.shown is not None and session.notices.shown.is_error, timeout=60_000
    )
    assert "no such model" in session.notices.shown.message
