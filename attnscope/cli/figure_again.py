"""`attnscope figure FILE.figure.json -o OUT`: a saved figure drawn again.

From its model and its text, or from the numbers in the file. What the file says holds; page and look
that are given with it come first.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.arguments import flag_of, given_options
from attnscope.cli.figure_options import turn_of
from attnscope.cli.inputs import tell_cut, tell_note
from attnscope.cli.terminal import say_error
from attnscope.errors import LoadError, UserError

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.figure_file import SavedFigure
    from attnscope.figures.spec import FigureSpec
    from attnscope.figures.style import MapStyle
    from attnscope.models import Model
    from attnscope.trace import Trace

_PAGE = ("size", "width_mm", "height_mm", "font_pt", "dpi", "title", "caption", "columns")
_LOOK = (
    "colour_map", "scale", "values", "turn", "label_every", "no_bar", "plain", "least_weight", "n_strongest",
    "badge", "no_special", "key_name", "query_name", "font",
)  # fmt: skip
_CHANGING_HEIGHT = frozenset(("width_mm", "font_pt", "title", "caption", "columns"))
_ROWS = "rows"
_ALWAYS = ("out", "device")


def draw_again(arguments: argparse.Namespace) -> "tuple[Figure, str]":
    """Read the file and make the figure, with a word about it; warns when its model is another one by now.

    Raises UserError when the file, the model or one of the heads is not there, and for an option that
    would make another figure.
    """
    from attnscope.drawing import figure_from
    from attnscope.figures.figure_file import SavedFigure, read_figure_file

    _refuse_others(arguments)
    kept = read_figure_file(Path(arguments.model))
    if not isinstance(kept, SavedFigure):
        drawn = _on_given_page(arguments, _kept_figure(arguments, kept))
        return drawn, f"{kept.view}, from the file's numbers"
    trace, model = _read_again(arguments, kept)
    made = figure_from(_looked(arguments, kept), model, trace)
    return _on_given_page(arguments, made), trace.check().sentence


def _kept_figure(arguments: argparse.Namespace, kept: "FigureSpec") -> "Figure":
    """The numbers of the file in the look that was given; raises UserError for a caption that none holds."""
    from attnscope.figures.figure import Figure

    given = given_options(arguments)
    _check_columns(arguments, kept.view)
    if arguments.caption and kept.caption is None:
        raise UserError(
            f"{arguments.model} was saved without a caption.", action="Leave out --caption, or save it again."
        )
    if _ROWS in given:
        raise UserError(
            f"{arguments.model} holds numbers, whose rows have the names they were saved with.",
            action="Leave out --rows, or draw a new figure from the model and its text.",
        )
    style = _look(arguments, kept.style)
    title = arguments.title if "title" in given else kept.title
    dpi = arguments.dpi if "dpi" in given else kept.dpi
    return Figure(replace(kept.with_style(style), title=title, dpi=dpi))


def _read_again(arguments: argparse.Namespace, saved: "SavedFigure") -> "tuple[Trace, Model]":
    """The file's text read anew by its model."""
    origin = saved.origin
    model = _load(arguments, origin.source)
    if origin.sha256 and model.info.sha256 != origin.sha256:
        say_error(
            f"attnscope: warning: the weights of {model.info.name} are not those that the figure was saved "
            f"with (sha256 {model.info.sha256[:12]}, saved {origin.sha256[:12]}); it may look different."
        )
    trace = model.trace(
        origin.text,
        origin.target,
        saved.gates,
        interventions=saved.interventions,
        past_trained=origin.past_trained and model.info.can_read_past,
    )
    tell_cut(trace.source, trace.target)
    return trace, model


def _load(arguments: argparse.Namespace, source: str) -> "Model":
    """The model of the file; an error says where it was looked for."""
    from attnscope.models.recording.opening import open_named

    try:
        model = open_named(source, arguments.device)
    except LoadError as error:
        if error.kind == "not-downloaded":
            raise
        folder = Path(arguments.model).absolute().parent
        here = "" if Path.cwd() in (folder, *folder.parents) else f", in {Path.cwd()}"
        raise LoadError(
            f"The model of {arguments.model} cannot be opened: {error.happened}",
            kind=error.kind,
            expected=f"the model in {folder} or a folder above{here}, or by its name or full path",
            action="Move the figure file beside its model, or start from the folder that holds both.",
        ) from error
    tell_note(model)
    return model


def _refuse_others(arguments: argparse.Namespace) -> None:
    """Raise UserError for options that say what is drawn: the file says that."""
    others = sorted(given_options(arguments) - {*_PAGE, *_LOOK, _ROWS, *_ALWAYS})
    if others:
        raise UserError(
            f"{arguments.model} says what is drawn: {', '.join(map(flag_of, others))} would have no effect.",
            expected="options of page and look alone: " + ", ".join(map(flag_of, (*_PAGE, *_LOOK, _ROWS))),
            action="Leave the others out, or draw a new figure from the model and its text.",
        )


def _check_columns(arguments: argparse.Namespace, view: str) -> None:
    if "columns" in given_options(arguments) and view != "panels":
        raise UserError("--columns arranges panels, and this figure has none.", action="Leave it out.")


def _look(arguments: argparse.Namespace, saved: "MapStyle") -> "MapStyle":
    given = given_options(arguments)
    style = {name: getattr(arguments, name) for name in _LOOK if name in given}
    if "values" in style:
        style["show_values"] = style.pop("values")
    if "plain" in style:
        style["is_plain"] = style.pop("plain")
    if "badge" in style:
        style["has_badge"] = style.pop("badge")
    if "no_special" in style:
        style["has_special"] = not style.pop("no_special")
    if "no_bar" in style:
        style["has_bar"] = not style.pop("no_bar")
    if "turn" in style:
        style["turn"] = turn_of(arguments)
    return replace(saved, **style)


def _looked(arguments: argparse.Namespace, saved: "SavedFigure") -> "SavedFigure":
    """The saved figure in the colours, labels and words that were given."""
    given = given_options(arguments)
    _check_columns(arguments, saved.view)
    origin = saved.origin
    if _ROWS in given:
        origin = replace(origin, aspect=replace(origin.aspect, rows=arguments.rows))
    return replace(
        saved,
        origin=origin,
        style=_look(arguments, saved.style),
        title=arguments.title if "title" in given else saved.title,
        has_caption=saved.has_caption or arguments.caption,
        dpi=arguments.dpi if "dpi" in given else saved.dpi,
    )


def _on_given_page(arguments: argparse.Namespace, made: "Figure") -> "Figure":
    """The figure on the page that was given; what was not stays, and a height that followed follows."""
    from attnscope.figures.figure import Figure
    from attnscope.figures.page import preset_of, sized
    from attnscope.figures.views.panels import PanelsFigure

    given, spec = given_options(arguments), made.spec
    if not given & set(_PAGE):
        return made
    page = preset_of(spec)
    if isinstance(spec, PanelsFigure) and "columns" in given:
        spec = replace(spec, columns=arguments.columns)
    is_new = "size" in given
    is_kept = not is_new and (not given & _CHANGING_HEIGHT or (page is not None and page.is_whole))
    height_mm = spec.height_mm if arguments.height_mm is None and is_kept else arguments.height_mm
    return Figure(
        sized(
            spec,
            preset=arguments.size,
            width_mm=arguments.width_mm if is_new or "width_mm" in given else spec.width_mm,
            height_mm=height_mm,
            font_pt=arguments.font_pt if is_new or "font_pt" in given else spec.font_pt,
        )
    )
