"""F33: files that cannot be trained on."""

import os
from pathlib import Path

import pytest

from attnscope.errors import LoadError, UserError
from attnscope.text import corpora, read_lines, read_pairs, split


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("read", [read_lines, read_pairs])
def test_that_an_empty_file_is_refused(tmp_path: Path, content: bytes, read: object) -> None:
    """F33: empty, or nothing but blanks."""
    with pytest.raises(LoadError, match="no text") as caught:
        read(written(tmp_path, content))
    assert caught.value.kind == "empty"


@pytest.mark.parametrize(
    ("content", "line", "byte"),
    [
        (b"one\ntwo\nthr\xe9e\n", 3, 4),
        (b"\xff\xfeo\x00n\x00e\x00", 1, 1),
        (b"one\r\n\xed\xa0\x80\r\n", 2, 1),
        (b"one\ntwo\xe2\x82", 2, 4),
    ],
)
def test_that_text_that_is_not_utf_8_is_named_by_its_line(
    tmp_path: Path, content: bytes, line: int, byte: int
) -> None:
    """F33: Latin-1, UTF-16, surrogates, a cut character."""
    with pytest.raises(LoadError, match=f"Line {line} .*byte {byte} is") as caught:
        read_lines(written(tmp_path, content))
    assert caught.value.kind == "not-utf-8"
    assert "UTF-8" in caught.value.action


def test_that_one_line_cannot_be_split(tmp_path: Path) -> None:
    """F33: one line has nothing to validate on."""
    lines = read_lines(written(tmp_path, b"only one line"))
    with pytest.raises(LoadError, match="only one text"):
        split(lines, 0.1)
    with pytest.raises(LoadError, match="no texts"):
        split([], 0.1)


def test_that_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    """F33: no file there, or no file at all."""
    with pytest.raises(LoadError, match="does not exist") as caught:
        read_lines(tmp_path / "nothing.txt")
    assert caught.value.kind == "missing"
    with pytest.raises(LoadError, match=r"no \.txt file in it"):
        read_lines(tmp_path)
    with pytest.raises(LoadError, match="cannot be read"):
        read_lines(tmp_path / "a\0b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_that_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    """F33: opening it would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LoadError, match="not a regular file"):
        read_lines(tmp_path / "pipe")


def test_that_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """F33: 10 GB, here a sparse file."""
    path = written(tmp_path, b"")
    os.truncate(path, 10 * 2**30)
    with pytest.raises(LoadError, match="10,737,418,240 bytes") as caught:
        read_lines(path)
    assert caught.value.kind == "too-large"


def test_that_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F33: a line is read only up to a limit."""
    monkeypatch.setattr(corpora, "_MAX_LINE_BYTES", 100)
    with pytest.raises(LoadError, match=r"Line 2 .*longer than"):
        read_lines(written(tmp_path, b"one\n" + b"x" * 500))


def test_that_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F33: another program is still writing it."""
    path = written(tmp_path, b"one\ntwo\n")
    real = corpora._decoded

    def decode_and_append(raw: bytes, number: int, file: Path) -> str:
        with path.open("ab") as stream:
            stream.write(b"more\n" if number == 1 else b"")
        return real(raw, number, file)

    monkeypatch.setattr(corpora, "_decoded", decode_and_append)
    with pytest.raises(LoadError, match="changed while it was read"):
        read_lines(path)


@pytest.mark.parametrize(
    ("happened", "told"),
    [
        ("It failed: [Errno 2] no such file", "It failed: [Errno 2] no such file. Expected: a file. Look."),
        ("torch says: size mismatch\n", "torch says: size mismatch. Expected: a file. Look."),
        ('It is called "a."', 'It is called "a." Expected: a file. Look.'),
        ("Is it there?", "Is it there? Expected: a file. Look."),
        ("It is (3).", "It is (3). Expected: a file. Look."),
    ],
)
def test_that_words_of_a_library_do_not_run_into_the_next_sentence(happened: str, told: str) -> None:
    assert str(UserError(happened, expected="a file", action="Look.")) == told
