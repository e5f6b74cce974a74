"""Accuracy by distance, measured: attention, a dilated convolution and recurrences on a task of looking back.

    symbol   meaning                                                              shape
    d        how far back the token stands that is to be said again               one number
    right    share of tokens that are told, of one model for each distance        [n_distances]
    w, r     width of the kernel; places of layer l are r^l apart                 one number each
    reach    (w − 1) (1 + r + … + r^(L−1)), how far back the convolution reads    one number

The numbers are the worker's, which trains each model until nothing more is learned. Path lengths are those of
table 1 of Vaswani et al. 2017: how many steps of the network a number takes from a token to one d later.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.fields import number, redraw
from attnscope.labs.lab import (
    BLUE,
    GREEN,
    OCHRE,
    ORANGE,
    PURPLE,
    Lab,
    LabWords,
    asked,
    claimed,
    where_trained,
)
from attnscope.records.charts import CellMap, Chart, Series
from attnscope.records.experiments import (
    ALL_RIGHT,
    DISTANCES,
    NO_ANSWER,
    READERS,
    DelayFinding,
    DelayQuestion,
    ExperimentAnswer,
    Reader,
)

Numbers = NDArray[np.float64]
STEPS: tuple[int, ...] = (300, 1000, 3000)
WIDTHS: tuple[int, ...] = (16, 32, 64)
KERNELS: tuple[int, ...] = (2, 3, 4)
N_LAYERS, DILATION = 4, 2
"""The convolution's, as `workers/experiments/delaying.py` builds it."""
N_TOKENS = 16
"""So many tokens there are, of which a guess has one right."""
_RIGHT = 0.9
_TOLD = (1, 8, DISTANCES[-1])
"""The distances whose shares and steps stand in numbers."""
READER_NAMES: dict[Reader, str] = {
    "attention": "attention",
    "convolution": "convolution",
    "gru": "GRU",
    "retention": "retention",
    "selective": "state space",
}
OF_READER: dict[Reader, int] = {
    "attention": BLUE,
    "convolution": PURPLE,
    "gru": ORANGE,
    "retention": OCHRE,
    "selective": GREEN,
}
CLAIM = (
    "Attention reads any token in one step, a convolution those within its receptive field, and a recurrence "
    "must carry every token in between in its state."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FarChoice:
    """The size of the models and the length of their training."""

    kernel_width: int = number(
        3,
        KERNELS,
        title="kernel w",
        tip="Tokens that each of the four layers of the convolution reads; they stand 1, 2, 4 and 8 apart",
    )
    d_model: int = number(
        32, WIDTHS, title="width d", tip="Numbers in a token's vector, and in the state of a GRU"
    )
    n_steps: int = number(
        3000,
        STEPS,
        title="steps",
        tip="Most steps of training of each model; one that learns nothing more stops before",
    )
    seed: int = redraw(title="Other models", tip="Train models with other first weights, on other texts")
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Far:
    """For each model, at DISTANCES: the share that is `right` and the `steps` trained; NaN: not done.

    `paths` are the steps of the network at 1 … the last distance, NaN where no path is; `field` [L + 1, n] is
    1 where the last token of the convolution reads a place, the output's row first and places back from the
    right.
    """

    choice: FarChoice
    right: dict[Reader, Numbers]
    steps: dict[Reader, Numbers]
    paths: dict[Reader, Numbers]
    field: Numbers
    reach: int
    most_steps: int
    words: LabWords


def look_far(choice: FarChoice) -> Far:
    found = choice.answer.of(DelayFinding)
    question = found.question if found is not None else asked(DelayQuestion, choice)
    right = {reader: _row(found, reader, is_share=True) for reader in READERS}
    steps = {reader: _row(found, reader, is_share=False) for reader in READERS}
    reach = reach_of(question.kernel_width)
    return Far(
        choice=choice,
        right=right,
        steps=steps,
        paths={reader: path_lengths(reader, question.kernel_width) for reader in READERS},
        field=receptive_field(question.kernel_width),
        reach=reach,
        most_steps=question.n_steps,
        words=LabWords(
            formula=(
                "x_(t−d) is told at t",
                f"reach = (w − 1) Σ {DILATION}^l = {reach}",
                f"l = 0 … {N_LAYERS - 1}",
            ),
            numbers=_numbers(choice, found, right, steps),
            sentence=_sentence(choice, found, right, reach),
        ),
    )


def _row(found: DelayFinding | None, reader: Reader, *, is_share: bool) -> Numbers:
    points = [found.point(reader, d) if found is not None else None for d in DISTANCES]
    n_read = found.n_read if found is not None else 1
    values = (np.nan if p is None else p.n_right / n_read if is_share else p.n_steps for p in points)
    return np.array([*values], np.float64)


def reach_of(kernel_width: int) -> int:
    """Number of tokens back that the convolution reads."""
    apart: list[int] = [DILATION**layer for layer in range(N_LAYERS)]
    return (kernel_width - 1) * sum(apart)


def path_lengths(reader: Reader, kernel_width: int) -> Numbers:
    """Steps from a token to one 1 … DISTANCES[-1] later: one, the layers of a convolution, or each token."""
    distances = np.arange(1.0, DISTANCES[-1] + 1)
    if reader == "attention":
        return np.ones(len(distances))
    if reader != "convolution":
        return distances
    steps = np.full(len(distances), np.nan)
    for n_layers in range(N_LAYERS, 0, -1):
        steps[_reached_after(n_layers, kernel_width)[1:]] = n_layers
    return steps


def _reached_after(n_layers: int, kernel_width: int) -> NDArray[np.bool_]:
    """Positions 0 … DISTANCES[-1] back that are read through the first layers."""
    reached = np.zeros(DISTANCES[-1] + 1, dtype=bool)
    reached[0] = True
    for layer in range(n_layers):
        reached = _further(reached, layer, kernel_width)
    return reached


def _further(reached: NDArray[np.bool_], layer: int, kernel_width: int) -> NDArray[np.bool_]:
    """The positions read one layer further down, given those `reached`."""
    found = np.zeros_like(reached)
    for n in range(kernel_width):
        back = n * DILATION**layer
        found[back:] |= reached[: len(reached) - back]
    return found


def receptive_field(kernel_width: int) -> Numbers:
    """Positions of each layer read by the last output: rows from the output down."""
    reached = np.zeros(DISTANCES[-1] + 1, dtype=bool)
    reached[0] = True
    rows = [reached]
    for layer in reversed(range(N_LAYERS)):
        rows.append(_further(rows[-1], layer, kernel_width))
    return np.array(rows, np.float64)[:, ::-1]


def furthest(right: Numbers) -> int:
    """The largest distance up to which nine tokens of ten are right at every one; 0 if there is none."""
    is_far = np.cumprod(right >= _RIGHT).astype(bool)
    return int(np.array(DISTANCES)[is_far][-1]) if is_far.any() else 0


def _numbers(
    choice: FarChoice,
    found: DelayFinding | None,
    right: dict[Reader, Numbers],
    steps: dict[Reader, Numbers],
) -> tuple[tuple[str, str], ...]:
    places = [DISTANCES.index(d) for d in _TOLD]
    at = ", ".join(map(str, _TOLD))
    shares = {r: " → ".join(_told(100 * right[r][k]) for k in places) for r in READERS}
    lengths = {r: " → ".join(_told(steps[r][k]) for k in places) for r in READERS}
    points = found.points if found is not None else ()
    sizes = [point.n_parameters for point in points]
    most = found.question.n_steps if found is not None else choice.n_steps
    n_read = found.n_read if found is not None else 1
    n_cut = sum(p.n_steps == most and p.n_right < ALL_RIGHT * n_read for p in points)
    return (
        (f"right at d = {at}", "%"),
        *((READER_NAMES[reader], shares[reader]) for reader in READERS),
        ("a guess", f"{100 / N_TOKENS:.0f}"),
        (where_trained(choice.answer), f"≤ {most:,} × 16 texts"),
        *((READER_NAMES[reader], lengths[reader]) for reader in READERS),
        ("not all right at the last step", f"{n_cut} of {len(points)}" if points else "–"),
        ("tokens read for each point", f"{found.n_read:,}" if found is not None else "–"),
        ("parameters of each", f"{min(sizes):,} to {max(sizes):,}" if sizes else "–"),
    )


def _told(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:,.0f}"


def _sentence(choice: FarChoice, found: DelayFinding | None, right: dict[Reader, Numbers], reach: int) -> str:
    if not choice.answer.is_exact or found is None:
        return claimed(CLAIM, choice.answer)
    far = {reader: _up_to(furthest(right[reader])) for reader in READERS}
    most = f"{found.question.n_steps:,} steps at most{', in advance' if choice.answer.is_kept else ''}"
    return (
        f"Nine of ten are right with attention {far['attention']}, convolution {far['convolution']} "
        f"(field {reach}), GRU {far['gru']}, retention {far['retention']}, state space {far['selective']}. "
        f"Trained until nothing more was learned, {most}."
    )


def _up_to(distance: int) -> str:
    return f"up to {distance}" if distance else "at no distance"


def far_charts(shown: Far) -> tuple[Chart, ...]:
    """Accuracy, the steps of training, and the path length, by distance."""
    distances = np.array(DISTANCES, np.float64)
    every = np.arange(1.0, DISTANCES[-1] + 1)
    marks = ((float(shown.reach), f"receptive field: {shown.reach}"),)
    bare = ((float(shown.reach), ""),)
    guess = Series(
        name="a guess", xs=distances, ys=np.full(len(distances), 1 / N_TOKENS), is_quiet=True, colour=OCHRE,
        has_label=False,
    )  # fmt: skip
    return (
        Chart(
            title="Accuracy",
            x_label="distance d in tokens",
            y_label="share of tokens right",
            series=(guess, *_lines(distances, shown.right)),
            y_range=(0.0, 1.08),
            marks=marks,
        ),
        Chart(
            title="Training",
            x_label="distance d in tokens",
            y_label=f"steps taken, {shown.most_steps:,} at most",
            series=_lines(distances, shown.steps),
            marks=bare,
        ),
        Chart(
            title="Path length",
            x_label="distance d in tokens",
            y_label="steps between two tokens",
            series=(
                Series(name="recurrences O(n)", xs=every, ys=shown.paths["gru"], colour=ORANGE),
                Series(name="convolution O(log n)", xs=every, ys=shown.paths["convolution"], colour=PURPLE),
                Series(name="attention O(1)", xs=every, ys=shown.paths["attention"], colour=BLUE),
            ),
            marks=bare,
            is_log_y=True,
        ),
    )


def _lines(xs: Numbers, ys: dict[Reader, Numbers]) -> tuple[Series, ...]:
    return tuple(
        Series(name=name, xs=xs, ys=ys[reader], colour=OF_READER[reader], has_points=True)
        for reader, name in READER_NAMES.items()
    )


def far_cells(shown: Far) -> tuple[CellMap, ...]:
    """Tokens read by the last position of the convolution, layer by layer."""
    n = shown.field.shape[1]
    return (
        CellMap(
            title="Receptive field of the last token",
            note=f"the convolution reads {int(shown.field[-1].sum())} tokens, attention all",
            values=np.where(shown.field > 0, 1.0, np.nan),
            kind="kinds",
            legend=("read", "not read"),
            rows=(*(f"layer {k}" for k in range(N_LAYERS, 0, -1)), "tokens"),
            columns=tuple(str(back) for back in range(n - 1, -1, -1)),
            row_title="",
            column_title="tokens back",
            is_wide=True,
        ),
    )


class AccuracyByDistance(Lab[FarChoice, Far]):
    name = "Accuracy by distance"
    group = "Attention or recurrence"
    order = 5
    shows = (
        "Attention, a dilated convolution and recurrences, trained to say again the token d positions back"
    )
    source = "Vaswani et al. 2017, table 1; van den Oord et al. 2016; Bai et al. 2018"
    search = ("long-range dependencies", "receptive field", "maximum path length")
    help = """Two tokens that belong together may stand far apart. Attention joins them in one step; a
    convolution needs a layer for every doubling of the distance when its places stand 1, 2, 4 and 8 apart
    (dilation), and reads nothing beyond its receptive field; a recurrence passes through every token in
    between. Five small models of about one size learn to say again the token d positions back, each
    distance in a training of its own: attention with rotary positions, four layers of dilated convolution,
    a GRU, retention (a linear recurrence) and a selective state space. Training stops when all is right, or
    when 1,000 more steps have not raised the best share by one point, or after 3,000 steps, when some of
    the recurrences are still learning. The example was trained in advance; any other choice trains here,
    and takes some minutes. The map shows which tokens the last one can read
    through the convolution, layer by layer. Fixed distances suit a convolution; to look for a token by its
    content it has no means, as the recipe *induction-convolution* shows.
    """

    example = FarChoice()
    asks = DelayQuestion
    stretches = (3, 6, 5)
    names_px = 120
    figure_mm = (200.0, 170.0)

    resolve = staticmethod(look_far)
    charts = staticmethod(far_charts)
    cells = staticmethod(far_cells)
