"""The figures of `attnscope figure` that show no text: positional encodings and training curves."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.figure_options import on_page
from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Chart
    from attnscope.models import Model

_SCHEMES = ("sinusoidal", "learned", "rotary", "binary", "model")
_SMOOTHING = 0.9
_FOREIGN_POSITIONS, _WIDTH = 1024, 64
"""Models of other libraries may read a million tokens, and some have no one width."""


def positions_figure(arguments: argparse.Namespace) -> "Figure":
    """Encodings of the model's size side by side, its own among them where it has one."""
    from attnscope.analysis.positions import position_tables
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
    n_positions, d_model = _size_of(model)
    tables = position_tables(names, n_positions, d_model, model)
    note = " ".join(table.note for table in tables if table.note)
    caption = Caption(model=model.info.name, sha256=model.info.sha256, note=note)
    return on_page(
        arguments,
        FigureSpec(
            view="positions",
            positions=tables,
            title=arguments.title or f"Positional encodings, {n_positions} positions, d_model {d_model}",
            caption=caption if arguments.caption else None,
            dpi=arguments.dpi,
        ),
    )


def _size_of(model: "Model") -> tuple[int, int]:
    """The most positions that are drawn of a model, and its width; those of the window where it has none."""
    from attnscope.analysis.positions import MAX_POSITIONS

    if not model.info.architecture:
        return model.own.config.max_tokens, model.own.config.d_model
    config = getattr(getattr(model.network, "module", None), "config", None)
    width = getattr(config, "hidden_size", None)
    n_positions = min(model.info.max_tokens, _FOREIGN_POSITIONS, MAX_POSITIONS)
    return n_positions, width if isinstance(width, int) else _WIDTH


def curves_figure(arguments: argparse.Namespace) -> "Figure":
    """The curves of a run folder, or of all runs in a folder: loss, learning rate, gradient norm, speed."""
    from attnscope.figures.run_charts import shown_charts
    from attnscope.training import read_run
    from attnscope.training.summaries import find_runs, short_names
    from attnscope.viewmodels.training.overlaid_curves import Drawing, ShownRun
    from attnscope.viewmodels.training.recipe_differences import settings_of
    from attnscope.viewmodels.training.run_axes import RunAxis
    from attnscope.viewmodels.training.run_curves import RunCurves

    folder = Path(arguments.model)
    runs, _ = find_runs([str(folder)])
    shown = []
    for colour, (run, name) in enumerate(short_names(runs).items()):
        curves, record = RunCurves(), read_run(run)
        curves.add(record.events)
        shown.append(
            ShownRun(
                folder=str(run),
                name=name,
                colour=colour,
                curves=curves,
                axis=RunAxis(curves),
                objective=dict(settings_of(record.recipe)).get("objective.kind", ""),
            )
        )
    charts = shown_charts(tuple(shown), Drawing(smoothing=_SMOOTHING), is_log=False)
    if not charts:
        raise UserError(
            f"{'The run' if len(runs) == 1 else 'No run in'} {folder} has made a step yet.",
            expected="a run folder with metrics",
            action="Train it first: attnscope train RECIPE --out DIR.",
        )
    about = f"Training of {folder.resolve().name}" + (f", {len(runs)} runs" if len(runs) > 1 else "")
    return _figure_of(arguments, charts, about, max(run.curves.last_step for run in shown))


def scaling_figure(arguments: argparse.Namespace) -> "Figure":
    """Loss against parameters, data and compute over the finished runs in a folder, with the power law."""
    from attnscope.figures.scaling_charts import scaling_charts
    from attnscope.training.summaries import read_runs
    from attnscope.viewmodels.training.scaling import MIN_POINTS

    runs, _ = read_runs([arguments.model])
    n_finished = sum(run.is_converged for run in runs)
    if n_finished < MIN_POINTS:
        raise UserError(
            f"{arguments.model} has {len(runs)} run{'' if len(runs) == 1 else 's'}, of which "
            f"{n_finished or 'none'} {'has' if n_finished <= 1 else 'have'} made every step and measured "
            "a held-out loss.",
            expected=f"at least {MIN_POINTS} such runs, of {MIN_POINTS} different sizes",
            action="Train more: attnscope train RECIPE --sweep model.d_model=32,64,128 --out DIR.",
        )
    name = Path(arguments.model).resolve().name
    return _figure_of(arguments, scaling_charts(runs), f"Scaling over {n_finished} runs of {name}")


def _figure_of(
    arguments: argparse.Namespace, charts: "tuple[Chart, ...]", title: str, step: int | None = None
) -> "Figure":
    from attnscope.figures.spec import Caption, FigureSpec

    name = Path(arguments.model).resolve().name
    return on_page(
        arguments,
        FigureSpec(
            view="curves",
            charts=charts,
            title=arguments.title or title,
            caption=Caption(model=name, step=step) if arguments.caption else None,
            dpi=arguments.dpi,
        ),
    )
