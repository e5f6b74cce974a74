"""A file from a stranger that names a model on the Hub reads the network for nobody."""

import json
from pathlib import Path

import pytest
from session_samples import Desk, info, states_of

from attnscope.cli.main import main
from attnscope.errors import LoadError
from attnscope.models import open_named
from attnscope.models.huggingface import library
from attnscope.records import Failed, LoadModel, ShelfRow, ShelfShown, ShowShelf, on_this_machine, unlisted
from attnscope.settings import Settings
from attnscope.viewmodels.session import SavedSession, Setting, read_session, session_bytes
from attnscope.widgets.window import MainWindow, ShelfDialog

_FIGURE = {"format": 1, "holds": "question", "model": {"source": "hf:owner/name"}, "text": "a text"}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Path:
        raise AssertionError(f"asked the Hub for {name}")

    monkeypatch.setattr(library, "download", refuse)


@pytest.mark.parametrize("source", ["hf:owner/name", "hf: owner/name", "hf:hf:owner/name", "owner/name"])
def test_that_a_name_from_a_file_is_looked_for_on_this_machine_alone(source: str) -> None:
    assert on_this_machine(source) == "owner/name"
    with pytest.raises(LoadError):
        open_named(source, "cpu")


def test_that_a_refusal_names_the_command_that_downloads() -> None:
    with pytest.raises(LoadError, match="Run attnscope get owner/name"):
        open_named("hf:owner/name", "cpu")
    with pytest.raises(LoadError) as caught:
        open_named("hf:name; rm -r ~", "cpu")
    assert "Run" not in str(caught.value), "a stranger's words are not offered as a command"


@pytest.mark.qt
def test_that_a_figure_file_downloads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], qapp: object
) -> None:
    path = tmp_path / "a.figure.json"
    path.write_text(json.dumps(_FIGURE))
    assert main(["figure", str(path), "-o", str(tmp_path / "a.svg")]) == 2
    assert "Run attnscope get owner/name" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.figure.json"]


@pytest.mark.qt
@pytest.mark.parametrize("kind", ["session", "figure"])
def test_that_the_window_asks_before_it_downloads(qtbot, tmp_path: Path, kind: str) -> None:
    desk = Desk().open()
    asked: list[object] = []
    states = states_of(desk.session, downloads=asked.append)
    window = MainWindow(states, Settings(theme="light"))
    qtbot.addWidget(window)
    path = tmp_path / ("a.attnscope" if kind == "session" else "a.figure.json")
    saved = SavedSession(source="hf:owner/name", model="name", setting=Setting(text="a text"))
    path.write_bytes(session_bytes(saved) if kind == "session" else json.dumps(_FIGURE).encode())
    desk.posted.clear()
    window.workspace.files.open_path(str(path))
    (request,) = (r for r in desk.posted if isinstance(r, LoadModel))
    assert request.source == "owner/name", "what is on this machine alone"
    desk.posted.clear()
    desk.session.handle(Failed(number=request.number, request="LoadModel", message="There is no such model."))
    assert "owner/name" in window.banner.message
    assert "Nothing was downloaded" in window.banner.message
    assert window.banner._help.text() == "Download…"
    window.banner._help.click()
    assert [type(request) for request in asked] == [ShowShelf], "the shelf is shown, and nobody asked yet"
    assert not any(isinstance(r, LoadModel) for r in desk.posted)
    (dialog,) = window.findChildren(ShelfDialog)
    assert dialog.title.full_text() == "owner/name"
    entry = unlisted("owner/name")
    row = ShelfRow(entry=entry, place="cache", source="owner/name", n_bytes=5)
    states.shelf.handle(ShelfShown(number=asked[0].number, rows=(row,), host="hub.example"))
    dialog.main_button.click()
    (request,) = (r for r in desk.posted if isinstance(r, LoadModel))
    assert request.source == "owner/name", "what has come is opened, and the session with it"
    desk.answer()
    qtbot.waitUntil(lambda: desk.session.text == "a text", timeout=2000)


def test_that_the_sides_of_a_comparison_are_not_downloaded(tmp_path: Path) -> None:
    content = json.loads(session_bytes(SavedSession(source="tiny", setting=Setting(text="a"))))
    content["compare"]["B"] = {"model": "hf:owner/name", "text": None, "target": None, "changes": "untouched"}
    path = tmp_path / "a.attnscope"
    path.write_text(json.dumps(content))
    assert read_session(path).setting.compared.second.model == "owner/name"
    assert info().source
