"""Attention's output as a weighted mean of values: movable points of a plane.

    symbol   meaning                                                        shape
    v        values                                                         [n, 2]
    k        keys: the values themselves, or fixed                          [n, 2]
    q        query                                                          [2]
    w        softmax of q·k / τ along the keys                              [n]
    f(v)     output Σ w v, within the convex hull of v                      [2]

A large temperature τ gives the mean of all values (mean pooling), a small one the value whose key has the
largest score (hard lookup). While keys are fixed, w does not depend on v and f is linear; where they are made
of the input, as in self-attention, f(u + v) is not f(u) + f(v), and f(2 v) is not 2 f(v).
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import fixed, format_number, lowered
from attnscope.fields import line, number, one_of
from attnscope.labs.lab import BLUE, GREEN, ORANGE, PURPLE, SKY, Lab, LabWords
from attnscope.records.charts import Chart, Series

Numbers = NDArray[np.float64]
Keys = Literal["values", "fixed"]
KEYS: dict[Keys, str] = {"values": "the values", "fixed": "fixed"}
LIMIT, MOST = 2.5, 8
"""Points lie within ±LIMIT on both axes; there are 2 to MOST of them."""
_TEMPERATURES = tuple(float(v) for v in np.geomspace(0.02, 50.0, 69))
_PLACES = tuple(k / 10 for k in range(-25, 26))


def points_of(text: str) -> Numbers:
    """Parse points of a line such as `0,1.5 −2,1`, [n, 2]; raises ValueError for any other line."""
    found = np.array([[float(x) for x in pair.split(",")] for pair in text.replace("−", "-").split()])
    if found.ndim != 2 or found.shape[1] != 2 or not 2 <= len(found) <= MOST:
        raise ValueError(f"2 to {MOST} points have two numbers each")
    if not (np.abs(found) <= LIMIT).all():
        raise ValueError(f"points lie within ±{LIMIT}")
    return found


def text_of(points: Numbers) -> str:
    """Points as such a line, to two decimals."""
    return " ".join(f"{x:z.2g},{y:z.2g}" for x, y in points)


def is_points(text: str) -> bool:
    try:
        points_of(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class AverageChoice:
    """The settings; `grabbed` is the point being dragged, the query after the last."""

    values: str = line(
        "-1.9,-1.1 1.8,-1.3 2,0.9 0.1,1.9 -1.6,0.8",
        title="values",
        tip="The values as x,y, separated by spaces; drag them in the upper picture",
        is_text=is_points,
        form=f"2 to {MOST} points x,y within ±{LIMIT}, separated by spaces,",
    )
    query_x: float = number(-0.6, _PLACES, title="query x", tip="The query; drag it as well", text=fixed)
    query_y: float = number(-0.9, _PLACES, title="query y", tip="The query; drag it as well", text=fixed)
    temperature: float = number(
        1.0,
        _TEMPERATURES,
        title="τ",
        tip="Temperature: a small one looks up one value, a large one takes the mean of all",
        text=format_number,
    )
    keys: Keys = one_of(
        "values",
        KEYS,
        title="keys",
        tip="Keys made of the input, here the values themselves, or fixed ones on a circle",
    )
    grabbed: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """The points, their weights [n], the output, and its `path` [m, 2] over `temperatures` [m].

    `doubled` is ‖f(2v) − 2f(v)‖, `added` ‖f(u + v) − f(u) − f(v)‖, where u are the values in reverse order.
    """

    choice: AverageChoice
    values: Numbers
    keys: Numbers
    query: Numbers
    weights: Numbers
    output: Numbers
    path: Numbers
    largest: Numbers
    evenness: Numbers
    doubled: float
    added: float
    words: LabWords


def take_average(choice: AverageChoice) -> Average:
    values = points_of(choice.values)
    query = np.array([choice.query_x, choice.query_y])
    keys = keys_from(values, choice.keys)
    every = np.array([softmax_weights(query, keys, t) for t in _TEMPERATURES])
    weights = softmax_weights(query, keys, choice.temperature)
    output = weights @ values

    def mapped(inputs: Numbers) -> Numbers:
        return np.asarray(softmax_weights(query, keys_from(inputs, choice.keys), choice.temperature) @ inputs)

    others = values[::-1]
    doubled = float(np.linalg.norm(mapped(2 * values) - 2 * output))
    added = float(np.linalg.norm(mapped(values + others) - output - mapped(others)))
    return Average(
        choice=choice,
        values=values,
        keys=keys,
        query=query,
        weights=weights,
        output=output,
        path=every @ values,
        largest=every.max(axis=1),
        evenness=np.array([n_effective_samples(row) / len(values) for row in every]),
        doubled=doubled,
        added=added,
        words=_words(choice, values, weights, output, doubled, added),
    )


def keys_from(values: Numbers, keys: Keys) -> Numbers:
    """The keys [n, 2]: the values themselves, or points on a circle, independent of the values."""
    if keys == "values":
        return values
    angles = np.pi / 2 + 2 * np.pi * np.arange(len(values)) / len(values)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def softmax_weights(query: Numbers, keys: Numbers, temperature: float) -> Numbers:
    """Softmax of q·k / τ."""
    scores = keys @ query / temperature
    raised = np.exp(scores - scores.max())
    return np.asarray(raised / raised.sum())


def n_effective_samples(weights: Numbers) -> float:
    """The exponential of the entropy: n for equal weights, 1 for a single one."""
    return float(np.exp(-np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)))))


def hull_of(points: Numbers) -> Numbers:
    """The corners of the convex hull, the first again at the end (Andrew 1979)."""
    ordered = sorted({(float(x), float(y)) for x, y in points})
    if len(ordered) < 3:
        return np.array([*ordered, ordered[0]])

    def half(through: list[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for point in through:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
                kept.pop()
            kept.append(point)
        return kept

    return np.array([*half(ordered)[:-1], *half(ordered[::-1])])


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def average_charts(shown: Average) -> tuple[Chart, ...]:
    """The plane, the weights, and how even they are at each temperature."""
    return (_plane(shown), _weights(shown), _evenness(shown))


def _plane(shown: Average) -> Chart:
    hull, mean = hull_of(shown.values), shown.values.mean(axis=0)

    def dots(name: str, points: Numbers, colour: int) -> Series:
        xs, ys = points[:, 0], points[:, 1]
        return Series(name=name, xs=xs, ys=ys, colour=colour, style="points", has_label=False)

    places = [*shown.values, shown.output, shown.query, mean]
    names = [f"v{lowered(k + 1)} {w:.0%}" for k, w in enumerate(shown.weights)]
    if shown.choice.keys == "fixed":
        places += list(shown.keys)
        names += ["output", "query", "mean", *(f"k{lowered(k + 1)}" for k in range(len(shown.keys)))]
    else:
        names += ["output", "query", "mean"]
    keys = shown.keys if shown.choice.keys == "fixed" else shown.keys[:0]
    frame = np.array([-LIMIT - 0.3, LIMIT + 0.3])
    return Chart(
        title="Plane",
        x_label="",
        y_label="values, their convex hull, and the output at every temperature; drag values and query",
        series=(
            Series(name="", xs=frame, ys=np.full(2, np.nan)),
            Series(name="hull", xs=hull[:, 0], ys=hull[:, 1], colour=SKY, is_quiet=True, has_label=False),
            Series(
                name="output at each τ",
                xs=shown.path[:, 0],
                ys=shown.path[:, 1],
                colour=BLUE,
                has_label=False,
            ),
            dots("fixed keys", keys, SKY),
            dots("values", shown.values, ORANGE),
            dots("query", shown.query[None], PURPLE),
            dots("mean", mean[None], GREEN),
            dots("output", shown.output[None], BLUE),
        ),
        y_range=(-LIMIT, LIMIT + 0.2),
        is_geometric=True,
        notes=tuple(
            (float(x), float(y), name)
            for (x, y), name in zip(_beside(places, mean, len(shown.values)), names, strict=True)
        ),
    )


def _beside(places: list[Numbers], mean: Numbers, n_values: int) -> list[Numbers]:
    """Positions of the names: those of values away from the mean, the query's below, others above."""
    found = []
    for k, place in enumerate(places):
        upright = np.array([0.0, -1.0 if k == n_values + 1 else 1.0])
        away = place - mean if k < n_values else upright
        length = float(np.linalg.norm(away))
        found.append(place + 0.32 * (away / length if length else upright))
    return found


def _weights(shown: Average) -> Chart:
    n = len(shown.weights)
    return Chart(
        title="Weights",
        x_label="value",
        y_label="of each value, together 1",
        series=(
            Series(
                name="equal, 1/n",
                xs=np.array([0.5, n + 0.5]),
                ys=np.full(2, 1 / n),
                colour=GREEN,
                is_quiet=True,
            ),
            Series(name="weight w", xs=np.arange(1.0, n + 1), ys=shown.weights, colour=ORANGE, style="stems"),
        ),
        y_range=(0.0, 1.0),
    )


def _evenness(shown: Average) -> Chart:
    temperatures = np.array(_TEMPERATURES)
    return Chart(
        title="By temperature",
        x_label="temperature τ",
        y_label="from one value to all",
        series=(
            Series(name="largest weight", xs=temperatures, ys=shown.largest, colour=ORANGE),
            Series(name="effective n / n", xs=temperatures, ys=shown.evenness, colour=BLUE),
        ),
        is_log_x=True,
        y_range=(0.0, 1.02),
        marks=((shown.choice.temperature, "τ"),),
    )


def _words(
    choice: AverageChoice, values: Numbers, weights: Numbers, output: Numbers, doubled: float, added: float
) -> LabWords:
    mean, chosen = values.mean(axis=0), values[int(weights.argmax())]
    numbers = (
        ("output o", _point(output)),
        ("mean of the values", _point(mean)),
        ("Σ w", format_number(float(weights.sum()))),
        ("largest w", format_number(float(weights.max()))),
        (
            "effective values, exp(entropy)",
            f"{format_number(n_effective_samples(weights))} of {len(weights)}",
        ),
        ("‖o − mean‖", format_number(float(np.linalg.norm(output - mean)))),
        ("‖o − v of the largest w‖", format_number(float(np.linalg.norm(output - chosen)))),
        ("‖f(2v) − 2f(v)‖", format_number(doubled)),
        ("‖f(u + v) − f(u) − f(v)‖", format_number(added)),
    )
    return LabWords(
        formula=("w = softmax(q·k / τ)", "f(v) = Σ w v"),
        numbers=numbers,
        sentence=f"{_lookup(choice, weights)} {_linear(choice, doubled, added)}",
    )


def _lookup(choice: AverageChoice, weights: Numbers) -> str:
    share, at = float(weights.max()), f"At τ = {format_number(choice.temperature)}"
    if n_effective_samples(weights) > 0.98 * len(weights):
        return f"{at} all weights are nearly equal: the output is the mean of the values (mean pooling)."
    if share > 0.98:
        return f"{at} one value has {share:.0%} of the weight: the output is that value (hard lookup)."
    return f"{at} the output is a weighted mean, somewhere within the hull of the values (soft lookup)."


def _linear(choice: AverageChoice, doubled: float, added: float) -> str:
    if choice.keys == "fixed":
        return "With fixed keys the weights stay as they are when values move: the map f is linear."
    if max(doubled, added) < 1e-9:
        return "Keys are made of the values, yet f looks linear from this query, whose weights stay: move it."
    return (
        "With keys made of the values, moving a value changes every weight: f is not linear "
        f"(f(2v) is {format_number(doubled, 2)} away from 2f(v), f(u + v) {format_number(added, 2)} from "
        "f(u) + f(v))."
    )


def _point(point: Numbers) -> str:
    return f"({fixed(float(point[0]))}, {fixed(float(point[1]))})"


class WeightedAverage(Lab[AverageChoice, Average]):
    name = "A weighted average"
    group = "Scores"
    order = 3
    shows = (
        "The output is a weighted mean of values: mean pooling, soft lookup or hard lookup, by temperature"
    )
    source = "Bahdanau et al. 2014, section 3.1; Vaswani et al. 2017, section 3.2"
    search = ("weighted sum", "dictionary lookup", "soft attention", "hard attention")
    help = """Values are points of a plane, and attention's output is their weighted mean: it never leaves
    their convex hull. Drag the values or the query. A large temperature τ makes all weights equal (mean
    pooling), a small one gives all weight to the key with the largest score (hard lookup); the line shows
    the output at every τ between. With fixed keys the output is a linear function of the values. With keys
    made of the input, as in self-attention, it is not: the numbers compare $f(2v)$ with $2f(v)$ and $f(u +
    v)$ with $f(u) + f(v)$, where u are the values in reverse order.
    """

    example = AverageChoice()
    dragged = (0,)
    stretches = (7, 4)
    names_px = 96
    figure_mm = (180.0, 170.0)

    resolve = staticmethod(take_average)
    charts = staticmethod(average_charts)

    def drag(self, choice: AverageChoice, x: float, y: float, *, is_start: bool) -> AverageChoice:
        """The point nearest to the start of the drag, moved."""
        x, y = (float(np.clip(round(at, 1), -LIMIT, LIMIT)) for at in (x, y))
        values = points_of(choice.values)
        grabbed = choice.grabbed
        if is_start or not 0 <= grabbed <= len(values):
            points = np.array([*values, (choice.query_x, choice.query_y)])
            grabbed = int(np.linalg.norm(points - (x, y), axis=1).argmin())
        if grabbed == len(values):
            return replace(choice, query_x=x, query_y=y, grabbed=grabbed)
        values[grabbed] = x, y
        return replace(choice, values=text_of(values), grabbed=grabbed)
