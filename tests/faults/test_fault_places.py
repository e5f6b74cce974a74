"""What a save does to a place that is no plain file: links, pipes, devices, rights, folders."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tiny_models import tiny_model

from attnscope import files
from attnscope.cli.main import main
from attnscope.errors import LoadError, SaveError
from attnscope.figures import target_of
from attnscope.models import load
from attnscope.records import Failed, FollowRun
from attnscope.workers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and rights as Unix has them")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("is_there", [True, False])
def test_that_a_symbolic_link_stays_and_its_target_gets_the_content(tmp_path: Path, is_there: bool) -> None:
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    target.parent.mkdir()
    if is_there:
        target.write_bytes(b"old")
    link.symlink_to(Path("elsewhere") / "target")
    files.replace_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert [entry.name for entry in target.parent.iterdir()] == ["target"]


def test_that_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(SaveError, match="symbolic links"):
        files.replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("content", [b"longer than it was", b"a"])
def test_that_a_file_with_two_names_has_the_new_content_under_both(tmp_path: Path, content: bytes) -> None:
    path, other = tmp_path / "path", tmp_path / "other"
    path.write_bytes(b"before")
    other.hardlink_to(path)
    files.replace_file(path, content)
    assert other.read_bytes() == path.read_bytes() == content
    assert path.samefile(other)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other", "path"]


def test_that_a_full_disk_leaves_a_file_with_two_names_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "path"
    path.write_bytes(b"before")
    (tmp_path / "other").hardlink_to(path)
    write_through = files._write_through
    written = []

    def fail_second(stream: object, content: bytes) -> None:
        written.append(content)
        write_through(stream, content)  # type: ignore[arg-type]
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write_through", fail_second)
    with pytest.raises(SaveError, match="No space left"):
        files.replace_file(path, b"longer than before")
    assert path.read_bytes() == b"before"


def test_that_a_file_that_belongs_to_another_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shared"
    path.write_bytes(b"old")
    inode = path.stat().st_ino
    monkeypatch.setattr(files, "_keeps_rights", lambda old, new: False)
    files.replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino == inode


def test_that_rights_are_kept_and_new_files_and_folders_follow_the_umask(tmp_path: Path) -> None:
    path, folder = tmp_path / "secret", tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o640)
    old = os.umask(0o077)
    try:
        files.replace_file(path, b"new")
        files.replace_file(tmp_path / "fresh", b"new")
        tiny_model("decoder").save(folder)
    finally:
        os.umask(old)
    assert (_mode(path), _mode(tmp_path / "fresh"), _mode(folder)) == (0o640, 0o600, 0o700)
    (folder / "model.safetensors").chmod(0o640)
    tiny_model("decoder").save(folder)
    assert (_mode(folder), _mode(folder / "model.safetensors")) == (0o700, 0o640)


def test_that_a_file_that_may_not_be_written_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda place, mode: not (mode == os.W_OK and Path(place) == path))
    with pytest.raises(SaveError, match="Permission denied"):
        files.replace_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_that_a_folder_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    link = tmp_path / "link"
    tiny_model("decoder").save(tmp_path / "disk" / "model")
    link.symlink_to(Path("disk") / "model")
    tiny_model("decoder").save(link)
    assert link.is_symlink()
    files.check_manifest(tmp_path / "disk" / "model")


def test_that_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    content, found = b"x" * 300_000, bytearray()

    def read() -> None:
        while piece := os.read(reader, 65_536):
            found.extend(piece)

    thread = threading.Thread(target=read)
    os.set_blocking(reader, False)
    writer = os.open(path, os.O_WRONLY)
    os.set_blocking(reader, True)
    thread.start()
    files.replace_file(path, content)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert bytes(found) == content
    assert path.is_fifo()


def test_that_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SaveError, match="nothing reads from this pipe"):
        files.replace_file(tmp_path / "pipe", b"new")


def test_that_a_full_device_says_so_and_stays_a_device(tmp_path: Path) -> None:
    link = tmp_path / "full.svg"
    link.symlink_to("/dev/full")
    with pytest.raises(SaveError, match="No space left on device"):
        files.replace_file(link, b"new")
    assert link.is_symlink()
    assert Path("/dev/full").is_char_device()
    files.replace_file(Path("/dev/null"), b"new")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("is_piped", [True, False])
def test_that_standard_output_is_written_into_between_the_words(tmp_path: Path, is_piped: bool) -> None:
    code = (
        "from pathlib import Path; from attnscope.files import replace_file\n"
        "print('before'); replace_file(Path('/dev/stdout'), b'content\\n'); print('after')"
    )
    out = tmp_path / "out"
    with out.open("wb") as stream:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE if is_piped else stream,
            check=True,
        )
    told = done.stdout if is_piped else out.read_bytes()
    assert told == b"before\ncontent\nafter\n"


def test_that_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="it is a folder"):
        files.replace_file(tmp_path, b"new")


def test_that_a_figure_is_not_written_beside_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match=r"is a folder.*figure\.svg"):
        target_of(tmp_path)


def test_that_a_figure_for_a_device_keeps_its_name() -> None:
    assert target_of("/dev/stdout") == (Path("/dev/stdout"), "svg")


def test_that_a_link_to_a_model_that_is_gone_is_named_as_one(tmp_path: Path) -> None:
    link = tmp_path / "model"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(LoadError, match=r"model is a link to .*gone, which does not exist\."):
        load(link)


def test_that_a_start_in_a_folder_that_is_gone_is_refused_before_torch_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["info", "grammar"]) == 2
    assert "no longer exists. Change to another folder" in capsys.readouterr().err


def test_that_a_folder_that_may_not_be_looked_into_is_told_and_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As pathlib has it up to Python 3.13; for root no folder is shut."""

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    monkeypatch.setattr(Path, "is_dir", refuse)
    told = "cannot be reached: Permission denied. Expected: a place that you may read and write. "
    assert main(["convert", "stories", "-o", "shut/model"]) == 2
    assert f"shut/model {told}" in capsys.readouterr().err
    crashes: list[object] = []
    (failed,) = Engine(lambda *_: crashes.append(0)).handle(FollowRun(number=1, folder="shut"))
    assert isinstance(failed, Failed)
    assert told in failed.message
    assert not crashes
