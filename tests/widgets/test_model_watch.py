"""F8: files that change after a model was opened change nothing that is shown, and the person is told."""

from dataclasses import replace
from pathlib import Path

import pytest
from session_samples import Desk, info

from attnscope.records import ModelLoaded
from attnscope.widgets.window import ModelWatch, stamp_of
from attnscope.widgets.window import main_window as model_watch

pytestmark = pytest.mark.qt


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "model.safetensors").write_bytes(b"old weights")
    return made


def opened(desk: Desk, folder: Path) -> None:
    desk.session.opening.load(str(folder))
    number = desk.posted[-1].number
    desk.session.handle(ModelLoaded(number=number, info=replace(info(), source=str(folder))))


def test_that_f8_changed_weights_are_told_with_a_way_to_read_them_again(qtbot, monkeypatch, folder):
    monkeypatch.setattr(model_watch, "SETTLE_MS", 1)
    desk = Desk()
    from PySide6.QtWidgets import QWidget

    owner = QWidget()
    qtbot.addWidget(owner)
    ModelWatch(desk.session, owner)
    opened(desk, folder)
    assert desk.session.notices.shown is None
    (folder / "model.safetensors").write_bytes(b"new and longer weights")
    qtbot.waitUntil(lambda: desk.session.notices.shown is not None, timeout=5000)
    assert "have changed" in desk.session.notices.shown.message
    assert desk.session.notices.shown.action == "reload-model"


def test_that_a_stamp_is_of_the_weights_only(folder):
    before = stamp_of(folder)
    (folder / "notes.txt").write_text("nothing of the model")
    assert stamp_of(folder) == before
    assert stamp_of(None) == ()
    assert stamp_of(folder / "not there") == ()
