"""Tokenizers of every kind compared on one text.

    symbol  meaning                                              unit
    n       tokens of the measured part                          tokens
    H       −Σ p log₂ p over the measured tokens (Shannon 1948)  bits per token
    density n / pieces used: how often a used piece is met       tokens per piece

Tokens per word is the fertility of Rust et al. 2021. Bits per character, H · n / characters, is what the
text costs in a code for single tokens (Zouhar et al. 2023 weigh tokenizers by such a code).
"""

from dataclasses import dataclass

from attnscope.records.requests import News, Request
from attnscope.records.tokens import Token
from attnscope.schemes import tokenizers

KINDS: dict[str, str] = {kind.name: kind.title for kind in tokenizers.KINDS.values()}
"""The kinds in the order they are shown, and what people call them."""
SIZES: tuple[int, ...] = (100, 200, 400, 800, 1600)
MAX_COMPARED_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerRow:
    """One tokenizer measured; `vocab_size` is what it got of the `asked` pieces.

    `refusal` says why there is none of this kind and size; the numbers are then 0.
    """

    kind: str
    asked: int
    vocab_size: int = 0
    n_tokens: int = 0
    tokens_per_word: float = 0.0
    tokens_per_character: float = 0.0
    n_used: int = 0
    unknown_share: float = 0.0
    bits_per_token: float = 0.0
    bits_per_character: float = 0.0
    density: float = 0.0
    train_ms: float = 0.0
    sentence: tuple[Token, ...] = ()
    unknown_id: int | None = None
    refusal: str = ""

    @property
    def used_share(self) -> float:
        """The share of the vocabulary that the measured text uses."""
        return self.n_used / self.vocab_size if self.vocab_size else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedText:
    """What was trained on and measured: characters and words of both, which are one if none is held out."""

    name: str
    n_characters: int
    n_words: int
    n_measured_characters: int
    n_measured_words: int
    n_cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTokenizers(Request):
    """Train a tokenizer of each kind and size on a text and measure it; news come one by one.

    The text is that of the file `path`, or `text`, or the sample text. With `is_held_out` the last fifth
    is measured and not trained on. `sentence` is split by every tokenizer. Newest wins.
    """

    text: str = ""
    path: str = ""
    sentence: str = ""
    kinds: tuple[str, ...] = tuple(KINDS)
    sizes: tuple[int, ...] = SIZES
    is_held_out: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizersNews(News):
    """How far the comparison is: every row so far, what comes next, and `fraction` in 0…1.

    `is_new` says that a row has come since the news before.
    """

    rows: tuple[TokenizerRow, ...] = ()
    fraction: float = 0.0
    what: str = ""
    is_done: bool = False
    is_new: bool = False
    text: ComparedText | None = None

    @property
    def is_passing(self) -> bool:
        """Whether it has no new row and is not the last."""
        return not self.is_new and not self.is_done
