"""The bytes of UTF-8, one a token (Xue et al. 2022, ByT5): reads any text and needs no training."""

import json
from collections import Counter
from typing import Any

from attnscope.schemes.tokenizers.kind import (
    SPECIALS,
    Library,
    Seen,
    TokenizerKind,
    byte_alphabet,
    model_name,
    said_of,
)


class Bytes(TokenizerKind):
    name, title, order = "bytes", "bytes", 70
    words = "the bytes of UTF-8, with nothing to learn"
    source = "Xue et al. 2022"
    pieces = "bytes"
    choices = ()
    least = 256
    splits_words = False
    has_space_tokens = True

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        library = Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.decoder = decoders.ByteLevel()
        return library

    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any:
        """A trainer that finds no merges; the vocabulary is set in `finished`."""
        from tokenizers import trainers

        return trainers.BpeTrainer(vocab_size=0, special_tokens=list(SPECIALS), show_progress=False)

    def finished(self, library: Library, seen: Seen) -> Library:
        """Set the special tokens, then byte 0 to byte 255, whatever was read."""
        from tokenizers import Tokenizer

        state = json.loads(library.to_str())
        letters = sorted(byte_alphabet().items(), key=lambda pair: pair[1])
        pieces = [*SPECIALS, *(letter for letter, _ in letters)]
        state["model"]["vocab"] = {piece: id for id, piece in enumerate(pieces)}
        state["model"]["merges"] = []
        return Tokenizer.from_str(json.dumps(state))

    def n_tokens(self, text: str, vocab_size: int) -> int:
        return len(text.encode("utf-8", "replace"))

    def is_kind_of(self, library: Library) -> bool:
        is_byte_level = any("ByteLevel" in said_of(part) for part in (library.pre_tokenizer, library.decoder))
        if model_name(library) != "BPE" or not is_byte_level or library.get_vocab_size() > 256 + 64:
            return False
        return not json.loads(library.to_str())["model"]["merges"]
