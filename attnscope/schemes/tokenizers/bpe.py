"""Byte-pair encoding on characters (Sennrich et al. 2016)."""

from collections import Counter
from typing import Any

from attnscope.schemes.tokenizers.kind import (
    SPECIALS,
    Library,
    TokenizerKind,
    model_name,
    spaces_to_metaspace,
)


class Bpe(TokenizerKind):
    name, title, order = "bpe", "BPE", 3
    words = "pieces of words, merged pair by pair"
    source = "Sennrich et al. 2016"

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, decoders, models, normalizers

        library = Tokenizer(models.BPE(unk_token="<unk>"))
        library.normalizer = normalizers.NFC()
        library.pre_tokenizer = spaces_to_metaspace()
        library.decoder = decoders.Metaspace(prepend_scheme="first")
        return library

    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any:
        from tokenizers import trainers

        return trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIALS),
            limit_alphabet=vocab_size - len(SPECIALS),
            show_progress=False,
        )

    def is_kind_of(self, library: Library) -> bool:
        return model_name(library) == "BPE"
