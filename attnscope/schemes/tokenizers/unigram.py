"""Unigram language model (Kudo 2018)."""

from collections import Counter
from typing import Any

from attnscope.schemes.tokenizers.kind import (
    SPECIALS,
    Library,
    Seen,
    TokenizerKind,
    model_name,
    spaces_to_metaspace,
)


class Unigram(TokenizerKind):
    name, title, order = "unigram", "Unigram", 5
    words = "pieces of words, the likeliest split of each"
    source = "Kudo 2018"
    counts_words = True

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, decoders, models, normalizers

        library = Tokenizer(models.Unigram())
        library.normalizer = normalizers.NFC()
        library.pre_tokenizer = spaces_to_metaspace()
        library.decoder = decoders.Metaspace(prepend_scheme="first")
        return library

    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any:
        from tokenizers import trainers

        return trainers.UnigramTrainer(
            vocab_size=vocab_size, special_tokens=list(SPECIALS), unk_token="<unk>", show_progress=False
        )

    def finished(self, library: Library, seen: Seen) -> Library:
        """The same pieces with scores that do not depend on the order of a hash table."""
        from attnscope.schemes.unigram_scores import with_settled_scores

        return with_settled_scores(library, seen.words, len(SPECIALS))

    def is_kind_of(self, library: Library) -> bool:
        return model_name(library) == "Unigram"
