"""What is measured of heads, as charts: how much they matter, pruning curves, singular values."""

import csv
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.figures.numbers import safe_cell
from attnscope.records.charts import Chart, Series
from attnscope.records.importance import Importance, PruningCurve, Ranking
from attnscope.records.measures import HeadWeightsFound, SiteSpectrum, TokenPair, WeightPart
from attnscope.records.sites import Gates, HeadRef
from attnscope.viewmodels.heads.pruning_curves import RANKING_NAMES, CurveGroup, grouped

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
    """Pairs and singular values of both products; what could not be had with the reason."""
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
