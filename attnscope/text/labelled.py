"""Files of labelled texts: `label<tab>text`, or `label<tab>text<tab>second text`, one to a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.text.corpora import read_lines

MAX_LABELS = 1000
MAX_LABEL_CHARACTERS = 80
_SHOWN = 24


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
    if not 2 <= len(labels) <= MAX_LABELS:
        shown = f"only the label {labels[0]!r}" if len(labels) == 1 else f"{len(labels):,} different labels"
        raise LoadError(
            f"{path} has {shown}.",
            kind="labels",
            expected=f"2 to {MAX_LABELS:,} labels in the first column",
            action="Check that the label comes before the first tab of each line.",
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


def _bad_line(line: str, number: int, path: Path, expected: str) -> LoadError:
    shown = repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")
    return LoadError(
        f"Line {number:,} of {path} is not a labelled text: {shown}.",
        kind="not-labelled",
        expected=expected,
        action="Correct the line.",
    )
