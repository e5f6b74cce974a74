"""`attnscope figure FILE.figure.json -o OUT`: a saved figure drawn again from its model and its text."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.inputs import tell_cut
from attnscope.cli.terminal import say_error

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.figure_file import SavedFigure
    from attnscope.models import Model
    from attnscope.trace import Trace


def draw_again(arguments: argparse.Namespace) -> "tuple[Figure, Trace]":
    """Read the file, trace its text anew, and make the figure; warns when the model is another one.

    Raises UserError when the file, the model or one of the heads is not there.
    """
    from attnscope.figures.figure_file import read_figure_file
    from attnscope.models import load

    saved = read_figure_file(Path(arguments.model))
    origin = saved.origin
    model = load(origin.source, device=arguments.device)
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
    return figure_of(saved, model, trace), trace


def figure_of(saved: "SavedFigure", model: "Model", trace: "Trace") -> "Figure":
    """The saved figure on this trace; raises UserError for a head that the model does not have."""
    from attnscope.figures.figure import Figure, figure
    from attnscope.figures.spec import Caption

    origin, style, info = saved.origin, saved.style, model.info
    source = trace.source
    caption = Caption(
        model=info.name,
        sha256=info.sha256,
        text=source.read_text if source.n_dropped else origin.text,
        target=origin.target,
        note="; ".join(dict.fromkeys(filter(None, (saved.note, source.cut_words)))),
    )
    made = figure(
        trace,
        saved.view,
        stack=saved.stack,
        heads=saved.heads,
        also=saved.also,
        colour_map=style.colour_map,
        scale=style.scale,
        show_values=style.show_values,
        blend=origin.aspect.blend,
        over=origin.aspect.over,
        hidden=origin.aspect.hidden,
        renormalised=origin.aspect.is_renormalised,
        by_word=origin.aspect.is_by_word,
        block=origin.aspect.block,
        least_weight=style.least_weight,
        n_strongest=style.n_strongest,
        turn=style.turn,
        label_every=style.label_every,
        has_bar=style.has_bar,
        title=saved.title,
        caption=caption if saved.has_caption else None,
        width_mm=saved.width_mm,
        height_mm=saved.height_mm,
        font_pt=saved.font_pt,
        dpi=saved.dpi,
        origin=origin,
    )
    return Figure(replace(made.spec, gold=saved.gold)) if saved.view == "head" else made
