"""How much heads matter, as charts: scores from the most to the least important, and pruning curves."""

import csv
import io
from collections.abc import Sequence

import numpy as np

from attnscope.counting import plural
from attnscope.records.charts import Chart, Series
from attnscope.records.importance import Importance, PruningCurve, Ranking
from attnscope.records.sites import Gates
from attnscope.viewmodels.heads.curve_groups import RANKING_NAMES, CurveGroup, grouped

# Pruning curves as CSV.


def csv_of_curves(curves: Sequence[PruningCurve]) -> str:
    """One line for each point; the heads that are off as `encoder:L0H1 …`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("ranking", "is_rescored", "seed", "metric", "n_removed", "value", "low", "high", "off"))
    for curve in curves:
        for point in curve.points:
            row = (curve.ranking, curve.is_rescored, curve.seed, curve.metric, point.n_removed)
            writer.writerow((*row, point.value, point.low, point.high, off_text(point.gates)))
    return out.getvalue()


def off_text(gates: Gates) -> str:
    """The heads that are off, as --gate names them."""
    return " ".join(f"{head.stack}:{head.label}" for head in gates.off())


SCORE_UNITS: dict[Ranking, str] = {
    "gradient": "mean |∂ loss / ∂ gate|, nats",
    "leave-one-out": "rise of the loss, nats",
    "learned": "chance of being open",
    "random": "random number",
}


def score_unit(found: Importance) -> str:
    """What the scores count."""
    return "share of its layer's length" if found.is_normalised else SCORE_UNITS[found.ranking]


def importance_chart(found: Importance) -> Chart:
    """The scores of all heads in falling order, one curve for each stack, with their intervals."""
    ranked = sorted(found.scores, key=lambda score: -score.value)
    stacks = dict.fromkeys(score.head.stack for score in found.scores)
    names = tuple(f"{s.head.stack} {s.head.label}" if len(stacks) > 1 else s.head.label for s in ranked)
    series: list[Series] = []
    for colour, stack in enumerate(stacks):
        places = [i for i, score in enumerate(ranked) if score.head.stack == stack]
        xs = np.array(places, np.float64) + 1
        ends = np.array([(ranked[i].low, ranked[i].high) for i in places], np.float64).ravel()
        if np.isfinite(ends).any():
            series.append(Series(name="", xs=xs.repeat(2), ys=ends, colour=colour, style="whiskers"))
        values = np.array([ranked[i].value for i in places])
        series.append(Series(name=stack, xs=xs, ys=values, colour=colour, style="points"))
    unit = score_unit(found)
    title = f"Importance of heads: {RANKING_NAMES[found.ranking]}, {plural(found.n_texts, 'text')}"
    unit += "; bars: 95 % intervals" if any(one.style == "whiskers" for one in series) else ""
    return Chart(
        title=title,
        x_label="heads, most important first",
        y_label=unit,
        series=tuple(series),
        x_names=names,
    )


def pruning_chart(curves: Sequence[PruningCurve]) -> Chart:
    """A metric against heads removed for several rankings, each with its 95 % interval.

    Several random orders are drawn as quiet lines with their mean.
    """
    groups = grouped(curves)
    series = [one for colour, group in enumerate(groups) for one in _group_series(group, colour)]
    metric, texts = curves[0].metric, plural(curves[0].n_texts, "text")
    return Chart(
        title=f"{metric.replace('-', ' ').capitalize()} as heads are removed, {texts}",
        x_label=f"heads removed of {curves[0].n_heads}",
        y_label=curves[0].unit,
        series=tuple(series),
        y_range=None if metric == "loss" else (0.0, 1.02),
    )


def _group_series(group: CurveGroup, colour: int) -> list[Series]:
    """The line of one ranking with its interval, or with the single orders."""
    xs = np.array(group.removed, np.float64)
    if len(group.curves) > 1:
        quiet = [[point.value for point in curve.points] for curve in group.curves]
    else:
        points = group.curves[0].points
        quiet = [[getattr(point, name) for point in points] for name in ("low", "high")]
    series = [Series(name="", xs=xs, ys=np.array(ys), colour=colour, is_quiet=True) for ys in quiet]
    line = Series(name=group.name, xs=xs, ys=np.array(group.means), colour=colour, has_points=True)
    return [*series, line]
