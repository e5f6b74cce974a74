"""Shared by all kinds of tokenizers."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from attnscope.schemes import Scheme

_A_PIECE = 0.38
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
Library = Any
"""A tokenizer of the library `tokenizers`."""


class Seen(Protocol):
    """The contents of the texts that a tokenizer was trained on."""

    @property
    def words(self) -> Mapping[str, int]:
        """Counts of words, as the kind splits texts; computed for kinds that need them."""

    @property
    def has_capitals(self) -> bool:
        """Whether there is a capital letter."""


class TokenizerKind(Scheme, ABC):
    """A kind: how it is created, trained and recognised."""

    words: ClassVar[str] = ""
    """Description of its tokens."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ("vocab_size",)
    """The further keys of [tokenizer] that it reads."""
    least: ClassVar[int] = 3
    """The fewest pieces that make sense, special tokens not counted."""
    pieces: ClassVar[str] = "pieces of words"
    """Usual name of its tokens."""
    is_of_words: ClassVar[bool] = False
    """Whether each token is a whole word or punctuation mark, with spaces inferred by rules."""
    splits_words: ClassVar[bool] = True
    """Whether words fall into pieces, step by step, so that the steps can be shown."""
    has_space_tokens: ClassVar[bool] = False
    """Whether a space is a token of its own, and no part of the word after it."""
    needs_letters: ClassVar[bool] = False
    """Whether its trainer must know beforehand which letters there are."""
    counts_words: ClassVar[bool] = False
    """Whether words are to be counted while it is trained."""

    def n_tokens(self, text: str, vocab_size: int) -> int:
        """Estimated number of tokens in a text, before there is a tokenizer.

        Of pieces one is taken for every 0.38 · ln V characters: 3.3 where V is 6,000, as measured on everyday
        English and French.
        """
        return math.ceil(len(text) / (_A_PIECE * math.log(max(vocab_size, 3))))

    @abstractmethod
    def untrained(self) -> Library:
        """A tokenizer before training."""

    @abstractmethod
    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any: ...

    def finished(self, library: Library, seen: Seen) -> Library:
        """Finish a tokenizer after its training."""
        return library

    @abstractmethod
    def is_kind_of(self, library: Library) -> bool:
        """Whether a tokenizer, whoever made it, is of this kind."""


def said_of(component: object) -> str:
    """A tokenizer part's own settings, as JSON; empty for a missing part."""
    return "" if component is None else str(component.__getstate__().decode("utf-8"))  # type: ignore[attr-defined]


def model_name(library: Library) -> str:
    """The library's model for a tokenizer."""
    return type(library.model).__name__


def byte_alphabet() -> dict[str, int]:
    """The 256 letters by which byte-level vocabularies represent bytes, as in GPT-2 (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    return letters | {chr(256 + n): byte for n, byte in enumerate(others)}


def spaces_to_metaspace() -> Any:
    """Spaces become ▁ before the word; lines and punctuation are separate (so no piece spells a special
    token).
    """
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="first"),
            pre_tokenizers.Split(Regex(r"[\r\n]"), "isolated"),
            pre_tokenizers.Punctuation(),
        ]
    )


class WholeWords(TokenizerKind):
    """Shared by words and characters: a list of the most frequent ones."""

    splits_words = False

    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any:
        from tokenizers import trainers

        return trainers.WordLevelTrainer(
            vocab_size=vocab_size, special_tokens=list(SPECIALS), show_progress=False
        )

    def finished(self, library: Library, seen: Seen) -> Library:
        """A tokenizer that saw no capital letter reads capitals as lower case."""
        from tokenizers import normalizers

        if not seen.has_capitals:
            library.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
        return library
