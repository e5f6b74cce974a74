"""A head's singular values as charts, and its token pairs as CSV and JSON."""

import csv
import io

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.numbers import safe_cell
from attnscope.records.charts import Chart, Series
from attnscope.records.redundancy import HeadWeightsFound, SiteSpectrum, TokenPair, WeightPart
from attnscope.records.sites import HeadRef

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
