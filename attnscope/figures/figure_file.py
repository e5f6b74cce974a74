"""A figure as a file of what to draw, not of pixels, to be drawn again later in another size or look.

Strict JSON of one of two kinds. What one model read in one text is kept as the question: model, texts, heads
and style; the model is named by where it is and by the hash of its weights, so that a figure drawn again from
another model says so. Any other figure (a difference, curves, a lab, a picture, panels of several texts) is
kept as its numbers, and needs no model. Nothing in the file is run, and no path in it is opened but the
model's. Files without a kind are older ones of the first. Of numbers, `record_json` sees to types and each
record to shapes; here are the rules between them, so that no painter meets what it cannot paint.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from attnscope import paths
from attnscope.errors import LoadError, UserError
from attnscope.figures.caption import program_version
from attnscope.figures.colours import COLOUR_MAPS
from attnscope.figures.figure_checks import check_look
from attnscope.figures.file_names import ENDINGS
from attnscope.figures.record_json import kind_from_json, record_as_json
from attnscope.figures.shown_maps import shown_maps
from attnscope.figures.spec import BASE_PT, Asked, FigureOrigin, FigureSpec, check_spec
from attnscope.figures.style import SCALES, TURNS, MapStyle
from attnscope.figures.views import VIEWS
from attnscope.figures.views.panels import ALSO, PanelsFigure
from attnscope.records.alignment import GoldCell
from attnscope.records.interventions import Interventions, interventions_as_json, interventions_from_json
from attnscope.records.maps import HeadMap, SelfCheck
from attnscope.records.sites import NO_GATES, STACKS, Gates, HeadRef, Stack
from attnscope.strict_json import as_object, json_text, parse_object, read_json
from attnscope.viewmodels.maps.aspect import Aspect

ENDING = ENDINGS["figure"]
FORMAT, _QUESTION_FORMAT = 2, 1
"""Of numbers, and of a question, which older programs read too."""
MAX_BYTES = 64_000_000
_MAX_TEXT = 4_000_000
_MAX_ENTRIES = 20_000
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SavedFigure:
    """A figure as a question: `also` are the panels beside the heads', `note` the caption's words."""

    origin: FigureOrigin
    view: str = "grid"
    heads: tuple[HeadRef, ...] = ()
    stack: Stack | None = None
    also: tuple[str, ...] = ()
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    gold: tuple[GoldCell, ...] = ()
    style: MapStyle = dataclasses.field(default_factory=MapStyle)
    title: str = ""
    has_caption: bool = False
    note: str = ""
    width_mm: float = 160.0
    height_mm: float = 130.0
    font_pt: float = BASE_PT
    dpi: int = 300
    columns: int = 0


def what_to_keep(spec: FigureSpec) -> "SavedFigure | FigureSpec":
    """What a figure file holds of a figure: the question where its text can be read again, else all of it."""
    asked = spec.asked()
    return spec if spec.origin is None or asked is None else _question(spec, spec.origin, asked)


def _question(spec: FigureSpec, origin: FigureOrigin, asked: Asked) -> SavedFigure:
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
    """The file's content. A model under `folder` is named by its path from there, so both can be moved.

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
        about |= _question_as_json(kept, folder)
    data = (json_text(about) + "\n").encode()
    if len(data) > MAX_BYTES:
        raise UserError(
            f"The figure file would have {len(data) / 1e6:,.0f} MB.",
            expected=f"at most {MAX_BYTES / 1e6:,.0f} MB",
            action="Save it as SVG, PDF or PNG, and its numbers as NPZ.",
        )
    return data


def _question_as_json(saved: SavedFigure, folder: Path | None) -> dict[str, object]:
    origin = saved.origin
    return {
        "model": {
            "source": _relative(origin.source, folder), "name": origin.model, "sha256": origin.sha256
        },
        "text": origin.text,
        "target": origin.target,
        "past_trained": origin.past_trained,
        "view": saved.view,
        "stack": saved.stack,
        "heads": [_head_entry(head) for head in saved.heads],
        "also": list(saved.also),
        "gates": [[*_head_entry(head), value] for head, value in saved.gates.values],
        "interventions": interventions_as_json(saved.interventions),
        "gold": [[*cell.rows, *cell.cols, cell.is_sure, *cell.words] for cell in saved.gold],
        "aspect": dataclasses.asdict(origin.aspect),
        "style": dataclasses.asdict(saved.style),
        "title": saved.title,
        "caption": {"is_shown": saved.has_caption, "note": saved.note},
        "page": {
            "width_mm": saved.width_mm,
            "height_mm": saved.height_mm,
            "font_pt": saved.font_pt,
            "dpi": saved.dpi,
            "columns": saved.columns,
        },
    }  # fmt: skip


def is_figure_file(path: Path | str) -> bool:
    """Whether the name is that of a figure file."""
    return str(path).lower().endswith(ENDING)


def read_figure_file(path: Path) -> "SavedFigure | FigureSpec":
    """What is kept in a file: a question or a whole figure; raises LoadError saying what is wrong."""
    content = as_object(read_json(path, max_bytes=MAX_BYTES), what=str(path))
    return _kept(_Fields(content, str(path)), path.parent)


def figure_from_bytes(
    data: bytes, *, what: str = "figure", folder: Path | None = None
) -> "SavedFigure | FigureSpec":
    """What is kept in these bytes; raises LoadError."""
    return _kept(_Fields(parse_object(data, what=what), what), folder)


class _Fields:
    """One JSON object whose values are looked at by type; each wrong one is refused by its name."""

    def __init__(self, values: dict[str, object], what: str) -> None:
        self.values, self.what = values, what

    def refuse(self, reason: str) -> LoadError:
        return LoadError(
            f"The figure file {self.what} cannot be drawn: {reason}.",
            kind="figure",
            expected=f"a file saved by AttnScope (*{ENDING})",
            action="Save the figure again.",
        )

    def get(self, name: str, kind: type[_T], default: _T) -> _T:
        value = self.values.get(name, default)
        if kind is float and type(value) is int:
            value = float(value)
        is_kind = type(value) is kind and not (isinstance(value, float) and not math.isfinite(value))
        if not is_kind or (isinstance(value, str) and (len(value) > _MAX_TEXT or "\0" in value)):
            raise self.refuse(f"'{name}' is not {_KIND_WORDS[kind]}")
        if isinstance(value, list) and len(value) > _MAX_ENTRIES:
            raise self.refuse(f"'{name}' has over {_MAX_ENTRIES:,} entries")
        return value  # type: ignore[return-value]

    def part(self, name: str) -> "_Fields":
        return _Fields(self.get(name, dict, {}), self.what)

    def one_of(self, name: str, known: tuple[_T, ...], default: _T) -> _T:
        value = self.values.get(name, default)
        found = [entry for entry in known if type(entry) is type(value) and entry == value]
        if not found:
            raise self.refuse(f"'{name}' is none of {', '.join(map(str, known))}")
        return found[0]


_KIND_WORDS: dict[type, str] = {
    str: "a text", float: "a number", int: "a whole number", bool: "true or false", list: "a list",
    dict: "an object",
}  # fmt: skip


def _kept(fields: _Fields, folder: Path | None) -> "SavedFigure | FigureSpec":
    paths.rename_demos(fields.values)
    if fields.get("format", int, FORMAT) > FORMAT:
        raise fields.refuse("a newer AttnScope saved it")
    if fields.one_of("holds", ("question", "numbers"), "question") == "question":
        return _figure(fields, folder)
    try:
        return kept_from_json(fields.get("figure", dict, {}))
    except (UserError, ValueError) as error:
        raise fields.refuse(str(error)[:300].rstrip(".")) from error


def _figure(fields: _Fields, folder: Path | None) -> SavedFigure:
    page, caption = fields.part("page"), fields.part("caption")
    heads = tuple(_head(fields, entry) for entry in fields.get("heads", list, []))
    try:
        gates = Gates.of(dict(_gate(fields, entry) for entry in fields.get("gates", list, [])))
        changes = interventions_from_json(fields.get("interventions", list, []))
        origin = _origin(fields, folder, heads)
    except LoadError:
        raise
    except (UserError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise fields.refuse(f"it holds something unknown ({str(error)[:200]})") from error
    return SavedFigure(
        origin=origin,
        view=fields.one_of("view", tuple(name for name in VIEWS if VIEWS[name].is_asked), "grid"),
        heads=heads,
        stack=fields.one_of("stack", (*STACKS, None), None),
        also=tuple(name for name in ALSO if name in fields.get("also", list, [])),
        gates=gates,
        interventions=changes,
        gold=tuple(_gold(fields, entry) for entry in fields.get("gold", list, [])),
        style=_style(fields.part("style")),
        title=fields.get("title", str, ""),
        has_caption=caption.get("is_shown", bool, False),
        note=caption.get("note", str, ""),
        width_mm=page.get("width_mm", float, 160.0),
        height_mm=page.get("height_mm", float, 130.0),
        font_pt=page.get("font_pt", float, BASE_PT),
        dpi=page.get("dpi", int, 300),
        columns=page.get("columns", int, 0),
    )


def _origin(fields: _Fields, folder: Path | None, heads: tuple[HeadRef, ...]) -> FigureOrigin:
    model, aspect = fields.part("model"), fields.part("aspect")
    return FigureOrigin(
        source=_absolute(model.get("source", str, ""), folder),
        model=model.get("name", str, ""),
        sha256=model.get("sha256", str, ""),
        text=fields.get("text", str, ""),
        target=None if fields.values.get("target") is None else fields.get("target", str, ""),
        past_trained=fields.get("past_trained", bool, False),
        heads=heads,
        aspect=Aspect(
            blend=aspect.get("blend", str, "none"),  # type: ignore[arg-type]
            over=aspect.get("over", str, "selection"),  # type: ignore[arg-type]
            hidden=aspect.get("hidden", str, "nothing"),  # type: ignore[arg-type]
            is_renormalised=aspect.get("is_renormalised", bool, False),
            is_by_word=aspect.get("is_by_word", bool, False),
            block=aspect.get("block", str, "all"),  # type: ignore[arg-type]
            rows=aspect.get("rows", str, "read"),  # type: ignore[arg-type]
        ),
    )


def _style(fields: _Fields) -> MapStyle:
    return MapStyle(
        colour_map=fields.one_of("colour_map", COLOUR_MAPS, "viridis"),
        scale=fields.one_of("scale", SCALES, "fixed"),
        show_values=fields.get("show_values", bool, False),
        least_weight=fields.get("least_weight", float, 0.0),
        n_strongest=fields.get("n_strongest", int, 0),
        turn=fields.one_of("turn", (*TURNS, None), None),
        label_every=fields.get("label_every", int, 0),
        has_bar=fields.get("has_bar", bool, True),
        is_plain=fields.get("is_plain", bool, False),
        key_name=fields.get("key_name", str, ""),
        query_name=fields.get("query_name", str, ""),
        font=fields.get("font", str, ""),
        has_badge=fields.get("has_badge", bool, False),
        has_special=fields.get("has_special", bool, True),
    )


def _head_entry(head: HeadRef) -> list[object]:
    return [head.stack, head.layer, head.head]


def _head(fields: _Fields, entry: object) -> HeadRef:
    match entry:
        case [str(stack), int(layer), int(head), *_] if stack in STACKS and layer >= 0 and head >= 0:
            return HeadRef(stack=stack, layer=layer, head=head)
        case _:
            raise fields.refuse(f"{str(entry)[:60]} is not a head: [stack, layer, head]")


def _gate(fields: _Fields, entry: object) -> tuple[HeadRef, float]:
    match entry:
        case [_, _, _, int(value) | float(value)] if not isinstance(value, bool):
            return _head(fields, entry), float(value)
        case _:
            raise fields.refuse(f"{str(entry)[:60]} is not a gate: [stack, layer, head, value]")


def _gold(fields: _Fields, entry: object) -> GoldCell:
    match entry:
        case [int(top), int(end), int(left), int(right), bool(is_sure), str(target), str(source)] if (
            0 <= top < end and 0 <= left < right
        ):
            words = (target, source)
            return GoldCell(rows=(top, end), cols=(left, right), is_sure=is_sure, words=words)
        case _:
            raise fields.refuse(f"{str(entry)[:60]} is not a gold link: [rows, columns, sure, words]")


def _relative(source: str, folder: Path | None) -> str:
    """A demo model by its name, one under `folder` by its path from there, any other as it is."""
    path = Path(source)
    if path.parent == paths.resources_folder() / "models":
        return path.name
    if folder is None or not path.is_absolute() or not path.is_relative_to(folder.absolute()):
        return source
    return "./" + path.relative_to(folder.absolute()).as_posix()


def _absolute(source: str, folder: Path | None) -> str:
    """A path from where the program was started, from the file's own folder, or from one above that.

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
    """Everything that is painted; where it came from is in the caption."""
    spec = dataclasses.replace(spec, origin=None)
    if isinstance(spec, PanelsFigure):
        bare = tuple(dataclasses.replace(panel, origin=None) for panel in spec.panels)
        spec = dataclasses.replace(spec, panels=bare)
    return record_as_json(spec)


def kept_from_json(values: object) -> FigureSpec:
    """The figure again; raises ValueError or UserError where it could not be painted."""
    spec = kind_from_json(VIEWS, values)
    for part in (spec, *spec.parts()):
        check_spec(part)
        check_look(part.style)
        for reason in _reasons(part):
            raise ValueError(reason)
    return spec.mapped(lambda head_map: dataclasses.replace(head_map, check=_check_again(head_map)))


def _check_again(head_map: HeadMap) -> SelfCheck | None:
    """A warning as it is; of a good check the sums of a head's rows, and nothing where they tell nothing.

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
    """What stands against painting a figure or one of its panels."""
    heads = itertools.chain(spec.heads(), (head for head, _ in spec.gates.values))
    if any(min(head.layer, head.head) < 0 for head in heads):
        yield "a head below 0"
    if any(not head_map.weights.size or not head_map.full > 0 for head_map in spec.held_maps()):
        yield "a map without a cell"
    if not spec.fits_together():
        yield "its parts do not fit together"
