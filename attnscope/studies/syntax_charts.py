"""The charts of `syntax.py`: relations above and below the best fixed offset, weight and entropy by layer."""

from collections.abc import Mapping

import numpy as np

from attnscope.figures.spec import Chart, Series
from attnscope.studies.looking import PLACES, Looks
from attnscope.studies.syntax_rows import RELATIONS, Best

_SHOWN = PLACES[:-1]


def syntax_charts(looks: Looks, found: Mapping[str, Best], control: Mapping[str, Best]) -> tuple[Chart, ...]:
    """Relations first, where there are trees; then where heads look, entropies, and the heads on a plane."""
    charts = [_looks_chart(looks), _entropy_chart(looks), _plane_chart(looks)]
    return tuple([*_relation_charts(found, control), *charts] if found else charts)


def _relation_charts(found: Mapping[str, Best], control: Mapping[str, Best]) -> tuple[Chart, Chart]:
    """Ours and theirs, each relation a point: above the dashed line a head finds more than the offset."""
    names = [name for name, *_ in RELATIONS]
    ours = {name: (found[name].baseline, found[name].value) for name in names if name in found}
    untrained = {name: (control[name].baseline, control[name].value) for name in names if name in control}
    theirs = {name: (baseline, value) for name, _, value, baseline in RELATIONS}
    y_label = "share of arcs that the best head finds"
    return (
        _relation_chart(
            "Relations, ours",
            f"{y_label}; dashed: as many as the offset",
            _points("untrained", untrained, 3),
            _points("trained", ours, 0, has_labels=True),
        ),
        _relation_chart("Relations, BERT", "the same", _points("published", theirs, 1, has_labels=True)),
    )


def _relation_chart(title: str, y_label: str, *series: Series) -> Chart:
    ends = np.array([0.0, 1.0])
    line = Series(name="as the offset", xs=ends, ys=ends, is_reference=True, has_label=False)
    return Chart(
        title=title,
        x_label="share of arcs at the best fixed offset",
        y_label=y_label,
        series=(line, *series),
        y_range=(0.0, 1.02),
    )


def _points(
    name: str, places: Mapping[str, tuple[float, float]], colour: int, *, has_labels: bool = False
) -> Series:
    ordered = sorted(places, key=lambda relation: places[relation])
    return Series(
        name=name,
        xs=np.array([places[relation][0] for relation in ordered], np.float64),
        ys=np.array([places[relation][1] for relation in ordered], np.float64),
        colour=colour,
        style="points",
        labels=tuple(ordered) if has_labels else (),
    )


def _looks_chart(looks: Looks) -> Chart:
    layers = np.unique(looks.layers).astype(np.float64)
    return Chart(
        title="Where heads look",
        x_label="layer",
        y_label="share of the weight",
        series=tuple(
            Series(
                name=place, xs=layers, ys=looks.by_layer(looks.share(place)), colour=colour, has_points=True
            )
            for colour, place in enumerate(_SHOWN)
        ),
    )


def _entropy_chart(looks: Looks) -> Chart:
    layers = np.unique(looks.layers).astype(np.float64)
    order = np.argsort(looks.layers, kind="stable")
    return Chart(
        title="Entropy",
        x_label="layer",
        y_label="nats; a point is a head, dashed: all alike",
        series=(
            Series(
                name="a head",
                xs=looks.layers[order].astype(np.float64),
                ys=looks.entropies[order],
                style="points",
                has_label=False,
            ),
            Series(name="mean", xs=layers, ys=looks.by_layer(looks.entropies), colour=1),
            Series(
                name="all alike",
                xs=layers,
                ys=np.full(len(layers), looks.even),
                is_reference=True,
                has_label=False,
            ),
        ),
    )


def _plane_chart(looks: Looks) -> Chart:
    series = []
    for layer in np.unique(looks.layers):
        own = np.flatnonzero(looks.layers == layer)
        own = own[np.argsort(looks.plane.places[own, 0], kind="stable")]
        series.append(
            Series(
                name=f"layer {layer}",
                xs=looks.plane.places[own, 0],
                ys=looks.plane.places[own, 1],
                colour=int(layer),
                style="points",
            )
        )
    return Chart(
        title="Heads that look alike",
        x_label="",
        y_label=f"{looks.plane.shown_share:.0%} of distances shown",
        series=tuple(series),
        is_geometric=True,
    )
