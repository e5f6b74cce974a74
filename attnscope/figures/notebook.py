"""A figure in a notebook: an interactive page where scripts run, a picture where they do not.

The page is self-contained and lies in a shadow tree of its own, so that neither its style nor its ids meet
those of the notebook. Weights travel as numbers of 4 bytes where there are few, else as one of 255 levels of
each head's largest weight; the page then writes them with the sign ≈. Tokens come from strangers: they are
escaped as in `html_page`, and reach the page as text alone.
"""

import base64
import hashlib
import html
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.colours import LIGHT, series_colour
from attnscope.figures.file_names import Format
from attnscope.figures.html_page import DRAW_MAPS, STYLE, heading, look_data, page_data, script_json
from attnscope.figures.spec import FigureSpec, as_drawn, shown_maps
from attnscope.figures.style import plain_piece
from attnscope.figures.token_axis import axis_names
from attnscope.figures.views.grid import GridFigure
from attnscope.figures.views.head import HeadFigure
from attnscope.figures.views.lines import LinesFigure
from attnscope.figures.views.panels import PanelsFigure
from attnscope.records.tokens import Token

MAX_BYTES = 300_000
"""Maximum size of one figure in a notebook."""
MAX_EXACT = 20_000
"""Weights that are kept as numbers of 4 bytes; of more, only levels are."""
MAX_CELLS = 150_000
_PICTURE_BYTES = 70_000
_DOTS = (96, 72, 48)
Axes = tuple[tuple[Token, ...], tuple[Token, ...]]
"""The tokens of a site's rows and columns."""

_STYLE = (
    STYLE.replace(":root{", ":host{").replace(
        "body{margin:0;padding:24px;", ":host{display:block;padding:10px;"
    )
    + """
#grid{display:grid;gap:3px;align-items:center;justify-content:start;margin-bottom:18px;outline-offset:3px}
#grid .name{font-size:12px;color:var(--muted);padding-right:6px}
#grid canvas{image-rendering:pixelated;background:var(--not-allowed);display:block;cursor:zoom-in;
border:1px solid var(--line)}
#grid canvas.is-open{outline:2px solid var(--accent)}
#lines svg{display:block;overflow:visible}
#lines text{fill:var(--text);font-size:13px;cursor:default}
#lines text.is-on{fill:var(--accent);font-weight:bold}
#lines .names{display:flex;gap:16px;font-size:12px;margin-bottom:6px}
"""
)

_SCRIPT = f"""
{DRAW_MAPS}
function decodeMaps(data) {{
  const bytes = Uint8Array.from(atob(data.cells), function (c) {{ return c.charCodeAt(0); }});
  const numbers = data.isRounded ? bytes : new Float32Array(bytes.buffer);
  let at = 0;
  data.maps.forEach(function (map) {{
    if (map.site !== undefined) Object.assign(map, data.sites[map.site]);
    map.weights = map.queries.map(function () {{
      return map.keys.map(function () {{
        const w = numbers[at++];
        if (!data.isRounded) return Number.isNaN(w) ? null : w;
        return w === 0 ? null : (w - 1) / 254 * map.peak;
      }});
    }});
    if (map.tops) return;
    map.tops = map.weights.map(function (row) {{
      return data.scale === "fixed" ? 1 : data.scale === "head" ? map.peak : Math.max.apply(null, row) || 1;
    }});
  }});
}}
function drawGrid(root, data) {{
  const grid = root.getElementById("grid"), readout = root.getElementById("readout");
  const columns = Math.max.apply(null, data.lines.map(function (line) {{ return line.n; }}));
  const side = Math.max(24, Math.min(110, Math.floor(860 / columns) - 4));
  const thumbs = [];
  let at = 0, first = true;
  grid.style.gridTemplateColumns = "max-content repeat(" + columns + ", max-content)";
  function word(w) {{
    return w === null ? data.unseen : (data.isRounded ? "\\u2248 " : "") + Number(w.toPrecision(2));
  }}
  function open(k) {{
    thumbs.forEach(function (thumb, n) {{ thumb.classList.toggle("is-open", n === k); }});
    root.getElementById("maps").textContent = "";
    drawMaps(root, Object.assign({{}}, data, {{ maps: [data.maps[k]] }}));
    at = k;
  }}
  data.lines.forEach(function (line) {{
    const name = document.createElement("div");
    name.className = "name";
    name.textContent = line.name;
    grid.appendChild(name);
    for (let h = 0; h < columns; h++) {{
      if (h >= line.n) {{ grid.appendChild(document.createElement("div")); continue; }}
      const map = data.maps[thumbs.length], canvas = document.createElement("canvas"), k = thumbs.length;
      canvas.width = map.keys.length;
      canvas.height = map.queries.length;
      canvas.style.width = side + "px";
      canvas.style.height = Math.max(8, Math.round(side * map.queries.length / map.keys.length)) + "px";
      const context = canvas.getContext("2d");
      map.weights.forEach(function (row, i) {{
        row.forEach(function (w, j) {{
          if (w === null) return;
          context.fillStyle = data.colours[Math.round(Math.min(1, w / map.tops[i]) * 255)];
          context.fillRect(j, i, 1, 1);
        }});
      }});
      canvas.title = map.name;
      canvas.addEventListener("click", function () {{ open(k); }});
      canvas.addEventListener("pointermove", function (event) {{
        const box = canvas.getBoundingClientRect();
        const i = Math.floor((event.clientY - box.top) / box.height * map.queries.length);
        const j = Math.floor((event.clientX - box.left) / box.width * map.keys.length);
        if (i < 0 || j < 0 || i >= map.queries.length || j >= map.keys.length) return;
        readout.textContent = map.name + " \\u00b7 query " + i + " \\u201c\\u2068" + map.queries[i] +
          "\\u2069\\u201d \\u2192 key " + j + " \\u201c\\u2068" + map.keys[j] + "\\u2069\\u201d: " +
          word(map.weights[i][j]);
      }});
      canvas.addEventListener("pointerleave", function () {{ readout.textContent = data.hint; }});
      thumbs.push(canvas);
      grid.appendChild(canvas);
    }}
  }});
  grid.tabIndex = 0;
  grid.setAttribute("role", "application");
  grid.setAttribute("aria-label", "All heads: arrow keys open one after another");
  grid.addEventListener("keydown", function (event) {{
    const step = {{ ArrowUp: -columns, ArrowDown: columns, ArrowLeft: -1, ArrowRight: 1 }}[event.key];
    if (!step) return;
    event.preventDefault();
    open(first ? 0 : Math.min(thumbs.length - 1, Math.max(0, at + step)));
    first = false;
  }});
  readout.textContent = data.hint;
}}
function drawLines(root, data) {{
  const box = root.getElementById("lines"), readout = root.getElementById("readout");
  const space = "http://www.w3.org/2000/svg", step = 22, left = 200, right = 480;
  const queries = data.maps[0].queries, keys = data.maps[0].keys;
  const svg = document.createElementNS(space, "svg"), labels = {{ query: [], key: [] }}, drawn = [];
  svg.setAttribute("width", 680);
  svg.setAttribute("height", Math.max(queries.length, keys.length) * step + 8);
  const names = document.createElement("div");
  names.className = "names";
  data.maps.forEach(function (map, h) {{
    const name = document.createElement("span");
    name.textContent = "\\u2014 " + map.name;
    name.style.color = data.series[h];
    names.appendChild(name);
    map.weights.forEach(function (row, i) {{
      const sorted = row.slice().sort(function (a, b) {{ return b - a; }});
      const least = data.strongest ? sorted[data.strongest - 1] : 0;
      row.forEach(function (w, j) {{
        if (!(w > 0.01) || w < data.least || w < (least || 0)) return;
        const line = document.createElementNS(space, "line");
        [["x1", left + 8], ["y1", (i + 0.5) * step], ["x2", right - 8], ["y2", (j + 0.5) * step],
          ["stroke", data.series[h]], ["stroke-width", 0.5 + 2.5 * w], ["stroke-opacity", Math.min(1, w)]]
          .forEach(function (one) {{ line.setAttribute(one[0], one[1]); }});
        svg.appendChild(line);
        drawn.push({{ line: line, i: i, j: j, w: w, h: h }});
      }});
    }});
  }});
  function words(w) {{
    return (data.isRounded ? "\\u2248 " : "") + Number(w.toPrecision(data.isRounded ? 2 : 4));
  }}
  function show(side, n) {{
    const isQuery = side === "query", other = isQuery ? keys : queries;
    const found = drawn.filter(function (d) {{ return n === null || (isQuery ? d.i : d.j) === n; }});
    drawn.forEach(function (d) {{ d.line.style.display = "none"; }});
    found.forEach(function (d) {{ d.line.style.display = ""; }});
    ["query", "key"].forEach(function (one) {{
      labels[one].forEach(function (label, k) {{
        label.classList.toggle("is-on", one === side && k === n);
      }});
    }});
    if (n === null) {{ readout.textContent = data.hint; return; }}
    found.sort(function (a, b) {{ return b.w - a.w; }});
    const own = (isQuery ? queries : keys)[n];
    readout.textContent = side + " " + n + " \\u201c\\u2068" + own + "\\u2069\\u201d: " +
      (found.slice(0, 5).map(function (d) {{
        return (data.maps.length > 1 ? data.maps[d.h].name + " " : "") + "\\u201c\\u2068" +
          other[isQuery ? d.j : d.i] + "\\u2069\\u201d " + words(d.w);
      }}).join(" \\u00b7 ") || "no line");
  }}
  [["query", queries, left, "end"], ["key", keys, right, "start"]].forEach(function (side) {{
    side[1].forEach(function (token, k) {{
      const label = document.createElementNS(space, "text");
      label.setAttribute("x", side[2]);
      label.setAttribute("y", (k + 0.5) * step + 4);
      label.setAttribute("text-anchor", side[3]);
      label.textContent = token;
      label.addEventListener("pointerenter", function () {{ show(side[0], k); }});
      label.addEventListener("pointerleave", function () {{ show(side[0], null); }});
      labels[side[0]].push(label);
      svg.appendChild(label);
    }});
  }});
  box.appendChild(names);
  box.appendChild(svg);
  readout.setAttribute("aria-live", "polite");
  show("query", null);
}}
"""


def notebook_html(
    spec: FigureSpec, axes: Sequence[Axes], picture: Callable[[Format, int], bytes]
) -> str | None:
    """The interactive figure, of at most MAX_BYTES; None if it is a plain picture.

    `axes` are the tokens of each row of a grid; `picture` gives the file of a format at some dots per inch.
    """
    drawn = as_drawn(spec)
    data = _data(drawn, axes)
    if data is None:
        return None
    told = script_json(data)
    mark = hashlib.sha256(told.encode()).hexdigest()[:12]
    alt = html.escape(str(data["title"]) or f"Attention: {spec.view}", quote=True)
    draw = {"grid": "drawGrid", "lines": "drawLines"}.get(spec.view, "drawMaps")
    body = script_json(_body(data))
    script = f"""(function () {{
"use strict";
{_SCRIPT}
const data = {told};
document.querySelectorAll('[data-attnscope="{mark}"]').forEach(function (place) {{
  if (place.shadowRoot) return;
  const root = place.attachShadow({{ mode: "open" }}), style = document.createElement("style");
  style.textContent = {script_json(_STYLE)};
  root.innerHTML = {body};
  root.prepend(style);
  if (data.cells !== undefined) {{ decodeMaps(data); delete data.cells; }}
  {draw}(root, data);
}});
}})();"""
    room = MAX_BYTES - len(script.encode()) - len(alt.encode()) - 200
    shown = _picture(picture, room)
    if shown is None:
        return None
    image = f'<img alt="{alt}" style="max-width:100%" src="data:{shown}">'
    return f'<div data-attnscope="{mark}">{image}</div>\n<script>{script}</script>'


def _data(spec: FigureSpec, axes: Sequence[Axes]) -> dict[str, Any] | None:
    """Data for the script; None for anything but maps of weights, or if there are too many weights."""
    if isinstance(spec, GridFigure):
        return _grid_data(spec, axes)
    is_panels = isinstance(spec, PanelsFigure) and all(isinstance(one, HeadFigure) for one in spec.panels)
    maps = shown_maps(spec) if is_panels or isinstance(spec, HeadFigure | LinesFigure) else ()
    n_cells = sum(one.weights.size for one in maps)
    has_one_text = len({(m.queries, m.keys) for m in maps}) == 1
    if not 0 < n_cells <= MAX_CELLS or not (has_one_text or spec.view != "lines"):
        return None
    data = page_data(spec, maps, heading(spec, maps))
    data["isRounded"] = n_cells > MAX_EXACT
    weights = [
        np.where(np.isnan(m.weights).all(1, keepdims=True) | np.isinf(m.weights), -1, m.weights) for m in maps
    ]
    if data["isRounded"]:
        peaks = [float(np.nanmax(one, initial=0.0)) or 1.0 for one in weights]
        data["maps"] = [one | {"peak": peak} for one, peak in zip(data["maps"], peaks, strict=True)]
        data["cells"] = _packed(_levels(one, peak) for one, peak in zip(weights, peaks, strict=True))
    else:
        data["cells"] = _packed(one.astype("<f4") for one in weights)
    if spec.view == "lines":
        data["series"] = [series_colour(LIGHT, h) for h in range(len(maps))]
        data["least"], data["strongest"] = spec.style.least_weight, spec.style.n_strongest
        data["hint"] = "Point at a token to see its lines alone, with their weights."
    return data


def _grid_data(spec: GridFigure, axes: Sequence[Axes]) -> dict[str, Any] | None:
    """All heads of a stack as levels; None if a thumbnail has fewer cells than its map."""
    grids = spec.grids
    n_cells = sum(grid.levels.size for grid in grids)
    is_whole = all(grid.levels.shape[1:] == (grid.n_queries, grid.n_keys) for grid in grids)
    if len(axes) != len(grids) or not is_whole or not 0 < n_cells <= MAX_CELLS:
        return None
    sites = [
        {
            "queries": [plain_piece(token.label) for token in queries],
            "keys": [plain_piece(token.label) for token in keys],
            "reads": [],
            "axes": list(axis_names(queries, spec.style)),
            "gold": [],
        }
        for queries, keys in axes
    ]
    maps = [
        {"letter": "", "name": f"{head.label} {head.stack}", "site": number, "peak": float(peak) or 1.0}
        for number, grid in enumerate(grids)
        for head, peak in zip(grid.site.heads, grid.peaks, strict=True)
    ]
    stacks = " and ".join(dict.fromkeys(grid.site.stack for grid in grids))
    has_more = any(grid.left_out is not None for grid in grids)
    return look_data(spec, alone=True) | {
        "maps": maps,
        "sites": sites,
        "lines": [
            {"name": f"{grid.site.stack} L{grid.site.layer}", "n": grid.site.n_heads} for grid in grids
        ],
        "cells": _packed(grid.levels for grid in grids),
        "scale": spec.style.scale,
        "isRounded": True,
        "unseen": "not allowed by the mask" + (" or left out" if has_more else ""),
        "hint": "Point at a cell to read it; click a head to see it large.",
        "title": spec.title or f"All heads, {stacks}",
    }


def _levels(weights: NDArray[np.float32], peak: float) -> NDArray[np.uint8]:
    """Weights as levels 1 to 255 of the peak; 0 for cells not allowed, or missing numbers."""
    shares = np.nan_to_num(np.clip(weights / peak, -1, 1), nan=-1.0)
    return np.where(shares < 0, 0, 1 + np.round(254 * shares)).astype(np.uint8)


def _packed(parts: Iterable[NDArray[Any]]) -> str:
    return base64.b64encode(b"".join(part.tobytes() for part in parts)).decode()


def _body(data: dict[str, Any]) -> str:
    """The elements that the scripts fill, without any content from a text."""
    parts = {"lines": "series" in data, "grid": "lines" in data}
    places = "".join(f'<div id="{name}"></div>' for name, is_there in parts.items() if is_there)
    return f'<div id="readout"></div>{places}<div id="page"><div id="maps"></div></div>'


def _picture(picture: Callable[[Format, int], bytes], room: int) -> str | None:
    """The figure as a data URL without its scheme: SVG if small, else with few colours."""
    svg = picture("svg", 0)
    if len(svg) * 4 / 3 < min(room, _PICTURE_BYTES):
        return "image/svg+xml;base64," + base64.b64encode(svg).decode()
    from PIL import Image  # which no other figure needs

    for dpi in _DOTS:
        with Image.open(io.BytesIO(picture("png", dpi))) as image:
            few = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
        written = io.BytesIO()
        few.save(written, "PNG", optimize=True)
        if written.tell() * 4 / 3 < room:
            return "image/png;base64," + base64.b64encode(written.getvalue()).decode()
    return None
