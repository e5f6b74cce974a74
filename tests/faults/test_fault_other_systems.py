"""What other systems do differently: files that are in use, and the quotes of their shells."""

import os
import shlex
from pathlib import Path

import pytest

from attnscope.counting import shell_line
from attnscope.errors import SaveError
from attnscope.files import replace_file, replace_folder


class Busy:
    """`os.replace` as Windows has it while another program reads the file: refused `n` times."""

    def __init__(self, n: int, number: int = 32) -> None:
        self.n, self.number, self.replace = n, number, os.replace

    def __call__(self, source: Path, target: Path) -> None:
        self.n -= 1
        if self.n >= 0:
            error = PermissionError(13, "Permission denied")
            error.winerror = self.number  # the attribute that Windows adds
            raise error
        self.replace(source, target)


@pytest.mark.parametrize("number", [5, 32])
def test_that_f39_a_file_in_use_for_a_moment_is_replaced_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    monkeypatch.setattr("attnscope.files._PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(os, "replace", Busy(2, number))
    replace_file(tmp_path / "kept", b"new")
    assert (tmp_path / "kept").read_bytes() == b"new"


@pytest.mark.parametrize(("n", "number"), [(9, 32), (1, 0)])
def test_that_f39_a_file_in_use_for_long_is_told_and_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, n: int, number: int
) -> None:
    (tmp_path / "kept").write_bytes(b"old")
    monkeypatch.setattr("attnscope.files._PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(os, "replace", Busy(n, number))
    with pytest.raises(SaveError, match="Permission denied"):
        replace_file(tmp_path / "kept", b"new")
    assert (tmp_path / "kept").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_that_f39_a_folder_in_use_for_a_moment_is_replaced_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("attnscope.files._PAUSES_S", (0.0,) * 4)
    for text in ("old", "new"):
        monkeypatch.setattr(os, "replace", Busy(1))
        replace_folder(tmp_path / "model", lambda folder, text=text: (folder / "a").write_text(text) and None)
        assert (tmp_path / "model" / "a").read_text() == text
        monkeypatch.undo()
        monkeypatch.setattr("attnscope.files._PAUSES_S", (0.0,) * 4)


def test_that_a_copied_command_has_the_quotes_of_the_shell_that_is_there() -> None:
    words = ["attnscope", "--text", 'it\'s "so" & so', r"C:\my models\a"]
    assert shlex.split(shell_line(words, "linux")) == words
    assert shell_line(words, "win32") == r'''attnscope --text "it's \"so\" & so" "C:\my models\a"'''
