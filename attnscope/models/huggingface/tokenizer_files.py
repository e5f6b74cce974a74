"""A foreign model's own tokenizer, read like ours: pieces, positions in the text, special tokens.

tokenizer.json is read by the `tokenizers` library alone. Where there is none, `transformers` builds the
same kind of tokenizer from the older files (vocab.txt, merges.txt, a sentencepiece model). Which special
tokens stand around a text, or two, is asked of the tokenizer's own template.

Reading the tokenizer of a foreign model folder.

Marian models come with two sentencepiece files and one list of ids:

    source.spm, target.spm   pieces with their scores, one file for each language (protocol buffers)
    vocab.json               the id of every piece of both

A sentencepiece model is a list of messages (https://protobuf.dev/programming-guides/encoding); read here are
the pieces (field 1: text 1, score 2, type 3) and the normalizer's table (field 3: table 2). The segmentation
is the unigram language model's (Kudo 2018), done by the `tokenizers` library.

That library holds the interpreter while it reads a vocabulary, and with it the window. So what was read is
shared by all models whose file has the same bytes, and the last ones read stay for the next opening.
"""

import hashlib
import re
import struct
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError
from attnscope.models.huggingface.library import contained_file, library_faults
from attnscope.nn import tell_and_wait
from attnscope.outside import as_object, read_json, read_outside, regular_size
from attnscope.records.tokens import Token, Tokens
from attnscope.text import (
    TOKENIZER_FILE,
    Entry,
    Vocabulary,
    check_vocabulary,
    clean_text,
    empty_library,
    library_errors,
    place_tokens,
    read_tokenizer_file,
    require_no_growth,
    require_sane_count,
    without_panic_words,
)

_TEXT_FAILED = "The tokenizer cannot read this text"
_TEXT_ACTION = "Change the text, or load another tokenizer."
_PROBE = "The 1st café, 漢字 – «x» 😀.\n  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! "
_MASKS = ("<mask>", "[MASK]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Ids before, between and after texts, and the segment of each text."""

    prefix: tuple[int, ...] = ()
    middle: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    pair_suffix: tuple[int, ...] = ()
    second_segment: int = 0
    middle_segments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Tokens with the special ones around them, and the segment of each (0, or 1 in a second text)."""

    tokens: Tokens
    segments: tuple[int, ...]


class HuggingFaceVocabulary:
    """Text to tokens and back with the tokenizer that came with a model."""

    def __init__(
        self,
        library: LibraryTokenizer,
        roles: dict[str, int] | None = None,
        *,
        source: LibraryTokenizer | None = None,
        target: LibraryTokenizer | None = None,
    ) -> None:
        """Wrap a tokenizer; `roles` are ids by role, from the model's files.

        A model of two languages may read its source and its target with a tokenizer each, which give the
        same ids. Raises LoadError when it cannot be used.
        """
        self._library = library
        self._readers = {False: source or library, True: target or library}
        for reader in self._readers.values():
            require_no_growth(reader)
            if reader is not library:
                check_vocabulary(reader)
            if reader.truncation is not None:  # a shared one is not changed while others read with it
                reader.no_truncation()
            if reader.padding is not None:
                reader.no_padding()
        self._entries = Vocabulary(library)
        self._entries.roles.update(roles or {})
        self._entries.specials |= frozenset((roles or {}).values())
        self.kind: str = self._entries.kind
        self.size: int = self._entries.size
        self._foreign_masks = self._build_mask_pattern()
        self.template = self._read_template()
        self._encode(_PROBE)
        self.decode(range(min(self.size, 300)))

    # -- the roles --------------------------------------------------------------------------------

    @property
    def entries(self) -> Vocabulary:
        return self._entries

    def has(self, role: str) -> bool:
        return role in self._entries.roles

    @property
    def begin_id(self) -> int:
        return self._entries.role("begin")

    @property
    def end_id(self) -> int:
        return self._entries.role("end")

    @property
    def mask_id(self) -> int:
        return self._entries.role("mask")

    def id_of(self, entry: str) -> int | None:
        """The id of an entry in the vocabulary's notation; None if it has none."""
        id: int | None = self._library.token_to_id(entry)
        return id

    def token(self, id: int) -> Token:
        return self._entries.token(id)

    def decode(self, ids: Iterable[int]) -> str:
        return self._entries.decode(ids)

    # -- text to tokens ---------------------------------------------------------------------------

    def encode(
        self,
        text: str,
        *,
        max_tokens: int,
        prefix: Sequence[int] | None = None,
        suffix: Sequence[int] | None = None,
        is_target: bool = False,
    ) -> Encoded:
        """One text with the special tokens the model expects, or with others, cut to `max_tokens`.

        Special tokens written out in the text are read as such, as the model's own library does.
        """
        before = self.template.prefix if prefix is None else tuple(prefix)
        after = self.template.suffix if suffix is None else tuple(suffix)
        body = self._encode(text, is_target=is_target)
        n_free = max(0, max_tokens - len(before) - len(after))
        kept = self._cut(body, n_free)
        whole = self._wrapped(before, kept.tokens, after)
        return Encoded(tokens=replace(kept, tokens=whole), segments=(0,) * len(whole))

    def encode_pair(self, first: str, second: str, *, max_tokens: int) -> Encoded:
        """Encode two texts in one input, joined by the template; the longer is cut first, as in
        `tokenizers`.
        """
        template = self.template
        one, two = self._encode(first), self._encode(second)
        around = len(template.prefix) + len(template.middle) + len(template.pair_suffix)
        n_free = max(0, max_tokens - around)
        n_second = min(len(two), max(n_free - len(one), (n_free + (len(one) <= len(two))) // 2))
        one, two = self._cut(one, n_free - n_second), self._cut(two, n_second)
        shift = len(one.text) + 1
        moved = tuple(
            replace(token, start=token.start + shift, end=token.end + shift) for token in two.tokens
        )
        left = self._wrapped(template.prefix, one.tokens, template.middle)
        right = self._wrapped((), moved, template.pair_suffix)
        n_left = len(left) - len(template.middle)
        tokens = Tokens(
            text=f"{one.text}\n{two.text}",
            tokens=left + right,
            n_dropped=one.n_dropped + two.n_dropped,
            n_unknown=one.n_unknown + two.n_unknown,
            n_replaced=one.n_replaced + two.n_replaced,
            n_cut=one.n_cut + two.n_cut,
        )
        segments = (0,) * n_left + template.middle_segments + (template.second_segment,) * len(right)
        return Encoded(tokens=tokens, segments=segments)

    def _wrapped(
        self, before: Sequence[int], body: tuple[Token, ...], after: Sequence[int]
    ) -> tuple[Token, ...]:
        first = tuple(self.token(id) for id in before)
        return (*first, *body, *(self.token(id) for id in after))

    def _cut(self, tokens: Tokens, n_free: int) -> Tokens:
        n_dropped = max(0, len(tokens) - n_free)
        kept = tokens.tokens[:n_free]
        unknown = self._entries.roles.get("unknown")
        n_unknown = sum(token.id == unknown for token in kept)
        return replace(tokens, tokens=kept, n_dropped=n_dropped, n_unknown=n_unknown)

    def _encode(self, text: str, *, is_target: bool = False) -> Tokens:
        """The tokens of a cleaned text, uncut and without special ones."""
        clean = clean_text(text)
        own, places = self._with_own_mask(clean.text)
        with library_errors(_TEXT_FAILED, action=_TEXT_ACTION):
            with without_panic_words():
                found = self._readers[is_target].encode(own, add_special_tokens=False)
            require_sane_count(len(found), len(own))
            entries: list[Entry] = [
                (id, places(start), places(end))
                for id, (start, end) in zip(found.ids, found.offsets, strict=True)
            ]
        tokens = place_tokens(clean.text, entries, self._entries)
        return Tokens(text=clean.text, tokens=tuple(tokens), n_replaced=clean.n_replaced, n_cut=clean.n_cut)

    # -- the mask, however it is written ----------------------------------------------------------

    def _build_mask_pattern(self) -> re.Pattern[str] | None:
        mask = self._entries.roles.get("mask")
        if mask is None:
            return None
        self._mask_literal = self._library.id_to_token(mask) or ""
        others = [literal for literal in _MASKS if literal != self._mask_literal]
        return re.compile("|".join(map(re.escape, others))) if others and self._mask_literal else None

    def _with_own_mask(self, text: str) -> tuple[str, "_Places"]:
        """The text with `<mask>` and `[MASK]` in this vocabulary's spelling, and the map back."""
        places = _Places()
        if self._foreign_masks is None:
            return text, places
        parts: list[str] = []
        position = 0
        for match in self._foreign_masks.finditer(text):
            parts += [text[position : match.start()], self._mask_literal]
            position = match.end()
            places.add(match.start(), match.end(), len(self._mask_literal))
        return "".join([*parts, text[position:]]), places

    # -- the template -----------------------------------------------------------------------------

    def _read_template(self) -> Template:
        with library_errors("The tokenizer's template is not usable", action="Load another tokenizer."):
            single = self._readers[False].encode("a")
            double = self._readers[False].encode("a", "a")
        prefix, body, suffix = _around(single)
        middle, second, pair_suffix = _middle(double, len(prefix) + len(body))
        types = double.type_ids
        n_left = len(prefix) + len(body)
        return Template(
            prefix=tuple(prefix),
            suffix=tuple(suffix),
            middle=tuple(middle),
            pair_suffix=tuple(pair_suffix),
            second_segment=max(types[n_left + len(middle) :], default=0) if second else 0,
            middle_segments=tuple(types[n_left : n_left + len(middle)]),
        )


class _Places:
    """Maps positions in a text with other mask spellings back to the typed text."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, int, int, int]] = []
        self._shift = 0

    def add(self, start: int, end: int, n_new: int) -> None:
        """Characters start…end became `n_new` others."""
        self._changes.append((start + self._shift, start + self._shift + n_new, start, end))
        self._shift += n_new - (end - start)

    def __call__(self, place: int) -> int:
        shift = 0
        for new_start, new_end, start, end in self._changes:
            if place <= new_start:
                break
            if place < new_end:
                return start
            shift = end - new_end
        return place + shift


def _around(found: Any) -> tuple[list[int], list[int], list[int]]:
    """Special ids before, the text's ids, special ids after."""
    marks = found.special_tokens_mask
    first = next((i for i, mark in enumerate(marks) if not mark), len(marks))
    last = next((i for i, mark in enumerate(reversed(marks)) if not mark), 0)
    end = len(marks) - last if first < len(marks) else first
    return found.ids[:first], found.ids[first:end], found.ids[end:]


def _middle(found: Any, n_left: int) -> tuple[list[int], list[int], list[int]]:
    """Tokens between two texts, the second text's ids, and the tokens after it."""
    marks, ids = found.special_tokens_mask[n_left:], found.ids[n_left:]
    first = next((i for i, mark in enumerate(marks) if not mark), len(marks))
    last = next((i for i, mark in enumerate(reversed(marks)) if not mark), 0)
    end = max(first, len(marks) - last)
    return ids[:first], ids[first:end], ids[end:]


def check_ids(vocabulary: HuggingFaceVocabulary, n_rows: int, where: str) -> None:
    """Raise LoadError if the tokenizer has ids beyond the `n_rows` of the embedding."""
    if vocabulary.size <= n_rows:
        return
    raise LoadError(
        f"The tokenizer in {where} has ids up to {vocabulary.size - 1} but the embedding has {n_rows} rows.",
        kind="vocabulary",
        expected=f"ids below {n_rows}",
        action="Load the tokenizer saved next to the model.",
    )


MANY = 20_000
"""Pieces from which on reading and dropping a vocabulary would delay the window."""
MOST_KEPT = 65_536
"""Pieces of all that stay though no model reads them: GPT-2's 50,257, some 60 MB at most."""
_MOST_CHARACTERS = 2**23
"""Of a file whose tokenizer may stay."""


class ReadTokenizer:
    """A library tokenizer, for as long as this is held; a large one is then released.

    Nobody changes it: others may read with it.
    """

    def __init__(self, library: LibraryTokenizer) -> None:
        library.no_truncation()
        library.no_padding()
        self.library = library
        self.n_pieces: int = library.get_vocab_size(with_added_tokens=False)
        if self.n_pieces >= MANY:
            weakref.finalize(self, empty_library, library).atexit = False


class TokenizerShelf:
    """Tokenizers read so far, by the digest of the file's content."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most = most_kept
        self._held: weakref.WeakValueDictionary[bytes, ReadTokenizer] = weakref.WeakValueDictionary()
        self._last: OrderedDict[bytes, ReadTokenizer] = OrderedDict()
        self._lock = threading.RLock()

    def take(self, content: str, read: Callable[[str], LibraryTokenizer]) -> ReadTokenizer:
        """The tokenizer of a file's content, read by `read` unless cached; its errors pass through."""
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            taken = self._held.get(digest)
            if taken is None:
                taken = ReadTokenizer(read(content))
            if taken.n_pieces >= MANY:
                self._held[digest] = taken
                if taken.n_pieces <= self._most and len(content) <= _MOST_CHARACTERS:
                    self._keep(digest, taken)
            return taken

    def _keep(self, digest: bytes, taken: ReadTokenizer) -> None:
        """Cache it as the latest, and keep as many earlier ones as there is room for."""
        self._last[digest] = taken
        self._last.move_to_end(digest)
        while sum(kept.n_pieces for kept in self._last.values()) > self._most:
            self._last.popitem(last=False)


@cache
def shelf() -> TokenizerShelf:
    return TokenizerShelf()


SOURCE, TARGET, IDS = "source.spm", "target.spm", "vocab.json"
_MAX_BYTES = 64_000_000
_SPECIAL = ("<pad>", "</s>", "<unk>")
_NORMAL = 1
_ABSENT = "\uf8ff"
"""Begins the name of a piece that the other language has: no text spells it."""


def _is_marian_folder(folder: Path) -> bool:
    """Whether the folder holds the two files and the list of ids."""
    return all((folder / name).exists() for name in (SOURCE, TARGET, IDS))


def _read_marian(folder: Path) -> tuple[LibraryTokenizer, LibraryTokenizer, LibraryTokenizer]:
    """Tokenizers that name every piece, that read the source and that read the target; raises LoadError."""
    ids = as_object(read_json(contained_file(folder, IDS)), what=str(folder / IDS), kind="tokenizer")
    names = _names_by_id(ids, folder)
    source, source_table = _read_pieces(contained_file(folder, SOURCE))
    target, target_table = _read_pieces(contained_file(folder, TARGET))
    with library_errors(f"The tokenizer of {folder} is not usable", action=_ACTION):
        whole = _build(names, {**target, **source, **dict.fromkeys(names, 0.0)}, b"")
        return whole, _build(names, source, source_table), _build(names, target, target_table)


def _names_by_id(ids: dict[str, object], folder: Path) -> list[str]:
    by_id = {id: name for name, id in ids.items() if isinstance(id, int) and not isinstance(id, bool)}
    if len(by_id) != len(ids) or sorted(by_id) != list(range(len(by_id))) or "<unk>" not in ids:
        raise LoadError(
            f"{folder / IDS} does not number its pieces.",
            kind="tokenizer",
            expected="the ids from 0 on, each once, and <unk>",
            action=_ACTION,
        )
    return [by_id[id] for id in range(len(by_id))]


def _build(names: list[str], scores: dict[str, float], table: bytes) -> LibraryTokenizer:
    least = min(scores.values(), default=0.0)
    special = [name for name in names if name in _SPECIAL or (name.startswith(">>") and name.endswith("<<"))]
    pieces = [
        (
            name if name in scores or name in special else f"{_ABSENT}{id}",
            scores.get(name, least),
        )
        for id, name in enumerate(names)
    ]
    made = LibraryTokenizer(models.Unigram(pieces, unk_id=names.index("<unk>")))
    steps = [normalizers.Precompiled(table)] if table else []
    made.normalizer = normalizers.Sequence(
        [*steps, normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    made.add_special_tokens([AddedToken(name, special=True) for name in special])
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", names.index("</s>"))] if "</s>" in names else []
    )
    return made


def _read_pieces(path: Path) -> tuple[dict[str, float], bytes]:
    """Score of each ordinary piece, and the normalizer's table."""
    data = read_outside(path, expected="a sentencepiece model", max_bytes=_MAX_BYTES, action=_ACTION)
    scores: dict[str, float] = {}
    table = b""
    try:
        for field, value in _fields(data):
            if field == 1 and isinstance(value, bytes):
                parts = dict(_fields(value))
                text, score, kind = parts.get(1, b""), parts.get(2, b"\0" * 4), parts.get(3, _NORMAL)
                if kind == _NORMAL and isinstance(text, bytes) and isinstance(score, bytes):
                    scores[text.decode()] = struct.unpack("<f", score)[0]
            elif field == 3 and isinstance(value, bytes):
                found = dict(_fields(value)).get(2, b"")
                table = found if isinstance(found, bytes) else b""
    except (ValueError, IndexError, struct.error) as error:
        raise LoadError(
            f"{path} is damaged or not a sentencepiece model.", kind="tokenizer", action=_ACTION
        ) from error
    return scores, table


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Number and value of each field of a message: integers as int, all others as bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 0:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        if kind == 2:
            length, position = _varint(data, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"field of kind {kind}")
        if position + length > len(data):
            raise ValueError("a field is cut short")
        yield tag >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        number |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return number, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


_CONFIG, _MAP = "tokenizer_config.json", "special_tokens_map.json"
_OLDER = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "tokenizer.model", "source.spm",
          "sentencepiece.bpe.model", "spm.model")  # fmt: skip
_ROLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("pad", ("pad_token",)),
    ("unknown", ("unk_token",)),
    ("begin", ("bos_token", "cls_token")),
    ("end", ("eos_token", "sep_token")),
    ("mask", ("mask_token",)),
)
_ACTION = "Restore the tokenizer from the model's origin."
_LONG = 2**21
"""Characters of a tokenizer.json from which on reading it is long enough to be told: some 50,000 pieces."""


def read_vocabulary(folder: Path, library: Any) -> HuggingFaceVocabulary:
    """The tokenizer of a model folder; `library` is transformers, for folders without tokenizer.json.

    Raises LoadError, whatever the files do to the libraries.
    """
    names = _named_tokens(folder)
    source = target = None
    if _is_marian_folder(folder) and not (folder / TOKENIZER_FILE).exists():
        read = [ReadTokenizer(each) for each in _read_marian(folder)]
        backend, source, target = (each.library for each in read)
    else:
        read = [_read_backend(folder, library)]
        backend = read[0].library
    roles: dict[str, int] = {}
    for role, keys in _ROLES:
        found = [backend.token_to_id(names[key]) for key in keys if key in names]
        if known := [id for id in found if id is not None]:
            roles[role] = known[0]
    try:
        with without_panic_words():
            vocabulary = HuggingFaceVocabulary(backend, roles, source=source, target=target)
    except LoadError as error:
        raise LoadError(
            f"The tokenizer in {folder} is not usable. {error.happened}",
            kind=error.kind,
            expected=error.expected,
            action=_ACTION,
        ) from error
    vocabulary.entries.keeps = read
    return vocabulary


def _read_backend(folder: Path, library: Any) -> ReadTokenizer:
    """The library's tokenizer, shared by models whose tokenizer.json has the same content.

    It holds the interpreter while it reads a vocabulary, and with it the window: 0.3–0.6 s of processor
    time for 250,000 pieces of a unigram model, 1.1–1.4 s for as many of BPE with 570,000 merges, whichever
    of `from_str`, `from_file`, `from_buffer`, unpickling or the model's own class is called (tokenizers
    0.23), and it cannot be done in pieces. A process that served encodings would be asked over a pipe for
    single tokens by the hundred thousand and could die on its own; so a file is read once, and of a large
    one the window says what it waits for. Drop when the library releases the interpreter.
    """
    path = folder / TOKENIZER_FILE
    if path.exists() or path.is_symlink():
        content = read_tokenizer_file(contained_file(folder, TOKENIZER_FILE))
        with library_errors(f"The tokenizer {path} is not usable", action=_ACTION), without_panic_words():
            return shelf().take(content, _read_content)
    older = [name for name in _OLDER if (folder / name).exists()]
    if not older:
        raise LoadError(
            f"{folder} has no {TOKENIZER_FILE}.",
            kind="missing",
            expected="the tokenizer that was saved with the model",
            action="Save the tokenizer into the folder with save_pretrained.",
        )
    for name in older:
        contained_file(folder, name)
    for other in folder.iterdir():  # the library opens whichever of them it knows
        if other.exists() and not other.is_dir():
            regular_size(other)
    with library_faults(
        f"The tokenizer of {folder} cannot be built from {', '.join(older)}", kind="tokenizer", action=_ACTION
    ):
        built = library.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False, use_fast=True
        )
    backend = getattr(built, "backend_tokenizer", None)
    if not isinstance(backend, LibraryTokenizer):
        raise LoadError(
            f"The tokenizer {type(built).__name__} exists only in Python.",
            kind="tokenizer",
            expected=f"a {TOKENIZER_FILE}",
            action="Convert the tokenizer to the tokenizers format and save it beside the model.",
        )
    return ReadTokenizer(backend)


def _read_content(content: str) -> LibraryTokenizer:
    if len(content) >= _LONG:
        tell_and_wait("Reading a large vocabulary: the window pauses…")
    return LibraryTokenizer.from_str(content)


def _is_text(content: str) -> bool:
    """Whether it can be looked up: half of a surrogate pair is not a token of any vocabulary."""
    return not any("\ud800" <= letter <= "\udfff" for letter in content)


def _named_tokens(folder: Path) -> dict[str, str]:
    """Special tokens by their names in older files (`cls_token` and so on)."""
    found: dict[str, str] = {}
    for name in (_MAP, _CONFIG):
        path = folder / name
        if not path.exists():
            continue
        held = read_json(contained_file(folder, name), has_infinity=True)
        values = as_object(held, what=str(path), kind="tokenizer")
        for key, value in values.items():
            content = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(content, str) and _is_text(content):
                found[key] = content
    return found
