"""Readable tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from attnscope.counting import plural

UNKNOWN_PIECES = ("<unk>", "[UNK]", "<UNK>", "<|unk|>")
MAX_OWN = 60
COPYABLE = "outside the vocabulary but can be copied"
"""What a word is that the tokenizer has no piece for, in a model that copies (See et al. 2017)."""
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token: its id, and its readable piece (no Ġ, ▁, ## or broken UTF-8).

    `joins_previous` says that the piece continues the word before it; `start` and `end` are
    character offsets in the text (both 0 for tokens that do not stand in the text). `segment` is 1 for
    tokens of the second of two texts that a model reads as one. `own` is what stands in the text where the
    tokenizer has no piece for it, cut to what a label shows. `read` is of a row's label alone: what had just
    been read where this token is written; see `records.axes.row_labels`.
    """

    id: int
    piece: str
    is_special: bool = False
    joins_previous: bool = False
    start: int = 0
    end: int = 0
    segment: int = 0
    own: str = ""
    read: str = ""

    @property
    def label(self) -> str:
        """Its axis label: its piece, or the letters behind an unknown token."""
        return self.own or self.piece

    @property
    def is_mark(self) -> bool:
        """Whether it is a special token without text; an unknown word still counts as a word."""
        return self.is_special and not self.own


def told_apart(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Names for some tokens in a list: their pieces; if two look alike, the one that begins a word shows its
    space, such as `␣C` beside `C`.
    """
    joined = {token.piece for token in tokens if token.joins_previous and not token.is_special}
    return tuple(
        f"␣{token.piece}" if token.piece in joined and not token.joins_previous else token.piece
        for token in tokens
    )


def own_letters(text: str, piece: str, start: int, end: int) -> str:
    """Letters of `text` behind an unknown `piece`; empty for every other piece."""
    return text[start : min(end, start + MAX_OWN)].strip() if piece in UNKNOWN_PIECES else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of one text, with a record of what was cut or changed.

    `n_dropped` counts tokens cut off because the model takes no more; `n_unknown` counts tokens the
    tokenizer has no piece for, and `n_copyable` those among them that the model can write all the same, by
    copying them from its source; `n_replaced` counts characters replaced by U+FFFD before encoding;
    `n_cut` counts characters cut off a huge text before encoding; `n_untrained` tokens stand at
    positions that the model was never trained on. `sentences` holds, for models that read sentence by
    sentence, the place after the last token of each one. `following` is what a decoder writes after the last
    token; None where these tokens are not read to write the next one.
    """

    text: str
    tokens: tuple[Token, ...]
    n_dropped: int = 0
    n_unknown: int = 0
    n_copyable: int = 0
    n_replaced: int = 0
    n_cut: int = 0
    n_untrained: int = 0
    sentences: tuple[int, ...] = ()
    following: Token | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids in order."""
        return tuple(map(attrgetter("id"), self.tokens))

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces in order."""
        return tuple(token.piece for token in self.tokens)

    @property
    def cut_words(self) -> str:
        """Note on the part not read, for instance `only the first 128 of 43,943 tokens were read`; else
        empty.
        """
        if self.n_dropped:
            n_all = len(self.tokens) + self.n_dropped
            after = plural(self.n_cut, "character after them was", "characters after them were")
            more = f", and {after} not counted" if self.n_cut else ""
            return f"only the first {len(self.tokens):,} of {n_all:,} tokens were read{more}"
        last = plural(self.n_cut, "character was", "characters were")
        return f"the last {last} not read" if self.n_cut else ""

    @property
    def unknown_words(self) -> str:
        """Note on unknown words, for instance `1 token is unknown: hello`; else empty."""
        own = [token for token in self.tokens if token.own]
        kinds = (
            (self.n_strange, "unknown", [t.own for t in own if t.piece in UNKNOWN_PIECES]),
            (self.n_copyable, COPYABLE, [t.own for t in own if t.piece not in UNKNOWN_PIECES]),
        )
        return "; ".join(_counted(n, what, words) for n, what, words in kinds if n)

    @property
    def n_strange(self) -> int:
        """Number of tokens that are unknown and cannot be copied either."""
        return self.n_unknown - self.n_copyable

    @property
    def read_text(self) -> str:
        """The part of the text that was read: to its end, or to the last token before the cut."""
        end = max((token.end for token in self.tokens), default=0)
        return self.text[:end] if self.n_dropped and end else self.text

    def __len__(self) -> int:
        return len(self.tokens)


def _counted(n: int, what: str, own: Sequence[str]) -> str:
    """Number of tokens that are `what`, with the first of their words."""
    words = list(dict.fromkeys(own))
    told = ", ".join(words[:_MOST_TOLD]) + (", …" if len(words) > _MOST_TOLD else "")
    return f"{plural(n, 'token is', 'tokens are')} {what}{told and ': '}{told}"


def typed_segments(tokens: Sequence[Token]) -> tuple[int, ...]:
    """0 and 1 for the tokens of two texts typed as one; empty for a single text.

    The special token that the whole ends with then stands once more within it, and closes the first text, as
    in BERT (Devlin et al. 2018, section 3); RoBERTa has it twice there, side by side.
    """
    if len(tokens) < 4 or not tokens[-1].is_special:
        return ()
    last = len(tokens) - 1
    inner = [i for i in range(1, last) if tokens[i].is_special and tokens[i].id == tokens[last].id]
    if not inner or inner[-1] - inner[0] != len(inner) - 1:
        return ()
    is_word = [not token.is_special for token in tokens]
    if not any(is_word[: inner[0]]) or not any(is_word[inner[-1] :]):
        return ()
    return tuple(int(i > inner[0]) for i in range(len(tokens)))
