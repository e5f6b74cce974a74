"""Texts with an answer in them: files in which it stands in double brackets.

    who came ? <tab> [[my old uncle]] came on Monday .

A question, if there is one, stands before a tab; model and batches read both as one text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.records.tokens import Token
from attnscope.text.corpora import read_lines
from attnscope.text.examples import Example

POINTERS = ("start", "end")
_OPEN, _CLOSE = "[[", "]]"
_SHOWN = 24


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
        shown = repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")
        raise LoadError(
            f"Line {number:,} of {path} has not one answer in double brackets: {shown}.",
            kind="not-spans",
            expected="a text such as: who came ? my [[old uncle]] came",
            action="Correct the line or choose another file.",
        )
    first = len(before) + len(answer) - len(answer.lstrip())
    last = len(before) + len(answer.rstrip())
    return PointedText(text=before + answer + after, stretches=((first, first + 1), (last - 1, last)))
