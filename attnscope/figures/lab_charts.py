"""What the labs draw, as charts and maps: the same for the screen and for files."""

import numpy as np

from attnscope.records.charts import CellMap, Chart, Series
from attnscope.viewmodels.labs.cost import Cost
from attnscope.viewmodels.labs.kernel_regression import Numbers, Regression
from attnscope.viewmodels.labs.mask_structure import KINDS, MaskShown
from attnscope.viewmodels.labs.order import Order
from attnscope.viewmodels.labs.saturation import SIZES, Saturation

BLUE, ORANGE, GREEN, PURPLE = 0, 1, 2, 3


def regression_charts(shown: Regression) -> tuple[Chart, ...]:
    """The samples with their curves, and below them the weight of each sample for the query."""
    query = shown.choice.query
    curves = Chart(
        title="Values",
        x_label="",
        y_label="samples, the curve they come from, and the one attention gives",
        series=(
            Series(name="true curve", xs=shown.places, ys=shown.truth, colour=GREEN, is_quiet=True),
            Series(name="attention ŷ", xs=shown.places, ys=shown.fitted, colour=BLUE),
            Series(name="", xs=shown.keys, ys=shown.values, colour=ORANGE, style="points"),
            Series(name="", xs=np.array([query]), ys=np.array([shown.estimate]), colour=BLUE, style="points"),
        ),
        marks=((query, "query"),),
    )
    weights = Chart(
        title="Weights",
        x_label="place of the key",
        y_label="of each sample for this query, together 1",
        series=(
            Series(name="", xs=shown.places[[0, -1]], ys=np.array([np.nan, np.nan]), is_quiet=True),
            Series(name="weight w", xs=shown.keys, ys=shown.weights, colour=ORANGE, style="stems"),
        ),
        y_range=(0.0, max(0.1, 1.08 * float(shown.weights.max()))),
        marks=((query, ""),),
    )
    return (curves, weights)


def saturation_charts(shown: Saturation) -> tuple[Chart, ...]:
    """Scores and weights at the chosen width, and four measures against the width."""
    sizes = np.array(SIZES, np.float64)
    mark = ((float(shown.choice.d_k), ""),)
    plain, scaled = shown.plain, shown.scaled

    def against(title: str, unit: str, first: Numbers, second: Numbers, *more: Series, log: bool) -> Chart:
        return Chart(
            title=title,
            x_label="d",
            y_label=unit,
            series=(
                *more,
                Series(name="q·k", xs=sizes, ys=first, colour=ORANGE, has_points=True),
                Series(name="q·k / √d", xs=sizes, ys=second, colour=BLUE, has_points=True),
            ),
            is_log_x=True,
            is_log_y=log,
            y_range=None if log else (0.0, 1.02),
            marks=mark,
        )

    theory = Series(name="theory", xs=sizes, ys=sizes, colour=GREEN, is_quiet=True)
    return (
        _score_chart(shown),
        _weight_chart(shown),
        against("Variance", "of scores", plain.variance, scaled.variance, theory, log=True),
        against("Largest weight", "mean", plain.largest, scaled.largest, log=False),
        against("Entropy", "share of ln n", plain.entropy, scaled.entropy, log=False),
        against("Gradient", "‖∂softmax‖", plain.gradient, scaled.gradient, log=True),
    )


def _score_chart(shown: Saturation) -> Chart:
    """How scores spread, as the outlines of two histograms of unit area."""
    root = float(np.sqrt(shown.choice.d_k))
    series = []
    for name, values, colour in (
        ("q·k", shown.scores, ORANGE),
        ("q·k / √d", shown.scores / root, BLUE),
    ):
        end = 3.5 * max(float(values.std()), 1e-9)
        heights, edges = np.histogram(values, bins=36, range=(-end, end), density=True)
        xs = np.repeat(edges, 2)
        ys = np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
        series.append(Series(name=name, xs=xs, ys=ys, colour=colour))
    unit = f"density at d = {shown.choice.d_k}"
    return Chart(title="Scores", x_label="score", y_label=unit, series=tuple(series))


def _weight_chart(shown: Saturation) -> Chart:
    """The weights of one query, largest first."""
    xs = np.arange(1.0, len(shown.plain_weights) + 1)
    return Chart(
        title="One query",
        x_label="keys, strongest first",
        y_label=f"its weights at d = {shown.choice.d_k}",
        series=(
            Series(name="q·k", xs=xs, ys=shown.plain_weights, colour=ORANGE, has_points=True),
            Series(name="q·k / √d", xs=xs, ys=shown.scaled_weights, colour=BLUE, has_points=True),
        ),
        y_range=(0.0, 1.02),
    )


def mask_cells(shown: MaskShown) -> tuple[CellMap, ...]:
    """Who may see whom, and the layers until each token is reached."""
    n_tokens = shown.choice.n_tokens
    return (
        CellMap(
            title="One layer",
            note=f"who may see whom: {shown.n_seen:,} of {n_tokens**2:,} cells",
            values=shown.kinds,
            kind="kinds",
            legend=(*KINDS, "not allowed"),
        ),
        CellMap(
            title="Layers",
            note="until a query has heard of a token",
            values=shown.steps,
            kind="steps",
            limit=float(max(1, shown.n_layers)),
            legend=("never",),
        ),
    )


def cost_charts(shown: Cost) -> tuple[Chart, ...]:
    """Time, operations and memory against the length, each on logarithmic axes."""
    points = sorted(shown.choice.points, key=lambda p: p.n_tokens)
    measured = np.array([float(p.n_tokens) for p in points])
    everywhere = np.full(len(shown.lengths), np.nan)
    crossing = ((shown.crossing, f"T ≈ {shown.crossing:,.0f}"),) if shown.crossing else ()
    at = ((float(shown.choice.n_tokens), ""),)

    def chart(title: str, unit: str, *series: Series, marks: tuple[tuple[float, str], ...]) -> Chart:
        return Chart(
            title=title,
            x_label="tokens T",
            y_label=unit,
            series=series,
            is_log_x=True,
            is_log_y=True,
            marks=marks,
        )

    def line(name: str, ys: Numbers, colour: int, *, is_quiet: bool = False) -> Series:
        return Series(name=name, xs=shown.lengths, ys=ys, colour=colour, is_quiet=is_quiet)

    def clock(name: str, values: list[float], colour: int) -> Series:
        return Series(name=name, xs=measured, ys=np.array(values), colour=colour, has_points=True)

    def held(name: str, values: list[float], colour: int) -> Series:
        ys = np.array(values, np.float64)
        is_known = np.isfinite(ys)  # points that are all unknown would end the drawing library
        xs, ys = measured[is_known], ys[is_known]
        return Series(name=name, xs=xs, ys=ys, colour=colour, style="points", has_label=False)

    return (
        chart(
            "Time",
            "ms, measured on this machine in numpy",
            line("", everywhere, ORANGE),
            clock("attention", [p.attention_ms for p in points], ORANGE),
            clock("recurrent", [p.recurrent_ms for p in points], BLUE),
            marks=(*at, *crossing),
        ),
        chart(
            "Operations",
            "on paper",
            line("4·T²·d", shown.attention_flops, ORANGE),
            line("4·T·d²", shown.recurrent_flops, BLUE),
            marks=(*at, (float(shown.choice.d_model), f"T = d = {shown.choice.d_model}")),
        ),
        chart(
            "Memory",
            "bytes; lines on paper, points measured",
            line("attention", shown.attention_bytes, ORANGE),
            line("recurrent", shown.recurrent_bytes, BLUE),
            held("attention, measured", [p.attention_bytes for p in points], ORANGE),
            held("recurrent, measured", [p.recurrent_bytes for p in points], BLUE),
            line("fused", shown.fused_bytes, GREEN, is_quiet=True),
            marks=at,
        ),
    )


def order_cells(shown: Order) -> tuple[CellMap, ...]:
    """The weights of both sentences, their outputs sorted by word, and the difference of these."""
    first, second = shown.first, shown.second
    limit = max([1e-9, *(float(np.abs(s.outputs).max()) for s in (first, second) if s.words)])
    maps = [
        CellMap(
            title=f"{name}: {' '.join(one.words)}"[:60],
            note="weights",
            values=_at_least_one(one.weights),
            rows=one.words,
            columns=one.words,
            has_numbers=True,
        )
        for name, one in (("A", first), ("B", second))
    ]
    difference = shown.difference
    for name, values, words in (
        ("Outputs of A", first.outputs[list(first.order)], shown.sorted_words),
        ("Outputs of B", second.outputs[list(second.order)], tuple(second.words[i] for i in second.order)),
        ("B − A", np.full((1, 1), np.nan) if difference is None else difference, shown.sorted_words),
    ):
        is_missing = name == "B − A" and difference is None
        maps.append(
            CellMap(
                title=name,
                note="other words" if is_missing else "sorted by word",
                values=_at_least_one(values),
                kind="signed",
                limit=limit,
                rows=() if is_missing else words,
                row_title="word",
                column_title="dimension",
                legend=("nothing to compare",),
            )
        )
    return tuple(maps)


def _at_least_one(values: Numbers) -> Numbers:
    """A map has one cell at least; an empty one is not allowed."""
    return values if values.size else np.full((1, 1), np.nan)
