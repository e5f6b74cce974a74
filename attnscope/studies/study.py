"""A study: its card, published numbers beside ours, all measurements, and charts.

A study is a file of resources/studies. Its `CARD = StudyCard(…)`, of plain words, is read without running the
file; its `reproduce`, a generator of progress and at last the `Study`, is called when the study is made.
"""

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from attnscope.errors import UserError
from attnscope.paths import import_file, resources_folder

if TYPE_CHECKING:
    from attnscope.records.charts import Chart
    from attnscope.records.importance import PartsDone

    Reproduce = Callable[["Choices"], Iterator["PartsDone | Study"]]

Cell = str | float | int | None
"""One entry of a table; a number that does not exist is NaN or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCard:
    """A study's question, its paper, and its place in the list.

    `takes` names the options that it knows besides those of all: `model`, `corpus`, `trees`.
    """

    name: str
    place: int
    paper: str
    question: str
    takes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How to run a study: `folder` takes its training runs, `is_quick` makes it small and its numbers void.

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
class PaperComparison:
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
    """The result of one reproduction.

    `setting` is what it was made with; `differences` says where it differs from the paper and why;
    `columns` and `data` hold every number behind the charts.
    """

    name: str
    paper: str
    question: str
    setting: tuple[tuple[str, str], ...]
    comparisons: tuple[PaperComparison, ...]
    differences: tuple[str, ...]
    charts: "tuple[Chart, ...]"
    columns: tuple[str, ...]
    data: tuple[tuple[Cell, ...], ...]
    model: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        for row in self.data:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells under {len(self.columns)} columns")


def studies() -> tuple[StudyCard, ...]:
    """The cards of all studies, in order."""
    found = [_card_of(path) for path in _folder().glob("*.py")]
    return tuple(sorted(found, key=lambda card: (card.place, card.name)))


def find_card(name: str) -> StudyCard:
    """The card of a study; raises UserError for an unknown name."""
    cards = {card.name: card for card in studies()}
    if name not in cards:
        raise UserError(
            f"There is no study '{name}'.", expected=", ".join(cards), action="Choose one of these."
        )
    return cards[name]


def find_study(name: str) -> "Reproduce":
    """The generator of a study: it yields progress and finally the study."""
    reproduce: Reproduce = study_module(find_card(name).name).reproduce
    return reproduce


def study_module(name: str) -> ModuleType:
    """The file of a study, executed; in its name `_` stands for `-`."""
    stem = name.replace("-", "_")
    return import_file(_folder() / f"{stem}.py", f"study_{stem}")


def _folder() -> Path:
    return resources_folder() / "studies"


def _card_of(path: Path) -> StudyCard:
    """The card in a study's file, without executing it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="CARD")], value=ast.Call(keywords=words)):
                return StudyCard(**{str(word.arg): ast.literal_eval(word.value) for word in words})
    raise ValueError(f"{path.name} has no CARD")
