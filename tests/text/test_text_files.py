"""Reading texts from files: in pieces, no more than can be used, and only texts."""

from pathlib import Path

import pytest

from attnscope.errors import LoadError
from attnscope.text import PIECE_BYTES, TextOfFile, read_text_file


def read(path: Path, **limits: int) -> TextOfFile:
    *_, found = read_text_file(path, **limits)
    assert isinstance(found, TextOfFile)
    return found


def test_that_a_text_is_read_in_pieces_whatever_letter_a_piece_ends_in(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    text = "aé漢😀 " * 20_000
    path.write_text("\ufeff" + text, encoding="utf-8")
    *fractions, found = read_text_file(path, max_characters=10**6)
    assert found == TextOfFile(text=text, n_bytes=path.stat().st_size)
    assert len(fractions) == -(-path.stat().st_size // PIECE_BYTES)
    assert fractions == sorted(fractions)


def test_that_a_huge_text_is_cut_and_says_by_how_much(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    path.write_text("word " * 100_000, encoding="utf-8")
    found = read(path, max_characters=1_000)
    assert len(found.text) == 1_000
    assert found.n_cut_bytes == 500_000 - 1_000


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfeh\x00i\x00", "UTF-16"),
        (b"PK\x03\x04zip", "zip"),
        (b"%PDF-1.7", "PDF"),
        (b"a\x00b", "bytes that do not occur in text"),
        (("äöü" * 200).encode("latin-1"), "not UTF-8"),
    ],
)
def test_that_what_is_no_text_is_refused_by_name(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=why):
        read(path)


def test_that_a_folder_or_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="not a regular file"):
        read(tmp_path)
    with pytest.raises(LoadError, match="does not exist"):
        read(tmp_path / "gone.txt")


def test_that_a_few_broken_bytes_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"good text " * 50 + b"\xff\xfe" + b" more")
    assert read(path).n_replaced == 2
