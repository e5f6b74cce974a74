"""The caption block of a figure: everything a reader needs to make the same picture again."""

import importlib
from collections.abc import Iterator

import numpy as np

from attnscope.figures.panels import common_peak, lines_are_named, panel_letters, panel_title, shown_maps
from attnscope.figures.plain import plain_text, shorten
from attnscope.figures.spec import FigureSpec, MapPart
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.sites import Gates
from attnscope.viewmodels.compare.difference import ComparedMaps
from attnscope.viewmodels.maps.evenness import even_words

_SCALE_WORDS = {"fixed": "0–{:.3g}", "head": "to each head's maximum", "row": "to each row's maximum"}
_MAX_TEXT, _MAX_TITLE = 400, 160


def caption_lines(spec: FigureSpec) -> tuple[str, ...]:
    """The caption as lines of plain text; empty when the figure has none."""
    caption = spec.caption
    if caption is None:
        return ()
    model = plain_text(caption.model)
    if caption.sha256:
        model += f" (sha256 {plain_text(caption.sha256)[:12]})"
    if caption.step is not None:
        model += f", step {caption.step:,}"
    parts = (
        ("Model", model),
        ("Picture" if spec.picture is not None else "Text", _quoted(caption.text)),
        ("Target", _quoted(caption.target or "")),
        ("Role", plain_text(caption.role)),
        ("Shown", _shown(spec)),
        ("Note", "; ".join(filter(None, (plain_text(caption.note), *_remarks(spec))))),
    )
    lines = [f"{name}: {value}" for name, value in parts if value]
    return (*lines, f"AttnScope {program_version()}")


def _remarks(spec: FigureSpec) -> Iterator[str]:
    """What a reader may wonder at: one colour all over, and letters over a dashed line."""
    maps = shown_maps(spec)
    if spec.view in ("head", "panels") and spec.style.scale == "fixed":
        words = [even_words(head_map) for head_map in maps]
        yield words[0] if words and all(words) else ""
    pieces = {t.piece: None for m in maps for t in (*m.queries, *m.keys) if t.own}
    yield f"over a dashed line: unknown, read as {', '.join(pieces)}" if pieces else ""


def program_version() -> str:
    """The version of the program that painted the figure."""
    # Asked for by name: the package's root also names the engine, which figures must not import.
    return str(importlib.import_module("attnscope").__version__)


def mask_words(maps: tuple[HeadMap, ...]) -> str:
    """The mask in a word, as the maps show it: none, causal, or partial."""
    words = {_mask_of(head_map) for head_map in maps}
    return words.pop() if len(words) == 1 else "mixed" if words else ""


def gate_words(gates: Gates) -> str:
    """The gates that are not at 1, in words."""
    if not gates:
        return "all heads on"
    shown = [f"{h.stack} {h.label} {'off' if v == 0 else f'× {v:g}'}" for h, v in gates.values[:12]]
    more = len(gates.values) - len(shown)
    return "gates " + ", ".join(shown) + (f" and {more} more" if more else "")


def _mask_of(head_map: HeadMap) -> str:
    is_forbidden = np.isnan(head_map.weights)
    if not is_forbidden.any():
        return "none"
    n_queries, n_keys = is_forbidden.shape
    return "causal" if np.array_equal(is_forbidden, ~np.tri(n_queries, n_keys, dtype=bool)) else "partial"


def _mask_of_grids(grids: tuple[SiteGrid, ...]) -> str:
    """The mask in a word, as thumbnails show it: level 0 is what no head may see."""
    is_not_allowed = [grid.levels[0] == 0 for grid in grids]
    if not any(f.any() for f in is_not_allowed):
        return "none"
    is_causal = all(np.array_equal(f, np.triu(np.ones(f.shape, np.bool_), 1)) for f in is_not_allowed)
    return "causal" if is_causal else "partial"


def _shown(spec: FigureSpec) -> str:
    parts = []
    if spec.view in ("head", "lines", "picture"):
        maps = spec.maps if spec.view == "lines" else spec.maps[:1]
        names = [f"{m.head.stack} {m.name or m.head.label}" for m in maps[:12]]
        if spec.part is not None:
            parts.append(_part_words(spec.part))
        else:
            plural = "head" if len(maps) == 1 else "heads"
            parts.append(f"{plural} {', '.join(names)}" + (" …" if len(maps) > 12 else ""))
            parts += [] if any(one.is_partial for one in maps) else [f"mask {mask_words(maps)}"]
        parts += [maps[0].note] if maps and maps[0].note else []
    if spec.picture is not None and spec.maps:
        token = spec.maps[0].queries[spec.picture.query]
        parts.append(f"query {spec.picture.query} {_quoted(token.piece)}, colours to its largest patch")
        height, width = spec.picture.picture.pixels.shape[:2]
        parts.append(f"the picture as the model reads it, {width} × {height}; patches by row,column")
    if spec.inside is not None:
        inside = spec.inside.inside
        query = f"query {inside.query} {_quoted(inside.query_token.label)}"
        parts.append(f"head {inside.head.stack} {inside.head.label}, {query}, step {spec.inside.step}")
    if spec.graph is not None:
        parts.append(
            f"from {_quoted(spec.graph.nodes[0].token.piece)} at {spec.graph.levels[-1]} down to the inputs"
        )
    if spec.compared is not None:
        parts += _compared_words(spec.compared)
    if spec.view == "panels":
        parts += [f"{letter}: {_panel_words(spec, i)}" for i, letter in enumerate(panel_letters(spec))]
        maps = tuple(m for panel in spec.panels if panel.view == "head" for m in panel.maps)
        parts += ["rows queries, columns keys", f"mask {mask_words(maps)}"] if maps else []
        parts += list(dict.fromkeys(m.note for m in maps if m.note))
    if spec.view == "grid":
        stacks = dict.fromkeys(grid.site.stack for grid in spec.grids)
        parts.append(f"all heads, {' and '.join(stacks)}")
        parts.append(f"mask {_mask_of_grids(spec.grids)}")
        if any(grid.is_pooled for grid in spec.grids):
            parts.append("each pixel the largest of its weights")
        if any(grid.is_sampled for grid in spec.grids):
            parts.append("rough: see single heads for exact weights")
    if spec.view in ("grid", "head", "panels", "difference"):
        scale = _SCALE_WORDS[spec.style.scale].format(common_peak(spec))  # of a sum of heads over 1
        if spec.view == "panels" and spec.style.scale == "head":
            scale = "to the largest weight"
        parts.append(f"scale {scale}, {spec.style.colour_map}")
    if spec.view in ("grid", "head", "lines", "picture", "inside", "graph", "panels"):
        parts += _changed(spec)
    return " · ".join(parts)


def _panel_words(spec: FigureSpec, i: int) -> str:
    """What a panel shows; the heads of its lines where no other panel names them."""
    panel = spec.panels[i]
    words = panel_title(panel)
    if lines_are_named(spec, i):
        names = ", ".join(f"{m.head.stack} {m.name or m.head.label}" for m in panel.maps[:12])
        words = " · ".join(filter(None, (f"lines of {names}", panel.title)))
    return shorten(plain_text(words), _MAX_TITLE)


def _changed(spec: FigureSpec) -> list[str]:
    """The gates and changes of heads: of the whole figure, or of each panel where they are not the same."""
    own = [(panel.gates, panel.interventions) for panel in spec.panels] or [(spec.gates, spec.interventions)]
    if len(set(own)) == 1:
        return _change_words(*own[0])
    named = zip(panel_letters(spec), own, strict=True)
    words = [f"{letter}: {', '.join(_change_words(*one))}" for letter, one in named if any(one)]
    return [*words, "no other panel has gates"] if len(words) < len(own) else words


def _change_words(gates: Gates, interventions: Interventions) -> list[str]:
    words = [change.sentence for change in interventions]
    changes = ["changed " + "; ".join(words[:4]) + (" …" if len(words) > 4 else "")] if words else []
    return [gate_words(gates), *changes]


def _compared_words(compared: ComparedMaps) -> list[str]:
    """Which head, what each side is, and what the difference is of."""
    sides = [plain_text(name) for name in compared.names]
    end = "to the largest difference" if not compared.limit else f"±{compared.limit:.3g}"
    return [f"head {compared.head.stack} {compared.head.label}", *sides, f"B − A {end}, centred on 0"]


def _part_words(part: MapPart) -> str:
    """A part of a long map: the head, which rows and columns, and what one pixel stands for."""
    tile, (top, bottom), (left, right) = part.tile, part.tile.rows, part.tile.cols
    place = f"queries {top:,}–{bottom - 1:,} of {len(part.queries):,}, keys {left:,}–{right - 1:,}"
    return f"head {tile.head.stack} {tile.head.label}, {place} of {len(part.keys):,}, {tile.sentence}"


def _quoted(text: str) -> str:
    return f"“{shorten(plain_text(text), _MAX_TEXT)}”" if text else ""
