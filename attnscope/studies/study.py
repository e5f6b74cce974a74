"""What a study is: a question, published numbers beside ours, everything that was measured, and charts."""

import math
from dataclasses import dataclass
from pathlib import Path

from attnscope.figures.spec import Chart

Cell = str | float | int | None
"""One entry of a table; a number that does not exist is NaN or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How a study is made: `folder` takes its training runs, `is_quick` makes it small and its numbers void.

    `model` names another model than the study's own, `corpus` a file of texts or pairs for it, `trees` a
    treebank in CoNLL-U: for the studies that take them.
    """

    folder: Path
    is_quick: bool = False
    seed: int = 1
    device: str = "auto"
    model: str = ""
    corpus: Path | None = None
    trees: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One published number or direction beside ours.

    `published` is as printed, or starts with "direction only" where the paper's number would mean nothing
    here; `where` is its place. `is_as_published` says whether ours agrees in number or direction, None where
    nothing is claimed; `undecided` says why. `low` and `high` bound ours, NaN where there is no interval.
    """

    what: str
    published: str
    where: str
    ours: float
    unit: str = ""
    low: float = math.nan
    high: float = math.nan
    is_as_published: bool | None = None
    undecided: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One reproduction as it came out.

    `setting` is what it was made with; `differences` says where it differs from the paper and why;
    `columns` and `data` hold every number behind the charts.
    """

    name: str
    paper: str
    question: str
    setting: tuple[tuple[str, str], ...]
    comparisons: tuple[Comparison, ...]
    differences: tuple[str, ...]
    charts: tuple[Chart, ...]
    columns: tuple[str, ...]
    data: tuple[tuple[Cell, ...], ...]
    model: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        for row in self.data:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells under {len(self.columns)} columns")
