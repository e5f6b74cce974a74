"""`attnscope.figure(trace, …)`: any picture the window can make, without a window."""

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar, Unpack

import numpy as np
from PySide6.QtGui import QGuiApplication

from attnscope.counting import listed, plural, there_are
from attnscope.errors import UserError, of_wrong_kind
from attnscope.fields import filled, picked, spelled_out
from attnscope.figures import export
from attnscope.figures.colours import LIGHT, ColourMap, lut
from attnscope.figures.export import render
from attnscope.figures.file_names import Format
from attnscope.figures.notebook import Axes, notebook_html
from attnscope.figures.page import PageOptions, PaperOptions, check_about, check_look, page_of, sized
from attnscope.figures.raster import scale_peaks
from attnscope.figures.spec import (
    MM_PER_INCH,
    Caption,
    DrawnTrace,
    FigureOrigin,
    FigureSpec,
    OtherSide,
    Wanted,
    as_drawn,
    check_spec,
    common_peak,
)
from attnscope.figures.style import MapStyle, Turn, plain_piece, plain_text, shorten
from attnscope.figures.token_axis import axis_names
from attnscope.figures.views import VIEWS
from attnscope.figures.views.grid import GridFigure
from attnscope.figures.views.head import HeadFigure
from attnscope.figures.views.panels import PanelsFigure, panels_of
from attnscope.figures.views.picture import PictureFigure, PicturePart
from attnscope.figures.words_and_numbers import gate_words
from attnscope.records.maps import Picture
from attnscope.records.sites import Blend, Block, HeadName, Hidden, Over, Rows, Scale, Stack, head_named
from attnscope.viewmodels.compare.difference import Way
from attnscope.viewmodels.maps.aspect import Aspect

# A figure on axes of matplotlib, which is not needed for anything else and imported only here.


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
            f"Expected matplotlib axes, not an object of type {type(axes).__name__}.",
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
    """Rows are queries, columns keys; cells that are not allowed have no colour of a weight."""
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


_application: list[QGuiApplication] = []


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that can be saved; shown in notebooks as an interactive page.

    `axes` are the tokens of each layer of a grid.
    """

    spec: FigureSpec
    axes: tuple[Axes, ...] = field(default=(), repr=False, compare=False)

    def __repr__(self) -> str:
        return f"Figure: {self.spec.view}, {self.spec.width_mm:g} × {self.spec.height_mm:g} mm"

    def save(self, path: str | Path) -> Path:
        """Write SVG, PDF, PNG, CSV, NPZ, an HTML page or a figure file, by the ending; returns the path."""
        ensure_gui()
        return export.save(self.spec, path)

    def render(self, format: Format) -> bytes:
        """The bytes of a file in this format."""
        ensure_gui()
        return export.render(self.spec, format)

    def on_picture(self, picture: Picture, query: int = 0) -> "Figure":
        """The same head over the picture from `attnscope.picture`: the attention of one of its tokens.

        Raises UserError for another view than `head`, a map of other tokens, or a missing query.
        """
        maps, n_tokens = self.spec.held_maps(), picture.n_tokens
        is_head = isinstance(self.spec, HeadFigure)
        if not is_head or not maps or maps[0].weights.shape != (n_tokens, n_tokens):
            raise UserError(
                "This map is not between single patches of one picture.",
                expected="one head of the encoder, patch by patch",
                action="Use the view head, without words or blocks.",
            )
        if not 0 <= query < n_tokens:
            raise UserError(f"The picture has no token {query}.", expected=f"0 to {n_tokens - 1}")
        part = PicturePart(picture=picture, query=query)
        spec = self.spec.as_view(PictureFigure, maps=maps, picture=part, origin=None)
        return Figure(sized(spec) if page_of(self.spec) == page_of(sized(self.spec)) else spec)

    def to_matplotlib(self, ax: Any = None) -> Any:
        """Draw it on axes of matplotlib, on new ones of its size without `ax`; returns the axes.

        One head becomes cells, labels and a colour bar of matplotlib's own; any other view is put there as a
        picture. Raises UserError where matplotlib is not installed, and for what is no axes.
        """
        ensure_gui()
        return draw_on_axes(self.spec, ax)

    def _repr_svg_(self) -> str:
        return self.render("svg").decode()

    def _repr_html_(self) -> str | None:
        """The interactive page, self-contained; None if too large, or not a map of weights."""
        ensure_gui()
        return notebook_html(self.spec, self.axes, self._picture)

    def _picture(self, format: Format, dpi: int) -> bytes:
        return export.render(replace(self.spec, dpi=dpi) if dpi else self.spec, format)


_TRACE_IT = "Trace a text with the model first: figure(model.trace(text))."


class FigureOptions(PaperOptions, total=False):
    """Options of `figure`: the part of the trace, the look and the page."""

    head: Annotated[HeadName | None, None]
    heads: Annotated[Sequence[HeadName], ()]
    other: Annotated[DrawnTrace | None, None]
    other_head: Annotated[HeadName | None, None]
    names: Annotated[tuple[str, str], ("", "")]
    align: Annotated[Way, "pairs"]
    delta_end: Annotated[float, 0.0]
    stack: Annotated[Stack | None, None]
    colour_map: Annotated[ColourMap, "viridis"]
    scale: Annotated[Scale, "fixed"]
    show_values: Annotated[bool, False]
    blend: Annotated[Blend, "none"]
    over: Annotated[Over, "selection"]
    hidden: Annotated[Hidden, "nothing"]
    renormalised: Annotated[bool, False]
    by_word: Annotated[bool, False]
    block: Annotated[Block, "all"]
    rows: Annotated[Rows, "written"]
    least_weight: Annotated[float, 0.0]
    n_strongest: Annotated[int, 0]
    also: Annotated[tuple[str, ...], ()]
    turn: Annotated[Turn | None, None]
    label_every: Annotated[int, 0]
    has_bar: Annotated[bool, True]
    plain: Annotated[bool, False]
    badge: Annotated[bool, False]
    special_tokens: Annotated[bool, True]
    key_name: Annotated[str, ""]
    query_name: Annotated[str, ""]
    font: Annotated[str, ""]
    title: Annotated[str, ""]
    caption: Annotated[Caption | None, None]
    columns: Annotated[int, 0]
    origin: Annotated[FigureOrigin | None, None]


@spelled_out
def figure(trace: DrawnTrace, view: str = "grid", **options: Unpack[FigureOptions]) -> Figure:
    """A figure of a trace: the `grid` of a stack, one `head`, or the `lines` of several `heads`.

    `panels` shows the `heads` beside each other on one scale, and `also` their `lines` and the `grid`, up to
    12 in all, in `columns` (0: as many as suit the page). `attnscope.panels` puts figures of several texts
    and models together.

    `difference` shows one head of this trace (A), of `other` (B), and B − A with the tokens aligned; `names`
    label them, by default whatever distinguishes them. `other_head` is B's head where it differs, `align` how
    tokens are aligned (`pairs`, `pieces`, `position`), `delta_end` the |Δ| at the ends of the colour scale, 0
    for the largest.

    Without `stack` the grid shows the first one; without a head, `head` and `lines` show the first.
    `blend` makes one map of heads (`mean`, `max`, `sum`), `over` the given ones (`selection`), those of the
    `layer` or of the `stack`; `hidden` leaves out keys (`first`, `special`, `both`) and `renormalised` makes
    what is left of a row sum to 1; `by_word` shows words. Where two texts are read as one, `block` `ab` shows
    queries of A and keys of B, or another of the four. `rows` of cross-attention are named after the token
    `written` there, as in Bahdanau et al. 2015, or after the one `read` last, the query.
    `colour_map` and `scale` say what colours mean: the scale ends at 1 (`fixed`), at the largest weight of
    the `head`, or of each `row`. `show_values` writes the weights into cells that are large enough, `has_bar`
    draws the colour bar.
    Lines: none below `least_weight`, the `n_strongest` of each query. Token labels are rotated by `turn`, 0,
    45 or 90 degrees, and label every `label_every`-th token; without either, as space allows. The page is
    that of `size` (`single`, `double`, … column of a journal), by default one that suits the view, as high as
    the figure; lengths that are given take precedence. `plain` leaves out the head's name; `badge` shows the
    self-check even if it found nothing wrong: what is wrong is always said. `special_tokens=False` leaves out
    their rows and columns. The axes are called `key_name` and `query_name`, such as "Key (English)", and all
    type is set in the family `font`. With `origin` a figure file reads the text again, without it the file
    holds the numbers.
    A head is named by its record, as (stack, layer, head), as (site, head) as in `trace.weights`, or as
    "L0H1" or "cross:L0H1".
    Raises UserError for a head or stack the model does not have, and for an unknown choice.
    """
    if not hasattr(trace, "head_map"):
        raise of_wrong_kind(trace, "what to draw", "a trace", _TRACE_IT)
    given = filled(FigureOptions, options)
    head, heads = given["head"], given["heads"]
    if not isinstance(heads, Iterable):
        raise of_wrong_kind(heads, "heads", 'several heads, such as ("L0H0", "L1H3")', "Give one as head=.")
    named = (*((head,) if head is not None else ()), *((heads,) if isinstance(heads, str) else heads))
    wanted = Wanted(
        trace=trace,
        heads=tuple(head_named(h, trace.sites) for h in named),
        stack=given["stack"],
        aspect=_record_of(Aspect, given, _ASPECT),
        also=given["also"],
        columns=given["columns"],
        other=_record_of(OtherSide, given, _OTHER_SIDE),
    )
    about = (given["title"], given["caption"], given["origin"])
    return draw_wanted(
        wanted, view, _record_of(MapStyle, given, _STYLE), *about, **picked(PaperOptions, options)
    )


_Record = TypeVar("_Record", MapStyle, Aspect, OtherSide)
_STYLE = {"is_plain": "plain", "has_badge": "badge", "has_special": "special_tokens"}
_ASPECT = {"is_renormalised": "renormalised", "is_by_word": "by_word"}
_OTHER_SIDE = {"trace": "other", "head": "other_head"}
"""Fields that an option of another name fills."""


def _record_of(kind: type[_Record], given: FigureOptions, called: Mapping[str, str]) -> _Record:
    """A record of options: each field from the option of the same name, or of the name in `called`."""
    options: Mapping[str, Any] = {**given}
    return kind(**{one.name: options[called.get(one.name, one.name)] for one in fields(kind)})


def draw_wanted(
    wanted: Wanted,
    view: str,
    style: MapStyle,
    title: str,
    caption: Caption | None,
    origin: FigureOrigin | None,
    **paper: Unpack[PaperOptions],
) -> Figure:
    """Draw the wanted part of a trace, as `figure` describes."""
    of_traces = [name for name, kind in VIEWS.items() if kind.reads_trace]
    if view not in of_traces:
        raise UserError(
            f"A trace has no view '{view}'.",
            expected=listed(of_traces, "or"),
            action="Choose one of these.",
        )
    check_look(style)
    spec = VIEWS[view].of_trace(
        wanted,
        gates=wanted.trace.gates,
        interventions=wanted.trace.interventions,
        style=style,
        caption=caption,
        origin=origin,
    )
    made = on_page(spec, title=title, has_caption=True, **paper).spec
    grids = made.grids if isinstance(made, GridFigure) else ()
    return Figure(made, tuple(wanted.axes(grid.site) for grid in grids))


def on_page(
    spec: FigureSpec,
    own_mm: tuple[float | None, float | None] = (None, None),
    **page: Unpack[PageOptions],
) -> Figure:
    """The figure on this page, with its own title if none is given; `own_mm` if no size is named."""
    given = filled(PageOptions, page)
    size, title = given["size"], given["title"]
    check_about(size, title, spec.caption, spec.origin)
    ensure_gui()
    own = own_mm if size is None else (None, None)
    caption = spec.caption if given["has_caption"] else None
    made = sized(
        replace(spec, title=title or spec.title, caption=caption, dpi=given["dpi"]),
        preset=size,
        width_mm=own[0] if given["width_mm"] is None else given["width_mm"],
        height_mm=own[1] if given["height_mm"] is None else given["height_mm"],
        font_pt=given["font_pt"],
    )
    check_spec(made)
    return Figure(made)


def ensure_gui() -> None:
    """Start Qt for painting if it is not running; on Linux it needs no display."""
    if QGuiApplication.instance() is None:
        platform = ["-platform", "offscreen"] if sys.platform.startswith("linux") else []
        _application.append(QGuiApplication(["attnscope", *platform]))


_TITLE = 60


@spelled_out
def panels(
    figures: Sequence[Figure],
    *,
    titles: Sequence[str] = (),
    columns: int = 0,
    title: str = "",
    caption: Caption | None = None,
    **paper: Unpack[PaperOptions],
) -> Figure:
    """Figures of one head, of lines or of a grid as the panels a, b, c … of one page, on one scale.

    They may show several stacks, texts and models. `titles` are printed beside the letters; without them, the
    model and the texts are, where the figures' captions (or origins) show that they differ. `columns` is the
    number of panels side by side (0: as many as suit the page). Colours and labels are those of the first
    figure; the page options are those of `attnscope.figure`. Raises UserError, naming the panel, for a figure
    that cannot be a panel, and for more than 12 panels.
    """
    for panel in figures if isinstance(figures, Iterable) else (figures,):
        if not isinstance(panel, Figure):
            raise of_wrong_kind(panel, "a panel", "a list of figures", "Draw it: attnscope.figure(trace, …).")
    parts = [made.spec for made in figures]
    if not parts:
        raise UserError("There is no figure to make a panel of.", expected="at least one figure")
    if titles and len(titles) != len(parts):
        raise UserError(
            f"{there_are(len(titles), 'title')} for {plural(len(parts), 'panel')}.",
            expected="one for each, or none",
            action="Give an empty text for a panel that needs none.",
        )
    base = PanelsFigure(style=parts[0].style, caption=caption, columns=columns)
    ensure_gui()
    page = panels_of(parts, titles or telling_titles(parts), base)
    return on_page(page, title=title, has_caption=True, **paper)


def telling_titles(parts: Sequence[FigureSpec]) -> tuple[str, ...]:
    """Titles that distinguish the figures: model, text, second text and gates, if they are not the same in
    all.

    A second text that goes with its model and text, as what a model writes does, tells nothing more.
    """
    abouts = [_about(part) for part in parts]
    differing = [k for k in range(4) if len({about[k] for about in abouts}) > 1]
    if len({about[:2] for about in abouts}) == len({about[:3] for about in abouts}):
        differing = [k for k in differing if k != 2]
    return tuple(" · ".join(filter(None, (about[k] for k in differing))) for about in abouts)


def joint_caption(captions: Sequence[Caption]) -> Caption:
    """One caption for all panels: shared facts once, their models by name and hash, their notes."""
    models = list(dict.fromkeys((one.model, one.sha256) for one in captions))
    is_one = len(models) == 1
    named = "; ".join(f"{name} (sha256 {sha256[:12]})" if sha256 else name for name, sha256 in models)
    texts, targets = ({getattr(one, name) for one in captions} for name in ("text", "target"))
    return Caption(
        model=models[0][0] if is_one else named,
        sha256=models[0][1] if is_one else "",
        text=texts.pop() if len(texts) == 1 else "",
        target=targets.pop() if len(targets) == 1 else None,
        note="; ".join(dict.fromkeys(one.note for one in captions if one.note)),
    )


def _about(part: FigureSpec) -> tuple[str, str, str, str]:
    """Model, text, second text and gates of a figure, if it has them; a head's own gate stays with it."""
    said = part.caption or part.origin or Caption()
    text, target = (shorten(plain_text(words), _TITLE) for words in (said.text, said.target or ""))
    drawn = {head_map.head for head_map in part.held_maps()}
    is_own = isinstance(part, HeadFigure) and {head for head, _ in part.gates.values} <= drawn
    gates = gate_words(part.gates) if part.gates and not is_own else ""
    return (plain_text(said.model), text and f"“{text}”", target and f"→ “{target}”", gates)
