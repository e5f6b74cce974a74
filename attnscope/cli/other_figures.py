"""The figures of `attnscope figure` that show no text: positional encodings and training curves."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure

_SCHEMES = ("sinusoidal", "learned", "rotary", "binary", "model")
_SMOOTHING = 0.9


def positions_figure(arguments: argparse.Namespace) -> "Figure":
    """Encodings of the model's size side by side, its own among them where it has one."""
    from attnscope.analysis.positions import position_tables
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption, FigureSpec
    from attnscope.models import load

    names = tuple(arguments.encodings.split(","))
    if not set(names) <= set(_SCHEMES):
        raise UserError(
            f"There is no such set of encodings as '{arguments.encodings}'.",
            expected="some of " + ", ".join(_SCHEMES),
            action="Separate them with commas.",
        )
    model = load(arguments.model, device=arguments.device)
    n_positions, d_model = model.own.config.max_tokens, model.own.config.d_model
    tables = position_tables(names, n_positions, d_model, model)
    note = " ".join(table.note for table in tables if table.note)
    caption = Caption(model=model.info.name, sha256=model.info.sha256, note=note)
    return Figure(
        FigureSpec(
            view="positions",
            positions=tables,
            title=arguments.title or f"Positional encodings, {n_positions} positions, d_model {d_model}",
            caption=caption if arguments.caption else None,
            width_mm=arguments.width_mm,
            height_mm=arguments.height_mm,
            dpi=arguments.dpi,
        )
    )


def curves_figure(arguments: argparse.Namespace) -> "Figure":
    """The curves of a run folder: loss, learning rate, gradient norm, speed."""
    from attnscope.figures.figure import Figure
    from attnscope.figures.run_charts import run_charts
    from attnscope.figures.spec import Caption, FigureSpec
    from attnscope.training import read_run
    from attnscope.viewmodels.run_curves import RunCurves

    folder = Path(arguments.model)
    curves = RunCurves()
    curves.add(read_run(folder).events)
    charts = run_charts(curves, smoothing=_SMOOTHING, is_log=False)
    if not charts:
        raise UserError(
            f"The run {folder} has not made a step yet.",
            expected="a run folder with metrics",
            action="Train it first: attnscope train RECIPE --out DIR.",
        )
    name = folder.resolve().name
    return Figure(
        FigureSpec(
            view="curves",
            charts=charts,
            title=arguments.title or f"Training of {name}",
            caption=Caption(model=name, step=curves.last_step) if arguments.caption else None,
            width_mm=arguments.width_mm,
            height_mm=arguments.height_mm,
            dpi=arguments.dpi,
        )
    )
