"""Untrained tokenizers of the `tokenizers` library, one for each kind, and their trainers.

Every vocabulary begins with the same five special tokens, so their ids are 0 to 4 everywhere.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal, get_args

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import RecipeError

TokenizerKind = Literal["bpe", "byte-bpe", "wordpiece", "unigram", "words", "characters"]
KINDS: tuple[str, ...] = get_args(TokenizerKind)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")

WORD_PATTERN = (
    r"(?i:\b(?:[ldnjscmt]|qu|lorsqu|puisqu|jusqu)'|\p{L}+(?=n't\b)|n't\b|'(?:s|m|re|ve|ll|d)\b)"
    r"|[\p{L}\p{M}\p{N}_]+|[^\s]"
)
"""A word, a number, or one sign; French elisions (l', n') and English contractions (n't, 's) stand apart."""

CHARACTER_PATTERN = r"[\s\S]"


def build_pipeline(
    kind: str, *, vocab_size: int, letters: Sequence[str] = ()
) -> tuple[LibraryTokenizer, Any]:
    """An untrained tokenizer of the given kind, and the trainer for it.

    `letters`, most frequent first, are what `wordpiece` starts from. Raises RecipeError for an unknown
    kind or a vocabulary too small for the kind.
    """
    if kind not in KINDS:
        raise RecipeError(
            f"There is no tokenizer kind {kind!r}.",
            expected="one of " + ", ".join(KINDS),
            action="Change tokenizer.kind.",
        )
    least = len(SPECIALS) + (256 if kind == "byte-bpe" else 3)
    if (
        isinstance(vocab_size, bool)
        or not isinstance(vocab_size, int)
        or not least <= vocab_size <= 1_000_000
    ):
        raise RecipeError(
            f"A vocabulary of {vocab_size!r} pieces is impossible for the tokenizer kind {kind}.",
            expected=f"a whole number from {least} to 1000000",
            action="Change tokenizer.vocab_size.",
        )
    builders = {
        "bpe": _build_bpe,
        "byte-bpe": _build_byte_bpe,
        "wordpiece": _build_wordpiece,
        "unigram": _build_unigram,
        "words": _build_words,
        "characters": _build_characters,
    }
    library, trainer = builders[kind](vocab_size)
    if kind == "wordpiece":
        trainer = _wordpiece_trainer(vocab_size, letters)
    return library, trainer


def _build_byte_bpe(vocab_size: int) -> tuple[LibraryTokenizer, Any]:
    """Byte-level byte-pair encoding (Radford et al. 2019): reads any text, loses nothing."""
    library = LibraryTokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return library, trainer


def _spaces_to_metaspace() -> Any:
    """Spaces become ▁ before the word; lines and signs stand apart (so no piece spells a special token)."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="first"),
            pre_tokenizers.Split(Regex(r"[\r\n]"), "isolated"),
            pre_tokenizers.Punctuation(),
        ]
    )


def _build_bpe(vocab_size: int) -> tuple[LibraryTokenizer, Any]:
    """Byte-pair encoding on characters (Sennrich et al. 2016)."""
    library = LibraryTokenizer(models.BPE(unk_token="<unk>"))
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = _spaces_to_metaspace()
    library.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        limit_alphabet=vocab_size - len(SPECIALS),
        show_progress=False,
    )
    return library, trainer


def _build_wordpiece(vocab_size: int) -> tuple[LibraryTokenizer, Any]:
    """WordPiece as in BERT (Devlin et al. 2019), letters' case and accents kept."""
    library = LibraryTokenizer(models.WordPiece(unk_token="<unk>"))
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    return library, None  # its trainer needs the letters


def _wordpiece_trainer(vocab_size: int, letters: Sequence[str]) -> Any:
    """The library numbers ## letters in the order of a hash table; given as tokens they keep ours."""
    kept = letters[: (vocab_size - len(SPECIALS)) // 2]
    return trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIALS, *(f"##{letter}" for letter in kept)],
        initial_alphabet=sorted(kept),
        limit_alphabet=len(kept),
        show_progress=False,
    )


def without_extra_tokens(library: LibraryTokenizer) -> LibraryTokenizer:
    """The same tokenizer, in which only the five special tokens are special."""
    state = json.loads(library.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in SPECIALS]
    return LibraryTokenizer.from_str(json.dumps(state))


def _build_unigram(vocab_size: int) -> tuple[LibraryTokenizer, Any]:
    """Unigram language model (Kudo 2018)."""
    library = LibraryTokenizer(models.Unigram())
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = _spaces_to_metaspace()
    library.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIALS), unk_token="<unk>", show_progress=False
    )
    return library, trainer


def _build_words(vocab_size: int) -> tuple[LibraryTokenizer, Any]:
    """Whole words and single signs, the most frequent ones."""
    library = LibraryTokenizer(models.WordLevel(unk_token="<unk>"))
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True)
    return library, _word_trainer(vocab_size)


def _build_characters(vocab_size: int) -> tuple[LibraryTokenizer, Any]:
    """Single characters, the most frequent ones; a space is a token of its own."""
    library = LibraryTokenizer(models.WordLevel(unk_token="<unk>"))
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER_PATTERN), "isolated")
    library.decoder = decoders.Fuse()
    return library, _word_trainer(vocab_size)


def _word_trainer(vocab_size: int) -> Any:
    return trainers.WordLevelTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIALS), show_progress=False
    )
