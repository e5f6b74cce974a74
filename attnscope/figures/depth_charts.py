"""What the labs of depth, training and recurrence draw: the same for the screen and for files."""

import numpy as np

from attnscope.records.charts import CellMap, Chart, Series
from attnscope.viewmodels.labs.gradient_reach import GradientReach
from attnscope.viewmodels.labs.rank_collapse import SETTINGS, Collapse, Numbers, Setting

BLUE, ORANGE, GREEN, PURPLE, OCHRE = 0, 1, 2, 3, 4
_OF_SETTING: dict[Setting, int] = {
    (True, True): BLUE,
    (True, False): GREEN,
    (False, True): PURPLE,
    (False, False): ORANGE,
}
_SHOWN_DIMENSIONS = 32


def collapse_charts(shown: Collapse) -> tuple[Chart, ...]:
    """The distance from rank one by layer in all four settings, and how fast it falls."""
    layers = np.arange(float(shown.choice.n_layers + 1))
    mark = ((float(shown.layer), ""),)
    curves = [
        Series(name=SETTINGS[s], xs=layers, ys=ys, colour=_OF_SETTING[s], has_points=True)
        for s, ys in shown.ratios.items()
    ]
    theory = Series(name="theory: cubed", xs=layers, ys=shown.cubed, colour=ORANGE, is_quiet=True)
    falls = [_fall(s, layers, ys) for s, ys in shown.ratios.items()]
    straight = Series(name="theory: × 3", xs=layers, ys=_minus_log(shown.cubed), colour=ORANGE, is_quiet=True)
    return (
        Chart(
            title="Distance from rank one",
            x_label="layer",
            y_label="‖res(X)‖ / ‖X‖",
            series=(theory, *curves, *_own(shown)),
            is_log_y=True,
            marks=mark,
        ),
        Chart(
            title="How fast it falls",
            x_label="layer",
            y_label="−ln r: a straight line is doubly exponential",
            series=(straight, *falls),
            is_log_y=True,
            marks=mark,
        ),
    )


def collapse_cells(shown: Collapse) -> tuple[CellMap, ...]:
    """The stream after the chosen layer, and how alike its tokens are."""
    stream = shown.stream[:, :_SHOWN_DIMENSIONS]
    largest = float(np.abs(stream).max()) or 1.0
    what = SETTINGS[shown.choice.setting]
    return (
        CellMap(
            title=f"X after layer {shown.layer}" if shown.layer else "X before the first layer",
            note=what,
            values=stream,
            kind="signed",
            limit=largest,
            row_title="token",
            column_title="dimension",
        ),
        CellMap(
            title="Likeness",
            note="cosine of each pair of tokens",
            values=shown.likeness,
            kind="signed",
            row_title="token",
            column_title="token",
        ),
    )


def reach_charts(shown: GradientReach) -> tuple[Chart, ...]:
    """The gradient by distance, and how many steps it takes."""
    at = float(shown.distance)
    gradient = Chart(
        title="Gradient",
        x_label="distance T − t in tokens",
        y_label="‖∂ last state / ∂ state at t‖, share of that at distance 1; mean of random networks",
        series=(
            Series(name="ρ at each step", xs=shown.distances, ys=shown.linear, colour=ORANGE, is_quiet=True),
            Series(name="tanh network", xs=shown.distances, ys=shown.plain, colour=ORANGE),
            Series(name="LSTM", xs=shown.distances, ys=shown.gated, colour=GREEN),
            Series(name="attention", xs=shown.distances, ys=shown.attention, colour=BLUE),
        ),
        is_log_y=True,
        marks=((at, f"{shown.distance} back"),),
    )
    path = Chart(
        title="Path length",
        x_label="distance T − t in tokens",
        y_label="steps between two tokens (Vaswani et al. 2017, table 1)",
        series=(
            Series(name="recurrent O(T)", xs=shown.distances, ys=shown.distances, colour=ORANGE),
            Series(name="attention O(1)", xs=shown.distances, ys=np.ones(len(shown.distances)), colour=BLUE),
        ),
        marks=((at, ""),),
    )
    return (gradient, path)


def _own(shown: Collapse) -> tuple[Series, ...]:
    """The opened model in the setting that is looked at."""
    if shown.own is None:
        return ()
    wanted = shown.choice.setting
    return tuple(
        Series(
            name=f"{shown.own.name}, skips {'on' if curve.has_skips else 'off'}",
            xs=np.arange(float(len(curve.ratios))),
            ys=np.array(curve.ratios),
            colour=OCHRE,
            has_points=True,
        )
        for curve in shown.own.curves
        if (curve.has_skips, curve.has_feed_forward) == wanted
    )


def _fall(setting: Setting, layers: Numbers, ratios: Numbers) -> Series:
    name, colour = SETTINGS[setting], _OF_SETTING[setting]
    return Series(name=name, xs=layers, ys=_minus_log(ratios), colour=colour, has_points=True)


def _minus_log(ratios: Numbers) -> Numbers:
    """−ln r; NaN where the distance from rank one is all there is."""
    logs = -np.log(ratios)
    return np.asarray(np.where(logs > 0, logs, np.nan))
