"""The loss around a trained network, with skips and without (Li et al. 2018).

    symbol    meaning                                                             shape
    x, y      points of two spirals and which they are of, ±1                     [N, 2], [N]
    W, b      weights and biases of each layer; a column of W is a filter         [d_in, d], [d]
    h         h + relu(h W + b) with skips, relu(h W + b) without                 [N, d]
    δ, η      random directions, N(0, 1); each filter as long as that of W        as W
    L(α, β)   mean of ln(1 + exp(−y·o)) at W + α δ + β η                          [GRID, GRID]

Filter normalisation (their section 4): δ_ij ← δ_ij / ‖δ_ij‖ · ‖W_ij‖ for filter j of layer i; biases stay.
Both networks begin with He's weights, those of layers with skips divided by √n_layers, and are trained alike,
by Adam on all points at once. Everything is in numpy and takes a fraction of a second.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, plural
from attnscope.fields import number, redraw, switch
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.records.charts import CellMap, Chart, Series

Numbers = NDArray[np.float64]
Parameters = tuple[Numbers, ...]
"""The weights of every layer, the first and the last with them, then the biases."""
LAYERS: tuple[int, ...] = (2, 4, 8, 12, 16)
WIDTH, N_POINTS, N_STEPS, GRID = 12, 96, 200, 25
CHANCE = float(np.log(2))
"""The loss of a guess."""
_SHOWN = 4 * CHANCE
"""The end of the maps' colours."""
_RATE, _MEAN, _SQUARE = 0.01, 0.9, 0.99
_FLOOR = 1e-6
_NEAR = 0.75
"""Where more than this share of both planes is below a guess, they do not tell the networks apart."""
NAMES: dict[bool, str] = {True: "with skips", False: "without skips"}
COLOURS = {True: BLUE, False: ORANGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class LandscapeChoice:
    """The networks, the extent around them, and the directions."""

    n_layers: int = number(12, LAYERS, title="layers", tip="Layers between the first and the last")
    extent: float = number(
        1.0,
        (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0),
        title="extent",
        tip="How far α and β go: at 1 a direction is as long as the weights themselves",
    )
    is_normalised: bool = switch(
        True,
        title="filter-normalised",
        tip="Each filter of a direction as long as the network's own; off: only the direction as a whole",
    )
    seed: int = redraw(title="Other weights", tip="Train from other first weights")
    plane: int = redraw(title="Other directions", tip="Draw two other directions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """By whether there are skips: losses of the steps, and of the plane [GRID, GRID], rows are β."""

    choice: LandscapeChoice
    places: Numbers
    steps: dict[bool, Numbers]
    planes: dict[bool, Numbers]
    words: LabWords


def survey(choice: LandscapeChoice) -> Landscape:
    """Train both networks and evaluate the loss around them."""
    steps, planes = {}, {}
    for has_skips in NAMES:
        parameters, steps[has_skips] = trained(choice.n_layers, has_skips, choice.seed)
        directions = tuple(
            direction(parameters, (choice.plane, k), is_normalised=choice.is_normalised) for k in range(2)
        )
        planes[has_skips] = losses_around(parameters, directions, choice.extent, has_skips)
    return Landscape(
        choice=choice,
        places=np.linspace(-choice.extent, choice.extent, GRID),
        steps=steps,
        planes=planes,
        words=_words(choice, steps, planes),
    )


@lru_cache(maxsize=1)
def spirals() -> tuple[Numbers, Numbers]:
    """Points of two spirals [N_POINTS, 2], and ±1 [N_POINTS] for each."""
    n, random = N_POINTS // 2, np.random.default_rng(7)
    angle = 1.65 * np.pi * np.sqrt(np.linspace(0.05, 1, n))
    one = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1) / 4
    points = np.concatenate([one, -one]) + 0.04 * random.standard_normal((N_POINTS, 2))
    return points, np.repeat([1.0, -1.0], n)


def drawn_parameters(n_layers: int, has_skips: bool, seed: int) -> Parameters:
    """Weights as in He et al. 2015; those of layers with skips smaller, so that sums do not grow."""
    random = np.random.default_rng(seed)
    scale = np.sqrt(2 / WIDTH) / (np.sqrt(n_layers) if has_skips else 1.0)
    inner = [scale * random.standard_normal((WIDTH, WIDTH)) for _ in range(n_layers)]
    ends = random.standard_normal((2, WIDTH)), random.standard_normal((WIDTH, 1)) / np.sqrt(WIDTH)
    biases = [0.3 * random.standard_normal(WIDTH), *(np.zeros(WIDTH) for _ in range(n_layers)), np.zeros(1)]
    return (ends[0], *inner, ends[1], *biases)


def outputs(parameters: Parameters, has_skips: bool) -> Numbers:
    """The network's output for every point, [.., N_POINTS]; weights may have axes before their own."""
    n = len(parameters) // 2
    weights, biases = parameters[:n], parameters[n:]
    h = np.maximum(spirals()[0] @ weights[0] + biases[0], 0.0)
    for w, b in zip(weights[1:-1], biases[1:-1], strict=True):
        z = np.maximum(h @ w + b, 0.0)
        h = h + z if has_skips else z
    return np.asarray((h @ weights[-1] + biases[-1])[..., 0])


def loss_of(parameters: Parameters, has_skips: bool) -> Numbers:
    """Mean of ln(1 + exp(−y·o)) over the points."""
    return np.asarray(np.logaddexp(0.0, -spirals()[1] * outputs(parameters, has_skips)).mean(axis=-1))


def loss_and_gradients(parameters: Parameters, has_skips: bool) -> tuple[float, Parameters]:
    """The loss and its gradient by every weight and bias."""
    n = len(parameters) // 2
    weights, biases = parameters[:n], parameters[n:]
    points, signs = spirals()
    seen, raised = [np.maximum(points @ weights[0] + biases[0], 0.0)], []
    for w, b in zip(weights[1:-1], biases[1:-1], strict=True):
        raised.append(np.maximum(seen[-1] @ w + b, 0.0))
        seen.append(seen[-1] + raised[-1] if has_skips else raised[-1])
    margins = -signs * (seen[-1] @ weights[-1] + biases[-1])[:, 0]
    by_output = (-signs * (1 + np.tanh(margins / 2)) / 2 / len(signs))[:, None]  # σ without overflow
    by_weight, by_bias = [seen[-1].T @ by_output], [by_output.sum(axis=0)]
    by_seen = by_output @ weights[-1].T
    for k in range(n - 2, 0, -1):
        inner = by_seen * (raised[k - 1] > 0)
        by_weight.append(seen[k - 1].T @ inner)
        by_bias.append(inner.sum(axis=0))
        by_seen = inner @ weights[k].T + (by_seen if has_skips else 0.0)
    inner = by_seen * (seen[0] > 0)
    by_weight.append(points.T @ inner)
    by_bias.append(inner.sum(axis=0))
    return float(np.logaddexp(0.0, margins).mean()), (*by_weight[::-1], *by_bias[::-1])


@lru_cache(maxsize=16)
def trained(n_layers: int, has_skips: bool, seed: int) -> tuple[Parameters, Numbers]:
    """Adam (Kingma and Ba 2015) from the first parameters: the result, and the loss before each step."""
    parameters = drawn_parameters(n_layers, has_skips, seed)
    means, squares = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    losses = np.empty(N_STEPS)
    for step in range(1, N_STEPS + 1):
        losses[step - 1], gradients = loss_and_gradients(parameters, has_skips)
        rate = _RATE * (1 - 0.9 * step / N_STEPS)
        means = [_MEAN * m + (1 - _MEAN) * g for m, g in zip(means, gradients, strict=True)]
        squares = [_SQUARE * s + (1 - _SQUARE) * g**2 for s, g in zip(squares, gradients, strict=True)]
        parameters = tuple(
            p - rate * (m / (1 - _MEAN**step)) / (np.sqrt(s / (1 - _SQUARE**step)) + 1e-8)
            for p, m, s in zip(parameters, means, squares, strict=True)
        )
    return parameters, losses


def direction(parameters: Parameters, seed: tuple[int, int], *, is_normalised: bool) -> Parameters:
    """A random change of the weights, each filter as long as the network's own, or all of it together."""
    random, weights = np.random.default_rng(seed), parameters[: len(parameters) // 2]
    drawn = [random.standard_normal(w.shape) for w in weights]
    if is_normalised:
        pairs = zip(drawn, weights, strict=True)
        return tuple(d * np.linalg.norm(w, axis=0) / np.linalg.norm(d, axis=0) for d, w in pairs)
    lengths = (np.sqrt(sum(float(np.sum(one**2)) for one in every)) for every in (weights, drawn))
    factor = next(lengths) / next(lengths)
    return tuple(factor * d for d in drawn)


def losses_around(
    parameters: Parameters, directions: tuple[Parameters, ...], extent: float, has_skips: bool
) -> Numbers:
    """The loss at every α (columns) and β (rows) within ±extent, [GRID, GRID]."""
    n, places = len(parameters) // 2, np.linspace(-extent, extent, GRID)
    alpha, beta = (one.reshape(-1, 1, 1) for one in np.meshgrid(places, places))
    moved = [w + alpha * d + beta * e for w, d, e in zip(parameters[:n], *directions, strict=True)]
    return loss_of((*moved, *parameters[n:]), has_skips).reshape(GRID, GRID)


def n_minima(plane: Numbers) -> int:
    """Number of cells lower than all eight around them, without those at the edge."""
    middle = plane[1:-1, 1:-1]
    n_rows, n_columns = middle.shape
    around = [
        plane[i : i + n_rows, j : j + n_columns] for i in range(3) for j in range(3) if (i, j) != (1, 1)
    ]
    return int(np.logical_and.reduce([middle < other for other in around]).sum())


def below_chance(plane: Numbers) -> float:
    """The share of a plane with less loss than guessing."""
    return float((plane < CHANCE).mean())


def landscape_cells(shown: Landscape) -> tuple[CellMap, ...]:
    """The plane around each network."""
    names = tuple(f"{place:+.2g}".replace("-", "−") for place in shown.places)
    return tuple(
        CellMap(
            title=NAMES[has_skips].capitalize(),
            note=f"loss, nats; the brightest is {format_number(_SHOWN, 2)} or more",
            values=plane[::-1],  # β rises upwards
            limit=_SHOWN,
            rows=names[::-1],
            columns=names,
            row_title="along η",
            column_title="along δ",
        )
        for has_skips, plane in shown.planes.items()
    )


def landscape_charts(shown: Landscape) -> tuple[Chart, ...]:
    """The loss along the first direction, and while the networks were trained."""
    ends = {"across": shown.places, "steps": np.arange(1.0, N_STEPS + 1)}

    def lines(xs: Numbers, values: dict[bool, Numbers]) -> tuple[Series, ...]:
        guess = Series(name="a guess", xs=xs, ys=np.full(len(xs), CHANCE), colour=GREEN, is_quiet=True)
        curves = (
            Series(name=NAMES[one], xs=xs, ys=np.maximum(ys, _FLOOR), colour=COLOURS[one])
            for one, ys in values.items()
        )
        return (guess, *curves)

    middle = {one: plane[GRID // 2] for one, plane in shown.planes.items()}
    return (
        Chart(
            title="Across the plane",
            x_label="α, at β = 0",
            y_label="loss, nats",
            series=lines(ends["across"], middle),
            is_log_y=True,
            marks=((0.0, "trained"),),
        ),
        Chart(
            title="Training",
            x_label="step",
            y_label="loss, nats",
            series=lines(ends["steps"], shown.steps),
            is_log_y=True,
        ),
    )


def _words(choice: LandscapeChoice, steps: dict[bool, Numbers], planes: dict[bool, Numbers]) -> LabWords:
    def both(values: dict[bool, float]) -> str:
        return f"{format_number(values[True], 2)} · {format_number(values[False], 2)}"

    n_parameters = sum(one.size for one in drawn_parameters(choice.n_layers, True, 0))
    numbers = (
        ("with skips · without", "nats"),
        ("loss, trained", both({one: float(plane[GRID // 2, GRID // 2]) for one, plane in planes.items()})),
        ("median of the plane", both({one: float(np.median(plane)) for one, plane in planes.items()})),
        ("largest of the plane", both({one: float(plane.max()) for one, plane in planes.items()})),
        ("share below a guess, ln 2", " · ".join(f"{below_chance(plane):.0%}" for plane in planes.values())),
        ("local minima in the plane", " · ".join(str(n_minima(plane)) for plane in planes.values())),
        ("width, points, steps", f"{WIDTH}, {N_POINTS}, {N_STEPS}"),
        ("parameters of each", f"{n_parameters:,}"),
    )
    length = "δⱼ ← δⱼ / ‖δⱼ‖ · ‖Wⱼ‖" if choice.is_normalised else "‖δ‖ = ‖W‖"
    return LabWords(
        formula=("L(α, β) = L(W + α δ + β η)", length),
        numbers=numbers,
        sentence=_sentence(choice, planes),
    )


def _sentence(choice: LandscapeChoice, planes: dict[bool, Numbers]) -> str:
    wide, narrow = (below_chance(planes[one]) for one in (True, False))
    depth = plural(choice.n_layers, "layer")
    if not choice.is_normalised:
        return (
            "Without filter normalisation small filters are changed as much as large ones, and planes of two "
            "networks cannot be compared: switch it on."
        )
    if wide > 1.3 * narrow:
        return (
            f"With skips {wide:.0%} of the plane around the trained network of {depth} has less loss than a "
            f"guess, without them {narrow:.0%}: there the loss rises steeply, up to "
            f"{format_number(float(planes[False].max()), 2)}, with skips to "
            f"{format_number(float(planes[True].max()), 2)}."
        )
    of_both = f"({wide:.0%} with skips and {narrow:.0%} without have less loss than a guess)"
    if min(wide, narrow) > _NEAR:
        return f"So near to the networks both planes are low {of_both}. Choose a larger extent."
    about = "The plane without skips is the wider one" if narrow > 1.3 * wide else "Both are about as wide"
    more = "Draw other directions." if choice.n_layers == LAYERS[-1] else "Add layers."
    return f"{about} at {depth} {of_both}: skips matter in deep networks. {more}"


class LossLandscape(Lab[LandscapeChoice, Landscape]):
    name = "Loss landscape"
    group = "Depth and training"
    order = 5
    shows = "The loss in a plane around a trained network, with skips and without: wide, or steep and narrow"
    source = "Li et al. 2018"
    search = ("skip connections", "residual connections", "ResNet", "loss surface", "sharp and flat minima")
    help = """Two small networks, identical except for their skips, learn to separate two spirals, and the
    loss is then computed in a plane through their weights, along two random directions. A change matters
    by its size relative to the weights, so each filter of a direction is made as long as the network's
    own (filter normalisation); switch it off to see why. With skips the surroundings stay low and smooth
    at any depth; without them they become steep as layers are added. The picture shows one plane of a
    space of some two thousand dimensions: draw others.
    """

    example = LandscapeChoice()
    stretches = (5, 4)
    names_px = 96
    figure_mm = (180.0, 150.0)

    resolve = staticmethod(survey)
    charts = staticmethod(landscape_charts)
    cells = staticmethod(landscape_cells)
