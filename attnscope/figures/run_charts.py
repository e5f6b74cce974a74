"""The curves of training runs as charts, the same for the window's export and the command line."""

from collections.abc import Sequence

from attnscope.records.charts import Chart, Series
from attnscope.viewmodels.training.overlaid_curves import (
    CurveLine,
    Drawing,
    Quantity,
    ShownRun,
    lines_of,
    unit_of_losses,
)
from attnscope.viewmodels.training.run_axes import AXES

PARTS: tuple[tuple[str, str, Quantity], ...] = (
    ("Loss", "nats", "loss"),
    ("Learning rate", "", "rate"),
    ("Gradient norm", "before clipping", "norm"),
    ("Speed", "tokens/s", "speed"),
    ("Accuracy", "share of held-out tokens or labels", "accuracy"),
    ("Open heads", "expected, gates are learned", "heads"),
    ("Next sentence", "share of pairs predicted correctly", "pairs"),
)
"""Title, unit and quantity of each chart, in order; what a loss is the mean over, only the runs tell."""
LINEAR: tuple[Quantity, ...] = ("speed", "accuracy", "heads", "pairs")
"""What is never drawn by its logarithm."""


def shown_charts(
    shown: tuple[ShownRun, ...], drawing: Drawing, *, is_log: bool, wanted: Sequence[Quantity] = ()
) -> tuple[Chart, ...]:
    """A chart of each part that has data, or of the `wanted` ones, for all the runs, each in its colour."""
    charts = []
    for title, unit, quantity in PARTS:
        if wanted and quantity not in wanted:
            continue
        lines = lines_of(shown, quantity, drawing)
        if not any(len(line.xs) for line in lines):
            continue
        charts.append(
            Chart(
                title=title,
                x_label=AXES[drawing.axis],
                y_label=unit_of_losses(shown) if quantity == "loss" else unit,
                series=tuple(_series(line, shown) for line in lines),
                is_log_y=is_log and quantity not in LINEAR,
            )
        )
    return tuple(charts)


def _series(line: CurveLine, shown: tuple[ShownRun, ...]) -> Series:
    if len(shown) == 1:
        name = line.kind + (", every step" if line.is_pale else "")
    else:
        name = f"{line.run}, {line.kind}" if line.is_pale or not line.name else line.name
    return Series(
        name=name,
        xs=line.xs,
        ys=line.ys,
        colour=line.colour,
        is_quiet=line.is_pale,
        has_points=line.has_points,
        has_label=bool(line.name) or (len(shown) == 1 and not line.is_pale),
    )
