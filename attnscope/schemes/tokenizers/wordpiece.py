"""WordPiece as in BERT (Devlin et al. 2019), with case and accents kept."""

import json
from collections import Counter
from typing import Any

from attnscope.schemes.tokenizers.kind import SPECIALS, Library, Seen, TokenizerKind, model_name


class WordPiece(TokenizerKind):
    name, title, order = "wordpiece", "WordPiece", 4
    words = "pieces of words, those inside a word marked by ##"
    source = "Devlin et al. 2019"
    needs_letters = True

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

        library = Tokenizer(models.WordPiece(unk_token="<unk>"))
        library.normalizer = normalizers.NFC()
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        library.decoder = decoders.WordPiece()
        return library

    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any:
        """The library numbers ## letters in the order of a hash table; given as tokens they keep ours."""
        from tokenizers import trainers

        ranked = sorted(letters, key=lambda letter: (-letters[letter], letter))
        kept = ranked[: (vocab_size - len(SPECIALS)) // 2]
        return trainers.WordPieceTrainer(
            vocab_size=vocab_size,
            special_tokens=[*SPECIALS, *(f"##{letter}" for letter in kept)],
            initial_alphabet=sorted(kept),
            limit_alphabet=len(kept),
            show_progress=False,
        )

    def finished(self, library: Library, seen: Seen) -> Library:
        """Only the five special tokens stay special."""
        from tokenizers import Tokenizer

        state = json.loads(library.to_str())
        state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in SPECIALS]
        return Tokenizer.from_str(json.dumps(state))

    def is_kind_of(self, library: Library) -> bool:
        return model_name(library) == "WordPiece"
