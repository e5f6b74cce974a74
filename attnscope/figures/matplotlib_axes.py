"""A figure on axes of matplotlib, which is not needed for anything else and imported only here."""

import io
from importlib import import_module
from typing import Any

import numpy as np

from attnscope.errors import UserError
from attnscope.figures.colours import LIGHT, lut
from attnscope.figures.export import render
from attnscope.figures.plain import plain_piece
from attnscope.figures.raster import scale_peaks
from attnscope.figures.shown_maps import as_drawn, common_peak
from attnscope.figures.spec import MM_PER_INCH, FigureSpec
from attnscope.figures.token_axis import axis_names
from attnscope.figures.views.head import HeadFigure

_MOST_LABELS = 40


def draw_on_axes(spec: FigureSpec, axes: Any = None) -> Any:
    """Draw on matplotlib's axes, on new ones of the figure's size without; returns them.

    One head becomes a map of matplotlib's own, its cells and labels to be changed there; any other view is
    put there as a picture. Raises UserError where matplotlib is not installed.
    """
    try:
        colours, pyplot = import_module("matplotlib.colors"), import_module("matplotlib.pyplot")
    except ImportError as error:
        raise UserError(
            "matplotlib is not installed.",
            expected="a Python that has it",
            action="Install it: python -m pip install matplotlib. Or save the figure: figure.save('a.svg').",
        ) from error
    if axes is None:
        size = (spec.width_mm / MM_PER_INCH, spec.height_mm / MM_PER_INCH)
        axes = pyplot.subplots(figsize=size, layout="constrained")[1]
    elif not hasattr(axes, "imshow"):
        raise UserError(
            f"These are no axes: an object of type {type(axes).__name__}.",
            expected="axes of matplotlib, such as plt.subplots()[1]",
        )
    drawn = as_drawn(spec)
    if isinstance(drawn, HeadFigure) and drawn.maps:
        table = colours.ListedColormap(lut(drawn.style.colour_map).astype(np.float64) / 255)
        _draw_map(drawn, axes, table.with_extremes(bad=LIGHT.not_allowed))
        return axes
    from PIL import Image

    with Image.open(io.BytesIO(render(spec, "png"))) as image:
        axes.imshow(np.asarray(image.convert("RGB")))
    axes.set_axis_off()
    return axes


def _draw_map(spec: HeadFigure, axes: Any, colours: Any) -> None:
    """Rows are queries, columns keys; what is not allowed has no colour of a weight."""
    shown, style = spec.maps[0], spec.style
    of_row, peak = style.scale == "row", common_peak(spec)
    tops = scale_peaks(shown.weights, "row", peak) if of_row else 1.0
    values = np.where(np.isfinite(shown.weights), shown.weights / tops, np.nan)
    image = axes.imshow(values, cmap=colours, vmin=0.0, vmax=1.0 if of_row else peak, interpolation="nearest")
    for axis, tokens in ((axes.xaxis, shown.keys), (axes.yaxis, shown.queries)):
        every = style.label_every or max(1, -(-len(tokens) // _MOST_LABELS))
        places = range(0, len(tokens), every)
        names = [plain_piece(tokens[k].label).replace("$", r"\$") for k in places]
        axis.set_ticks(list(places), labels=names)
    if style.turn is not None or len(shown.keys) > 4:
        axes.tick_params(axis="x", labelrotation=90 if style.turn is None else style.turn)
    keys, queries = axis_names(shown.queries, style)
    axes.set_ylabel(queries)
    axes.set_xlabel(keys)
    axes.set_title(spec.title or ("" if style.is_plain else spec.subject()))
    if style.has_bar and not of_row:
        axes.figure.colorbar(image, ax=axes, label="weight")
