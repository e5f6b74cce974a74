"""Texts with a label for each word: files of three kinds, told apart by their first line.

word/LABEL         a sentence on each line, words with spaces between them; the last slash counts
word<tab>LABEL     a word on each line, sentences end with a blank line
CoNLL-U            ten columns, of which one has the labels (universaldependencies.org/format.html)

A written word that stands for several of a tree (don't: do, n't) has no label, and is not scored.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.records.tokens import Token
from attnscope.text.corpora import read_lines
from attnscope.text.examples import Example
from attnscope.text.labelled import MAX_LABEL_CHARACTERS, MAX_LABELS
from attnscope.text.pieces import is_of_word

COLUMNS: Mapping[str, int] = {"upos": 3, "xpos": 4, "deprel": 7}
"""The columns of CoNLL-U that hold labels, by name, counted from 0; relations are read without subtype."""
_N_COLUMNS = 10
_SHOWN = 24
_NUMBER = re.compile("[0-9]{1,9}")
_BLANK = ("", " ", "␣")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedText:
    """A text with its words: where each begins in the text, and its label, None for one that has none."""

    text: str
    starts: tuple[int, ...]
    labels: tuple[str | None, ...]


def tagged(words: Sequence[str], labels: Sequence[str | None], gaps: Sequence[str] = ()) -> TaggedText:
    """Words as a text, with spaces between them unless `gaps` says otherwise."""
    starts, text = [], ""
    for word, gap in zip(words, gaps or [" "] * len(words), strict=True):
        starts.append(len(text))
        text += word + gap
    return TaggedText(text=text.rstrip(), starts=tuple(starts), labels=tuple(labels))


def tagged_example(example: Example) -> TaggedText:
    """An example of a task with a label for each word."""
    return tagged(example.source.split(), example.word_labels)


def read_tagged(path: Path, column: str = "upos") -> list[TaggedText]:
    """The texts of a UTF-8 file; `column` is that of a CoNLL-U file.

    Raises LoadError as `read_lines` does, for a line of another shape than the first, for a file without
    labels in its column, with fewer than two different labels or over a thousand.
    """
    lines = [line.rstrip() for line in read_lines(path)]
    first = next((line for line in lines if line and not line.startswith("# ")), "")
    n_tabs = first.count("\t")
    if n_tabs >= _N_COLUMNS - 1:
        texts = list(_of_trees(lines, path, column))
    elif n_tabs:
        texts = list(_of_columns(lines, path))
    else:
        texts = [_of_slashes(line, i, path) for i, line in enumerate(lines, start=1) if line]
    labels = tag_names(texts)
    if texts and not labels and n_tabs >= _N_COLUMNS - 1:
        raise LoadError(
            f"{path} has no {column}: column {COLUMNS[column] + 1} is _ in every line.",
            kind="labels",
            expected=f"labels in that column, or data.column as one of {', '.join(COLUMNS)}",
            action="Choose another column or another file.",
        )
    if not 2 <= len(labels) <= MAX_LABELS:
        shown = f"only the label {labels[0]!r}" if len(labels) == 1 else f"{len(labels):,} different labels"
        raise LoadError(
            f"{path} has {shown}.",
            kind="labels",
            expected=f"words with 2 to {MAX_LABELS:,} different labels",
            action="Check on which side of each word its label is.",
        )
    return texts


def tag_names(texts: Iterable[TaggedText]) -> tuple[str, ...]:
    """Every label once, in alphabetical order: the order of a model's outputs."""
    return tuple(sorted({label for text in texts for label in text.labels if label is not None}))


def first_pieces(tokens: Sequence[Token], starts: Sequence[int]) -> list[int | None]:
    """The index of the first token of each word, which is read for its label; None for one that was cut.

    So Devlin et al. 2018, section 5.3.
    """
    found: list[int | None] = []
    at = 0
    for start in starts:
        while at < len(tokens) and (tokens[at].is_special or tokens[at].end <= start):
            at += 1
        found.append(at if at < len(tokens) else None)
    return found


def labelled_positions(tokens: Sequence[Token]) -> list[int]:
    """The tokens whose labels mean something in a text as typed: those that begin a word or a sign."""
    found = []
    for i, token in enumerate(tokens):
        before = tokens[i - 1].piece[-1:] if i else ""
        continues = token.joins_previous and is_of_word(token.piece[:1]) and is_of_word(before)
        if not (token.is_special or continues or token.piece in _BLANK):
            found.append(i)
    return found


def _of_slashes(line: str, number: int, path: Path) -> TaggedText:
    words, labels = [], []
    for item in line.split():
        word, _, label = item.rpartition("/")
        if not word or not label:
            raise _bad_line(item, number, path, "word/LABEL, a label after the last slash of each word")
        words.append(word)
        labels.append(_checked(label, number, path))
    return tagged(words, labels)


def _of_columns(lines: Sequence[str], path: Path) -> Iterator[TaggedText]:
    words: list[str] = []
    labels: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if not line:
            if words:
                yield tagged(words, labels)
            words, labels = [], []
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2 or not all(columns) or " " in columns[0]:
            raise _bad_line(line, number, path, "a word, a tab and its label, as in the first line")
        words.append(columns[0])
        labels.append(_checked(columns[1], number, path))


def _of_trees(lines: Sequence[str], path: Path, column: str) -> Iterator[TaggedText]:
    words: list[str] = []
    labels: list[str | None] = []
    gaps: list[str] = []
    until = 0  # the last number of a range that is written as one word
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#") and "\t" not in line:
            continue
        if not line:
            if words:
                yield tagged(words, labels, gaps)
            words, labels, gaps, until = [], [], [], 0
            continue
        columns = line.split("\t")
        id = columns[0]
        first, _, last = id.partition("-")
        is_number = all(map(_NUMBER.fullmatch, (first, last or first)))
        if len(columns) != _N_COLUMNS or not columns[1].strip() or not (is_number or "." in id):
            told = f"{_N_COLUMNS} columns separated by tabs, the first a number, the second a word"
            raise _bad_line(line, number, path, told)
        if "." in id or (not last and int(first) <= until):
            continue
        until = int(last) if last else until
        label = columns[COLUMNS[column]].split(":")[0]
        words.append(columns[1])
        labels.append(None if last or label in ("", "_") else _checked(label, number, path))
        gaps.append("" if "SpaceAfter=No" in columns[9] else " ")


def _checked(label: str, number: int, path: Path) -> str:
    if len(label) > MAX_LABEL_CHARACTERS:
        raise _bad_line(label, number, path, f"a label of at most {MAX_LABEL_CHARACTERS} characters")
    return label


def _bad_line(line: str, number: int, path: Path, expected: str) -> LoadError:
    shown = repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")
    return LoadError(
        f"Line {number:,} of {path} has no label where one is expected: {shown}.",
        kind="not-tagged",
        expected=expected,
        action="Correct the line or choose another file.",
    )
