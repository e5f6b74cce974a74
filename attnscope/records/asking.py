"""Questions about a model and a text, and their answers: a sentence with charts, maps and tables."""

from dataclasses import dataclass

from attnscope.records.charts import CellMap, Chart
from attnscope.records.interventions import Interventions
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.table_text import html_table

Cell = str | float


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTable:
    """A table of words and numbers; NaN is no value."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells under {len(self.columns)} columns")

    def to_dict(self) -> dict[str, list[Cell]]:
        """Each column by its name, as `pandas.DataFrame` takes it."""
        return {name: [row[k] for row in self.rows] for k, name in enumerate(self.columns)}

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.rows, title=self.title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a question found: `sentence` states it in numbers, `note` says what else to know of them.

    `limits` are options by name with the largest value that this model and text have. `formula` is that of
    this model, where the question's is of any.
    """

    sentence: str
    charts: tuple[Chart, ...] = ()
    cells: tuple[CellMap, ...] = ()
    tables: tuple[NumberTable, ...] = ()
    note: str = ""
    limits: tuple[tuple[str, float], ...] = ()
    formula: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Request):
    """Ask the open model about a text; `question` is its name, `options` what is chosen of it.

    `head` is the head that is asked about. `target` None lets a sequence-to-sequence model write its own.
    Newest wins.
    """

    is_view = True
    needs_model = "A question"
    question: str
    options: object
    text: str
    target: str | None = None
    head: HeadRef | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Reply):
    """The answer that an Ask asked for."""

    question: str
    answer: Answer
