"""A whole vocabulary, compact enough to cross in one go; what is searched in it, and one piece in detail.

symbol   meaning                                                    shape
ends     where each piece ends in `text`; piece k begins where k−1 ends   [size], int32
kinds    index into PIECE_KINDS                                     [size], uint8
lengths  characters of the piece, or bytes where it is none         [size], int32
scores   merge rank or log-probability; NaN where there is none     [size], float32
alphabet place of the piece in alphabetical order                   [size], int32
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.requests import Reply, Request
from attnscope.records.splits import SplitStep
from attnscope.records.tokens import Tokens

PieceKind = Literal["special", "word start", "continuation", "byte", "unused"]
PIECE_KINDS: tuple[PieceKind, ...] = ("special", "word start", "continuation", "byte", "unused")
SearchMode = Literal["contains", "regex", "id"]
SortKey = Literal["id", "piece", "kind", "length", "score"]
MAX_QUERY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyTable:
    """Every piece of a vocabulary by its id; `score_name` is empty where pieces have no score."""

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
            array = frozen_array(getattr(self, name), dtype=dtype, rank=1, name=name)
            if len(array) != len(self.ends):
                raise ValueError(f"{name} has {len(array)} entries for {len(self.ends)} pieces")
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.ends)

    def piece(self, id: int) -> str:
        """The piece of an id, blanks made visible."""
        return self.text[int(self.ends[id - 1]) if id else 0 : int(self.ends[id])]

    def piece_kind(self, id: int) -> PieceKind:
        return PIECE_KINDS[int(self.kinds[id])]


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceDetail:
    """One piece: the entry as the file writes it, its bytes and characters, its merges, its neighbours.

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
    """The whole vocabulary of the open model. Newest wins, as with all of these."""

    is_view = True
    needs_model = "A vocabulary"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPieces(Request):
    """The ids of the pieces that fit, sorted; `kinds` empty: every kind. Mode `id` takes a list of ids."""

    is_view = True
    needs_model = "A vocabulary"
    query: str = ""
    mode: SearchMode = "contains"
    kinds: tuple[PieceKind, ...] = ()
    sort: SortKey = "id"
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPiece(Request):
    """One piece in detail."""

    is_view = True
    needs_model = "A vocabulary"
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellText(Request):
    """The tokens of a text alone, without what the model puts around it."""

    is_view = True
    needs_model = "A vocabulary"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyShown(Reply):
    """The vocabulary that was asked for."""

    table: VocabularyTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecesFound(Reply):
    """Ids in the order that was asked for, int32; `note` says what was not understood."""

    ids: NDArray[np.int32]
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", frozen_array(self.ids, dtype=np.int32, rank=1, name="ids"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceShown(Reply):
    """The piece that was asked for."""

    detail: PieceDetail


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpelled(Reply):
    """The tokens of the text; `unknown_id` is what stands for pieces that are not there."""

    tokens: Tokens
    unknown_id: int | None = None
