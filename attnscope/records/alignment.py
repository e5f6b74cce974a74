"""Gold word links on the text that is looked at, and how well cross-attention agrees with them."""

from dataclasses import dataclass
from typing import Literal

from attnscope.records.requests import Reply, Request
from attnscope.records.word_tables import AlignmentTable

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

    `trace` is the number of the trace that is shown. `files` None: the links of the model's own task.
    """

    is_view = True
    trace: int
    rows: AlignmentRows = "predicting"
    files: GoldFiles | None = None


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
