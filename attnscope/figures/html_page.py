r"""A figure as one interactive HTML file: exact weights, no network, one script named by its hash.

Tokens come from strangers (F53). In the JSON block every `<`, `>` and `&` is written as `\u003c` and the
like, and so is all that is not ASCII, U+2028 among it; elsewhere text is escaped. The page forbids itself
everything but its own style and script.
"""

import base64
import hashlib
import html
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.figures.colours import LIGHT, lut
from attnscope.figures.raster import scale_peaks
from attnscope.figures.spec import FigureSpec, common_peak, lettered_maps, shown_maps
from attnscope.figures.style import plain_piece, plain_text
from attnscope.figures.token_axis import axis_names
from attnscope.figures.words_and_numbers import caption_lines, wrong_words
from attnscope.records.findings import GoldCell
from attnscope.records.maps import HeadMap

# The style and the script of the standalone page: constants, so that their hashes name just these.

STYLE = """
:root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--muted:#59616b;--line:#cfd4da;--accent:#1a5fd0;
--on-accent:#fff;--raised:#f5f6f8;--not-allowed:#f3f4f6}
@media (prefers-color-scheme:dark){:root{--page:#16181c;--text:#e6e8eb;--muted:#9ba3ae;--line:#3a4049;
--accent:#6ea8ff;--on-accent:#0d1420;--raised:#262a31;--not-allowed:#1f2227}}
*{box-sizing:border-box}
body{margin:0;padding:24px;background:var(--page);color:var(--text);
font:14px/1.45 system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif}
h1{font-size:20px;margin:0 0 12px}
#readout{position:sticky;top:0;z-index:2;min-height:40px;padding:9px 14px;margin:0 0 18px;border-radius:6px;
background:var(--raised);border:1px solid var(--line);unicode-bidi:plaintext}
#page{display:flex;gap:28px;align-items:flex-start}
#maps{display:flex;flex-wrap:wrap;gap:28px;flex:0 1 auto}
figure{margin:0}
figcaption{margin:0 0 8px;min-height:1.45em;color:var(--muted)}
figcaption b{color:var(--text);margin-right:8px}
figcaption output{margin-left:10px;color:var(--text);font-variant-numeric:tabular-nums}
.chart{display:grid;grid-template-columns:max-content max-content;gap:4px}
.corner{color:var(--muted);font-size:12px;align-self:end;text-align:right;white-space:pre-line}
.keys{display:flex;align-items:flex-end}
.key,.query{font-size:12px;white-space:nowrap;border-radius:2px;unicode-bidi:plaintext}
.key{writing-mode:vertical-rl;text-orientation:sideways;transform:rotate(180deg);display:flex;align-items:center}
.query{display:flex;align-items:center;justify-content:flex-end;padding:0 4px}
.is-on{background:var(--accent);color:var(--on-accent)}
.is-thin{visibility:hidden}
.is-on.is-thin{visibility:visible}
.cells{position:relative;line-height:0;outline-offset:2px}
.cells canvas{image-rendering:pixelated;background:var(--not-allowed);border:1px solid var(--line);
cursor:crosshair}
.cells:focus-visible{outline:2px solid var(--accent)}
.band{position:absolute;pointer-events:none;border:1.5px solid var(--accent);display:none}
.gold{position:absolute;pointer-events:none;border:2px solid #fff;outline:1px solid #10131a;
box-shadow:inset 0 0 0 1px #10131a}
.gold.is-possible{border-radius:50%}
#bar{flex:none;font-size:12px;color:var(--muted)}
#ramp{width:12px;height:180px;margin:6px 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 12px;margin:24px 0 0;padding-top:12px;
border-top:1px solid var(--line);color:var(--muted);font-size:12px}
dd{margin:0;unicode-bidi:plaintext}
"""

DRAW_MAPS = """
function drawMaps(root, data) {
  const readout = root.getElementById("readout");
  const charts = [];
  function make(kind, className, text) {
    const element = document.createElement(kind);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }
  function colour(map, i, j) {
    const w = map.weights[i][j];
    if (w === null) return "transparent";
    if (w < 0) return data.noData;
    return data.colours[Math.round(Math.min(1, Math.max(0, w / map.tops[i])) * 255)];
  }
  function words(w) {
    if (w === null) return data.unseen;
    if (w < 0) return data.missing;
    if (data.isRounded) return "\\u2248 " + Number(w.toPrecision(2));
    return w === 0 || w >= 1e-4 ? w.toPrecision(4) : w.toExponential(3);
  }
  function labels(tokens, className, side, size) {
    const box = make("div", className + "s");
    const every = Math.max(1, Math.ceil(13 / size));
    tokens.forEach(function (token, k) {
      const label = make("div", className + (k % every ? " is-thin" : ""), token);
      label.style[side] = size + "px";
      box.appendChild(label);
    });
    return box;
  }
  function paint(canvas, map) {
    canvas.width = map.keys.length;
    canvas.height = map.queries.length;
    const context = canvas.getContext("2d");
    for (let i = 0; i < map.queries.length; i++)
      for (let j = 0; j < map.keys.length; j++) {
        context.fillStyle = colour(map, i, j);
        context.fillRect(j, i, 1, 1);
      }
  }
  function mark(cells, link, size) {
    const box = make("div", link.sure ? "gold" : "gold is-possible");
    const width = Math.max((link.right - link.left) * size - 4, 5);
    const height = Math.max((link.end - link.top) * size - 4, 5);
    place(box, 1 + (link.left + link.right) / 2 * size - width / 2,
      1 + (link.top + link.end) / 2 * size - height / 2, width, height);
    cells.appendChild(box);
  }
  function linked(map, i, j) {
    const found = map.gold.filter(function (link) {
      return link.top <= i && i < link.end && link.left <= j && j < link.right;
    });
    return found.length ? found[0].sure ? " \\u00b7 gold link" : " \\u00b7 possible gold link" : "";
  }
  function place(band, left, top, width, height) {
    band.style.display = "block";
    band.style.left = left + "px";
    band.style.top = top + "px";
    band.style.width = width + "px";
    band.style.height = height + "px";
  }
  function show(from, i, j) {
    const map = from.map;
    const read = map.reads.length ? "reading \\u201c\\u2068" + map.reads[i] + "\\u2069\\u201d, writing " : "";
    readout.textContent = map.name + " \\u00b7 query " + i + " " + read + "\\u201c\\u2068" + map.queries[i] +
      "\\u2069\\u201d \\u2192 key " + j + " \\u201c\\u2068" + map.keys[j] + "\\u2069\\u201d: " +
      words(map.weights[i][j]) + linked(map, i, j);
    charts.forEach(function (chart) {
      const isAlike = chart.map.queries.length > i && chart.map.keys.length > j &&
        chart.map.queries.length === map.queries.length && chart.map.keys.length === map.keys.length;
      clear(chart);
      if (!isAlike) return;
      const size = chart.size;
      chart.on = [chart.queries.children[i], chart.keys.children[j]];
      chart.on.forEach(function (label) { label.classList.add("is-on"); });
      place(chart.row, 0, i * size, chart.map.keys.length * size + 2, size + 2);
      place(chart.column, j * size, 0, size + 2, chart.map.queries.length * size + 2);
      chart.output.textContent = words(chart.map.weights[i][j]);
    });
    from.at = [i, j];
  }
  function clear(chart) {
    chart.on.forEach(function (label) { label.classList.remove("is-on"); });
    chart.on = [];
    chart.row.style.display = chart.column.style.display = "none";
    chart.output.textContent = "";
  }
  function leave() {
    charts.forEach(clear);
    readout.textContent = data.hint;
  }
  function listen(chart) {
    const cells = chart.cells, map = chart.map;
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    cells.addEventListener("pointermove", function (event) {
      const box = chart.canvas.getBoundingClientRect();
      const i = Math.floor((event.clientY - box.top - 1) / chart.size);
      const j = Math.floor((event.clientX - box.left - 1) / chart.size);
      if (i >= 0 && j >= 0 && i < map.queries.length && j < map.keys.length) show(chart, i, j);
    });
    cells.addEventListener("pointerleave", leave);
    cells.addEventListener("focus", function () { show(chart, chart.at[0], chart.at[1]); });
    cells.addEventListener("blur", leave);
    cells.addEventListener("keydown", function (event) {
      const step = moves[event.key];
      if (!step) return;
      event.preventDefault();
      const i = Math.min(map.queries.length - 1, Math.max(0, chart.at[0] + step[0]));
      const j = Math.min(map.keys.length - 1, Math.max(0, chart.at[1] + step[1]));
      show(chart, i, j);
    });
  }
  data.maps.forEach(function (map) {
    const longest = Math.max(map.queries.length, map.keys.length, 1);
    const size = Math.max(2, Math.min(data.cellPx, Math.floor(data.sidePx / longest)));
    const figure = make("figure"), title = make("figcaption");
    const output = make("output");
    title.appendChild(make("b", "", map.letter));
    title.appendChild(document.createTextNode(map.name === data.title ? "" : map.name));
    title.appendChild(output);
    figure.appendChild(title);
    const chart = make("div", "chart"), cells = make("div", "cells"), canvas = make("canvas");
    const keys = labels(map.keys, "key", "width", size);
    const queries = labels(map.queries, "query", "height", size);
    const row = make("div", "band"), column = make("div", "band");
    cells.tabIndex = 0;
    cells.setAttribute("role", "application");
    cells.setAttribute("aria-label", map.name + ": arrow keys walk through the weights");
    canvas.style.width = map.keys.length * size + 2 + "px";
    canvas.style.height = map.queries.length * size + 2 + "px";
    paint(canvas, map);
    [canvas, row, column].forEach(function (part) { cells.appendChild(part); });
    map.gold.forEach(function (link) { mark(cells, link, size); });
    [make("div", "corner", map.axes[0] + "\\n" + map.axes[1]), keys, queries, cells].forEach(function (part) {
      chart.appendChild(part);
    });
    figure.appendChild(chart);
    root.getElementById("maps").appendChild(figure);
    const made = { map: map, size: size, cells: cells, canvas: canvas, keys: keys, queries: queries,
      row: row, column: column, output: output, on: [], at: [0, 0] };
    charts.push(made);
    listen(made);
  });
  readout.setAttribute("aria-live", "polite");
  leave();
}
"""
"""Draws the maps of `data` in a document, or in a part of one that has the same ids."""
SCRIPT = f"""
"use strict";
{DRAW_MAPS}
drawMaps(document, JSON.parse(document.getElementById("data").textContent));
"""


MAX_CELLS = 400_000
MAX_MAPS = 400
_SIDE_PX = 440
_ALONE_PX = 640
_CELL_PX, _ALONE_CELL_PX = 44, 64
_HINT = "Point at a cell, or walk with the arrow keys, to read its query, key and exact weight."
_N_STOPS = 16


def html_bytes(spec: FigureSpec) -> bytes:
    """The page of a figure's maps; raises UserError if there are none, or too many weights."""
    maps = shown_maps(spec)
    check_page(spec)
    title = heading(spec, maps)
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
    """JSON that is safe inside a script element: none of its characters can end the element or a line."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def heading(spec: FigureSpec, maps: tuple[HeadMap, ...]) -> str:
    """The title, or up to three heads by name, or their number: `8 heads of the decoder`."""
    if spec.title:
        return plain_text(spec.title)
    if len(maps) <= 3:
        return ", ".join(_name(m) for m in maps)
    stacks = dict.fromkeys(m.head.stack for m in maps)
    return f"{plural(len(maps), 'head')} of the {' and the '.join(stacks)}"


def check_page(spec: FigureSpec) -> None:
    """Raise UserError if the figure has no maps for a page, or more than a browser can show."""
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
    data = page_data(spec, maps, title)
    told = [
        one | {"weights": [_row(row) for row in m.weights]} for one, m in zip(data["maps"], maps, strict=True)
    ]
    return script_json(data | {"maps": told})


def page_data(spec: FigureSpec, maps: tuple[HeadMap, ...], title: str) -> dict[str, Any]:
    """Data of a figure for `drawMaps`, except the weights of its maps."""
    alone, peak = len(maps) == 1, common_peak(spec)
    told = [
        _map(spec, head_map, peak, "" if alone else _letter(i), own)
        for i, (_, own, head_map) in enumerate(lettered_maps(spec))
    ]
    is_partial = any(m.note for m in maps)
    return look_data(spec, alone=alone) | {
        "maps": told,
        "missing": "left out" if is_partial else "no data",
        "title": title,
    }


def look_data(spec: FigureSpec, *, alone: bool) -> dict[str, Any]:
    """Colours, sizes and words that every page has."""
    return {
        "colours": ["#" + bytes(rgb).hex() for rgb in lut(spec.style.colour_map).astype(np.uint8)],
        "noData": LIGHT.no_data,
        "unseen": "not allowed by the mask",
        "missing": "no data",
        "hint": _HINT,
        "isRounded": False,
        "sidePx": _ALONE_PX if alone else _SIDE_PX,
        "cellPx": _ALONE_CELL_PX if alone else _CELL_PX,
        "title": "",
    }


def _map(spec: FigureSpec, head_map: HeadMap, peak: float, letter: str, title: str) -> dict[str, object]:
    tops = scale_peaks(head_map.weights, "row" if spec.style.scale == "row" else "fixed", peak)
    return {
        "letter": letter,
        "name": " · ".join(filter(None, (_name(head_map), plain_text(title)))),
        "queries": [plain_piece(t.label) for t in head_map.queries],
        "reads": [plain_piece(t.read) for t in head_map.queries if t.read],
        "axes": list(axis_names(head_map.queries, spec.style)),
        "keys": [plain_piece(t.label) for t in head_map.keys],
        "tops": [float(top) for top in tops[:, 0].astype(str)],
        "gold": [_link(cell) for cell in spec.word_links()],
    }


def _link(cell: GoldCell) -> dict[str, object]:
    (top, end), (left, right) = cell.rows, cell.cols
    return {"top": top, "end": end, "left": left, "right": right, "sure": cell.is_sure}


def _row(weights: NDArray[np.float32]) -> list[float | None]:
    """One row in the fewest digits that restore it: null where the mask forbids, −1 for a missing number."""
    is_nan = np.isnan(weights)
    if is_nan.all():
        return [-1] * len(weights)
    cells = zip(weights.astype(str), is_nan, np.isinf(weights), strict=True)
    return [None if nan else -1 if inf else float(text) for text, nan, inf in cells]


def _name(head_map: HeadMap) -> str:
    words = f"{head_map.name or head_map.head.label} {head_map.head.stack}"
    return plain_text(words + (f" · {head_map.note}" if head_map.note else ""))


def _letter(i: int) -> str:
    """A … z, then nothing: beyond that, maps are distinguished by their names."""
    return chr(ord("a") + i) if i < 26 else ""


def _stops(spec: FigureSpec) -> str:
    table = lut(spec.style.colour_map).astype(np.uint8)
    picked = table[np.linspace(0, 255, _N_STOPS).round().astype(int)]
    return ",".join("#" + bytes(rgb).hex() for rgb in picked)


def _bar(spec: FigureSpec) -> str:
    if not spec.style.has_bar:
        return ""
    top = "row max" if spec.style.scale == "row" else f"{common_peak(spec):.3g}"
    return f'<div id="bar">weight<br>{html.escape(top)}<div id="ramp"></div>0</div>'


def _caption(spec: FigureSpec) -> str:
    rows = []
    for line in filter(None, (wrong_words(spec), *caption_lines(spec))):
        name, _, value = line.partition(": ")
        rows.append(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>")
    return f"<dl>{''.join(rows)}</dl>" if rows else ""


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
