"""Tokens as people read them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token: its id, and its piece as a person reads it (no Ġ, ▁, ## or broken UTF-8).

    `joins_previous` says that the piece continues the word before it; `start` and `end` are
    character offsets in the text (both 0 for tokens that do not stand in the text).
    """

    id: int
    piece: str
    is_special: bool = False
    joins_previous: bool = False
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of one text, with what was lost on the way.

    `n_dropped` counts tokens cut off because the model takes no more; `n_unknown` counts tokens the
    tokenizer has no piece for; `n_replaced` counts characters replaced by U+FFFD before encoding;
    `n_cut` counts characters cut off a huge text before encoding.
    """

    text: str
    tokens: tuple[Token, ...]
    n_dropped: int = 0
    n_unknown: int = 0
    n_replaced: int = 0
    n_cut: int = 0

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids in order."""
        return tuple(token.id for token in self.tokens)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces in order."""
        return tuple(token.piece for token in self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)
