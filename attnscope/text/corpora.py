"""Reading text files: lines and tab-separated pairs for training, with line numbers; single texts.

Of a text to look at no more is read than can be used, piece by piece.

Files of texts to learn from with a label each, a label for each word, or an answer in them.

label<tab>text     a labelled text on each line; `label<tab>text<tab>second text` where there are two
word/LABEL         a sentence on each line, words with spaces between them; the last slash counts
word<tab>LABEL     a word on each line, sentences end with a blank line
CoNLL-U            ten columns, of which one has the labels (universaldependencies.org/format.html)

The last three are told apart by their first line. A written word that stands for several of a tree (don't:
do, n't) has no label, and is not scored. An answer stands in double brackets:

    who came ? <tab> [[my old uncle]] came on Monday .

A question, if there is one, stands before a tab; model and batches read both as one text.
"""

import codecs
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from attnscope.errors import LoadError, RecipeError
from attnscope.outside import open_outside, unreadable
from attnscope.records.tokens import Token
from attnscope.text.examples import Example
from attnscope.text.safety import MAX_CHARACTERS
from attnscope.text.vocabulary import is_of_word

Item = TypeVar("Item")
_MAX_BYTES = 2 * 2**30
_MAX_LINE_BYTES = 64 * 2**20
_SHOWN = 24
_BARS = "|||"
_EXPECTED = "a text file in UTF-8"
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file without line ends (Unix or Windows); blank lines are kept as ''.

    Of a folder, those of all its .txt files, also in folders below, in the order of their names and with a
    blank line after each. Raises LoadError, with the line number where there is one, for a file that is
    missing, no regular file, empty or blank, not UTF-8, over 2 GiB, or that changes while it is read.
    """
    lines = list(_checked_lines(path))
    if not any(line.strip() for line in lines):
        raise LoadError(
            f"{path} has no text in it.", kind="empty", expected="a text file", action="Choose another file."
        )
    return lines


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The pairs of a UTF-8 file with `source<tab>target` in each line, or `source ||| target`; columns after
    a second tab are omitted.

    Blank lines are skipped. Raises LoadError as `read_lines` does, for a line that has no two texts, and as
    `columns_of` does.
    """
    return [(columns[0], columns[1]) for columns in read_pair_columns(path)]


def read_pair_columns(path: Path) -> list[list[str]]:
    """As `read_pairs`, with every column of each line."""
    rows: list[list[str]] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        columns = [column.strip() for column in columns_of(line, number, path)]
        if len(columns) < 2 or not columns[0] or not columns[1]:
            raise LoadError(
                f"Line {number} of {path} is not a pair: {_shown(line)}.",
                kind="not-a-pair",
                expected="two texts with a tab or three bars between them",
                action="Correct the line, or train on the file as plain text.",
            )
        rows.append(columns)
    return rows


def columns_of(line: str, number: int, where: str | Path) -> list[str]:
    """The texts of a line, separated by a tab or, as in tools for word alignment, three bars.

    Attributions may follow after further tabs, as in Tatoeba's files. Of three bars there is one: raises
    LoadError, which names the line by `number` and `where`.
    """
    if "\t" in line or _BARS not in line:
        return line.split("\t")
    columns = [part.strip() for part in line.split(_BARS)]
    if len(columns) > 2:
        raise LoadError(
            f"Line {number} of {where} has {len(columns)} texts with three bars between: {_shown(line)}.",
            kind="not-a-pair",
            expected="two texts",
            action="Correct the line, or put a tab between its two texts.",
        )
    return columns


def columns_of_lines(lines: Iterable[str], where: str | Path) -> list[list[str]]:
    """The columns of each line; raises LoadError as `columns_of` does."""
    return [columns_of(line, number, where) for number, line in enumerate(lines, start=1)]


def sources_once(
    sources: Sequence[str], references: Sequence[tuple[str, ...]]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Each source once, in the order of its first line, with all its references, if any."""
    found: dict[str, list[str]] = {source: [] for source in sources}
    for source, several in zip(sources, references, strict=bool(references)):
        found[source] += several
    return list(found), [tuple(several) for several in found.values()] if references else []


def split(items: Sequence[Item], validation_share: float) -> tuple[list[Item], list[Item]]:
    """Training items and validation items: the last ones, because neighbours in a text are similar.

    Both have at least one item. Raises RecipeError for an impossible share, LoadError for a single item.
    """
    _check_share(validation_share)
    _check_count(items)
    n_validation = min(max(1, round(len(items) * validation_share)), len(items) - 1)
    return list(items[:-n_validation]), list(items[-n_validation:])


def split_lines(lines: Sequence[str], validation_share: float) -> tuple[list[str], list[str]]:
    """As `split`, by characters: the last lines that come nearest to that share of the total, line ends
    included.

    Lines differ in length, so that a tenth of them may be a ninth of the text; figures of others are by
    characters.
    """
    _check_share(validation_share)
    _check_count(lines)
    wanted = validation_share * sum(len(line) + 1 for line in lines)
    n_validation, held = 1, len(lines[-1]) + 1
    for line in lines[-2:0:-1]:
        if held + (len(line) + 1) / 2 > wanted:
            break
        n_validation, held = n_validation + 1, held + len(line) + 1
    return list(lines[:-n_validation]), list(lines[-n_validation:])


def split_pairs(
    pairs: Sequence[tuple[str, Item]],
    validation_share: float,
    *,
    by_checksum: bool = False,
    what: str = "text",
) -> tuple[list[tuple[str, Item]], list[tuple[str, Item]]]:
    """Training pairs and validation pairs, by the hash of the source: no source is on both sides.

    With `by_checksum` a source is held out when its CRC-32 divides by round(1 / share): whoever has one
    sentence can tell where it went. `what` is what errors call a source. Raises RecipeError for an impossible
    share, LoadError when one side would be empty.
    """
    _check_share(validation_share)
    sources = sorted({source for source, _ in pairs}, key=_hash)
    _check_count(sources, what)
    n_validation = min(max(1, round(len(sources) * validation_share)), len(sources) - 1)
    kept_out = set(sources[:n_validation])
    if by_checksum:
        kept_out = {source for source in sources if is_kept_out(source, validation_share)}
    if not 0 < len(kept_out) < len(sources):
        raise LoadError(
            f"The checksums of {len(sources):,} sources hold out {len(kept_out):,} of them.",
            kind="too-short",
            expected="some for training and some for validation",
            action='Use a longer file, or data.held_out_by = "lines".',
        )
    training = [pair for pair in pairs if pair[0] not in kept_out]
    return training, [pair for pair in pairs if pair[0] in kept_out]


def carelessly(source: str) -> str:
    """A sentence as hastily typed: no capital at its beginning, no punctuation at its end.

    Every other sentence, by the lowest bit of its CRC-32, loses its apostrophes too ("dont").
    The capital of a word of one letter or of capitals alone, "I" or "NATO", stays; so does a text of marks.
    """
    first, _, _ = source.partition(" ")
    text = source if first.isupper() else source[:1].lower() + source[1:]
    if zlib.crc32(source.encode("utf-8", "replace")) % 2:
        text = _APOSTROPHE.sub("", text)
    return text.rstrip(".!?… \u00a0") or source


def is_kept_out(source: str, validation_share: float) -> bool:
    """Whether a source is held out by its CRC-32: about every round(1 / share)-th is."""
    return zlib.crc32(source.encode("utf-8", "replace")) % max(2, round(1 / validation_share)) == 0


def _checked_lines(path: Path) -> Iterator[str]:
    if os.path.isdir(path):  # of names that are too long, too
        for file in _texts_of(path):
            yield from _checked_lines(file)
            yield ""
        return
    with open_outside(path, expected=_EXPECTED, max_bytes=_MAX_BYTES) as stream:
        before = _signature(stream)
        number = 0
        try:
            while raw := stream.readline(_MAX_LINE_BYTES + 1):
                number += 1
                yield _decoded(raw, number, path)
            is_changed = before != _signature(stream) or not os.path.samestat(
                os.fstat(stream.fileno()), path.stat()
            )
        except OSError as error:
            raise unreadable(path, error, expected=_EXPECTED) from error
    if is_changed:
        raise LoadError(
            f"{path} changed while it was read.",
            kind="changed",
            action="Wait until the other program has finished writing it, and try again.",
        )


def _texts_of(folder: Path) -> list[Path]:
    if found := sorted(file for file in folder.rglob("*.[tT][xX][tT]") if file.is_file()):
        return found
    raise LoadError(
        f"The folder {folder} has no .txt file in it.",
        kind="empty",
        expected=f"{_EXPECTED}, or a folder of .txt files",
        action="Choose another, or rename its texts.",
    )


def _decoded(raw: bytes, number: int, path: Path) -> str:
    if len(raw) > _MAX_LINE_BYTES:
        raise LoadError(
            f"Line {number} of {path} is longer than {_MAX_LINE_BYTES} bytes.",
            kind="too-large",
            expected="a text file with line ends",
            action="Break the text into lines.",
        )
    try:
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        form = next((f"; it is {name}" for mark, name in _FORMATS.items() if raw.startswith(mark)), "")
        found = f"its byte {error.start + 1} is {raw[error.start]:#04x}"
        raise LoadError(
            f"Line {number} of {path} is not UTF-8: {found}{form}.",
            kind="not-utf-8",
            expected="a text file in UTF-8",
            action="Save the file as UTF-8 in a text editor.",
        ) from error
    return line.removesuffix("\n").removesuffix("\r")


def require_corpus(path: Path) -> None:
    """Raise LoadError unless the path is a regular file of acceptable size, or a folder of such; they are not
    read.
    """
    for file in _texts_of(path) if os.path.isdir(path) else (path,):
        open_outside(file, expected=_EXPECTED, max_bytes=_MAX_BYTES).close()


def _signature(stream: BinaryIO) -> tuple[int, int]:
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns


def _check_share(share: float) -> None:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise RecipeError(
            f"data.validation_share is {share!r}.",
            expected="a number between 0 and 1, for instance 0.1",
            action="Change data.validation_share.",
        )


def _check_count(items: Sequence[object], what: str = "text") -> None:
    if len(items) < 2:
        is_text = what == "text"
        raise LoadError(
            f"There {f'is only one {what}' if items else f'are no {what}s'} to train on.",
            kind="too-short",
            expected=f"at least two{'' if is_text else ' different ones'}, one of them for validation",
            action="Use a longer file, or break the text into lines." if is_text else f"Add {what}s.",
        )


def _hash(source: str) -> bytes:
    return hashlib.blake2b(source.encode("utf-8", "replace"), digest_size=8).digest()


def _shown(line: str) -> str:
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")


PIECE_BYTES = 32_768
_FORMATS = {
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    b"PK\x03\x04": "zip (as are .docx, .odt and .epub)",
    b"\x1f\x8b": "compressed (gzip)",
    b"%PDF": "PDF",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOfFile:
    """The text read; `n_cut_bytes` were left out, `n_replaced` invalid UTF-8 bytes became U+FFFD."""

    text: str
    n_bytes: int
    n_cut_bytes: int = 0
    n_replaced: int = 0


def read_text_file(path: Path, *, max_characters: int = MAX_CHARACTERS) -> Iterator[float | TextOfFile]:
    """Yield the share read (0…1) after each piece of 32 kB, and finally the text of a UTF-8 file.

    Raises LoadError for what is no regular file, cannot be read, or is not a text.
    """
    with open_outside(path, expected="a UTF-8 text file", what=f"The text {path}") as stream:
        try:
            yield from _read(stream, path, os.fstat(stream.fileno()).st_size, max_characters)
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error), "Check its path and rights.") from error


def _read(stream: BinaryIO, path: Path, n_bytes: int, max_characters: int) -> Iterator[float | TextOfFile]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    pieces: list[str] = []
    n_characters = n_read = 0
    while n_characters < max_characters:
        piece = stream.read(PIECE_BYTES) or b""  # a log of the kernel gives None where nothing is new
        if n_read == 0:
            _refuse_other_formats(piece, path)
        text = decoder.decode(piece, final=not piece)
        n_read += len(piece)
        pieces.append(text)
        n_characters += len(text)
        if not piece:
            break
        yield min(1.0, max(n_read / max(1, n_bytes), n_characters / max_characters))
    whole = "".join(pieces)[:max_characters]
    n_replaced = whole.count("\ufffd")
    if n_replaced > max(16, len(whole) // 20):
        raise _unreadable(path, f"{n_replaced:,} of its characters are not UTF-8")
    is_cut = n_characters > max_characters or n_read < n_bytes
    n_kept = len(whole.encode("utf-8", "replace"))
    n_cut = max(0, n_bytes - n_kept) if is_cut else 0
    yield TextOfFile(text=whole, n_bytes=n_bytes, n_cut_bytes=n_cut, n_replaced=n_replaced)


def _refuse_other_formats(start: bytes, path: Path) -> None:
    for mark, name in _FORMATS.items():
        if start.startswith(mark):
            raise _unreadable(path, f"it is {name}")
    if b"\0" in start:
        raise _unreadable(path, "it contains bytes that do not occur in text")


def _unreadable(path: Path, why: str, action: str = "Save it as UTF-8 and open it again.") -> LoadError:
    return LoadError(
        f"The text {path} cannot be read: {why}.",
        kind="unreadable",
        expected="a UTF-8 text file",
        action=action,
    )


MAX_LABELS = 1000
MAX_LABEL_CHARACTERS = 80
_ANOTHER_FILE = "Correct the line or choose another file."


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledText:
    """One text with its label; `second` is the other text if two are compared."""

    label: str
    text: str
    second: str | None = None


def read_labelled(path: Path) -> list[LabelledText]:
    """The labelled texts of a UTF-8 file, without blank lines.

    Raises LoadError as `read_lines` does, for a line without label or text, for one that has other columns
    than the first, and for a file with fewer than two labels or over a thousand.
    """
    found: list[LabelledText] = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            has_second = found[0].second is not None if found else None
            found.append(_read_line(line, number, path, has_second=has_second))
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
    """Whether a word can be a label: visible, short, and writable to a file."""
    is_text = not any("\ud800" <= letter <= "\udfff" for letter in word)
    return bool(word.strip()) and len(word) <= MAX_LABEL_CHARACTERS and is_text


def label_names(texts: Sequence[LabelledText]) -> tuple[str, ...]:
    """Every label once, in alphabetical order: the order of a model's outputs."""
    return tuple(sorted({text.label for text in texts}))


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
    return LoadError(
        f"Line {number:,} of {path} {is_said}: {_shown(line)}.", kind=kind, expected=expected, action=action
    )


COLUMNS: Mapping[str, int] = {"upos": 3, "xpos": 4, "deprel": 7}
"""The columns of CoNLL-U that hold labels, by name, counted from 0; relations are read without subtype."""
_N_COLUMNS = 10
_NUMBER = re.compile("[0-9]{1,9}")
_BLANK = ("", " ", "␣")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedText:
    """A text with its words: each one's start in the text, and its label, None if it has none."""

    text: str
    starts: tuple[int, ...]
    labels: tuple[str | None, ...]


def tagged(words: Sequence[str], labels: Sequence[str | None], gaps: Sequence[str] = ()) -> TaggedText:
    """Words as a text, separated by spaces unless `gaps` says otherwise."""
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
    """The index of the first token of each word, where its label is predicted; None if it was cut.

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
    """The tokens with meaningful labels in a typed text: those that begin a word or a punctuation mark."""
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
    """A text and its answers' ranges of letters, start and end."""

    text: str
    stretches: tuple[tuple[int, int], ...]


def may_be_meant(token: Token) -> bool:
    """Whether a token can be pointed to: it has text, unknown pieces included."""
    return not token.is_special or token.end > token.start


def pointed_example(example: Example) -> PointedText:
    """An example of a pointing task, whose words are separated by single spaces."""
    return pointed_words(example.source.split(), example.places)


def pointed_words(words: Sequence[str], places: Sequence[int]) -> PointedText:
    """Words as a text, and those pointed to."""
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
