"""Tokenizers of several kinds and sizes, trained on one text and measured on it, piece by piece.

See `records.tokenizers` for what the numbers are.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import LoadError, UserError
from attnscope.records.tokenizers import ComparedText, TokenizerRow
from attnscope.text.tokenizer import Tokenizer, train_tokenizer

HELD_OUT_SHARE = 0.2
_LINES_AT_ONCE = 64
_LONGEST_LINE = 2_000


def full_lines(text: str) -> list[str]:
    """The lines of a text that are not blank; long ones are cut at spaces, so that none is held long."""
    found: list[str] = []
    for line in text.split("\n"):
        while len(line) > _LONGEST_LINE:
            cut = line.rfind(" ", 1, _LONGEST_LINE)
            cut = cut if cut > 0 else _LONGEST_LINE
            found.append(line[:cut])
            line = line[cut:].lstrip(" ")
        found.append(line)
    return [line for line in found if line.strip()]


def parts_of(lines: Sequence[str], *, is_held_out: bool) -> tuple[list[str], list[str]]:
    """The lines to train on, and those to measure: the last fifth of the characters, or the same.

    A text of one line is cut at a space. Raises LoadError for a text without words.
    """
    if not any(line.strip() for line in lines):
        raise LoadError(
            "There is no text to compare tokenizers on.", kind="empty", action="Paste some, or open a file."
        )
    if not is_held_out:
        return list(lines), list(lines)
    if len(lines) == 1:
        words = lines[0].split(" ")
        cut = max(1, round(len(words) * (1 - HELD_OUT_SHARE)))
        halves = [" ".join(words[:cut]), " ".join(words[cut:])]
        return ([halves[0]], [halves[1]]) if halves[1].strip() else (list(lines), list(lines))
    n_wanted = (1 - HELD_OUT_SHARE) * sum(map(len, lines))
    ends = np.cumsum([len(line) for line in lines])
    cut = min(max(1, int(np.searchsorted(ends, n_wanted)) + 1), len(lines) - 1)
    return list(lines[:cut]), list(lines[cut:])


def described(name: str, training: Sequence[str], measured: Sequence[str], n_cut: int = 0) -> ComparedText:
    """The text in numbers."""
    return ComparedText(
        name=name,
        n_characters=sum(map(len, training)),
        n_words=_count_words(training),
        n_measured_characters=sum(map(len, measured)),
        n_measured_words=_count_words(measured),
        n_cut=n_cut,
    )


def train_or_refuse(kind: str, size: int, lines: Sequence[str]) -> Tokenizer | str:
    """A tokenizer, or why there is none of this kind and size."""
    try:
        return train_tokenizer(kind, lines, vocab_size=size)
    except UserError as error:
        return error.expected or error.happened


def measure_tokenizer(
    tokenizer: Tokenizer,
    *,
    kind: str,
    asked: int,
    lines: Sequence[str],
    facts: ComparedText,
    sentence: str,
    train_ms: float = 0.0,
) -> Iterator[float | TokenizerRow]:
    """How far the measuring is (0…1) after each batch of lines; the row, last."""
    counts: NDArray[np.int64] = np.zeros(tokenizer.vocab_size, np.int64)
    for start in range(0, len(lines), _LINES_AT_ONCE):
        for ids in tokenizer.encode_lines(lines[start : start + _LINES_AT_ONCE]):
            counts += np.bincount(np.array(ids, np.int64), minlength=len(counts))
        yield min(1.0, (start + _LINES_AT_ONCE) / len(lines))
    n_tokens = int(counts.sum())
    used = counts[counts > 0]
    share = used / max(1, n_tokens)
    bits = 0.0 - float((share * np.log2(share)).sum())
    unknown = tokenizer.unknown_id if tokenizer.has("unknown") else None
    yield TokenizerRow(
        kind=kind,
        asked=asked,
        vocab_size=tokenizer.vocab_size,
        n_tokens=n_tokens,
        tokens_per_word=n_tokens / max(1, facts.n_measured_words),
        tokens_per_character=n_tokens / max(1, facts.n_measured_characters),
        n_used=len(used),
        unknown_share=float(counts[unknown]) / max(1, n_tokens) if unknown is not None else 0.0,
        bits_per_token=bits,
        bits_per_character=bits * n_tokens / max(1, facts.n_measured_characters),
        density=n_tokens / max(1, len(used)),
        train_ms=train_ms,
        sentence=tokenizer.encode(sentence).tokens,
        unknown_id=unknown,
    )


def _count_words(lines: Sequence[str]) -> int:
    return sum(len(re.findall(r"\S+", line)) for line in lines)
