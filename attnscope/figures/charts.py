"""Curves as charts, for window, export and command line: measures of heads, and training runs."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.figures.words_and_numbers import safe_cell
from attnscope.records.charts import Chart, ChartField, Series
from attnscope.records.importance import METRICS, RANKINGS, Importance, PruningCurve
from attnscope.records.measures import HeadWeightsFound, SiteSpectrum, TokenPair, WeightPart
from attnscope.records.runs import UPDATE_BINS, InspectionHistory, Numbers, RunSummary, loss_unit, seed_groups
from attnscope.records.sites import Gates, HeadRef
from attnscope.viewmodels.heads.pruning import CurveGroup, grouped
from attnscope.viewmodels.training.recipe_text import without_shared_parts
from attnscope.viewmodels.training.run_curves import AXES, typical_updates
from attnscope.viewmodels.training.runs_compared import (
    PUBLISHED_BY,
    SCALES,
    UNITS,
    CurveLine,
    Drawing,
    Quantity,
    Scale,
    ScalingPoints,
    ShownRun,
    lines_of,
    published_law,
    scaling_points,
    unit_of_losses,
)

# Pruning curves as CSV.


def csv_of_curves(curves: Sequence[PruningCurve]) -> str:
    """One line for each point; heads that are off as `encoder:L0H1 …`."""
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


def score_unit(found: Importance) -> str:
    """Unit of the scores."""
    return "share of its layer's length" if found.is_normalised else RANKINGS[found.ranking].axis


def importance_chart(found: Importance) -> Chart:
    """The scores of all heads in descending order, one curve for each stack, with their intervals."""
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
    title = f"Importance of heads: {RANKINGS[found.ranking].title}, {plural(found.n_texts, 'text')}"
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
    most = METRICS[metric].most
    return Chart(
        title=f"{metric.replace('-', ' ').capitalize()} as heads are removed, {texts}",
        x_label=f"heads removed of {curves[0].n_heads}",
        y_label=curves[0].unit,
        series=tuple(series),
        y_range=(0.0, 1.02 * most) if math.isfinite(most) else None,
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


_PRODUCTS = {"qk": "W_Q W_Kᵀ", "ov": "W_V W_O"}


def weights_charts(found: HeadWeightsFound) -> tuple[Chart, ...]:
    """The head's own singular values, then for each product how far its layer's heads share dimensions."""
    spectra = [part.spectrum for part in found.parts if part.spectrum is not None]
    spectra.sort(key=lambda spectrum: spectrum.kind != "qk")
    if not spectra:
        return ()
    return (_own_chart(found.head, spectra), *(_layer_chart(found.head, one) for one in spectra))


def _own_chart(head: HeadRef, spectra: list[SiteSpectrum]) -> Chart:
    series = []
    for colour, spectrum in enumerate(spectra):
        values = spectrum.single[head.head]
        ys = values / max(float(values[0]), 1e-300)
        series.append(_line(spectrum.kind.upper(), ys, colour=colour, has_points=len(ys) <= 128))
    return Chart(
        title=f"{head.stack} {head.label}: singular values",
        x_label="number of the value",
        y_label="share of the largest",
        series=tuple(series),
        y_range=(0.0, 1.02),
    )


def _layer_chart(head: HeadRef, spectrum: SiteSpectrum) -> Chart:
    """Cordonnier et al. 2020, figure 1: heads alone against all of them side by side."""
    alone = spectrum.single_energy()
    others = [_line("", row, colour=0, is_quiet=True) for h, row in enumerate(alone) if h != head.head]
    return Chart(
        title=f"{spectrum.kind.upper()} of layer {head.layer}: {_PRODUCTS[spectrum.kind]}",
        x_label="dimensions kept",
        y_label="share of Σσ²",
        series=(
            *others,
            _line(head.label, alone[head.head], colour=0),
            _line("all heads", spectrum.stacked_energy(), colour=1),
        ),
        y_range=(0.0, 1.02),
    )


def _line(
    name: str, ys: NDArray[np.float64], *, colour: int, is_quiet: bool = False, has_points: bool = False
) -> Series:
    xs = np.arange(1.0, len(ys) + 1)
    return Series(name=name, xs=xs, ys=ys, colour=colour, is_quiet=is_quiet, has_points=has_points)


def csv_of_pairs(found: HeadWeightsFound) -> str:
    """Every token pair, one to a line."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ("stack", "layer", "head", "product", "end", "first_id", "first", "second_id", "second", "value")
    )
    head = found.head
    for part in found.parts:
        for end, pairs in _ends(part):
            for pair in pairs:
                first, second = pair.first, pair.second
                names = (first.id, safe_cell(first.piece), second.id, safe_cell(second.piece))
                value = f"{pair.value:.6g}"
                writer.writerow((head.stack, head.layer, head.head, part.kind, end, *names, value))
    return stream.getvalue()


def json_of_weights(found: HeadWeightsFound, model: str) -> dict[str, object]:
    """Pairs and singular values of both products; missing ones with the reason."""
    head = found.head
    return {
        "model": model,
        "stack": head.stack,
        "layer": head.layer,
        "head": head.head,
        "products": {part.kind: _json_part(part, head) for part in found.parts},
    }


def _json_part(part: WeightPart, head: HeadRef) -> dict[str, object]:
    spectrum, circuit = part.spectrum, part.circuit
    return {
        "refused": [reason for reason in (part.refusal, part.no_spectrum) if reason],
        "sameness": None if circuit is None else circuit.sameness,
        **{end: [_json_pair(pair) for pair in pairs] for end, pairs in _ends(part)},
        "singular_values": None if spectrum is None else spectrum.single[head.head].tolist(),
        "singular_values_of_all_heads": None if spectrum is None else spectrum.stacked.tolist(),
    }


def _json_pair(pair: TokenPair) -> dict[str, object]:
    first, second = pair.first, pair.second
    return {
        "first_id": first.id,
        "first": first.piece,
        "second_id": second.id,
        "second": second.piece,
        "value": pair.value,
    }


def _ends(part: WeightPart) -> tuple[tuple[str, tuple[TokenPair, ...]], ...]:
    if part.circuit is None:
        return ()
    return ("strongest", part.circuit.largest), ("weakest", part.circuit.smallest)


# Gradients by layer and sizes of updates over the steps of a run as charts: for window and export.

_MOST_NAMED = 8
_MEDIAN, _RATE = 1, 6


def inspection_charts(history: InspectionHistory) -> tuple[Chart, ...]:
    """The gradient's norm of every layer and how many weights changed by how much, both logarithmic; if
    known, the distance of the layers from their initial weights, and the inputs of the norms.
    """
    layers, norms = history.layers, history.norms
    found = [
        _by_name(history, "Gradients by layer", "norm before clipping", layers, history.gradient_norms),
        _updates(history),
    ]
    if np.isfinite(history.moved_norms).any():
        moved = _by_name(history, "Accumulated update", "‖θ_t − θ_0‖", layers, history.moved_norms)
        found.append(replace(moved, is_log_y=False))
    if norms:
        found.append(_by_name(history, "Inputs of the norms", "root mean square", norms, history.norm_inputs))
    return tuple(found)


def _by_name(
    history: InspectionHistory, title: str, y_label: str, names: Sequence[str], values: Numbers
) -> Chart:
    n = len(names)
    named = set(np.linspace(0, n - 1, min(n, _MOST_NAMED)).round().astype(int).tolist())
    return Chart(
        title=title,
        x_label="step",
        y_label=y_label,
        is_log_y=True,
        series=tuple(
            Series(name=name, xs=history.steps, ys=norms, colour=i, has_label=i in named)
            for i, (name, norms) in enumerate(zip(names, values, strict=True))
        ),
    )


def _updates(history: InspectionHistory) -> Chart:
    rates = np.where(history.learning_rates > 0, history.learning_rates, np.nan)
    return Chart(
        title="Sizes of updates",
        x_label="step",
        y_label="|Δθ| of single weights",
        is_log_y=True,
        series=(
            Series(name="median", xs=history.steps, ys=typical_updates(history), colour=_MEDIAN),
            Series(name="learning rate", xs=history.steps, ys=rates, colour=_RATE),
        ),
        field=ChartField(
            xs=history.steps,
            edges=10.0 ** np.array(UPDATE_BINS),
            values=history.update_counts,
            unit="weights",
        ),
    )


# Loss against parameters, data and compute over several runs as charts: for window and command line.

TITLES: dict[Scale, str] = {"parameters": "Size", "data": "Data", "compute": "Compute"}
_MUST_REACH = 1.6
"""Learning curves are drawn from where they are within this factor of the worst run's end."""


_BESIDE = 1.25
"""How far a published law is drawn past the points, as a factor: also where there is only one."""


def scaling_charts(runs: Sequence[RunSummary], *, has_published: bool = False) -> tuple[Chart, ...]:
    """A chart for each scale, both axes logarithmic; none if no run has converged.

    Points are the finished runs with what tells their names apart; the dashed line is the power law,
    stated beside the title. On data and compute the way of each run stands behind its point.
    `has_published` adds the law of Kaplan et al. 2020.
    """
    finished = [run for run in runs if run.is_converged]
    if not finished:
        return ()
    return tuple(
        _chart(scaling_points(runs, scale), finished, has_published=has_published) for scale in SCALES
    )


def _chart(points: ScalingPoints, finished: Sequence[RunSummary], *, has_published: bool) -> Chart:
    series = [] if points.scale == "parameters" else list(_ways(points.scale, finished))
    if has_published and len(points.xs):
        xs = np.geomspace(points.xs[0] / _BESIDE, points.xs[-1] * _BESIDE, 50)
        ys = published_law(points.scale).at(xs)
        series.append(Series(name=PUBLISHED_BY, xs=xs, ys=ys, colour=1, is_dashed=True))
    if points.law is not None:
        xs = np.geomspace(points.xs[0], points.xs[-1], 50)
        series.append(Series(name="", xs=xs, ys=points.law.at(xs), is_reference=True))
    labels = without_shared_parts(points.names)
    series.append(Series(name="", xs=points.xs, ys=points.losses, style="points", labels=labels))
    stated = points.law.words(points.scale) if points.law is not None else points.note
    return Chart(
        title=TITLES[points.scale],
        x_label=UNITS[points.scale],
        y_label=f"{loss_unit(run.objective for run in finished)}; {stated}",
        series=tuple(series),
        is_log_x=True,
        is_log_y=True,
    )


def _ways(scale: Scale, runs: Sequence[RunSummary]) -> list[Series]:
    """The held-out loss of each run over time, drawn lightly."""
    highest = _MUST_REACH * max(run.best_loss for run in runs)
    ways = []
    for run in runs:
        whole = run.n_tokens if scale == "data" else run.flops
        if not (np.isfinite(whole) and whole > 0 and run.step > 0):
            continue
        losses = np.where(run.validation.values <= highest, run.validation.values, np.nan)
        xs = run.validation.steps * (whole / run.step)
        ways.append(Series(name="", xs=xs[xs > 0], ys=losses[xs > 0], is_quiet=True))
    return ways


# Runs that differ in nothing but the seed, as one curve: mean held-out loss, with a standard deviation.


def seed_chart(runs: Sequence[RunSummary], *, is_log: bool = False) -> Chart:
    """The mean over seeds at the steps of all seeds; light lines at one standard deviation.

    The deviation is the sample's (n − 1). A setting with one seed has its curve alone. Raises ValueError
    where no run has a held-out loss.
    """
    series: list[Series] = []
    has_spread = False
    for colour, (settings, seeds) in enumerate(seed_groups(runs).items()):
        steps, losses = _losses(seeds)
        if not len(steps):
            continue
        named = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings)
        named = named or ("mean" if len(seeds) > 1 else "validation")
        mean = losses.mean(axis=0)
        if len(seeds) > 1:
            has_spread, deviation = True, losses.std(axis=0, ddof=1)
            series += [
                Series(
                    name=f"{named}, {sign} s", xs=steps, ys=ys, colour=colour, is_quiet=True, has_label=False
                )
                for sign, ys in (("−", mean - deviation), ("+", mean + deviation))
            ]
            named += f" ({len(seeds)} seeds)"
        series.append(Series(name=named, xs=steps, ys=mean, colour=colour, has_points=True))
    if not series:
        raise ValueError("no run has a held-out loss")
    unit = loss_unit(run.objective for run in runs)
    return Chart(
        title="Held-out loss, mean over seeds" if has_spread else "Held-out loss",
        x_label="step",
        y_label=f"{unit}; pale: one standard deviation" if has_spread else unit,
        series=tuple(series),
        is_log_y=is_log,
    )


def _losses(seeds: Sequence[RunSummary]) -> tuple[np.ndarray, np.ndarray]:
    """The steps [n] at which every seed has a loss, and the losses [n_seeds, n]."""
    known = [run.validation.steps[np.isfinite(run.validation.values)] for run in seeds]
    steps = reduce(np.intersect1d, known)
    rows = [run.validation.values[np.searchsorted(run.validation.steps, steps)] for run in seeds]
    return steps.astype(np.float64), np.array(rows, np.float64)


PARTS: tuple[tuple[str, str, Quantity], ...] = (
    ("Loss", "nats", "loss"),
    ("Learning rate", "", "rate"),
    ("Gradient norm", "before clipping", "norm"),
    ("Speed", "tokens/s", "speed"),
    ("Accuracy", "share of held-out tokens or labels", "accuracy"),
    ("Open heads", "expected, gates are learned", "heads"),
    ("Span or open offsets", "of each head", "spans"),
    ("Next sentence", "share of pairs predicted correctly", "pairs"),
    ("Batch and length", "texts a step, most tokens of a text", "sizes"),
)
"""Title, unit and quantity of each chart, in order; what a loss is the mean over, only the runs tell."""
LINEAR: tuple[Quantity, ...] = ("speed", "accuracy", "heads", "spans", "pairs", "sizes")
"""Never drawn on a logarithmic axis."""
SHARES: tuple[Quantity, ...] = ("accuracy", "pairs")
"""Never above 1."""


def shown_charts(
    shown: tuple[ShownRun, ...], drawing: Drawing, *, is_log: bool, wanted: Sequence[Quantity] = ()
) -> tuple[Chart, ...]:
    """A chart of each part with data, or of the `wanted` ones, for all runs, each in its colour."""
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
                y_range=_share_range(lines) if quantity in SHARES else None,
            )
        )
    return tuple(charts)


def _share_range(lines: Sequence[CurveLine]) -> tuple[float, float]:
    """From somewhat below the least share to 1."""
    known = np.concatenate([line.ys[np.isfinite(line.ys)] for line in lines])
    low = float(known.min()) if len(known) else 0.0
    return (0.0 if low < 0.35 else max(0.0, low - 0.04 - 0.06 * (1.0 - low))), 1.0


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
