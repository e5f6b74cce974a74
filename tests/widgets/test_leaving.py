"""Closing the window over a training: it asks, saves, and closes; what was left is offered the next time."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QMessageBox, QWidget
from pytestqt.qtbot import QtBot

sys.path.append(str(Path(__file__).parents[1] / "viewmodels"))
from test_sweeping import Desk
from training_fakes import started, steps

from attnscope import paths
from attnscope.app import Leaving, ask_to_leave, bring_draft_back, keep_draft
from attnscope.records import (
    ControlTraining,
    Finished,
    SaveFailed,
    StartTraining,
    TrainingEvent,
    TrainingNews,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.session import Recents
from attnscope.viewmodels.training import SweepWish, TrainingState
from attnscope.widgets.training import LastRunButton, RunPanel

pytestmark = pytest.mark.qt


class Window(QWidget):
    """Closes as the program's window does."""

    may_close: Callable[[], bool]

    def closeEvent(self, event: QCloseEvent) -> None:
        event.setAccepted(self.may_close())


class Room(Desk):
    """A window over a training and a sweep; `answers` are what the person says when asked."""

    def __init__(self, qtbot: QtBot, folder: Path) -> None:
        super().__init__(folder)
        self.window = Window()
        qtbot.addWidget(self.window)
        self.training = self.state.training
        self.leaving = Leaving(self.training, self.state, self.window)
        self.window.may_close = self.leaving.may_close
        self.asked: list[str] = []
        self.answer = True
        self.leaving.ask = self.ask
        self.window.show()

    def ask(self, _parent: QWidget, what: str) -> bool:
        self.asked.append(what)
        return self.answer

    def train(self, *events: TrainingEvent) -> None:
        if not self.training.run.is_active:
            self.training.place.choose(str(self.out))
            self.training.start()
        number = next(r.number for r in self.posted if isinstance(r, StartTraining))
        self.training.handle(TrainingNews(number=number, events=events, is_paused=False))

    @property
    def stops(self) -> int:
        return sum(isinstance(r, ControlTraining) and r.action == "stop" for r in self.posted)


@pytest.fixture
def room(qtbot: QtBot, tmp_path: Path) -> Room:
    return Room(qtbot, tmp_path)


def test_that_a_window_without_a_training_closes_unasked(room: Room) -> None:
    assert room.window.close()
    assert room.asked == []


def test_that_a_window_over_a_training_asks_saves_and_then_closes(room: Room, qtbot: QtBot) -> None:
    room.train(started(n_steps=1000), *steps(1, 7))
    room.answer = False
    assert not room.window.close()
    assert (room.window.isVisible(), room.stops) == (True, 0)
    assert "7 of 1,000 steps" in room.asked[0]
    room.answer = True
    assert not room.window.close()
    assert (room.window.isVisible(), room.stops) == (True, 1)
    room.train(*steps(8, 8), Finished(step=8, reason="stopped"))
    qtbot.waitUntil(lambda: not room.window.isVisible())
    assert len(room.asked) == 2


def test_that_a_window_stays_where_the_run_could_not_be_saved(room: Room, qtbot: QtBot) -> None:
    room.train(started(n_steps=1000), *steps(1, 7))
    assert not room.window.close()
    room.train(SaveFailed(step=8, reason="full"), Finished(step=8, reason="stopped", note="not saved"))
    qtbot.wait(1)
    assert room.window.isVisible()
    assert room.window.close()


def test_that_a_run_that_is_just_beginning_is_stopped_once_it_has(room: Room, qtbot: QtBot) -> None:
    room.training.place.choose(str(room.out))
    room.training.start()
    assert not room.window.close()
    assert room.stops == 0
    room.train(started(n_steps=1000))
    assert room.stops == 1
    room.train(Finished(step=0, reason="stopped"))
    qtbot.waitUntil(lambda: not room.window.isVisible())


def test_that_who_closes_again_while_it_is_saved_waits_no_longer(room: Room) -> None:
    room.train(started(n_steps=1000), *steps(1, 7))
    assert not room.window.close()
    assert room.window.close()
    assert len(room.asked) == 1


def test_that_nobody_is_asked_at_a_signal(room: Room) -> None:
    room.train(started(n_steps=1000))
    room.leaving.is_asked = False
    assert room.window.close()
    assert room.asked == []


def test_that_several_runs_are_saved_as_well(room: Room, qtbot: QtBot) -> None:
    room.state.start(SweepWish(seeds="2", out=str(room.out)))
    assert not room.window.close()
    assert "Several runs" in room.asked[0]
    assert room.child.stdin.closed
    room.child.code = 130
    room.state.tick()
    qtbot.waitUntil(lambda: not room.window.isVisible())


@pytest.mark.parametrize(("name", "is_left"), [("Save and close", True), ("Keep training", False)])
def test_that_the_question_has_two_answers(qtbot: QtBot, name: str, is_left: bool) -> None:
    window = QWidget()
    qtbot.addWidget(window)

    def answer() -> None:
        box = window.findChild(QMessageBox)
        assert box is not None
        assert box.defaultButton().text() == "Keep training"
        qtbot.mouseClick(next(b for b in box.buttons() if b.text() == name), Qt.MouseButton.LeftButton)

    from PySide6.QtCore import QTimer

    QTimer.singleShot(0, window, answer)
    assert ask_to_leave(window, "A model is being trained.") is is_left


def test_that_an_edited_recipe_is_there_at_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("a = 1\n")

    def new_state() -> TrainingState:
        return TrainingState(Requests(lambda _: None))

    first = new_state()
    first.open_recipe(str(file))
    keep_draft(first, tmp_path)
    assert not list(tmp_path.glob("*draft*"))
    first.recipe.edit("a = 2\n")
    keep_draft(first, tmp_path)
    second = new_state()
    bring_draft_back(second, tmp_path)
    assert (second.recipe.text, second.recipe.path, second.recipe.is_changed) == ("a = 2\n", str(file), True)
    second.recipe.revert()
    assert second.recipe.text == "a = 1\n"
    keep_draft(second, tmp_path)
    third = new_state()
    third.take_recipe("b = 1\n", "of a run")
    third.recipe.edit("b = 2\n")
    keep_draft(third, tmp_path)
    fourth = new_state()
    bring_draft_back(fourth, tmp_path)
    assert (fourth.recipe.text, fourth.recipe.name) == ("b = 2\n", "of a run")


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b'{"path": 3}', b'{"path": "x", "origin": "", "texts": {}}', b"\xff"]
)
def test_that_damaged_edits_are_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "recipe-draft.json").write_bytes(content)
    state = TrainingState(Requests(lambda _: None))
    bring_draft_back(state, tmp_path)
    assert state.recipe.text == ""


def test_that_several_runs_that_were_left_are_offered_at_the_next_start(qtbot: QtBot, tmp_path: Path) -> None:
    out = paths.runs_folder() / "reverse-several"
    before = Desk(tmp_path)
    before.state.training.recipe.take('[data]\nkind = "task"\ntask = "reverse"\n')
    wish = SweepWish(values=("model.d_model=16,32",), seeds="4,7", out=str(out))
    before.state.start(wish)
    now = Desk(tmp_path)
    panel = RunPanel(now.state.training, now.state, Recents())
    qtbot.addWidget(panel)
    button = panel.findChild(LastRunButton)
    assert button is not None
    assert button.text() == "Continue several runs: reverse-several"
    with qtbot.waitSignal(button.several_wanted):
        button.click()
    assert now.state.suggested == wish
    assert 'task = "reverse"' in now.state.training.recipe.text
    now.state.start(now.state.suggested)
    assert now.commands[0][-1] == "4,7"
    now.child.code = 0
    now.state.tick()
    assert Desk(tmp_path).state.left == ("", 0.0)
