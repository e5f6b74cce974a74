"""What heads do between words: dependency relations found, and word alignment.

On the text that is looked at: its gold links, and how well cross-attention agrees with them.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.records.arrays import frozen_array
from attnscope.records.intervals import interval_said, intervals_said
from attnscope.records.measures import Estimate
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import HeadRef

Direction = Literal["to head", "to dependent"]
"""Whether the dependent looks at its head, or the head at its dependent."""
Manner = Literal["voita", "clark"]
"""How an arc is found, after Voita et al. 2019 or Clark et al. 2019: see `analysis/syntax.py`."""
MANNERS_SAID: dict[Manner, str] = {
    "voita": "arcs whose other end the head may see",
    "clark": "own weight left out; from head to dependent, the word that looks most at the dependent",
}
SYNTACTIC_MARGIN = 0.10
"""So far above the best fixed offset makes a head syntactic (Voita et al. 2019, section 5.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxTable:
    """Shares of arcs whose other end gets most weight, of every head, relation and direction.

    All arrays are [n_heads, n_relations]; `baseline` is the share that the best fixed offset between words
    (`offsets`) gets right on the same arcs; `n_arcs` counts arcs whose other end the head may see, `counts`
    the sentences that have any.
    """

    model: str
    corpus: str
    heads: tuple[HeadRef, ...]
    relations: tuple[tuple[str, Direction], ...]
    values: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    baseline: NDArray[np.float32]
    offsets: NDArray[np.int32]
    n_arcs: NDArray[np.int32]
    counts: NDArray[np.int32]
    telling: NDArray[np.int32]
    n_texts: int
    n_skipped: int = 0
    level: float = 0.95
    manner: Manner = "voita"

    def __post_init__(self) -> None:
        shape = (len(self.heads), len(self.relations))
        for field in ("values", "low", "high", "baseline", "offsets", "n_arcs", "counts"):
            dtype = np.int32 if field in ("offsets", "n_arcs", "counts") else np.float32
            array = frozen_array(getattr(self, field), dtype=dtype, rank=2, name=field)
            if array.shape != shape:
                raise ValueError(f"{field} is {array.shape}, expected {shape}")
            object.__setattr__(self, field, array)
        object.__setattr__(
            self, "telling", frozen_array(self.telling, dtype=np.int32, rank=3, name="telling")
        )

    def estimate(self, row: int, column: int) -> Estimate:
        """The share of one head and relation, over the sentences that have an arc of it."""
        value, low, high = (float(part[row, column]) for part in (self.values, self.low, self.high))
        return Estimate(value=value, low=low, high=high, n=int(self.counts[row, column]), of="sentence")

    @property
    def margins(self) -> NDArray[np.float32]:
        """How far each head lies above the best fixed offset, [n_heads, n_relations]."""
        found: NDArray[np.float32] = self.values - self.baseline
        return found

    def best(self, head: HeadRef) -> int | None:
        """The relation in which a head lies furthest above the best fixed offset, the lower end of its
        interval counted: of many relations a rare one leads by chance. None where no interval is known.
        """
        row = self.heads.index(head)
        least = [self.estimate(row, column).least for column in range(len(self.relations))]
        margins = np.array(least) - self.baseline[row]
        return None if np.isnan(margins).all() else int(np.nanargmax(margins))

    @property
    def statement(self) -> str:
        """What the numbers are of, in one line."""
        parts = [
            plural(self.n_texts, "sentence"),
            "weights between words: summed over key pieces, averaged over query pieces",
            "special tokens left out",
            MANNERS_SAID[self.manner],
            intervals_said(self.n_texts, "sentence", level=self.level),
        ]
        if self.n_skipped:
            parts.append(f"{plural(self.n_skipped, 'sentence')} left out")
        return "; ".join(parts)


ALIGNMENT_NUMBERS = (
    "error_rate", "low", "high",
    "precision", "precision_low", "precision_high",
    "recall", "recall_low", "recall_high",
)  # fmt: skip
"""The arrays of an AlignmentTable, each number before its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentTable:
    """Cross-attention as word alignment: every head, and the mean of each layer's heads.

    The arrays are [n_heads + n_layers]: `heads` first, then the mean of each of `layers`. `low` and `high`
    are of the error rate; every interval covers `level`. `rows` says whether the row that predicts a word
    stands for it, or the one that reads it. `diagonal` is the error rate of linking each target word to the
    source word at the same part of its sentence, whatever the words are; NaN where it was not counted.
    """

    model: str
    corpus: str
    heads: tuple[HeadRef, ...]
    layers: tuple[int, ...]
    error_rate: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    precision: NDArray[np.float32]
    recall: NDArray[np.float32]
    precision_low: NDArray[np.float32]
    precision_high: NDArray[np.float32]
    recall_low: NDArray[np.float32]
    recall_high: NDArray[np.float32]
    n_texts: int
    rows: str = "predicting"
    n_skipped: int = 0
    level: float = 0.95
    diagonal: float = math.nan

    def __post_init__(self) -> None:
        for field in ALIGNMENT_NUMBERS:
            array = frozen_array(getattr(self, field), dtype=np.float32, rank=1, name=field)
            if len(array) != len(self.heads) + len(self.layers):
                raise ValueError(f"{field} has {len(array)} numbers")
            object.__setattr__(self, field, array)

    @property
    def interval_said(self) -> str:
        """Which intervals there are, in words."""
        return interval_said(self.n_texts, "pair", level=self.level)

    @property
    def best(self) -> int | None:
        """The place of the smallest error rate; None when there is none."""
        return None if np.isnan(self.error_rate).all() else int(np.nanargmin(self.error_rate))

    def label(self, index: int) -> str:
        """`L3H5`, or `L3 mean`."""
        if index < len(self.heads):
            return self.heads[index].label
        return f"L{self.layers[index - len(self.heads)]} mean"


AlignmentRows = Literal["predicting", "reading"]
"""Which row stands for a target word: the one that predicts it, or the one that has just read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldFiles:
    """A file of pairs with a tab between source and target, and a file with the links of each line.

    `counts_from` is the number of the first word of a line, 0 or 1.
    """

    pairs: str
    links: str
    counts_from: int = 0


OWN_LINKS = GoldFiles(pairs="", links="")
"""No files: the links of the model's own task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldCell:
    """One gold link on a map of tokens: rows and columns from the first to before the second.

    `words` are the target word and the source word.
    """

    rows: tuple[int, int]
    cols: tuple[int, int]
    is_sure: bool
    words: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldPair:
    """A text with the translation that gold links are of; `name` says where it stands."""

    source: str
    target: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowAlignment(Request):
    """Compare the cross-attention of a trace of the open model with gold links. Newest wins.

    `trace` is the number of the trace that is shown.
    """

    is_view = True
    trace: int
    rows: AlignmentRows = "predicting"
    files: GoldFiles = OWN_LINKS


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentShown(Reply):
    """The links of the text, and the table of every cross head and layer mean on this text alone.

    Without links `table` is None and `note` says what is missing; `offered` is a pair whose links are known
    and which could be read instead, `following` the next pair of the files. `origin` says whose links they
    are. On a single text there are no intervals: they are NaN. `trace` is that of the request.
    """

    trace: int
    cells: tuple[GoldCell, ...] = ()
    table: AlignmentTable | None = None
    origin: str = ""
    note: str = ""
    offered: GoldPair | None = None
    following: GoldPair | None = None
