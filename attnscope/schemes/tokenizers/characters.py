"""Single characters, the most frequent ones; a space is a token of its own."""

from attnscope.schemes.tokenizers.kind import Library, WholeWords, model_name, said_of

PATTERN = r"[\s\S]"


class Characters(WholeWords):
    name, title, order = "characters", "characters", 2
    words = "single characters, spaces too"
    pieces = "characters"
    has_space_tokens = True

    def untrained(self) -> Library:
        from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

        library = Tokenizer(models.WordLevel(unk_token="<unk>"))
        library.normalizer = normalizers.NFC()
        library.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), "isolated")
        library.decoder = decoders.Fuse()
        return library

    def n_tokens(self, text: str, vocab_size: int) -> int:
        return len(text)

    def is_kind_of(self, library: Library) -> bool:
        pattern = PATTERN.replace("\\", "\\\\")
        return model_name(library) == "WordLevel" and pattern in said_of(library.pre_tokenizer)
