"""Files of texts to learn from with a label each, a label for each word, or an answer in them.

label<tab>text     a labelled text on each line; `label<tab>text<tab>second text` where there are two
word/LABEL         a sentence on each line, words with spaces between them; the last slash counts
word<tab>LABEL     a word on each line, sentences end with a blank line
CoNLL-U            ten columns, of which one has the labels (universaldependencies.org/format.html)

The last three are told apart by their first line. A written word that stands for several of a tree (don't:
do, n't) has no label, and is not scored. An answer stands in double brackets:

    who came ? <tab> [[my old uncle]] came on Monday .

A question, if there is one, stands before a tab; model and batches read both as one text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.records.tokens import Token
from attnscope.text.corpora import read_lines
from attnscope.text.examples import Example
from attnscope.text.pieces import is_of_word

MAX_LABELS = 1000
MAX_LABEL_CHARACTERS = 80
_SHOWN = 24
_ANOTHER_FILE = "Correct the line or choose another file."


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledText:
    """One text with its label; `second` is the other text where two are compared."""

    label: str
    text: str
    second: str | None = None


def read_labelled(path: Path) -> list[LabelledText]:
    """The labelled texts of a UTF-8 file, blank lines passed over.

    Raises LoadError as `read_lines` does, for a line without label or text, for one that has other columns
    than the first, and for a file with fewer than two labels or over a thousand.
    """
    found: list[LabelledText] = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            found.append(_read_line(line, number, path, has_second=_has_second(found)))
    labels = label_names(found)
    _check_number(
        labels,
        path,
        f"2 to {MAX_LABELS:,} labels in the first column",
        "Check that the label comes before the first tab of each line.",
    )
    n_texts = len({(text.text, text.second) for text in found})
    if len(labels) > n_texts:  # else some text would have several labels
        raise LoadError(
            f"{path} has {len(labels):,} different labels and only {n_texts:,} different texts.",
            kind="labels",
            expected="a label, a tab and a text in each line",
            action="The columns look swapped: put the label before the first tab of each line.",
        )
    return found


def is_label(word: str) -> bool:
    """Whether a word can be a label: it is to be seen, short, and can be written to a file."""
    is_text = not any("\ud800" <= letter <= "\udfff" for letter in word)
    return bool(word.strip()) and len(word) <= MAX_LABEL_CHARACTERS and is_text


def label_names(texts: Sequence[LabelledText]) -> tuple[str, ...]:
    """Every label once, in alphabetical order: the order of a model's outputs."""
    return tuple(sorted({text.label for text in texts}))


def _has_second(found: Sequence[LabelledText]) -> bool | None:
    return found[0].second is not None if found else None


def _read_line(line: str, number: int, path: Path, *, has_second: bool | None) -> LabelledText:
    columns = [column.strip() for column in line.split("\t")]
    if len(columns) not in (2, 3) or not all(columns):
        raise _bad_line(line, number, path, "a label, a tab and a text, and perhaps a tab and a second text")
    if has_second is not None and has_second != (len(columns) == 3):
        expected = "three columns" if has_second else "two columns"
        raise _bad_line(line, number, path, f"{expected}, as in the first line")
    if len(columns[0]) > MAX_LABEL_CHARACTERS:
        raise _bad_line(line, number, path, f"a label of at most {MAX_LABEL_CHARACTERS} characters")
    return LabelledText(label=columns[0], text=columns[1], second=columns[2] if len(columns) == 3 else None)


def _check_number(labels: Sequence[str], path: Path, expected: str, action: str) -> None:
    if not 2 <= len(labels) <= MAX_LABELS:
        shown = f"only the label {labels[0]!r}" if len(labels) == 1 else f"{len(labels):,} different labels"
        raise LoadError(f"{path} has {shown}.", kind="labels", expected=expected, action=action)


def _bad_line(
    line: str,
    number: int,
    path: Path,
    expected: str,
    *,
    is_said: str = "is not a labelled text",
    kind: str = "not-labelled",
    action: str = "Correct the line.",
) -> LoadError:
    shown = repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")
    return LoadError(
        f"Line {number:,} of {path} {is_said}: {shown}.", kind=kind, expected=expected, action=action
    )


COLUMNS: Mapping[str, int] = {"upos": 3, "xpos": 4, "deprel": 7}
"""The columns of CoNLL-U that hold labels, by name, counted from 0; relations are read without subtype."""
_N_COLUMNS = 10
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
    _check_number(
        labels,
        path,
        f"words with 2 to {MAX_LABELS:,} different labels",
        "Check on which side of each word its label is.",
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
        while at < len(tokens) and tokens[at].end <= start:  # what does not stand in the text ends at 0
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
            raise _bad_word(item, number, path, "word/LABEL, a label after the last slash of each word")
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
            raise _bad_word(line, number, path, "a word, a tab and its label, as in the first line")
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
            raise _bad_word(line, number, path, told)
        if "." in id or (not last and int(first) <= until):
            continue
        until = int(last) if last else until
        label = columns[COLUMNS[column]].split(":")[0]
        words.append(columns[1])
        labels.append(None if last or label in ("", "_") else _checked(label, number, path))
        gaps.append("" if "SpaceAfter=No" in columns[9] else " ")


def _checked(label: str, number: int, path: Path) -> str:
    if len(label) > MAX_LABEL_CHARACTERS:
        raise _bad_word(label, number, path, f"a label of at most {MAX_LABEL_CHARACTERS} characters")
    return label


def _bad_word(line: str, number: int, path: Path, expected: str) -> LoadError:
    is_said = "has no label where one is expected"
    return _bad_line(line, number, path, expected, is_said=is_said, kind="not-tagged", action=_ANOTHER_FILE)


POINTERS = ("start", "end")
_OPEN, _CLOSE = "[[", "]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedText:
    """A text and the stretches of letters, start and end, in each of which a place is."""

    text: str
    stretches: tuple[tuple[int, int], ...]


def may_be_meant(token: Token) -> bool:
    """Whether a token can be pointed to: it stands for something in the text, unknown pieces included."""
    return not token.is_special or token.end > token.start


def pointed_example(example: Example) -> PointedText:
    """An example of a task with places, whose words are separated by single spaces."""
    return pointed_words(example.source.split(), example.places)


def pointed_words(words: Sequence[str], places: Sequence[int]) -> PointedText:
    """Words as a text, and those that are meant."""
    begins = [0]
    for word in words:
        begins.append(begins[-1] + len(word) + 1)
    stretches = tuple((begins[i], begins[i] + len(words[i])) for i in places)
    return PointedText(text=" ".join(words), stretches=stretches)


def read_spans(path: Path) -> list[PointedText]:
    """The texts of a UTF-8 file, each with the first and the last letter of its answer.

    Raises LoadError as `read_lines` does, and for a line without exactly one answer.
    """
    lines = enumerate(read_lines(path), start=1)
    return [_of_line(line.strip().replace("\t", " "), number, path) for number, line in lines if line.strip()]


def _of_line(line: str, number: int, path: Path) -> PointedText:
    before, is_open, rest = line.partition(_OPEN)
    answer, is_closed, after = rest.partition(_CLOSE)
    is_one = bool(is_open and is_closed) and _OPEN not in after and _CLOSE not in before + after
    if not (is_one and answer.strip() and _OPEN not in answer):
        is_said = "has not one answer in double brackets"
        expected = "a text such as: who came ? my [[old uncle]] came"
        raise _bad_line(line, number, path, expected, is_said=is_said, kind="not-spans", action=_ANOTHER_FILE)
    first = len(before) + len(answer) - len(answer.lstrip())
    last = len(before) + len(answer.rstrip())
    return PointedText(text=before + answer + after, stretches=((first, first + 1), (last - 1, last)))
