"""The style and the script of the standalone page: constants, so that their hashes name just these.

Nothing here is put together from a text or a model. The script reads the JSON block, builds every label as a
text node, and never sets HTML.
"""

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

SCRIPT = """
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const readout = document.getElementById("readout");
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
    if (w === null) return "not allowed by the mask";
    if (w < 0) return data.missing;
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
    document.getElementById("maps").appendChild(figure);
    const made = { map: map, size: size, cells: cells, canvas: canvas, keys: keys, queries: queries,
      row: row, column: column, output: output, on: [], at: [0, 0] };
    charts.push(made);
    listen(made);
  });
  readout.setAttribute("aria-live", "polite");
  leave();
})();
"""
