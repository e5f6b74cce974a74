"""A long text from a file, through the real window and both threads."""

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.cli.main import main
from attnscope.crash import CrashLog
from attnscope.settings import Settings, StartOptions
from attnscope.viewmodels.maps import MapTiles
from bench.long_model import long_text, write_long_model

N_WORDS = 1_600


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("long")
    text = folder / "long.txt"
    text.write_text(long_text(N_WORDS), encoding="utf-8")
    return write_long_model(folder / "model", n_layers=1, d_model=16), text


def is_exact(tiles: MapTiles) -> bool:
    return tiles.best is not None and not tiles.best.is_sampled and not tiles.is_stale


@pytest.mark.qt
def test_that_a_long_text_from_a_file_is_shown_zoomed_and_read(
    qtbot: QtBot, files: tuple[Path, Path], tmp_path: Path
) -> None:
    model, text = files
    program = Program(
        settings=Settings(),
        crash_log=CrashLog(tmp_path),
        options=StartOptions(source=str(model)),
        is_remembering=False,
    )
    qtbot.addWidget(program.window)
    program.show()
    session, tiles = program.session, program.states.map_tiles
    try:
        qtbot.waitUntil(lambda: session.model is not None, timeout=30_000)
        session.texts.open_file(str(text))
        qtbot.waitUntil(lambda: tiles.shown is not None and is_exact(tiles), timeout=30_000)
        panel = program.window.pages.explore.head_panel
        assert panel.street_map is not None
        assert panel.street_map.isVisible()
        assert session.maps.of(session.primary) is None, "no map of so many cells is ever held"
        assert program.window.pages.explore.text_bar.text_edit.text() == ""
        assert "long.txt" in program.window.pages.explore.text_bar.text_edit.placeholderText()
        tiles.zoom(1e6, 50, 50)
        qtbot.waitUntil(lambda: tiles.best is not None and tiles.best.is_exact, timeout=10_000)
        assert tiles.window is not None
        tiles.point_at((tiles.window.rows[0], tiles.window.cols[0]))
        assert tiles.reading is not None
        program.window.view.show_view("lines")
        qtbot.waitUntil(lambda: bool(tiles.lines.maps), timeout=10_000)
        assert {"head", "grid", "lines"} <= set(program.window.offered_figures())
        session.texts.open_file(str(text.with_name("gone.txt")))
        qtbot.waitUntil(lambda: session.notices.shown is not None, timeout=10_000)
        assert tiles.shown is not None, "what was shown stays"
        session.texts.set_text("the king of the north")
        qtbot.waitUntil(lambda: tiles.shown is None, timeout=10_000)
        assert session.texts.names, "the file's name is kept for undo"
    finally:
        program.close()


@pytest.mark.qt
def test_that_the_command_line_reads_a_file_and_draws_its_long_map(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = files
    out = tmp_path / "map.svg"
    heads = ["--view", "head", "--layer", "0", "--head", "1"]
    assert main(["figure", str(model), "-f", str(text), *heads, "-o", str(out)]) == 0
    assert "max over 2×2 cells" in out.read_text(encoding="utf-8")
    assert main(["trace", str(model), "-f", str(text), "-o", str(tmp_path / "x.npz")]) == 2
    assert "cell by cell" in capsys.readouterr().err
    assert main(["trace", str(model), "-f", str(text), "-o", str(tmp_path / "x.safetensors")]) == 0
