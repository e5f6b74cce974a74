"""Whole words and single punctuation marks, the most frequent ones."""

import re

from attnscope.schemes.tokenizers.kind import Library, WholeWords, model_name

PATTERN = (
    r"(?i:\b(?:[ldnjscmt]|qu|lorsqu|puisqu|jusqu)'|\p{L}+(?=n't\b)|n't\b|'(?:s|m|re|ve|ll|d)\b)"
    r"|[\p{L}\p{M}\p{N}_]+|[^\s]"
)
"""A word, a number, or one sign; French elisions (l', n') and English contractions (n't, 's) stand apart."""


_WORD = re.compile(r"\w+|[^\w\s]")


class Words(WholeWords):
    name, title, order = "words", "words", 1
    words = "whole words and single signs"
    pieces = "words and signs"
    is_of_words = True

    def untrained(self) -> Library:
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

        library = Tokenizer(models.WordLevel(unk_token="<unk>"))
        library.normalizer = normalizers.NFC()
        library.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), "removed", invert=True)
        return library

    def n_tokens(self, text: str, vocab_size: int) -> int:
        return len(_WORD.findall(text))

    def is_kind_of(self, library: Library) -> bool:
        return model_name(library) == "WordLevel"
