"""The program's tokenizer: text to readable tokens, and back.

It wraps one tokenizer of the `tokenizers` library. Text from people is cleaned first, is cut into
chunks (the library holds the interpreter while it encodes), and spells no special token but the mask and
the sentinels of hidden spans.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError, RecipeError
from attnscope.records.tokens import Token, Tokens
from attnscope.schemes.tokenizers import KINDS, SPECIALS, TokenizerKind
from attnscope.text.safety import (
    MAX_CHUNK_CHARACTERS,
    chunks,
    clean_text,
    library_errors,
    without_panic_words,
)
from attnscope.text.vocabulary import (
    TOKENIZER_FILE,
    Entry,
    Vocabulary,
    place_tokens,
    read_tokenizer_file,
    require_sane_count,
    sentinel,
)

_PROBE = "The 1st café, 漢字 – «x» 😀.\n  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! "
_TEXT_FAILED = "The tokenizer cannot read this text"
_TEXT_ACTION = "Change the text, or load another tokenizer."


class Tokenizer:
    """Text to tokens and back, for one vocabulary."""

    def __init__(self, library: LibraryTokenizer) -> None:
        """Wrap a tokenizer of the `tokenizers` library; raises LoadError if it cannot be used."""
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True
        self._library = library
        self._vocabulary = Vocabulary(library)
        self.kind: str = self._vocabulary.kind
        self.vocab_size: int = self._vocabulary.size
        self._spelled = self._build_spelled()
        self._spelled_pattern = self._build_spelled_pattern()
        self.encode_ids(_PROBE)
        self.decode(range(min(self.vocab_size, 300)))

    def _build_spelled(self) -> dict[str, int]:
        """The special tokens that may be typed in a text, and their ids."""
        mask = self._vocabulary.roles.get("mask")
        if mask is None:
            return dict(self._vocabulary.sentinels)
        literals = ("<mask>", "[MASK]", self._library.id_to_token(mask) or "<mask>")
        return dict.fromkeys(literals, mask) | self._vocabulary.sentinels

    def _build_spelled_pattern(self) -> re.Pattern[str] | None:
        if not self._spelled:
            return None
        return re.compile("|".join(re.escape(literal) for literal in sorted(self._spelled)))

    def with_sentinels(self, n: int) -> "Tokenizer":
        """This tokenizer with `n` sentinels after its other pieces, which keep their ids."""
        library = LibraryTokenizer.from_str(self._library.to_str(pretty=False))
        library.add_special_tokens([sentinel(i) for i in range(n)])
        return Tokenizer(library)

    def knowing(self, source: Tokens) -> "Tokenizer":
        """This tokenizer with the source words that it lacks (See et al. 2017, section 2.2).

        Their ids follow those of the vocabulary, in the order in which they first occur; `vocab_size` stays.
        `source` may be encoded by this tokenizer or by the one that it gives. Only where tokens are words.
        """
        found: dict[str, None] = {}
        for token in source.tokens if KINDS[self.kind].is_of_words else ():
            if token.id == self._vocabulary.roles.get("unknown") or token.id >= self.vocab_size:
                found.setdefault(token.own)
        return self.with_words(tuple(found))

    def with_words(self, words: tuple[str, ...]) -> "Tokenizer":
        """This tokenizer with words after its vocabulary; itself if there are none."""
        if not words:
            return self
        longer = copy(self)
        longer._vocabulary = self._vocabulary.with_words(words)
        return longer

    @property
    def entries(self) -> Vocabulary:
        return self._vocabulary

    def has(self, role: str) -> bool:
        return role in self._vocabulary.roles

    @property
    def pad_id(self) -> int:
        """Id of the padding token, never attended to: the end token if there is no other.

        Raises UserError where there is no such token, as all these do.
        """
        return self._vocabulary.role("pad" if self.has("pad") else "end")

    @property
    def unknown_id(self) -> int:
        """Id of the token for unknown text."""
        return self._vocabulary.role("unknown")

    @property
    def begin_id(self) -> int:
        """Id of the token before the first."""
        return self._vocabulary.role("begin")

    @property
    def end_id(self) -> int:
        return self._vocabulary.role("end")

    @property
    def mask_id(self) -> int:
        return self._vocabulary.role("mask")

    @property
    def sentinel_ids(self) -> tuple[int, ...]:
        """Ids of the sentinels for hidden spans, in order; most tokenizers have none."""
        return tuple(self._vocabulary.sentinels.values())

    # -- text to tokens -------------------------------------------------------------------------

    def encode(
        self, text: str, *, add_begin: bool = False, add_end: bool = False, max_tokens: int | None = None
    ) -> Tokens:
        """The tokens of a text, at most `max_tokens` of them including the begin and end tokens.

        Offsets are characters of `text`; `<mask>` and `[MASK]` in it become the mask token, `<extra_0>` and
        the like the sentinels that the vocabulary has.
        """
        clean = clean_text(text)
        n_around = int(add_begin) + int(add_end)
        limit = None if max_tokens is None else max(0, max_tokens - n_around)
        entries, n_dropped = self._entries(clean.text, limit)
        tokens = place_tokens(clean.text, entries, self._vocabulary)
        if self._vocabulary.words:
            tokens = [self._known(token) for token in tokens]
        if add_begin:
            tokens.insert(0, self.token(self.begin_id))
        if add_end:
            tokens.append(self.token(self.end_id))
        unknown = self._vocabulary.roles.get("unknown")
        return Tokens(
            text=clean.text,
            tokens=tuple(tokens),
            n_dropped=n_dropped,
            n_unknown=sum(entry[0] == unknown for entry in entries),
            n_copyable=sum(token.id >= self.vocab_size for token in tokens),
            n_replaced=clean.n_replaced,
            n_cut=clean.n_cut,
        )

    def _known(self, token: Token) -> Token:
        """The token, or a word in its place; it remains one without a learned embedding."""
        words = self._vocabulary.words
        if token.own not in words:
            return token
        id = self.vocab_size + words.index(token.own)
        return replace(token, id=id, piece=token.own, is_special=False)

    def encode_ids(self, text: str) -> list[int]:
        """The ids of a text of any length, without begin and end tokens."""
        return next(self.encode_lines([text]))

    def encode_lines(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """The ids of each line, encoded in batches of at most 16 kB."""
        batch: list[list[tuple[int, str | int]]] = []
        n_characters = 0
        for line in lines:
            text = clean_text(line, max_characters=None).text
            batch.append(list(self._jobs(text)))
            n_characters += len(text)
            if n_characters >= MAX_CHUNK_CHARACTERS or len(batch) >= 512:
                yield from self._batch_ids(batch)
                batch, n_characters = [], 0
        yield from self._batch_ids(batch)

    def _batch_ids(self, batch: Sequence[Sequence[tuple[int, str | int]]]) -> Iterator[list[int]]:
        encoded = self._encode_strings([part for jobs in batch for _, part in jobs if isinstance(part, str)])
        for jobs in batch:
            ids: list[int] = []
            for _, part in jobs:
                ids.extend([part] if isinstance(part, int) else next(encoded).ids)
            yield ids

    def _jobs(self, text: str) -> Iterator[tuple[int, str | int]]:
        """Cut a text into (offset, chunk), or (offset, id) for a special token."""
        start = 0
        for match in self._spelled_pattern.finditer(text) if self._spelled_pattern else ():
            before = text[start : match.start()]
            if not KINDS[self.kind].has_space_tokens:  # it stands for a word with the space before it
                before = before.removesuffix(" ")
            yield from ((start + offset, chunk) for offset, chunk in chunks(before))
            yield match.start(), self._spelled[match[0]]
            start = match.end()
        yield from ((start + offset, chunk) for offset, chunk in chunks(text[start:]))

    def _encode_strings(self, parts: Sequence[str]) -> Iterator[Any]:
        batch: list[str] = []
        n_characters = 0
        for part in parts:
            if batch and n_characters + len(part) > MAX_CHUNK_CHARACTERS:
                yield from self._encode_batch(batch)
                batch, n_characters = [], 0
            batch.append(part)
            n_characters += len(part)
        yield from self._encode_batch(batch)

    def _encode_batch(self, batch: list[str]) -> Sequence[Any]:
        if not batch:
            return ()
        with library_errors(_TEXT_FAILED, action=_TEXT_ACTION), without_panic_words():
            found: Sequence[Any] = self._library.encode_batch(batch, add_special_tokens=False)
        require_sane_count(sum(map(len, found)), sum(map(len, batch)))
        return found

    def _entries(self, text: str, limit: int | None) -> tuple[list[Entry], int]:
        """The first `limit` tokens of a text, and the number of others."""
        jobs = list(self._jobs(text))
        encoded = self._encode_strings([part for _, part in jobs if isinstance(part, str)])
        entries: list[Entry] = []
        n_dropped = 0
        for offset, part in jobs:
            n_free = None if limit is None else limit - len(entries)
            found: Any = [self._spelled_entry(text, offset)] if isinstance(part, int) else next(encoded)
            n_dropped += 0 if n_free is None else max(0, len(found) - n_free)
            if n_free == 0:
                continue
            if isinstance(part, str):
                spans = zip(found.ids[:n_free], found.offsets[:n_free], strict=True)
                found = [(id, offset + start, offset + end) for id, (start, end) in spans]
            entries.extend(found[:n_free])
        return entries, n_dropped

    def _spelled_entry(self, text: str, offset: int) -> Entry:
        match = self._spelled_pattern.match(text, offset) if self._spelled_pattern else None
        if match is None:
            raise ValueError(f"no special token is spelled at {offset}")
        return self._spelled[match[0]], offset, match.end()

    # -- tokens to text -------------------------------------------------------------------------

    def token(self, id: int) -> Token:
        """One token of the vocabulary, as it reads by itself.

        An id beyond the vocabulary (a model may have more outputs) reads ⟨id 50300⟩.
        """
        return self._vocabulary.token(id)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, without special tokens except unknown ones and sentinels."""
        return self._vocabulary.decode(ids)

    # -- files ----------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write tokenizer.json into `folder`, a temporary folder inside `files.replace_folder`."""
        (folder / TOKENIZER_FILE).write_bytes(self._library.to_str(pretty=False).encode())

    @staticmethod
    def load(folder: Path) -> "Tokenizer":
        """Read tokenizer.json from a folder (or the file itself); raises LoadError if it is not usable."""
        path = folder if folder.suffix == ".json" else folder / TOKENIZER_FILE
        content = read_tokenizer_file(path)
        action = "Restore the file from a copy, or load another tokenizer."
        with library_errors(f"The tokenizer {path} is not usable", action=action), without_panic_words():
            library = LibraryTokenizer.from_str(content)
        try:
            with without_panic_words():
                return Tokenizer(library)
        except LoadError as error:
            raise LoadError(
                f"The tokenizer {path} is not usable. {error.happened}",
                kind=error.kind,
                expected=error.expected,
                action=action,
            ) from error


def train_tokenizer(kind: str, texts: Iterable[str], *, vocab_size: int) -> Tokenizer:
    """Train a tokenizer of the given kind on texts (lines, say).

    The same texts give the same tokenizer.
    A `words` or `characters` tokenizer that saw no capital letter reads capitals as small letters.
    Raises RecipeError for an impossible kind or size, LoadError when there is nothing to learn from.
    """
    made = kind_to_train(kind, vocab_size)
    library = made.untrained()
    letters: Counter[str] = Counter()
    if made.needs_letters:
        texts = list(texts)
        for text in texts:
            letters.update(unicodedata.normalize("NFC", clean_text(text, max_characters=None).text))
        letters = Counter({letter: n for letter, n in letters.items() if not letter.isspace()})
    seen = _Seen(texts, library if made.counts_words else None)
    action = "Use more text, or change tokenizer.vocab_size."
    happened = f"A tokenizer of kind {kind} with {vocab_size} pieces could not be trained"
    with library_errors(happened, action=action):
        library.train_from_iterator(seen, made.trainer(vocab_size, letters))
    if not seen.has_text:
        raise LoadError("There is no text to train a tokenizer on.", kind="empty", action="Use more text.")
    tokenizer = Tokenizer(made.finished(library, seen))
    if tokenizer.vocab_size > vocab_size:
        raise RecipeError(
            f"{vocab_size} pieces are too few for this text and the tokenizer kind {kind}.",
            expected=f"at least {tokenizer.vocab_size}",
            action="Change tokenizer.vocab_size.",
        )
    return tokenizer


def kind_to_train(kind: str, vocab_size: int) -> TokenizerKind:
    """A kind by its name; raises RecipeError for an unknown one, or an impossible size."""
    found = KINDS.get(kind)
    if found is None:
        raise RecipeError(
            f"There is no tokenizer kind {kind!r}.",
            expected="one of " + ", ".join(KINDS),
            action="Change tokenizer.kind.",
        )
    least = len(SPECIALS) + found.least
    is_number = isinstance(vocab_size, int) and not isinstance(vocab_size, bool)
    if not is_number or not least <= vocab_size <= 1_000_000:
        raise RecipeError(
            f"A vocabulary of {vocab_size!r} pieces is impossible for the tokenizer kind {kind}.",
            expected=f"a whole number from {least} to 1000000",
            action="Change tokenizer.vocab_size.",
        )
    return found


class _Seen:
    """Texts on their way to the trainer, cleaned and cut; records their contents.

    With a library it counts the words as that splits texts into them.
    """

    def __init__(self, texts: Iterable[str], counting: LibraryTokenizer | None = None) -> None:
        self._texts = texts
        self._words_of = _no_words if counting is None else _splitting(counting)
        self.words: Counter[str] = Counter()
        self.has_text = False
        self.has_capitals = False

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            clean = clean_text(text, max_characters=None).text
            self.has_text = self.has_text or (not clean.isspace() and bool(clean))
            self.has_capitals = self.has_capitals or clean != clean.lower()
            for _, chunk in chunks(clean):
                self.words.update(self._words_of(chunk))
                yield chunk


def _no_words(_chunk: str) -> Iterable[str]:
    """Placeholder where words are not counted."""
    return ()


def _splitting(library: LibraryTokenizer) -> Callable[[str], Iterable[str]]:
    """How a library splits a text into words: rebuilt from its parts, since it is locked while it trains."""
    normalizer, splitter = library.normalizer, library.pre_tokenizer
    return lambda chunk: (word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(chunk)))
