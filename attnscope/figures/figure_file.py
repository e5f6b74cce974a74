"""A figure as a file of what to draw, not of pixels, to be drawn again in another size or look.

Strict JSON of one of two kinds. What one model read in one text is kept as the question: model, texts, heads
and style; the model is named by where it is and by the hash of its weights, so that a figure drawn again from
another model says so. Any other figure (a difference, curves, a lab, a picture, panels of several texts) is
kept as its numbers, and needs no model. Nothing in the file is run, and no path in it is opened but the
model's. Files without a kind are older ones of the first. `Codec` sees to types and each
record to shapes; here are the rules between them, so that no painter meets what it cannot paint.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from attnscope import paths
from attnscope.codec import At, Caps, Codec, Fault, Through
from attnscope.errors import LoadError, UserError
from attnscope.figures.file_names import ENDINGS
from attnscope.figures.page import check_look
from attnscope.figures.spec import BASE_PT, FigureOrigin, FigureRequest, FigureSpec, check_spec, shown_maps
from attnscope.figures.style import MapStyle
from attnscope.figures.views import VIEWS
from attnscope.figures.views.panels import ALSO, PanelsFigure
from attnscope.figures.words_and_numbers import program_version
from attnscope.outside import as_object, json_text, parse_object, read_json
from attnscope.records.findings import GoldCell
from attnscope.records.interventions import HEAD_FORMS, HEAD_ROWS, Interventions
from attnscope.records.maps import HeadMap, SelfCheck
from attnscope.records.models import SOURCE
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Stack

ENDING = ENDINGS["figure"]
FORMAT, _QUESTION_FORMAT = 2, 1
"""Of numbers, and of a question, which older programs read too."""
MAX_BYTES = 64_000_000
_MAX_ENTRIES = 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SavedFigure:
    """A figure as a question: `also` are the panels beside the heads', `note` the caption's words."""

    origin: Annotated[FigureOrigin, At("")]
    view: str = "grid"
    heads: tuple[HeadRef, ...] = ()
    stack: Stack | None = None
    also: tuple[str, ...] = ()
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    gold: tuple[GoldCell, ...] = ()
    style: MapStyle = dataclasses.field(default_factory=MapStyle)
    title: str = ""
    has_caption: Annotated[bool, At("caption.is_shown")] = False
    note: Annotated[str, At("caption.note")] = ""
    width_mm: Annotated[float, At("page.width_mm")] = 160.0
    height_mm: Annotated[float, At("page.height_mm")] = 130.0
    font_pt: Annotated[float, At("page.font_pt")] = BASE_PT
    dpi: Annotated[int, At("page.dpi")] = 300
    columns: Annotated[int, At("page.columns")] = 0


def what_to_keep(spec: FigureSpec) -> "SavedFigure | FigureSpec":
    """Content of a figure file: the question if its text can be read again, else the whole figure."""
    asked = spec.asked()
    return spec if spec.origin is None or asked is None else _question(spec, spec.origin, asked)


def _question(spec: FigureSpec, origin: FigureOrigin, asked: FigureRequest) -> SavedFigure:
    is_blended = origin.aspect.blend != "none" and bool(shown_maps(spec))
    return SavedFigure(
        origin=origin,
        view=spec.view,
        heads=origin.heads if is_blended else asked.heads,
        stack=asked.stack,
        also=asked.also,
        gates=spec.gates,
        interventions=spec.interventions,
        gold=asked.gold,
        style=spec.style,
        title=spec.title,
        has_caption=spec.caption is not None,
        note=spec.caption.note if spec.caption is not None else "",
        width_mm=spec.width_mm,
        height_mm=spec.height_mm,
        font_pt=spec.font_pt,
        dpi=spec.dpi,
        columns=asked.columns,
    )


def figure_file_bytes(kept: "SavedFigure | FigureSpec", *, folder: Path | None = None) -> bytes:
    """The file's content. A model under `folder` is named by its path from there.

    Raises UserError for a figure of more numbers than a file may hold.
    """
    is_numbers = isinstance(kept, FigureSpec)
    about: dict[str, object] = {
        "format": FORMAT if is_numbers else _QUESTION_FORMAT,
        "program": f"AttnScope {program_version()}",
        "holds": "numbers" if is_numbers else "question",
    }
    if isinstance(kept, FigureSpec):
        about["figure"] = kept_as_json(kept)
    else:
        about |= _questions(folder).write(kept)
    data = (json_text(about) + "\n").encode()
    if len(data) > MAX_BYTES:
        raise UserError(
            f"The figure file would have {len(data) / 1e6:,.0f} MB.",
            expected=f"at most {MAX_BYTES / 1e6:,.0f} MB",
            action="Save it as SVG, PDF or PNG, and its numbers as NPZ.",
        )
    return data


def _questions(folder: Path | None) -> Codec:
    """Codec of questions; models under `folder` are written by their path from there."""
    source = Through(
        str, lambda source: paths.relative_source(source, folder), lambda source: _absolute(source, folder)
    )
    rows = {**HEAD_ROWS, GoldCell: "a gold link: [rows, columns, sure, words]"}
    return Codec(forms={**HEAD_FORMS, SOURCE: source}, rows=rows, caps=Caps(items=_MAX_ENTRIES))


def _numbers() -> Codec:
    of_any = frozenset(field.name for kind in VIEWS.values() for field in dataclasses.fields(kind))
    return Codec(
        forms=HEAD_FORMS, tag="view", is_strict=True, of_others=of_any, is_sparse=True, odd="texts"
    )  # up to version 0.10 every view had the fields of all


def is_figure_file(path: Path | str) -> bool:
    return str(path).lower().endswith(ENDING)


def read_figure_file(path: Path) -> "SavedFigure | FigureSpec":
    """Content of a figure file: a question or a whole figure; raises LoadError describing the fault."""
    return _kept(as_object(read_json(path, max_bytes=MAX_BYTES), what=str(path)), str(path), path.parent)


def figure_from_bytes(
    data: bytes, *, what: str = "figure", folder: Path | None = None
) -> "SavedFigure | FigureSpec":
    """Content of these bytes; raises LoadError."""
    return _kept(parse_object(data, what=what), what, folder)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    format: int = FORMAT
    holds: Literal["question", "numbers"] = "question"
    figure: object = dataclasses.field(default_factory=dict)


def _kept(values: dict[str, object], what: str, folder: Path | None) -> "SavedFigure | FigureSpec":
    paths.rename_demos(values)
    try:
        heading = Codec().read(_Heading, values)
        if heading.format > FORMAT:
            raise Fault("a newer AttnScope saved it")
        return kept_from_json(heading.figure) if heading.holds == "numbers" else _figure(values, folder)
    except (UserError, ValueError) as error:
        raise LoadError(
            f"The figure file {what} cannot be drawn: {str(error)[:300].rstrip('.')}.",
            kind="figure",
            expected=f"a file saved by AttnScope (*{ENDING})",
            action="Save the figure again.",
        ) from error


def _figure(values: dict[str, object], folder: Path | None) -> SavedFigure:
    saved = _questions(folder).read(SavedFigure, values)
    asked = tuple(name for name in VIEWS if VIEWS[name].is_asked)
    if saved.view not in asked:
        raise Fault(f"{saved.view[:40]!r} is not one of {', '.join(asked)}", "view")
    if not all(0 <= a < b for cell in saved.gold for a, b in (cell.rows, cell.cols)):
        raise Fault("it has a gold link without a cell", "gold")
    return dataclasses.replace(saved, also=tuple(name for name in ALSO if name in saved.also))


def _absolute(source: str, folder: Path | None) -> str:
    """Resolve a path: from the working folder, the file's own folder, or one of its parents.

    What begins with `./` is looked for beside the file alone; a mere name, which may be a demo model's, in
    no folder above.
    """
    if folder is None or not source or Path(source).is_absolute():
        return source
    beside = folder.absolute()
    if source.startswith("./"):
        return str(beside / source)
    if Path(source).exists():
        return source
    above = beside.parents if len(Path(source).parts) > 1 else ()
    return next((str(place / source) for place in (beside, *above) if (place / source).exists()), source)


def kept_as_json(spec: FigureSpec) -> dict[str, object]:
    """Everything that is painted, as JSON; its origin is in the caption."""
    spec = dataclasses.replace(spec, origin=None)
    if isinstance(spec, PanelsFigure):
        bare = tuple(dataclasses.replace(panel, origin=None) for panel in spec.panels)
        spec = dataclasses.replace(spec, panels=bare)
    return _numbers().write(spec)


def kept_from_json(values: object) -> FigureSpec:
    """Restore the figure; raises ValueError or UserError if it could not be painted."""
    spec = _numbers().read_one_of(VIEWS, values)
    for part in (spec, *spec.parts()):
        check_spec(part)
        check_look(part.style)
        for reason in _reasons(part):
            raise ValueError(reason)
    return spec.mapped(lambda head_map: dataclasses.replace(head_map, check=_check_again(head_map)))


def _check_again(head_map: HeadMap) -> SelfCheck | None:
    """A warning unchanged; of a good check the row sums of a head, or nothing if they say nothing.

    Rows may sum to less than 1, where a head has a sink, and never to more.
    """
    claimed, weights = head_map.check, head_map.weights
    if claimed is None or claimed.is_empty or not claimed.is_good:
        return claimed
    if head_map.name or head_map.is_partial:
        return None
    seen = weights[~np.isnan(weights).all(axis=1)]
    sums = np.where(np.isnan(seen), 0.0, seen).sum(axis=1, dtype=np.float64)
    error = float(np.abs(sums - 1.0).max(initial=0.0))
    check = SelfCheck(
        row_sum_error=error, forbidden_weight=0.0, output_error=0.0, is_evaluation_mode=True, is_given=True
    )
    is_less = bool((sums <= 1.0 + check.tolerance).all()) and not bool((weights < 0.0).any())
    return None if is_less and not check.is_good else check


def _reasons(spec: FigureSpec) -> Iterator[str]:
    """Reasons why a figure or one of its panels cannot be painted."""
    if any(not head_map.weights.size or not head_map.full > 0 for head_map in spec.held_maps()):
        yield "a map without a cell"
    if not spec.fits_together():
        yield "its parts do not fit together"
