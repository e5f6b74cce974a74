"""What the lab of quality by length draws: the same for the screen and for files."""

from collections.abc import Mapping

from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import Writer
from attnscope.viewmodels.labs.length_quality import WRITER_NAMES, Numbers, Quality

BLUE, ORANGE, GREEN, PURPLE = range(4)
OF_WRITER: dict[Writer, int] = {"none": ORANGE, "additive": BLUE, "dot": GREEN, "transformer": PURPLE}


def quality_charts(shown: Quality) -> tuple[Chart, ...]:
    """Rows right to the end and single tokens by length, and the loss on the way."""
    lengths = dict.fromkeys(WRITER_NAMES, shown.lengths)
    marks = ((float(shown.n_trained), f"trained: {shown.n_trained}"),)
    return (
        Chart(
            title="Whole rows",
            x_label="tokens of the row",
            y_label="share of rows right to the end",
            series=_lines(lengths, shown.exact),
            y_range=(0.0, 1.08),
            marks=marks,
        ),
        Chart(
            title="Tokens",
            x_label="tokens of the row",
            y_label="share right at their positions",
            series=_lines(lengths, shown.tokens),
            y_range=(0.0, 1.08),
            marks=marks,
        ),
        Chart(
            title="Loss",
            x_label="step",
            y_label="nats a token",
            series=_lines(shown.steps, shown.losses),
        ),
    )


def _lines(xs: Mapping[Writer, Numbers], ys: Mapping[Writer, Numbers]) -> tuple[Series, ...]:
    return tuple(
        Series(name=name, xs=xs[w], ys=ys[w], colour=OF_WRITER[w], has_points=True)
        for w, name in WRITER_NAMES.items()
    )
