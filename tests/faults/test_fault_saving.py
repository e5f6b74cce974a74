"""Every save is old-or-new: F37, F38, F39, F13 and contract R2."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_models import tiny_model

from attnscope import files
from attnscope.errors import LoadError, SaveError
from attnscope.models import load


def _leftovers(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name.startswith(files.TEMPORARY_PREFIX)]


def test_that_a_saved_file_has_the_new_content_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    files.replace_file(path, b"old")
    files.replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert _leftovers(tmp_path) == []


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_that_a_disk_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """F38: no space left; the old file stays, the message says why."""
    path = tmp_path / "f.json"
    files.replace_file(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(SaveError, match=r"f\.json could not be written: No space left on device"):
        files.replace_file(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert _leftovers(tmp_path) == []


def test_that_saving_into_a_folder_that_is_gone_is_one_clear_error(tmp_path: Path) -> None:
    """F39, F57."""
    with pytest.raises(SaveError, match="No such file or directory"):
        files.replace_file(tmp_path / "gone" / "f.json", b"new")


def test_that_a_folder_that_cannot_be_filled_leaves_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    files.replace_folder(folder, lambda new: (new / "a").write_text("old") and None)

    def fail(new: Path) -> None:
        (new / "a").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(SaveError, match="No space left"):
        files.replace_folder(folder, fail)
    assert (folder / "a").read_text() == "old"
    assert _leftovers(tmp_path) == []
    files.check_manifest(folder)


def test_that_a_full_disk_is_told_of_the_folder_and_not_of_the_file_that_was_to_be_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SaveError) as caught:
        files.replace_folder(tmp_path / "model", lambda new: files.replace_file(new / "weights", b"new"))
    assert str(caught.value).startswith(
        f"{tmp_path / 'model'} could not be written: No space left on device."
    )
    assert os.listdir(tmp_path) == []


def test_that_a_kill_at_any_moment_leaves_old_or_new(tmp_path: Path) -> None:
    """F37: kill -9 while a folder is replaced again and again."""
    folder = tmp_path / "model"
    code = (
        "import sys; from pathlib import Path; from attnscope import files\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    content = bytes([n % 256]) * 50000\n"
        "    files.replace_folder(Path(sys.argv[1]), lambda new: (new / 'a').write_bytes(content))\n"
        "    if n == 1: print('ready', flush=True)\n"
    )
    for delay_ms in (1, 7, 23, 41):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        files.recover_folder(folder)
        files.check_manifest(folder)
        content = (folder / "a").read_bytes()
        assert len(content) == 50000
        assert len(set(content)) == 1


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda f: (f / "a").write_bytes(b"ol"), "truncated"),
        (lambda f: (f / "a").write_bytes(b"older"), "changed"),
        (lambda f: (f / "a").write_bytes(b"odd"), "changed"),
        (lambda f: (f / "a").unlink(), "missing"),
        (lambda f: (f / "manifest.json").write_text("{"), "manifest"),
        (lambda f: (f / "manifest.json").write_text("[]"), "manifest"),
        (lambda f: (f / "manifest.json").write_text('{"../../x": {"n_bytes": 1, "sha256": ""}}'), "missing"),
    ],
)
def test_that_a_folder_that_changed_since_it_was_saved_is_refused(
    tmp_path: Path, damage: object, kind: str
) -> None:
    """F13: flipped, cut or missing files are found by size and hash."""
    folder = tmp_path / "model"
    files.replace_folder(folder, lambda new: (new / "a").write_text("old") and None)
    assert json.loads((folder / "manifest.json").read_text())["a"]["n_bytes"] == 3
    damage(folder)  # type: ignore[operator]
    with pytest.raises(LoadError) as caught:
        files.check_manifest(folder)
    assert caught.value.kind == kind


def test_that_stale_leftovers_are_swept_and_fresh_ones_are_not(tmp_path: Path) -> None:
    old = tmp_path / f"{files.TEMPORARY_PREFIX}old"
    old.mkdir()
    (tmp_path / f"{files.TEMPORARY_PREFIX}fresh").write_text("")
    os.utime(old, (time.time() - 7200,) * 2)
    assert files.sweep_temporary(tmp_path) == 1
    assert _leftovers(tmp_path) == [f"{files.TEMPORARY_PREFIX}fresh"]
    assert files.sweep_temporary(tmp_path / "absent") == 0


def test_that_a_folder_moved_aside_by_a_killed_save_is_put_back(tmp_path: Path) -> None:
    """F37: killed between the two moves of a replacement."""
    folder = tmp_path / "model"
    files.replace_folder(folder, lambda new: (new / "a").write_text("old") and None)
    aside = tmp_path / f"{files.TEMPORARY_PREFIX}old-model"
    folder.rename(aside)
    os.utime(aside, (time.time() - 7200,) * 2)
    assert files.sweep_temporary(tmp_path) == 0
    assert (folder / "a").read_text() == "old"
    assert not files.recover_folder(folder)


@pytest.mark.parametrize("kind", ["a file", "a folder of others", "a model with a note beside it"])
def test_that_saving_a_folder_takes_nothing_away_that_was_not_saved_there(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "precious"
    if kind == "a file":
        place.write_text("a thesis")
    else:
        place.mkdir()
        if kind.startswith("a model"):
            tiny_model("decoder").save(place)
        (place / "notes.txt").write_text("a thesis")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(SaveError, match="nothing was written"):
        tiny_model("decoder").save(place)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_that_an_empty_folder_and_an_older_save_are_replaced(tmp_path: Path) -> None:
    place = tmp_path / "model"
    place.mkdir()
    tiny_model("decoder").save(place)
    tiny_model("decoder").save(place)
    assert load(place, "cpu").info.form == "decoder"
