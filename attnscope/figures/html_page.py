r"""A figure as one HTML file to hover over: exact weights, no network, one script named by its hash.

Tokens come from strangers (F53). In the JSON block every `<`, `>` and `&` is written as `\u003c` and the
like, and so is all that is not ASCII, U+2028 among it; elsewhere text is escaped. The page forbids itself
everything but its own style and script.
"""

import base64
import hashlib
import html
import json

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import counted
from attnscope.errors import UserError
from attnscope.figures.caption import caption_lines
from attnscope.figures.colours import LIGHT, lut
from attnscope.figures.html_parts import SCRIPT, STYLE
from attnscope.figures.plain import plain_piece, plain_text
from attnscope.figures.raster import scale_peaks
from attnscope.figures.shown_maps import common_peak, lettered_maps, shown_maps
from attnscope.figures.spec import FigureSpec
from attnscope.figures.token_axis import axis_names
from attnscope.records.alignment import GoldCell
from attnscope.records.maps import HeadMap

MAX_CELLS = 400_000
MAX_MAPS = 400
_SIDE_PX = 440
_ALONE_PX = 640
_CELL_PX, _ALONE_CELL_PX = 44, 64
_HINT = "Point at a cell, or walk with the arrow keys, to read its query, key and exact weight."
_N_STOPS = 16


def html_bytes(spec: FigureSpec) -> bytes:
    """The page of a figure's maps; raises UserError where there are none, or too many weights."""
    maps = shown_maps(spec)
    check_page(spec)
    title = plain_text(spec.title) or _heading(maps)
    style = STYLE + f"#ramp{{background:linear-gradient(to top,{_stops(spec)})}}\n"
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(SCRIPT)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{style}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        '<div id="readout"><noscript>The maps need the script of this page.</noscript></div>',
        f'<div id="page"><div id="maps"></div>{_bar(spec)}</div>',
        _caption(spec),
        f'<script type="application/json" id="data">{_json(spec, maps, title)}</script>',
        f"<script>{SCRIPT}</script>",
        "</body></html>",
    ]
    return ("\n".join(line for line in lines if line) + "\n").encode("utf-8", "replace")


def script_json(value: object) -> str:
    """JSON that can stand inside a script element: no character of it can end the element or a line."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _heading(maps: tuple[HeadMap, ...]) -> str:
    """Up to three heads by name, of more how many there are: `8 heads of the decoder`."""
    if len(maps) <= 3:
        return ", ".join(_name(m) for m in maps)
    stacks = dict.fromkeys(m.head.stack for m in maps)
    return f"{counted(len(maps), 'head')} of the {' and the '.join(stacks)}"


def check_page(spec: FigureSpec) -> None:
    """Raise UserError when the figure has no maps for a page, or more than a browser can show."""
    maps = shown_maps(spec)
    if not maps:
        raise UserError(
            "An HTML page needs maps of whole heads.",
            expected="the view head, lines or panels of a text that is not too long",
            action="Choose one of these views, or another format.",
        )
    n_cells = sum(m.weights.size for m in maps)
    if n_cells > MAX_CELLS or len(maps) > MAX_MAPS:
        raise UserError(
            f"The page would hold {n_cells:,} weights of {len(maps):,} heads.",
            expected=f"at most {MAX_CELLS:,} weights of {MAX_MAPS} heads, which a browser can show",
            action="Choose fewer heads or a shorter text, or save PNG for the picture, NPZ for the numbers.",
        )


def _json(spec: FigureSpec, maps: tuple[HeadMap, ...], title: str) -> str:
    alone = len(maps) == 1
    colours = ["#" + bytes(rgb).hex() for rgb in lut(spec.style.colour_map).astype(np.uint8)]
    peak = common_peak(spec)
    return script_json(
        {
            "maps": [
                _map(spec, head_map, peak, "" if alone else _letter(i), own)
                for i, (_, own, head_map) in enumerate(lettered_maps(spec))
            ],
            "colours": colours,
            "noData": LIGHT.no_data,
            "missing": "left out" if any(m.note for m in maps) else "no data",
            "hint": _HINT,
            "sidePx": _ALONE_PX if alone else _SIDE_PX,
            "cellPx": _ALONE_CELL_PX if alone else _CELL_PX,
            "title": title,
        }
    )


def _map(spec: FigureSpec, head_map: HeadMap, peak: float, letter: str, title: str) -> dict[str, object]:
    tops = scale_peaks(head_map.weights, "row" if spec.style.scale == "row" else "fixed", peak)
    return {
        "letter": letter,
        "name": " · ".join(filter(None, (_name(head_map), plain_text(title)))),
        "queries": [plain_piece(t.label) for t in head_map.queries],
        "reads": [plain_piece(t.read) for t in head_map.queries if t.read],
        "axes": list(axis_names(head_map.queries, spec.style)),
        "keys": [plain_piece(t.label) for t in head_map.keys],
        "weights": [_row(row) for row in head_map.weights],
        "tops": [float(top) for top in tops[:, 0].astype(str)],
        "gold": [_link(cell) for cell in spec.word_links()],
    }


def _link(cell: GoldCell) -> dict[str, object]:
    (top, end), (left, right) = cell.rows, cell.cols
    return {"top": top, "end": end, "left": left, "right": right, "sure": cell.is_sure}


def _row(weights: NDArray[np.float32]) -> list[float | None]:
    """One row in the fewest digits that give it back: null where the mask forbids, −1 for no number."""
    is_nan = np.isnan(weights)
    if is_nan.all():
        return [-1] * len(weights)
    cells = zip(weights.astype(str), is_nan, np.isinf(weights), strict=True)
    return [None if nan else -1 if inf else float(text) for text, nan, inf in cells]


def _name(head_map: HeadMap) -> str:
    words = f"{head_map.name or head_map.head.label} {head_map.head.stack}"
    return plain_text(words + (f" · {head_map.note}" if head_map.note else ""))


def _letter(i: int) -> str:
    """A … z, then nothing: many maps are told apart by their names."""
    return chr(ord("a") + i) if i < 26 else ""


def _stops(spec: FigureSpec) -> str:
    table = lut(spec.style.colour_map).astype(np.uint8)
    picked = table[np.linspace(0, 255, _N_STOPS).round().astype(int)]
    return ",".join("#" + bytes(rgb).hex() for rgb in picked)


def _bar(spec: FigureSpec) -> str:
    """The one legend of the page."""
    if not spec.style.has_bar:
        return ""
    top = "row max" if spec.style.scale == "row" else f"{common_peak(spec):.3g}"
    return f'<div id="bar">weight<br>{html.escape(top)}<div id="ramp"></div>0</div>'


def _caption(spec: FigureSpec) -> str:
    rows = []
    for line in caption_lines(spec):
        name, _, value = line.partition(": ")
        rows.append(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>")
    return f"<dl>{''.join(rows)}</dl>" if rows else ""


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
