"""Data of the tokenizer labs: how tokenizers split a text, whole vocabularies, and several kinds compared.

A text is split by merges (BPE), longest matches (WordPiece) or lattices (Unigram). A vocabulary is compact
enough to cross in one go; it is searched, and shown piece by piece:

symbol   meaning                                                    shape
ends     where each piece ends in `text`; piece k begins where k−1 ends   [size], int32
kinds    index into PIECE_KINDS                                     [size], uint8
lengths  characters of the piece, or bytes where it is none         [size], int32
scores   merge rank or log-probability; NaN where there is none     [size], float32
alphabet place of the piece in alphabetical order                   [size], int32

Tokenizers compared on one text:

    symbol  meaning                                              unit
    n       tokens of the measured part                          tokens
    H       −Σ p log₂ p over the measured tokens (Shannon 1948)  bits per token
    density n / pieces used: how often a used piece is met       tokens per piece

Tokens per word is the fertility of Rust et al. 2021. Bits per character, H · n / characters, is what the
text costs in a code for single tokens (Zouhar et al. 2023 weigh tokenizers by such a code).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records import freeze
from attnscope.records.requests import News, Reply, Request
from attnscope.records.tokens import Token, Tokens
from attnscope.schemes import tokenizers

SplitKind = Literal["merges", "longest-match", "lattice", "lookup"]
SplitSource = Literal["model", "text", "sample"]
"""Whose tokenizer: the open model's, one trained on the typed text, or one trained on the sample text."""
MAX_SPLIT_CHARACTERS = 600
NO_ID = -1
"""Stands for the rest of a word that has yet to be split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWord:
    """The current splitting of one word: its pieces as displayed, and their ids."""

    pieces: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way to split a word, and its log-probability in nats."""

    pieces: tuple[str, ...]
    log_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStep:
    """The words after one step, and its description.

    `left` and `right` became `made`, the merge of that `rank`; elsewhere `made` is the piece found after
    `n_tried` longer candidates. `changed` are the pieces that the step made, as (word, piece).
    """

    words: tuple[SplitWord, ...]
    made: str
    left: str = ""
    right: str = ""
    rank: int | None = None
    n_tried: int = 0
    changed: tuple[tuple[int, int], ...] = ()
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """One rule of a BPE tokenizer; `count` is the frequency of the pair in the training text, if known."""

    rank: int
    left: str
    right: str
    made: str
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReplay:
    """The splitting of a text from the first step to the last.

    `start` are the words before any step. `rules` are all of a small tokenizer's, else those used here, of
    `n_rules`. `is_proved` says that the last step has the very ids of the tokenizer itself; `n_unknown`
    counts pieces it has no entry for; `n_cut` characters of the text were left out.
    """

    kind: SplitKind
    tokenizer: str
    vocab_size: int
    text: str
    start: tuple[SplitWord, ...]
    steps: tuple[SplitStep, ...]
    rules: tuple[MergeRule, ...] = ()
    n_rules: int = 0
    is_proved: bool = False
    n_unknown: int = 0
    unknown_id: int | None = None
    n_cut: int = 0

    @property
    def last(self) -> tuple[SplitWord, ...]:
        """The words after every step."""
        return self.steps[-1].words if self.steps else self.start

    def words_at(self, step: int) -> tuple[SplitWord, ...]:
        """The words after `step` steps."""
        return self.start if step <= 0 or not self.steps else self.steps[min(step, len(self.steps)) - 1].words


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySplits(Request):
    """Replay how a tokenizer splits `text`; `kind` and `vocab_size` are of one trained here. Newest wins."""

    is_view = True
    text: str
    source: SplitSource = "model"
    kind: str = "bpe"
    vocab_size: int = 200

    @property
    def beyond_recordings(self) -> str:
        """Part of it that only a running model can answer."""
        return "Its tokenizer" if self.source == "model" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsReplayed(Reply):
    """Reply to ReplaySplits."""

    replay: SplitReplay


PieceKind = Literal["special", "word start", "continuation", "byte", "unused"]
PIECE_KINDS: tuple[PieceKind, ...] = ("special", "word start", "continuation", "byte", "unused")
SearchMode = Literal["contains", "regex", "id"]
SortKey = Literal["id", "piece", "kind", "length", "score"]
MAX_QUERY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyTable:
    """Every piece of a vocabulary by its id; `score_name` is empty if pieces have no score."""

    name: str
    kind: str
    text: str
    ends: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    lengths: NDArray[np.int32]
    scores: NDArray[np.float32]
    alphabet: NDArray[np.int32]
    score_name: str = ""

    def __post_init__(self) -> None:
        for name, dtype in (
            ("ends", np.int32),
            ("kinds", np.uint8),
            ("lengths", np.int32),
            ("scores", np.float32),
            ("alphabet", np.int32),
        ):
            freeze(self, name, dtype=dtype, rank=1, shape=(len(self.ends),))

    def __len__(self) -> int:
        return len(self.ends)

    def piece(self, id: int) -> str:
        """The piece of an id, with visible spaces."""
        return self.text[int(self.ends[id - 1]) if id else 0 : int(self.ends[id])]

    def piece_kind(self, id: int) -> PieceKind:
        return PIECE_KINDS[int(self.kinds[id])]


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceDetail:
    """One piece: its entry in the file, its bytes and characters, its merges, its neighbours.

    `characters` are (character, code point and name); `merges` the steps from letters to the piece;
    `nearest` the pieces whose embeddings have the largest cosine, as (id, piece, cosine).
    """

    id: int
    piece: str
    kind: PieceKind
    entry: str
    data: bytes
    characters: tuple[tuple[str, str], ...] = ()
    merges: tuple[SplitStep, ...] = ()
    nearest: tuple[tuple[int, str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowVocabulary(Request):
    """Ask for the whole vocabulary of the open model. Newest wins, as with all of these."""

    is_view = True
    needs_model = "A vocabulary"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPieces(Request):
    """Find the ids of matching pieces, sorted; `kinds` empty: every kind. Mode `id` takes a list of ids."""

    is_view = True
    needs_model = "A vocabulary"
    query: str = ""
    mode: SearchMode = "contains"
    kinds: tuple[PieceKind, ...] = ()
    sort: SortKey = "id"
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPiece(Request):
    """Ask for one piece in detail."""

    is_view = True
    needs_model = "A vocabulary"
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellText(Request):
    """Ask for the tokens of a text alone, without the model's special ones."""

    is_view = True
    needs_model = "A vocabulary"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyShown(Reply):
    """Reply to ShowVocabulary."""

    table: VocabularyTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecesFound(Reply):
    """Ids in the requested order, int32; `note` says what was not understood."""

    ids: NDArray[np.int32]
    note: str = ""

    def __post_init__(self) -> None:
        freeze(self, "ids", dtype=np.int32, rank=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceShown(Reply):
    """Reply to ShowPiece."""

    detail: PieceDetail


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpelled(Reply):
    """The tokens of the text; `unknown_id` is the id of missing pieces."""

    tokens: Tokens
    unknown_id: int | None = None


KINDS: dict[str, str] = {kind.name: kind.title for kind in tokenizers.KINDS.values()}
"""The kinds in the order they are shown, and what people call them."""
SIZES: tuple[int, ...] = (100, 200, 400, 800, 1600)
MAX_COMPARED_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerRow:
    """One tokenizer measured; `vocab_size` is its actual number of pieces, of the `asked` ones.

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
    """The training and evaluation texts: characters and words of both, which are one if none is held out."""

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
    """Progress of the comparison: every row so far, the next step, and `fraction` in 0…1.

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
