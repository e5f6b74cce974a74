"""Dependency trees from CoNLL-U files (universaldependencies.org/format.html).

Ten columns separated by tabs them; comments begin with `#`, sentences end with a blank line. Lines such as
`3-4` are one written word for several words of the tree, lines such as `8.1` stand for words not written.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.outside import open_outside

_N_COLUMNS = 10
_MAX_DIGITS = 9
_EXPECTED = "a CoNLL-U file, plain or gzipped"
_MAX_BYTES, _MAX_LINE_BYTES = 512 * 2**20, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeWord:
    """One word of a tree: as written, its head (−1: the root) and its relation without subtype.

    `place` is where it is written; words written together share one place, −1 is a word not found.
    """

    form: str
    head: int
    relation: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A sentence with its tree; `written` are its words as they stand in the text, in order."""

    text: str
    words: tuple[TreeWord, ...]
    written: tuple[str, ...]


def read_conllu(path: Path, max_trees: int | None = None) -> list[Tree]:
    """The trees of a file, plain or gzipped; raises LoadError with the line that is wrong."""
    trees: list[Tree] = []
    for tree in _trees(_lines(path), path):
        trees.append(tree)
        if max_trees is not None and len(trees) >= max_trees:
            break
    if not trees:
        raise LoadError(
            f"{path} has no sentence in it.",
            kind="empty",
            expected="a CoNLL-U file",
            action="Choose another file.",
        )
    return trees


def _lines(path: Path) -> Iterator[str]:
    """The lines, read as needed: a small file may unpack to a very large one."""
    n_bytes = 0
    try:
        with open_outside(path, expected=_EXPECTED, max_bytes=_MAX_BYTES) as file:
            stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            while line := stream.readline(_MAX_LINE_BYTES + 1):
                if len(line) > _MAX_LINE_BYTES or n_bytes + len(line) > _MAX_BYTES:
                    raise LoadError(
                        f"{path} is too large.",
                        kind="too-large",
                        expected=f"at most {_MAX_BYTES:,} bytes unpacked, and {_MAX_LINE_BYTES:,} in a line",
                        action="Split it.",
                    )
                yield _decoded(line, n_bytes, path)
                n_bytes += len(line)
    except (OSError, EOFError, zlib.error) as error:
        raise LoadError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.",
            kind="unreadable",
            expected=_EXPECTED,
            action="Check the path.",
        ) from error


def _decoded(line: bytes, place: int, path: Path) -> str:
    """A line without its end; `place` is its offset."""
    try:
        return line.decode("utf-8-sig" if place == 0 else "utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise LoadError(
            f"{path} is not UTF-8 from byte {place + error.start} on.",
            kind="not-utf-8",
            expected="a CoNLL-U file in UTF-8",
            action="Save the file as UTF-8.",
        ) from error


def _trees(lines: Iterator[str], path: Path) -> Iterator[Tree]:
    rows: list[tuple[int, list[str]]] = []
    text = ""
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r")
        if line.startswith("#"):
            name, _, value = line[1:].partition("=")
            text = value.strip() if name.strip() == "text" else text
        elif line.strip():
            columns = line.split("\t")
            if len(columns) != _N_COLUMNS:
                raise _wrong(path, number, f"has {len(columns)} columns", f"{_N_COLUMNS} with tabs between")
            rows.append((number, columns))
        elif rows:
            yield _tree(rows, text, path)
            rows, text = [], ""
    if rows:
        yield _tree(rows, text, path)


def _tree(rows: list[tuple[int, list[str]]], text: str, path: Path) -> Tree:
    written: list[str] = []
    gaps: list[str] = []
    words: list[TreeWord] = []
    shared_until = 0
    n_words = sum(_is_number(columns[0]) for _, columns in rows)
    for number, columns in rows:
        id, form = columns[0], columns[1]
        if "." in id:
            continue
        if not _is_number(id) or int(id) > shared_until:
            written.append(form)
            gaps.append("" if "SpaceAfter=No" in columns[9] else " ")
        if not _is_number(id):
            shared_until = _last_of_range(id, path, number)
            continue
        head = columns[6]
        if not _is_number(head) or int(head) > n_words or int(id) != len(words) + 1:
            found = f"has the id {id[:40]!r} and the head {head[:40]!r}"
            raise _wrong(path, number, found, f"numbers up to {n_words}")
        relation = columns[7].split(":")[0]
        words.append(TreeWord(form=form, head=int(head) - 1, relation=relation, place=len(written) - 1))
    joined = "".join(word + gap for word, gap in zip(written, gaps, strict=True)).strip()
    return Tree(text=text or joined, words=tuple(words), written=tuple(written))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _last_of_range(id: str, path: Path, number: int) -> int:
    first, _, last = id.partition("-")
    if not (_is_number(first) and _is_number(last) and int(first) <= int(last)):
        raise _wrong(path, number, f"has the id {id[:40]!r}", "a number, a range such as 3-4, or 8.1")
    return int(last)


def _wrong(path: Path, number: int, found: str, expected: str) -> LoadError:
    return LoadError(
        f"Line {number} of {path} {found}.",
        kind="not-conllu",
        expected=expected,
        action="Correct the line or choose another file.",
    )
