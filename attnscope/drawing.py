"""From Python: graphs, positions, curves, scaling laws, figure files drawn again, answers to questions."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack, get_args

from attnscope.analysis.influence import attention_graph
from attnscope.analysis.model_reading import ask_model
from attnscope.analysis.one_head import look_inside
from attnscope.analysis.positions import MAX_POSITIONS, NAMES, position_checks, position_tables
from attnscope.counting import plural
from attnscope.errors import UserError, of_wrong_kind
from attnscope.fields import spelled_out, with_values
from attnscope.figures.charts import PARTS, scaling_charts, seed_chart, shown_charts
from attnscope.figures.figure import Figure, draw_wanted, ensure_gui, on_page
from attnscope.figures.figure_file import SavedFigure, read_figure_file
from attnscope.figures.page import PageOptions, PaperOptions
from attnscope.figures.spec import PAGE_MM, Caption, FigureSpec, Wanted
from attnscope.figures.style import plain_text, shorten
from attnscope.figures.views import VIEWS
from attnscope.figures.views.answer import AnswerFigure
from attnscope.figures.views.curves import CurvesFigure
from attnscope.figures.views.graph import GraphFigure
from attnscope.figures.views.head import HeadFigure
from attnscope.figures.views.inside import InsideFigure, InsidePart, paper_height_mm
from attnscope.models.model import Changes, GateSetting, Model
from attnscope.models.opening import open_named
from attnscope.questions import question_named
from attnscope.records.causes import DEFAULT_THRESHOLD
from attnscope.records.charts import Answer, CellMap, Chart, NumberTable
from attnscope.records.interventions import as_interventions
from attnscope.records.sites import Gates, HeadName, Stack, gates_named, head_named
from attnscope.trace import Trace
from attnscope.training import read_run
from attnscope.training.summaries import find_runs, read_runs, short_names
from attnscope.viewmodels.causes.inside import Step
from attnscope.viewmodels.maps.aspect import PLAIN
from attnscope.viewmodels.training.recipe_text import settings_of
from attnscope.viewmodels.training.run_curves import RunAxis, RunCurves
from attnscope.viewmodels.training.runs_compared import MIN_POINTS, Drawing, Quantity, ShownRun

_SMOOTHING = 0.9
_FOREIGN_POSITIONS, _WIDTH = 1024, 64
"""Models of other libraries may read a million tokens, and some have no one width."""


@spelled_out
def positions_figure(
    model: Model | None = None,
    encodings: Sequence[str] = ("sinusoidal", "rotary", "model"),
    *,
    view: str = "positions",
    only: str = "",
    n_positions: int | None = None,
    d_model: int | None = None,
    **page: Unpack[PageOptions],
) -> Figure:
    """Positional encodings side by side: their matrices, and how alike each pair of positions is.

    `view` may be another one of encodings, such as waves, of which `only` names the dimensions ("0, 4-7").
    `encodings` are position schemes that have a matrix, and model for the model's own. Without a model, leave
    `model` out and give `n_positions` and `d_model`, which are otherwise the model's. `has_caption` names the
    model below. The page options are those of `attnscope.figure`. Raises UserError for an unknown encoding,
    an impossible size, or a model without positions.
    """
    views = [name for name, kind in VIEWS.items() if kind.reads_positions]
    if view not in views:
        raise UserError(f"Positional encodings have no view '{view}'.", expected=" or ".join(views))
    names = (encodings,) if isinstance(encodings, str) else tuple(encodings)
    if not names or not set(names) <= set(NAMES):
        raise UserError(
            f"Unknown encodings: '{','.join(map(str, names))[:80]}'.",
            expected="some of " + ", ".join(NAMES),
            action="Separate them with commas.",
        )
    own = (n_positions, d_model) if model is None else _size_of(model)
    n, width = n_positions or own[0], d_model or own[1]
    if n is None or width is None:
        raise UserError(
            "The size of the encodings is not given.",
            expected="n_positions and d_model, or a model",
            action="For instance: positions_figure(encodings=('rotary',), n_positions=64, d_model=32).",
        )
    tables = position_tables(names, n, width, model)
    info = model.info if model is not None else None
    caption = Caption(model=info.name if info else "", sha256=info.sha256 if info else "")
    spec = VIEWS[view].of_positions(
        tables,
        only,
        position_checks() if VIEWS[view].reads_checks else (),
        title=f"Positional encodings, {n} positions, d_model {width}",
        caption=caption,
    )
    return on_page(spec, **page)


@spelled_out
def curves_figure(
    folder: str | Path,
    *,
    smoothing: float = _SMOOTHING,
    is_log: bool = False,
    charts: Sequence[Quantity] = (),
    over_seeds: bool = False,
    **page: Unpack[PageOptions],
) -> Figure:
    """The curves of a run folder, or of all runs in a folder: loss, learning rate, gradient norm, speed.

    `smoothing`, from 0 (none) to below 1, is of the training loss; `is_log` makes the loss axis logarithmic.
    `charts` are some of loss, rate, norm, speed, accuracy, heads, spans, pairs and sizes (empty: all that
    have data). With `over_seeds`, runs that differ only in the seed are drawn as their mean held-out loss,
    with paler curves one standard deviation above and below. `has_caption` names the run and its last step.
    The page options are those of `attnscope.figure`. Raises UserError for a folder without a run that has
    completed a step.
    """
    if isinstance(smoothing, bool) or not 0.0 <= smoothing < 1.0:
        raise UserError(f"The smoothing is {smoothing}.", expected="a number from 0 to below 1")
    folder = Path(folder)
    runs, _ = find_runs([str(folder)])
    shown = tuple(
        _shown_run(run, name, colour) for colour, (run, name) in enumerate(short_names(runs).items())
    )
    wanted = _wanted_charts(charts, over_seeds=over_seeds)
    found = shown_charts(shown, Drawing(smoothing=smoothing), is_log=is_log, wanted=wanted)
    if not found:
        raise _nothing_drawn(folder, shown, wanted)
    about = f"Training of {folder.resolve().name}" + (f", {len(runs)} runs" if len(runs) > 1 else "")
    caption = Caption(model=folder.resolve().name, step=max(run.curves.last_step for run in shown))
    if over_seeds:
        found = _over_seeds(folder, is_log=is_log)
    return on_page(CurvesFigure(charts=found, title=about, caption=caption), **page)


def _nothing_drawn(folder: Path, shown: Sequence[ShownRun], wanted: Sequence[Quantity]) -> UserError:
    """Why runs have no curves: no step was made, or nothing was recorded for the wanted charts."""
    if any(run.curves.last_step for run in shown):
        return UserError(
            f"{folder} has no data for these charts: {', '.join(wanted)}.",
            expected="charts that have data",
            action="Leave them out, or name no charts to draw all that have data.",
        )
    which = f"The run {folder} has not" if len(shown) == 1 else f"No run in {folder} has"
    return UserError(
        f"{which} completed a step yet.",
        expected="a run folder with metrics",
        action="Train it first: attnscope train RECIPE --out DIR.",
    )


def _wanted_charts(charts: Sequence[Quantity], *, over_seeds: bool) -> tuple[Quantity, ...]:
    """The charts asked for; raises UserError for unknown ones, and for others than the loss over seeds."""
    known = tuple(quantity for _, _, quantity in PARTS)
    wanted: tuple[Quantity, ...] = (charts,) if isinstance(charts, str) else tuple(charts)  # type: ignore[assignment]
    allowed = ("loss",) if over_seeds else known
    if not set(wanted) <= set(allowed):
        raise UserError(
            f"These charts cannot be drawn: '{','.join(map(str, wanted))[:80]}'"
            + (" over seeds." if over_seeds else "."),
            expected="the loss alone" if over_seeds else "some of " + ", ".join(allowed),
            action="Leave the charts out." if over_seeds else "Separate them with commas.",
        )
    return wanted


def _over_seeds(folder: Path, *, is_log: bool) -> tuple[Chart, ...]:
    try:
        return (seed_chart(read_runs([str(folder)])[0], is_log=is_log),)
    except ValueError as error:
        raise UserError(
            f"No run in {folder} has a held-out loss yet.",
            expected="runs with held-out data",
            action="Leave out over_seeds, or continue training.",
        ) from error


@spelled_out
def scaling_figure(
    folder: str | Path,
    **page: Unpack[PageOptions],
) -> Figure:
    """Loss against parameters, data and compute over the finished runs in a folder, with the power law.

    The page options are those of `attnscope.figure`. Raises UserError for fewer than three finished runs.
    """
    runs, _ = read_runs([str(folder)])
    n_finished = sum(run.is_converged for run in runs)
    if n_finished < MIN_POINTS:
        raise UserError(
            f"{folder} has {plural(len(runs), 'run')}, of which "
            f"{n_finished or 'none'} {'has' if n_finished <= 1 else 'have'} made every step and measured "
            "a held-out loss.",
            expected=f"at least {MIN_POINTS} such runs, of {MIN_POINTS} different sizes",
            action="Train more: attnscope train RECIPE --sweep model.d_model=32,64,128 --out DIR.",
        )
    name = Path(folder).resolve().name
    about = f"Scaling over {n_finished} runs of {name}"
    return on_page(
        CurvesFigure(charts=scaling_charts(runs), title=about, caption=Caption(model=name)), **page
    )


@spelled_out
def graph_figure(
    trace: Trace,
    token: int = -1,
    *,
    stack: Stack | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    title: str = "",
    caption: Caption | None = None,
    **paper: Unpack[PaperOptions],
) -> Figure:
    """Attention as a graph from one output token, the last by default, down to the inputs.

    Lines that carry less than `threshold` (0…1) of the output are left out. `stack` is encoder or decoder, by
    default the one that predicts. The page options are those of `attnscope.figure`. Raises UserError for an
    impossible token, stack or threshold, and for a model whose layers cannot be followed.
    """
    graph = attention_graph(trace, token, stack, threshold)
    spec = GraphFigure(
        graph=graph,
        gates=trace.gates,
        interventions=trace.interventions,
        title=f"From “{shorten(plain_text(graph.nodes[0].token.piece), 40)}” down to the inputs",
        caption=caption,
    )
    return on_page(spec, title=title, has_caption=True, **paper)


@spelled_out
def inside_figure(
    model: Model,
    text: str,
    head: HeadName,
    query: int = -1,
    *,
    target: str | None = None,
    gates: GateSetting = None,
    step: Step = "softmax",
    **page: Unpack[PageOptions],
) -> Figure:
    """One head step by step: a query's numbers, their products with each key's, scores, weights, values.

    `query` counts from 0, from the end if negative. `step` is the one that is marked: product, scale, mask,
    softmax, values or output. Of a text of many tokens the keys with the largest weights are shown.
    The page is 174 mm wide and as high as the figure unless it is given; `has_caption` names model and text
    below. Raises UserError for a head or query that is not there, and for an unknown step.
    """
    if not isinstance(model, Model):
        raise of_wrong_kind(model, "model", "a model", "Open one: attnscope.load(name).")
    if step not in get_args(Step):
        raise UserError(f"There is no step '{str(step)[:40]}'.", expected=" or ".join(get_args(Step)))
    named = head_named(head, model.sites)
    trace = model.trace_site(named.site_key, text, target, gates)
    n_queries = len(trace.tokens(named.site_key)[0])
    if not -n_queries <= query < n_queries:
        raise UserError(f"There is no query {query}.", expected=f"0 to {n_queries - 1}")
    inside = look_inside(trace, named, query % n_queries).called_after(PLAIN.rows)
    info = model.info
    caption = Caption(model=info.name, sha256=info.sha256, text=text, target=target)
    spec = InsideFigure(
        inside=InsidePart(inside=inside, step=step),
        gates=trace.gates,
        caption=caption,
    )
    return on_page(spec, (PAGE_MM[0], paper_height_mm(inside)), **page)


def load_figure(path: str | Path, *, device: str = "auto") -> Figure:
    """The figure of a figure file (`.figure.json`), to look at or to save in another format.

    A file that holds a question loads its model and reads its text again; one that holds numbers needs
    neither. Raises LoadError for a missing file, model or head, and for a file that is not a figure file.
    """
    kept = read_figure_file(Path(path))
    ensure_gui()
    if isinstance(kept, FigureSpec):
        return Figure(kept)
    origin, model = kept.origin, open_named(kept.origin.source, device)
    past_trained = origin.past_trained and model.info.can_read_past
    trace = model.trace(
        origin.text,
        origin.target,
        kept.gates,
        interventions=kept.interventions,
        past_trained=past_trained,
    )
    return figure_from(kept, model, trace)


def handout(session: str | Path, path: str | Path, *, device: str = "auto") -> Path:
    """Write the kept views of a session file as a PDF, one on each page with its note; returns its path.

    `attnscope handout` makes it, in a process of its own, since it draws as the window does. Raises
    UserError where session or model cannot be opened, no views are kept, or nothing can be written.
    """
    words = ("handout", str(session), "-o", str(path), "--device", device)
    done = subprocess.run(
        [sys.executable, "-m", "attnscope", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise UserError((done.stderr.strip().splitlines() or ["It ended early."])[-1].partition(": ")[2])
    return Path(path)


def figure_from(saved: SavedFigure, model: Model, trace: Trace) -> Figure:
    """The saved figure on this trace; raises UserError for a head that the model does not have."""
    origin, info = saved.origin, model.info
    source = trace.source
    caption = Caption(
        model=info.name,
        sha256=info.sha256,
        text=source.read_text if source.n_dropped else origin.text,
        target=origin.target,
        note="; ".join(dict.fromkeys(filter(None, (saved.note, source.cut_words, info.picture_words)))),
    )
    wanted = Wanted(
        trace=trace,
        heads=tuple(head_named(head, trace.sites) for head in saved.heads),
        stack=saved.stack,
        aspect=origin.aspect,
        also=saved.also,
        columns=saved.columns,
        from_file=True,
    )
    made = draw_wanted(
        wanted,
        saved.view,
        saved.style,
        saved.title,
        caption if saved.has_caption else None,
        origin,
        width_mm=saved.width_mm,
        height_mm=saved.height_mm,
        font_pt=saved.font_pt,
        dpi=saved.dpi,
    )
    return Figure(replace(made.spec, gold=saved.gold)) if isinstance(made.spec, HeadFigure) else made


def _size_of(model: Model) -> tuple[int, int]:
    """The number of positions drawn for a model, and its width; the window's defaults if it has none."""
    if not model.info.architecture:
        return model.own.config.max_tokens, model.own.config.d_model
    config = getattr(getattr(model.network, "module", None), "config", None)
    width = getattr(config, "hidden_size", None)
    n_positions = min(model.info.max_tokens, _FOREIGN_POSITIONS, MAX_POSITIONS)
    return n_positions, width if isinstance(width, int) else _WIDTH


def _shown_run(run: Path, name: str, colour: int) -> ShownRun:
    curves, record = RunCurves(), read_run(run)
    curves.add(record.events)
    return ShownRun(
        folder=str(run),
        name=name,
        colour=colour,
        curves=curves,
        axis=RunAxis(curves),
        objective=dict(settings_of(record.recipe)).get("objective.kind", ""),
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer to one question; a notebook draws it."""

    title: str
    answer: Answer
    caption: Caption

    def __repr__(self) -> str:
        """The sentence that states what was found."""
        return f"{self.title}: {self.answer.sentence}"

    @property
    def sentence(self) -> str:
        """The finding in one sentence."""
        return self.answer.sentence

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Curves: `chart.series[0].xs` and `.ys` are arrays."""
        return self.answer.charts

    @property
    def maps(self) -> tuple[CellMap, ...]:
        """Maps of numbers: `values` [n_rows, n_columns]."""
        return self.answer.cells

    @property
    def tables(self) -> tuple[NumberTable, ...]:
        """Tables: `columns` and `rows`."""
        return self.answer.tables

    @spelled_out
    def figure(
        self, *, title: str | None = None, has_caption: bool = True, **paper: Unpack[PaperOptions]
    ) -> Figure:
        """The answer as a figure; the page options are those of `attnscope.figure`."""
        spec = AnswerFigure(
            charts=self.charts,
            cells=self.maps,
            tables=self.tables,
            title=self.title if title is None else title,
            caption=self.caption,
        )
        return on_page(spec, has_caption=has_caption, **paper)

    def save(self, path: str | Path) -> Path:
        """Write SVG, PDF, PNG, CSV, NPZ, an HTML page or a figure file, by the ending; returns the path."""
        return self.figure().save(path)

    def _repr_svg_(self) -> str:
        return self.figure().render("svg").decode()


def ask(
    name: str,
    model: Model,
    text: str,
    target: str | None = None,
    *,
    head: HeadName | None = None,
    gates: GateSetting = None,
    interventions: Changes = (),
    **options: object,
) -> Asked:
    """The answer to a question, such as `residual-stream`, about a model and a text.

    `name` is the question's; `attnscope ask` lists the questions with their options, which are given in
    `options`. `head` is the head that is asked about, where the question is about one (default: the model's
    first). Raises UserError for an unknown question or option, and for a model that has no such part.
    """
    if not isinstance(model, Model):
        raise of_wrong_kind(model, "model", "a model", "Open one: attnscope.load(name).")
    question = question_named(name)
    answer = ask_model(
        question,
        model,
        text,
        target,
        options=with_values(question.options, options),
        head=None if head is None else head_named(head, model.sites),
        gates=gates if gates is None or isinstance(gates, Gates) else gates_named(gates, model.sites),
        interventions=as_interventions(interventions, model.sites),
    )
    info = model.info
    note = " ".join(filter(None, (answer.sentence, answer.note)))
    caption = Caption(model=info.name, sha256=info.sha256, text=text, target=target, note=note)
    return Asked(question.title, answer, caption)
