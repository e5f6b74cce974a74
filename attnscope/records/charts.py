"""Pictures of numbers: curves on axes, and small maps with named rows and columns; the questions about a
model and a text that they answer. No Qt.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import html_table
from attnscope.records import freeze
from attnscope.records.interventions import Interventions
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef

CellKind = Literal["weights", "signed", "kinds", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve: `xs` ascending and `ys` [n]; NaN breaks the line. `colour` indexes the palette.

    `style` points draws no line, stems a line from 0 up to each point, whiskers an upright line between the
    two `ys` that share an x. `labels` stand beside points, one for
    each or none at all. Without `has_label` the name is not drawn, and stands in tables only. A reference,
    such as a fit, is dashed, in no series' colour, and labels keep clear of it. What would hide another curve
    `is_dashed`, in its colour.
    """

    name: str
    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    colour: int = 0
    is_quiet: bool = False
    has_points: bool = False
    style: Literal["line", "points", "stems", "whiskers"] = "line"
    has_label: bool = True
    labels: tuple[str, ...] = ()
    is_reference: bool = False
    is_dashed: bool = False

    def __post_init__(self) -> None:
        freeze(self, "xs", "ys", dtype=np.float64, rank=1)
        if self.xs.shape != self.ys.shape:
            raise ValueError(f"{len(self.xs)} x values for {len(self.ys)} y values")
        if self.labels and len(self.labels) != len(self.xs):
            raise ValueError(f"{len(self.labels)} labels for {len(self.xs)} points")


def whiskers(
    xs: NDArray[np.float64], ends: NDArray[np.float64], colour: int, name: str = "interval"
) -> Series:
    """An upright line at each x between its two `ends` [n, 2]; its name appears in tables only."""
    ys = ends.ravel()
    return Series(name=name, xs=xs.repeat(2), ys=ys, colour=colour, style="whiskers", has_label=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartField:
    """Counts behind the curves of a chart: `values` [n_bins, n_columns], coloured by their logarithms.

    `xs` [n_columns] ascending are the places of the columns, `edges` [n_bins + 1] ascending those of the
    bins on the y axis, in its unit. What is 0 is not coloured; `unit` says what is counted.
    """

    xs: NDArray[np.float64]
    edges: NDArray[np.float64]
    values: NDArray[np.float64]
    unit: str

    def __post_init__(self) -> None:
        freeze(self, "xs", "edges", dtype=np.float64, rank=1)
        freeze(self, "values", dtype=np.float64, rank=2)
        if self.values.shape != (len(self.edges) - 1, len(self.xs)):
            raise ValueError(f"{self.values.shape} for {len(self.edges)} edges and {len(self.xs)} columns")

    @property
    def shown_edges(self) -> NDArray[np.float64]:
        """The edges of the bins from the first to the last non-empty one."""
        used = np.flatnonzero(self.values.any(axis=1))
        return self.edges[used[0] : used[-1] + 2] if len(used) else self.edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curves on shared axes; `y_range` fixes the y axis, None fits it to the data.

    `marks` are upright dashed lines, each at an x and with a word beside it. `is_geometric`: both axes have
    one scale, and no numbers, as a drawing has. `notes` are words around an x and a y.
    `x_names` are what stands at x = 1, 2, …, in the place of numbers.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    is_log_y: bool = False
    y_range: tuple[float, float] | None = None
    is_log_x: bool = False
    marks: tuple[tuple[float, str], ...] = ()
    is_geometric: bool = False
    field: ChartField | None = None
    notes: tuple[tuple[float, float, str], ...] = ()
    x_names: tuple[str, ...] = ()

    @property
    def is_counted(self) -> bool:
        """Whether the x axis has whole numbers, such as steps or layers."""
        return all(np.array_equal(series.xs, np.round(series.xs)) for series in self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMap:
    """`values` [n_rows, n_columns] and their meaning; NaN is not allowed by a mask.

    `weights` run from 0 to `limit`, `signed` from −limit to limit, `steps` from 1 to `limit`; `kinds` are
    numbers from 1 whose names are in `legend`. Without names rows and columns are numbered. `weights` and
    `signed` may lie over a picture, `backdrop` uint8 [height, width, 3]. Cells are square; where there is
    room, those of a map that `is_wide` are as wide as a number.
    """

    title: str
    values: NDArray[np.float64]
    kind: CellKind = "weights"
    limit: float = 1.0
    note: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    row_title: str = "query"
    column_title: str = "key"
    legend: tuple[str, ...] = ()
    has_numbers: bool = False
    is_wide: bool = False
    backdrop: NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        freeze(self, "values", dtype=np.float64, rank=2)
        for names, n in zip((self.rows, self.columns), self.values.shape, strict=True):
            if names and len(names) != n:
                raise ValueError(f"{len(names)} names for {n} rows or columns")

    def row_name(self, i: int) -> str:
        """Label of row `i`."""
        return self.rows[i] if self.rows else str(i)

    def column_name(self, j: int) -> str:
        """Label of column `j`."""
        return self.columns[j] if self.columns else str(j)


Cell = str | float


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTable:
    """A table of words and numbers; NaN is a missing value."""

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
    """The answer to a question: `sentence` states it in numbers, `note` adds what one should know about them.

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
    """Ask the open model about a text; `question` is the question's name, `options` its settings.

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
    """Reply to Ask."""

    question: str
    answer: Answer
