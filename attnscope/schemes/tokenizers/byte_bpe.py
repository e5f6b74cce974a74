"""Byte-level byte-pair encoding (Radford et al. 2019): reads any text without loss."""

from collections import Counter
from typing import Any

from attnscope.schemes.tokenizers.kind import SPECIALS, Library, TokenizerKind, model_name, said_of


class ByteBpe(TokenizerKind):
    name, title, order = "byte-bpe", "byte-level BPE", 6
    words = "pieces merged of bytes, so that any text can be read"
    source = "Radford et al. 2019"
    least = 256

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        library = Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        return library

    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any:
        from tokenizers import pre_tokenizers, trainers

        return trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIALS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )

    def is_kind_of(self, library: Library) -> bool:
        parts = (library.pre_tokenizer, library.decoder)
        return model_name(library) == "BPE" and any("ByteLevel" in said_of(part) for part in parts)
